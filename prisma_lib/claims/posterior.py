"""Claims about posterior draws, finer grids and rollouts.

Each is judged by the rows of one notebook, which their sweep names.
"""

import math
from itertools import combinations, pairwise

from prisma_lib.ablations import BETTER, UNDECIDED, WORSE
from prisma_lib.cells import REGIMES
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
    said,
    span,
    untimed,
    value,
)
from prisma_lib.claims.shares import interval_of, share_of
from prisma_lib.claims.tables import DIFFUSION
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import OPEN
from prisma_lib.results import Row, settings
from prisma_lib.tables import ERRORS

VARIANT = "PRISMA 2D+time"
STILL = "persistence, clean start"
# Methods after ten steps in the paper's order.
ROLLED = {
    "full": (OURS, VARIANT, *DIFFUSION),
    "sparse": (OURS, VARIANT, *DIFFUSION),
    "noisy": (VARIANT, "FunDPS", OURS, "DiffusionPDE"),
}


def of_draws(found: Evidence, metric: str, draws: int) -> list[Row]:
    """Returns a number of Darcy's inverse problem in all regimes, or nothing."""
    wanted = {"sweep": "posterior", "metric": metric, "pde": "darcy", "method": OURS}
    rows = {
        row["regime"]: row
        for row in found.select(**wanted)
        if settings(row).get("draws") == str(draws)
    }
    return [rows[regime] for regime in REGIMES if {*REGIMES} <= rows.keys()]


def spreads(found: Evidence) -> Finding:
    """C12: the spread grows with what is hidden, and correlates with the error."""
    width = of_draws(found, "ensemble_spread", 16)
    pearson = of_draws(found, "spread_error_pearson_r", 16)
    if not (width and pearson):
        return Finding(OPEN, NO_ROWS)
    grows = all(value(a) < value(b) for a, b in pairwise(width))
    tied = all(value(row, "low") > 0 for row in pearson)
    text = f"{', '.join(REGIMES)}: spread {', '.join(map(said, width))}; "
    text += f"r = {', '.join(map(said, pearson))}"
    least = interval_of(min(pearson, key=value), "smallest r")
    return decided(grows and tied, text, [*width, *pearson], least)


def ordered_spreads(found: Evidence) -> Finding:
    """E21: the spread grows and its correlation falls from full to noisy."""
    width = of_draws(found, "ensemble_spread", 16)
    pearson = of_draws(found, "spread_error_pearson_r", 16)
    covered = of_draws(found, "placed_90", 19)
    if not (width and pearson and covered):
        return Finding(OPEN, NO_ROWS)
    grows = all(value(a) < value(b) for a, b in pairwise(width))
    falls = all(value(a) > value(b) for a, b in pairwise(pearson))
    text = (
        f"spread {', '.join(f'{value(row):.3g}' for row in width)} in the unit of a; "
        f"r = {', '.join(f'{value(row):.2f}' for row in pearson)}; of the points "
        f"in doubt {', '.join(f'{100 * value(row):.0f}' for row in covered)} % lie in "
        "90 % intervals"
    )
    last = interval_of(width[1], "spread under sparse observations")
    ends = last if falls and not grows else interval_of(pearson[-1], "r under noise")
    return decided(grows and falls, text, [*width, *pearson, *covered], ends)


def finer(
    found: Evidence, *metrics: str, method: str = OURS
) -> dict[tuple[str, str], dict[int, Row]]:
    """Returns rows of finer grids by cell and points per axis."""
    cells: dict[tuple[str, str], dict[int, Row]] = {}
    for row in found.select(sweep="superresolution", method=method):
        if row["metric"] in metrics:
            cell = cells.setdefault((row["pde"], row["direction"]), {})
            cell[int(settings(row)["size"])] = row
    return cells


def runs_finer(found: Evidence) -> Finding:
    """C22: a model errs less on finer grids than its own coarse answer does there."""
    cells = finer(found, *ERRORS)
    cheap = finer(found, *ERRORS, method=f"{OURS}, interpolated")
    rows = [row for cell in cells.values() for row in cell.values()]
    if not rows or cells.keys() != cheap.keys():
        return Finding(OPEN, NO_ROWS)
    good, said_of = [], []
    for name, cell in cells.items():
        first, last = min(cell), max(cell)
        fine, other = value(cell[last]), value(cheap[name][last])
        good.append(last >= 8 * first and fine < other)
        numbers = f"{value(cell[first]):.3g} to {fine:.3g} ({other:.3g})"
        said_of.append(f"{' '.join(name)} {numbers}")
    sizes = sorted({size for cell in cells.values() for size in cell})
    text = (
        f"{sizes[0]} to {sizes[-1]} points; error in %, and in brackets that of the "
        f"coarse answer, interpolated: {', '.join(said_of)}"
    )
    return decided(all(good), text, rows, share_of(sum(good), len(good), "cells"))


