"""Claims about what the method is made of, its steps, and how a draw proceeds."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from prisma_lib import ablations, results
from prisma_lib.baselines.guided import PUBLISHED
from prisma_lib.claims.designs import design_parts
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
    error,
    judged,
    span,
)
from prisma_lib.claims.shares import interval_of
from prisma_lib.claims.strategies import attention
from prisma_lib.claims.tables import DIFFUSION
from prisma_lib.ranks import OPEN
from prisma_lib.tables import Entry

Judge = Callable[[Evidence], Finding]

STEPS, TRAJECTORIES = "steps", "trajectories"
# Equation, direction, regime and variant in which the paper's tables have attention
# behind; in all others it is ahead.
BEHIND = {
    ("helmholtz", "forward", "full", "none"),
    ("helmholtz", "forward", "noisy", "none"),
    ("helmholtz", "forward", "full", "multiplicative"),
    ("helmholtz", "forward", "noisy", "multiplicative"),
    ("helmholtz", "forward", "full", "magnitude_only"),
    ("helmholtz", "forward", "noisy", "magnitude_only"),
}
LITTLE = 5.0  # per cent of the error: less is little to gain
TABLE_GAIN = 20.0  # per cent: more than the paper's table gains anywhere from 20 steps
STRONGLY = 1.5  # times the error at full length
LATE = 0.1  # share of the fall of the error that may come after its steep part


def small_gain(starts: Sequence[int], most: float) -> Judge:
    """C13 and E18: what the error loses from some steps to the most that were run.

    Args:
        starts: Numbers of steps to begin with, the one that decides first.
        most: Largest gain in percent of the error.
    """

    def claim(found: Evidence) -> Finding:
        said = []
        gains = [longest(found, start) for start in starts]
        for start, rows in zip(starts, gains, strict=True):
            if rows:
                top = max(rows, key=lambda row: float(row["value"]))
                said.append(f"from {start} to {top['steps']} steps: {percent(top)}")
        rows = gains[0]
        good = sum(float(row["value"]) < most for row in rows)
        what = f"cells gain less than {most:g} % (largest {'; '.join(said)})"
        finding = judged(good, len(rows), what, rows=rows)
        if not rows:
            return finding
        top = max(rows, key=lambda row: float(row["value"]))
        of = f"largest gain from {starts[0]} steps, %"
        return replace(finding, interval=interval_of(top, of))

    return claim


def longest(found: Evidence, start: int) -> list[results.Row]:
    """Lists the gains from a number of steps to the largest that was run."""
    rows = found.select(sweep=STEPS, metric="gain", setting=f"from={start}")
    most = max((int(row["steps"]) for row in rows), default=0)
    return [row for row in rows if int(row["steps"]) == most]


def percent(row: results.Row) -> str:
    """Writes a gain with its interval and its cell."""
    value, low, high = (float(row[key]) for key in ("value", "low", "high"))
    cell = " ".join(str(row[key]) for key in ("pde", "direction", "regime"))
    return f"{value:.1f} % [{low:.1f}, {high:.1f}] in {cell}"


def guided_at_twenty(found: Evidence) -> dict[tuple[str, ...], results.Row]:
    """Returns the rows of the comparison at 20 steps by cell and method.

    Where any weights of guidance were tuned at 20 steps, others are left out.
    """
    rivals = [
        row
        for method in DIFFUSION
        for row in found.select(sweep=STEPS, method=method, steps="20")
    ]
    rivals = [row for row in rivals if tuned(row)] or rivals
    few = {row["n"] for row in rivals}
    ours = [
        row
        for row in found.select(sweep=STEPS, method=OURS, steps="20")
        if row["n"] in few and "sampler" not in results.settings(row)
    ]
    rows = [row for row in [*rivals, *ours] if row["metric"] != "gain"]
    cell = ("pde", "direction", "regime", "method")
    return {tuple(row[key] for key in cell): row for row in rows}


def tuned(row: results.Row) -> bool:
    """Says whether a row of a guided method is one with weights that were tuned."""
    return results.settings(row).get("weights", PUBLISHED) != PUBLISHED


def weights_of(rows: Iterable[results.Row]) -> str:
    """Says which weights rows of guided methods have."""
    kinds = sorted({"tuned" if tuned(row) else "published" for row in rows})
    return " and ".join(kinds)


def baselines_degrade(found: Evidence) -> Finding:
    """C14: guided baselines are far worse at 20 steps than at full length.

    Draws of both lengths are of the same problems, with weights found in the same way.
    """
    long: dict[tuple[str, ...], Entry] = {
        (*entry.column, entry.regime, entry.method): entry
        for entry in sorted(found.entries, key=lambda entry: entry.steps or 0)
        if entry.method in DIFFUSION and (entry.steps or 0) >= 100
    }
    pairs = [
        (row, entry)
        for key, row in guided_at_twenty(found).items()
        if (entry := long.get(key)) and entry.value
        if (row["n"], tuned(row)) == (entry.row["n"], tuned(entry.row))
    ]
    ratios = [error(row) / error(entry.row) for row, entry in pairs]
    what = f"errors at least {STRONGLY:g} times those of a long draw"
    if pairs:
        kinds = weights_of(row for row, _ in pairs)
        what += f" ({span(ratios)} times), with {kinds} weights"
    good = sum(ratio >= STRONGLY for ratio in ratios)
    rows = [row for pair in pairs for row in (pair[0], pair[1].row)]
    return judged(good, len(ratios), what, share=0.75, rows=rows)


def first_at_twenty(found: Evidence) -> Finding:
    """E19: PRISMA has the smallest error of all at 20 steps."""
    rows = guided_at_twenty(found)
    cases = [
        math.isinf(error(row)) or ablations.against(ours, row) == ablations.BETTER
        for key, row in rows.items()
        if key[3] in DIFFUSION and (ours := rows.get((*key[:3], OURS)))
        if not math.isnan(error(row))
    ]
    kinds = weights_of(row for key, row in rows.items() if key[3] in DIFFUSION)
    what = (
        f"errors of baselines at 20 steps, with {kinds} weights, above PRISMA's, "
        "intervals apart"
    )
    return judged(sum(cases), len(cases), what, rows=[*rows.values()])


def together(of: str, least: float, early: bool) -> Judge:
    """C15 and E20: error and residual fall together along a draw.

    The paper does not say whether it follows the noisy state, whose curves are those
    of its noise, or the network's estimate. Its picture is judged by the state, which
    alone drops as steeply, its claim about the prediction by the estimate.

    Args:
        of: "state" or "estimate".
        least: The correlation that every case must reach.
        early: Whether the fall must be done by the step that the paper names, too.
    """

    def claim(found: Evidence) -> Finding:
        rows = along(found, "pearson_r", of)
        if not rows:
            return Finding(OPEN, NO_ROWS)
        lowest = min(rows, key=lambda row: float(row["value"]))
        value, low, high = (float(lowest[key]) for key in ("value", "low", "high"))
        said = f"lowest r of the {of} {value:.3f} [{low:.3f}, {high:.3f}]"
        good = value >= least
        falls = by_case(along(found, "fall", of)) if early else {}
        after = by_case(along(found, "fall_after", of))
        if falls:
            done = [
                float(row["value"]) > 0
                and float(after[case]["value"]) <= LATE * float(row["value"])
                for case, row in falls.items()
            ]
            said += f"; falls early in {sum(done)} of {len(done)} cases"
            good = good and all(done)
        ends = interval_of(lowest, f"lowest r of the {of}")
        return decided(good, said, [*rows, *falls.values()], ends)

    return claim


def by_case(rows: Iterable[results.Row]) -> dict[tuple[str, ...], results.Row]:
    """Returns rows by equation, regime and number of steps."""
    return {tuple(str(r[k]) for k in ("pde", "regime", "steps")): r for r in rows}


def along(found: Evidence, metric: str, of: str) -> list[results.Row]:
    """Lists the rows of trajectories of the state or of the estimate."""
    rows = found.select(sweep=TRAJECTORIES, metric=metric)
    return [row for row in rows if results.settings(row).get("of") == of]


CLAIMS = {
    "C08": Claim(
        "attention beats no residual and a residual as one more channel",
        "30_residual_strategies",
        "better in 22 of its 24 comparisons, worse in 2",
        attention(False, ()),
    ),
    "C09": Claim(
        "the skip gate stabilises, phase helps, guidance most in noisy inverse",
        "31_sra_variants",
        "no seeds; phase ahead in 6 of 8, inverse guidance in 2 of 2 comparisons",
        design_parts,
    ),
    "C13": Claim(
        "little gain beyond 20 to 50 steps",
        "32_steps",
        "Helmholtz forward 8.12, 7.11 and 6.80 % at 20, 50 and 500 steps",
        small_gain((50, 20), LITTLE),
    ),
    "C14": Claim(
        "guided baselines degrade strongly at 20 steps",
        "32_steps",
        "Darcy forward, full: FunDPS 8.88 for 1.10, DiffusionPDE 31.0 for 2.90 %",
        baselines_degrade,
    ),
    "C15": Claim(
        "error and residual of the prediction fall together, most of it early",
        "33_trajectories",
        "r > 0.99; steep in 10 to 15 of 20 or 40 to 50 of 100 steps",
        together("estimate", 0.99, early=True),
    ),
    "E16": Claim(
        "attention, channel or no residual: which is ahead in which cell",
        "30_residual_strategies",
        "attention but in Helmholtz forward, full and noisy, where none is",
        attention(False, BEHIND),
    ),
    "E17": Claim(
        "six designs of attention: which is ahead in which cell",
        "31_sra_variants",
        "the paper's, but forward multiplicative and magnitude only",
        attention(True, BEHIND),
    ),
    "E18": Claim(
        "error from 20 to 500 steps: no cell gains a fifth",
        "32_steps",
        "at most 16 % of the error (Helmholtz forward, full)",
        small_gain((20, 50), TABLE_GAIN),
    ),
    "E19": Claim(
        "at 20 steps PRISMA is ahead of guided diffusion",
        "32_steps",
        "in all 12 cells, by 1.2 to 28 times",
        first_at_twenty,
    ),
    "E20": Claim(
        "error and residual of the state along a draw: r of about 0.99",
        "33_trajectories",
        "r > 0.99 for Helmholtz, about 0.99 for Kolmogorov flow",
        together("state", 0.985, early=False),
    ),
}
