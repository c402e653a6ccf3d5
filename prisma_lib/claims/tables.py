"""Claims about the paper's tables of methods: ranks, steps, spectra."""

import math
from collections.abc import Callable, Sequence

from prisma_lib import results
from prisma_lib.answers import RATIO
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    error,
    judged,
    mostly,
    span,
    value,
)
from prisma_lib.ranks import OPEN
from prisma_lib.results import settings
from prisma_lib.tables import MEAN, Column, Entry

# Guided baselines, the faster first.
DIFFUSION = ("FunDPS", "DiffusionPDE")
OPERATORS = ("FNO", "DeepONet", "PINO")
SHARPLY = 5.0  # the paper's FNO goes from 5.3 to 28.2 %
SPECTRAL = "spectral_power_error"


def fewer_steps(found: Evidence) -> Finding:
    """C01: better than diffusion baselines with a tenth of their steps, in most cells.

    Methods are compared on the same problems: by the interval of the ratio of errors.
    """
    pairs = [
        (mine, other)
        for mine, other in found.pairs(DIFFUSION)
        if (other.steps or 0) >= 10 * (mine.steps or 1)
    ]
    lost = [other.row for _, other in pairs if math.isinf(error(other.row))]
    rows = [row for pair in pairs for row in ratio_of(found, *pair)]
    better = sum(value(row, "high") < 1 for row in rows) + len(lost)
    worse = sum(value(row, "low") > 1 for row in rows)
    what = f"pairs better with a tenth of the steps, {worse} worse; "
    what += f"{len(rows) + len(lost) - better - worse} more are open"
    return mostly(better, better + worse, what, rows + lost)


def ratio_of(found: Evidence, mine: Entry, other: Entry) -> list[results.Row]:
    """Returns the last row of the ratio of two errors, if there is one."""
    asked = settings(mine.row) | {"over": other.method}
    return [
        row
        for row in found.select(metric=RATIO, method=OURS, steps=mine.row["steps"])
        if place_of(row) == (*mine.column, mine.regime) and settings(row) == asked
    ][-1:]


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


def operators_grow(found: Evidence) -> dict[tuple[str, Column], tuple[float, float]]:
    """Returns how an operator's error grows from full to sparse, PRISMA's beside it.

    Returns:
        Both factors, of the fewest steps, by method, equation and direction.
    """
    errors: dict[tuple[str, str, Column], float] = {}
    for entry in sorted(found.entries, key=lambda entry: entry.steps or 0):
        if entry.value:
            errors.setdefault((entry.method, entry.regime, entry.column), entry.value)
    growth = {
        (method, column): sparse / full
        for (method, regime, column), sparse in errors.items()
        if regime == "sparse" and (full := errors.get((method, "full", column)))
    }
    return {
        (method, column): (factor, growth[OURS, column])
        for (method, column), factor in growth.items()
        if method in OPERATORS and (OURS, column) in growth
    }


def operators_need_full(found: Evidence) -> Finding:
    """C05: operators that are trained on full observations degrade on sparse ones."""
    factors = [mine for mine, _ in operators_grow(found).values()]
    what = f"operators' errors at least {SHARPLY:g} times those on full observations"
    what += f" ({span(factors)} times)" if factors else ""
    good = sum(factor >= SHARPLY for factor in factors)
    return judged(good, len(factors), what, rows=of_operators(found))


def operators_fall_further(found: Evidence) -> Finding:
    """E06: an operator's error grows more than PRISMA's from full to sparse."""
    cases = [mine > ours for mine, ours in operators_grow(found).values()]
    what = "operators' errors grow more than PRISMA's"
    return judged(sum(cases), len(cases), what, rows=of_operators(found))


def of_operators(found: Evidence) -> list[results.Row]:
    """Lists the rows of errors of operators."""
    return [entry.row for entry in found.entries if entry.method in OPERATORS]


def sharp_spectra(found: Evidence) -> Finding:
    """C16: a smaller error of the power spectrum than the baselines, under noise."""
    pairs = spectral_pairs(found)
    cases = [value(mine) < value(other) for mine, other in pairs]
    rows = [row for pair in pairs for row in pair]
    return judged(sum(cases), len(cases), "spectra closer than a baseline's", rows=rows)


def spectral_pairs(found: Evidence) -> list[tuple[results.Row, results.Row]]:
    """Pairs PRISMA's spectra under noise with a baseline's, on the same problems.

    Of PRISMA's rows that with the fewest steps stands for it.
    """
    rows = noisy_spectra(found)
    found_pairs = []
    for other in rows:
        same = [
            row
            for row in rows
            if (*place_of(row), row["n"]) == (*place_of(other), other["n"])
            if row["method"] == OURS
        ]
        if other["method"] in DIFFUSION and same:
            found_pairs.append((min(same, key=lambda row: int(row["steps"])), other))
    return found_pairs


def place_of(row: results.Row) -> tuple[str, str, str]:
    """Returns equation, direction and regime of a row."""
    return row["pde"], row["direction"], row["regime"]


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
                said = f"{order.same} of {count} pairs in this order, {order.open} open"
                cell = (pde, direction, regime)
                rows = [e.row for e in found.entries if (*e.column, e.regime) == cell]
                return Finding(order.verdict, said, rows)
        return Finding(OPEN, NO_ROWS)

    return claim


def one_model(found: Evidence) -> Finding:
    """C26: one model serves all tasks and regimes, with the fewest steps."""
    means = {e.column: e.value for e in found.entries if e.method == MEAN}
    mine: dict[tuple[Column, str], Entry] = {}
    for entry in sorted(found.entries, key=lambda entry: entry.steps or 0):
        if entry.method == OURS and means.get(entry.column):
            mine.setdefault((entry.column, entry.regime), entry)
    cases = [
        (entry.value or float("inf")) < (means[entry.column] or 0.0)
        for entry in mine.values()
    ]
    rows = [entry.row for entry in mine.values()]
    what = "cells better than the mean field"
    return judged(sum(cases), len(cases), what, rows=rows)


CLAIMS = {
    "C01": Claim(
        "10 to 100 times fewer steps than diffusion baselines",
        "20_darcy to 26_burgers",
        "20 or 50 steps against 200 to 2000",
        fewer_steps,
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