def costs_finer(found: Evidence) -> Finding:
    """E25: seconds and memory grow with the number of points."""
    times, memory = finer(found, "seconds_per_sample"), finer(found, "peak_mb")
    rows = [r for each in (times, memory) for c in each.values() for r in c.values()]
    if not (times and memory):
        return Finding(OPEN, NO_ROWS)
    grows = all(
        value(cell[a]) < value(cell[b])
        for cells in (times, memory)
        for cell in cells.values()
        for a, b in pairwise(sorted(cell))
    )
    each = (
        span(value(row) for cell in cells.values() for row in cell.values())
        for cells in (times, memory)
    )
    return untimed(decided(grows, "{} s and {} MB a sample".format(*each), rows))


def rolled(found: Evidence, regime: str, entering: str, step: int = 10) -> list[Row]:
    """Returns the errors of all methods at one time of a rollout."""
    wanted = {"sweep": "rollout", "metric": "relative_l2", "regime": regime}
    place = {"entering": entering, "step": str(step)}
    return [
        row for row in found.select(**wanted) if place.items() <= settings(row).items()
    ]


def beats(mine: Row, other: Row) -> bool:
    """Whether an error is smaller, with intervals apart; one that blew up is not."""
    return value(mine, "high") < value(other, "low") or (
        value(mine) >= 0 and not value(other) >= 0
    )


def beaten(mine: Row, other: Row) -> str:
    """Says whether an error is smaller, larger, or neither; see `beats`."""
    if beats(mine, other):
        return BETTER
    return WORSE if beats(other, mine) else UNDECIDED


def error_of(row: Row) -> float:
    """Returns an error; infinite where a rollout blew up."""
    return value(row) if value(row) >= 0 else math.inf


def keeps_noisy(found: Evidence) -> Finding:
    """C21: three frames at a time keep noisy rollouts accurate.

    Noise that enters at every state enters a third as often in three frames at a time:
    where that alone makes a difference, the claim does not hold. Nor is accurate what
    errs more in the end than the clean start, which did not move.
    """
    cases, used, text = [], [], []
    still = [r for r in rolled(found, "noisy", "once") if r["method"] == STILL]
    for entering in ("once", "every"):
        rows = {row["method"]: row for row in rolled(found, "noisy", entering)}
        if {OURS, VARIANT} <= rows.keys():
            cases.append(beats(rows[VARIANT], rows[OURS]))
            used += [rows[VARIANT], rows[OURS]]
            text.append(f"{entering}: {said(used[-2])} against {said(used[-1])} %")
            cases += [value(rows[VARIANT]) < value(row) for row in still]
    text += [f"the flow moved by {said(row)} %" for row in still]
    if not cases:
        return Finding(OPEN, NO_ROWS)
    mine = [row for row in used if row["method"] == VARIANT]
    last = interval_of(max(mine, key=error_of), "largest error of three frames, %")
    return decided(all(cases), "; ".join(text), used, last)


def rolled_order(found: Evidence) -> Finding:
    """E24: methods after ten steps stand in the paper's order."""
    tally = Tally(0, 0, 0)
    used = []
    for regime, order in ROLLED.items():
        for entering in ("once", "every"):
            rows = {row["method"]: row for row in rolled(found, regime, entering)}
            known = [rows[method] for method in order if method in rows]
            used += known
            for first, second in combinations(known, 2):
                tally += Tally.of([beaten(first, second)])
    if not tally.count:
        return Finding(OPEN, NO_ROWS)
    text = tally.says("in the paper's order", "reversed", "pairs")
    holds = tally.good > tally.count / 2 and not tally.bad
    return decided(holds, text, used, tally.interval)


CLAIMS = {
    "C12": Claim(
        "draws spread more where less is known, and where they err more",
        "50_posterior",
        "spread 0.32, 0.52, 1.45; r = 0.85, 0.81, 0.46",
        spreads,
    ),
    "C21": Claim(
        "three frames at a time keep noisy rollouts accurate",
        "52_rollout",
        "2.84 against 35.37 %",
        keeps_noisy,
    ),
    "C22": Claim(
        "generalises to grids up to eight times finer",
        "51_superresolution",
        "64 to 512 points, no error given; the test is ours",
        runs_finer,
    ),
    "E21": Claim(
        "spread of sixteen draws and its correlation with the error, three regimes",
        "50_posterior",
        "spread 0.32, 0.52, 1.45; r = 0.85, 0.81, 0.46",
        ordered_spreads,
    ),
    "E24": Claim(
        "errors after ten steps of Navier-Stokes, three regimes",
        "52_rollout",
        "PRISMA 2.27, 4.07, 35.37; 2D+time 2.87, 5.07, 2.84; FunDPS 5.68, 7.09, 21.68; "
        "DiffusionPDE 94.19, 92.85, 101.81 %",
        rolled_order,
    ),
    "E25": Claim(
        "seconds and memory on four grids",
        "51_superresolution",
        "0.24 to 4.85 s a sample, 4 to 107 GB for fifty",
        costs_finer,
    ),
}
