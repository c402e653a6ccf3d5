"""Whether the paper's claims about its tables hold in ours.

A claim is judged at one scale by the rows that are there: it holds, it does not hold,
or the rows do not tell. A numbered claim stands in the paper's abstract, text or
captions; the numbers are this project's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prisma_lib import results
from prisma_lib.ranks import FAILS, HOLDS, OPEN, Order, orders, ranks
from prisma_lib.tables import MEAN, Entry, Grid, Paper, grid_of

DIFFUSION = ("DiffusionPDE", "FunDPS")
OPERATORS = ("PINN", "FNO", "DeepONet", "PINO")
OURS = "PRISMA"
NO_ROWS = "no rows to compare"
SPECTRAL = "spectral_power_error"

Verdict = tuple[str, str]


@dataclass(frozen=True)
class Evidence:
    """All rows at one scale and on one grid.

    Args:
        entries: Entries of the tables, one draw each.
        ranks: Average ranks.
        orders: Orders of the methods in each cell.
        spectra: Result rows of the error of the power spectrum under noise.
    """

    entries: Sequence[Entry]
    ranks: Sequence[Mapping[str, object]]
    orders: Sequence[Order]
    spectra: Sequence[results.Row]

    def pairs(self, others: Sequence[str]) -> list[tuple[Entry, Entry]]:
        """Lists PRISMA's entries with another method's in the same cell."""
        return [
            (mine, other)
            for mine in self.entries
            for other in self.entries
            if mine.method == OURS and other.method in others
            if (mine.regime, mine.column) == (other.regime, other.column)
        ]


def judged(good: int, count: int, what: str, *, share: float = 1.0) -> Verdict:
    """Says that a claim holds when enough of its cases do; without one it is open."""
    if not count:
        return OPEN, NO_ROWS
    return HOLDS if good >= share * count else FAILS, f"{good} of {count} {what}"


def fewer_steps(found: Evidence) -> Verdict:
    """C01: 10 to 100 times fewer steps than the diffusion baselines."""
    pairs = [
        (mine, other)
        for mine, other in found.pairs(DIFFUSION)
        if (other.steps or 0) >= 10 * (mine.steps or 1)
    ]
    better = sum(smaller(mine, other) for mine, other in pairs)
    return judged(
        better, len(pairs), "cells better with a tenth of the steps", share=0.5
    )


def faster(found: Evidence) -> Verdict:
    """C02: 15 to 250 times faster for each sample than the diffusion baselines."""
    ratios = [
        theirs / ours
        for mine, other in found.pairs(DIFFUSION)
        if (ours := results.number(mine.row, "seconds_per_sample"))
        and (theirs := results.number(other.row, "seconds_per_sample"))
        and mine.row["device"] == other.row["device"]
    ]
    span = f", {min(ratios):.3g} to {max(ratios):.3g} times" if ratios else ""
    quick = sum(ratio >= 15 for ratio in ratios)
    verdict, said = judged(quick, len(ratios), "cells at least 15 times faster")
    return verdict, said + span


def best_rank(regimes: Sequence[str]) -> Callable[[Evidence], Verdict]:
    """C03 and C04: the best average rank in a regime."""

    def claim(found: Evidence) -> Verdict:
        first = []
        for regime in regimes:
            mine = [row for row in found.ranks if row["regime"] == regime]
            if len({row["method"] for row in mine}) > 1:
                first.append(
                    min(mine, key=lambda row: float(str(row["rank"])))["method"]
                )
        what = f"tables ({', '.join(regimes)}) with PRISMA first"
        return judged(first.count(OURS), len(first), what)

    return claim


def operators_need_full(found: Evidence) -> Verdict:
    """C05: operators that are trained on full observations degrade on sparse ones."""
    errors = {
        (entry.method, entry.regime, entry.column): entry.value
        for entry in found.entries
        if entry.value
    }
    growth = {
        (method, column): sparse / full
        for (method, regime, column), sparse in errors.items()
        if regime == "sparse" and (full := errors.get((method, "full", column)))
    }
    cases = [
        growth[key] > growth[OURS, key[1]]
        for key in growth
        if key[0] in OPERATORS and (OURS, key[1]) in growth
    ]
    return judged(sum(cases), len(cases), "operators' errors grow more than PRISMA's")


def sharp_spectra(found: Evidence) -> Verdict:
    """C16: a smaller error of the power spectrum than the baselines, under noise."""
    values = {
        (row["pde"], row["direction"], row["method"]): value
        for row in found.spectra
        if (value := results.number(row)) is not None
    }
    cases = [
        values[*key[:2], OURS] < value
        for key, value in values.items()
        if key[2] in DIFFUSION and (*key[:2], OURS) in values
    ]
    return judged(sum(cases), len(cases), "spectra closer than a baseline's")


def same_order(pde: str, direction: str, regime: str) -> Callable[[Evidence], Verdict]:
    """C19 and C20: the order of methods in one cell."""

    def claim(found: Evidence) -> Verdict:
        for order in found.orders:
            if (order.pde, order.direction, order.regime) == (pde, direction, regime):
                count = order.same + order.reversed + order.open
                return order.verdict, f"{order.same} of {count} pairs in this order"
        return OPEN, NO_ROWS

    return claim


def one_model(found: Evidence) -> Verdict:
    """C26: one model serves all tasks and regimes."""
    means = {e.column: e.value for e in found.entries if e.method == MEAN}
    cases = [
        (entry.value or float("inf")) < mean
        for entry in found.entries
        if entry.method == OURS and (mean := means.get(entry.column))
    ]
    return judged(sum(cases), len(cases), "cells better than the mean field")


def smaller(mine: Entry, other: Entry) -> bool:
    """Whether an error is smaller than another; a missing one is not."""
    return (
        mine.value is not None and other.value is not None and mine.value < other.value
    )


CLAIMS: dict[str, tuple[str, Callable[[Evidence], Verdict]]] = {
    "C01": ("10 to 100 times fewer steps than diffusion baselines", fewer_steps),
    "C02": ("15 to 250 times faster for each sample", faster),
    "C03": ("best average rank under noise", best_rank(("noisy",))),
    "C04": ("best average rank, full and sparse", best_rank(("full", "sparse"))),
    "C05": ("operators degrade sharply on sparse observations", operators_need_full),
    "C16": ("smaller spectral error than the baselines under noise", sharp_spectra),
    "C19": (
        "eikonal: better than FunDPS, that better than DiffusionPDE",
        same_order("eikonal", "forward", "full"),
    ),
    "C20": (
        "Burgers from five sensors: better than DiffusionPDE",
        same_order("burgers", "reconstruct", "sparse"),
    ),
    "C26": ("one model serves all tasks and regimes", one_model),
}


def claims(
    every: Sequence[Entry], rows: Sequence[results.Row], paper: Paper
) -> list[dict[str, object]]:
    """Judges every claim on every grid that has rows.

    Args:
        every: Entries of all tables.
        rows: Result rows of all sweeps.
        paper: The paper's numbers.

    Returns:
        A row for each grid and claim, with the verdict and what it rests on.
    """
    usual = [entry for entry in every if entry.usual]
    grids: list[Grid] = list(dict.fromkeys(map(grid_of, usual)))
    found = []
    for grid in grids:
        mine = [entry for entry in usual if grid_of(entry) == grid]
        spectra = [
            row
            for row in rows
            if (row["metric"], row["regime"], row["scale"])
            == (SPECTRAL, "noisy", grid[0])
        ]
        evidence = Evidence(mine, ranks(mine, paper), orders(mine, paper), spectra)
        for name, (text, judge) in CLAIMS.items():
            verdict, rests = judge(evidence)
            found.append(
                {
                    **{"scale": grid[0], "size": grid[1], "claim": name, "text": text},
                    **{"verdict": verdict, "evidence": rests},
                }
            )
    return found
