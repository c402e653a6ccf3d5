"""Claims about the paper's tables of methods: ranks, steps, seconds, spectra."""

from collections.abc import Callable, Sequence

from prisma_lib import results
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    judged,
    mostly,
)
from prisma_lib.ranks import OPEN
from prisma_lib.tables import MEAN, Entry

DIFFUSION = ("DiffusionPDE", "FunDPS")
OPERATORS = ("PINN", "FNO", "DeepONet", "PINO")
SPECTRAL = "spectral_power_error"


def fewer_steps(found: Evidence) -> Finding:
    """C01: 10 to 100 times fewer steps than the diffusion baselines, in most cells."""
    pairs = [
        (mine, other)
        for mine, other in found.pairs(DIFFUSION)
        if (other.steps or 0) >= 10 * (mine.steps or 1)
    ]
    better = sum(smaller(mine, other) for mine, other in pairs)
    what = "cells better with a tenth of the steps"
    return mostly(better, len(pairs), what, rows_of(pairs))


def faster(found: Evidence) -> Finding:
    """C02: 15 to 250 times faster for each sample than the diffusion baselines."""
    pairs = [
        (mine, other)
        for mine, other in found.pairs(DIFFUSION)
        if mine.row["device"] == other.row["device"]
    ]
    ratios = [
        theirs / ours
        for mine, other in pairs
        if (ours := results.number(mine.row, "seconds_per_sample"))
        and (theirs := results.number(other.row, "seconds_per_sample"))
    ]
    quick = sum(ratio >= 15 for ratio in ratios)
    span = f" ({min(ratios):.3g} to {max(ratios):.3g} times)" if ratios else ""
    what = f"cells at least 15 times faster{span}"
    return judged(quick, len(ratios), what, rows=rows_of(pairs))


def best_rank(regimes: Sequence[str]) -> Callable[[Evidence], Finding]:
    """C03 and C04: the best average rank in a regime."""

    def claim(found: Evidence) -> Finding:
        first = []
        for regime in regimes:
            mine = [row for row in found.ranks if row["regime"] == regime]
            if len({row["method"] for row in mine}) > 1:
                first.append(
                    min(mine, key=lambda row: float(str(row["rank"])))["method"]
                )
        what = f"tables ({', '.join(regimes)}) with PRISMA first"
        rows = [entry.row for entry in found.entries if entry.regime in regimes]
        return judged(first.count(OURS), len(first), what, rows=rows)

    return claim


def operators_need_full(found: Evidence) -> Finding:
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
    rows = [entry.row for entry in found.entries if entry.method in OPERATORS]
    what = "operators' errors grow more than PRISMA's"
    return judged(sum(cases), len(cases), what, rows=rows)


def sharp_spectra(found: Evidence) -> Finding:
    """C16: a smaller error of the power spectrum than the baselines, under noise."""
    rows = noisy_spectra(found)
    cases = [
        float(mine["value"]) < float(other["value"])
        for mine in rows
        for other in rows
        if mine["method"] == OURS and other["method"] in DIFFUSION
        if all(mine[key] == other[key] for key in ("pde", "direction", "n"))
    ]
    return judged(sum(cases), len(cases), "spectra closer than a baseline's", rows=rows)


def noisy_spectra(found: Evidence) -> list[results.Row]:
    """Lists errors of spectra under noise; a cell may have rows of two notebooks."""
    question = ("method", "pde", "direction", "steps", "n")
    rows = {
        tuple(str(row[key]) for key in question): row
        for row in found.select(metric=SPECTRAL, regime="noisy")
        if results.number(row) is not None
    }
    return [*rows.values()]


def same_order(pde: str, direction: str, regime: str) -> Callable[[Evidence], Finding]:
    """C19 and C20: the order of methods in one cell."""

    def claim(found: Evidence) -> Finding:
        for order in found.orders:
            if (order.pde, order.direction, order.regime) == (pde, direction, regime):
                count = order.same + order.reversed + order.open
                said = f"{order.same} of {count} pairs in this order"
                cell = (pde, direction, regime)
                rows = [e.row for e in found.entries if (*e.column, e.regime) == cell]
                return Finding(order.verdict, said, rows)
        return Finding(OPEN, NO_ROWS)

    return claim


def one_model(found: Evidence) -> Finding:
    """C26: one model serves all tasks and regimes."""
    means = {e.column: e.value for e in found.entries if e.method == MEAN}
    cases = [
        (entry.value or float("inf")) < mean
        for entry in found.entries
        if entry.method == OURS and (mean := means.get(entry.column))
    ]
    rows = [entry.row for entry in found.entries if entry.method == OURS]
    what = "cells better than the mean field"
    return judged(sum(cases), len(cases), what, rows=rows)


def rows_of(pairs: Sequence[tuple[Entry, Entry]]) -> list[results.Row]:
    """Lists the result rows of pairs of entries."""
    return [entry.row for pair in pairs for entry in pair]


def smaller(mine: Entry, other: Entry) -> bool:
    """Whether an error is smaller than another; a missing one is not."""
    return (
        mine.value is not None and other.value is not None and mine.value < other.value
    )


CLAIMS = {
    "C01": Claim(
        "10 to 100 times fewer steps than diffusion baselines",
        "20_darcy to 26_burgers",
        "20 or 50 steps against 200 to 2000",
        fewer_steps,
    ),
    "C02": Claim(
        "15 to 250 times faster for each sample",
        "20_darcy to 26_burgers",
        "0.18 or 0.8 s against 4.72 to 213 s",
        faster,
    ),
    "C03": Claim(
        "best average rank under noise",
        "90_report",
        "1.1 at 50 steps",
        best_rank(("noisy",)),
    ),
    "C04": Claim(
        "best average rank, full and sparse",
        "90_report",
        "2.4 full, 1.58 sparse",
        best_rank(("full", "sparse")),
    ),
    "C05": Claim(
        "operators degrade sharply on sparse observations",
        "20_darcy to 26_burgers",
        "Darcy forward: FNO 5.3 to 28.2 %, PRISMA 1.1 to 3.0 %",
        operators_need_full,
    ),
    "C16": Claim(
        "smaller spectral error than the baselines under noise",
        "43_spectra",
        "in all six cells",
        sharp_spectra,
    ),
    "C19": Claim(
        "eikonal: better than FunDPS, that better than DiffusionPDE",
        "25_eikonal",
        "6.87 or 6.97, 7.77, 35.8 %",
        same_order("eikonal", "forward", "full"),
    ),
    "C20": Claim(
        "Burgers from five sensors: better than DiffusionPDE",
        "26_burgers",
        "9.33 against 10.39 %",
        same_order("burgers", "reconstruct", "sparse"),
    ),
    "C26": Claim(
        "one model serves all tasks and regimes",
        "20_darcy to 26_burgers",
        "one checkpoint an equation",
        one_model,
    ),
}
