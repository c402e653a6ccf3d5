"""Claims about the paper's tables of methods: ranks, steps, order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from prisma_lib import results
from prisma_lib.ablations import BETTER, UNDECIDED, WORSE
from prisma_lib.answers import RATIO
from prisma_lib.claims.equal import on_equal_terms
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
    error,
    judged,
    said,
    span,
)
from prisma_lib.claims.lags import behind_best
from prisma_lib.claims.shares import interval_of
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import HOLDS, OPEN, Ratios, apart, ratios
from prisma_lib.tables import MEAN, Column, Entry

# Guided baselines, the faster first.
DIFFUSION = ("FunDPS", "DiffusionPDE")
OPERATORS = ("FNO", "DeepONet", "PINO")
SHARPLY = 5.0  # the paper's FNO goes from 5.3 to 28.2 %
SPECTRAL = "spectral_power_error"
SENSORS = ("burgers", "reconstruct", "sparse")  # five of them


def fewer_steps(found: Evidence) -> Finding:
    """C01: better than diffusion baselines with a tenth of their steps.

    That is, in most of the cells that intervals decide: of the ratio of errors on the
    same problems where a row has one, else of both errors.
    """
    known = ratios(found.rows)
    pairs = [
        (mine, other)
        for mine, other in found.pairs(DIFFUSION)
        if (other.steps or 0) >= 10 * (mine.steps or 1)
    ]
    tally = Tally.of([stands(*pair, known) for pair in pairs])
    text = tally.says("better", "worse", "cells with a tenth of a rival's steps")
    text += " (most of the decided ones must be better)"
    return tally.judge(text, [entry.row for pair in pairs for entry in pair])


def stands(mine: Entry, other: Entry, known: Ratios) -> str:
    """Says how an entry stands against another of the same cell."""
    if math.isinf(error(other.row)) or apart(mine, other, known):
        return BETTER
    return WORSE if apart(other, mine, known) else UNDECIDED


def best_rank(regimes: Sequence[str]) -> Callable[[Evidence], Finding]:
    """C03 and C04: the best average rank in a regime."""

    def claim(found: Evidence) -> Finding:
        first, gaps = [], []
        for regime in regimes:
            mine = [row for row in found.ranks if row["regime"] == regime]
            if len({row["method"] for row in mine}) > 1:
                best = min(mine, key=lambda row: float(str(row["rank"])))
                first.append(best["method"])
                gaps += behind_best(found, regime)
        what = f"tables ({', '.join(regimes)}) with PRISMA first"
        rows = [entry.row for entry in found.entries if entry.regime in regimes]
        finding = judged(first.count(OURS), len(first), what, rows=rows)
        if not gaps:
            return finding
        text = "; ".join([finding.evidence, *(gap.said for gap in gaps)])
        ends = [gap.interval for gap in gaps if gap.interval]
        last = max(ends, key=lambda each: each.low, default=None)
        return replace(finding, evidence=text, interval=last)

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


def place_of(row: results.Row) -> tuple[str, str, str]:
    """Returns equation, direction and regime of a row."""
    return row["pde"], row["direction"], row["regime"]


def same_order(pde: str, direction: str, regime: str) -> Callable[[Evidence], Finding]:
    """C19, C20, E01, E22 and E23: the order of methods in one cell.

    Pairs are compared as in `ranks.orders`; one that is reversed decides.
    """

    def claim(found: Evidence) -> Finding:
        for order in found.orders:
            if (order.pde, order.direction, order.regime) == (pde, direction, regime):
                tally = Tally(order.same, order.reversed, order.open)
                if not tally.count:  # those that there are tie in the paper
                    continue
                text = f"{tally.good} of {tally.count} pairs in this order, "
                text += f"{tally.bad} reversed, {tally.open} open"
                cell = (pde, direction, regime)
                rows = [e.row for e in found.entries if (*e.column, e.regime) == cell]
                holds = order.verdict == HOLDS
                return decided(holds, text, rows, tally.interval)
        return Finding(OPEN, NO_ROWS)

    return claim


def paired(
    judge: Callable[[Evidence], Finding], place: tuple[str, str, str], rival: str
) -> Callable[[Evidence], Finding]:
    """Says beside an order how large the ratio of errors on the same problems is.

    Args:
        judge: Judges the order.
        place: Equation, direction and regime.
        rival: The method whose error divides PRISMA's.

    Returns:
        The judge: where a row has that ratio, its interval is the claim's.
    """

    def claim(found: Evidence) -> Finding:
        finding = judge(found)
        usual = {entry.row["setting"] for entry in found.entries}
        every = [
            row
            for row in found.select(metric=RATIO, method=OURS)
            if place_of(row) == place
            if row["setting"].removesuffix(f";over={rival}") in usual
        ]
        if not every or not finding.rows:
            return finding
        row = min(every, key=lambda row: int(row["steps"]))
        text = f"with {row['steps']} steps {said(row)} times the error of {rival} on "
        text += f"the same {row['n']} problems; {finding.evidence}"
        ratio = interval_of(row, f"error over that of {rival}") or finding.interval
        return replace(finding, evidence=text, interval=ratio)

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
        on_equal_terms(fewer_steps),
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
    "C19": Claim(
        "eikonal: better than FunDPS, that better than DiffusionPDE",
        "25_eikonal",
        "6.87 or 6.97, 7.77, 35.8 %",
        on_equal_terms(same_order("eikonal", "forward", "full")),
    ),
    "C20": Claim(
        "Burgers from five sensors: better than DiffusionPDE",
        "26_burgers",
        "9.33 against 10.39 %",
        paired(same_order(*SENSORS), SENSORS, "DiffusionPDE"),
    ),
    "C26": Claim(
        "one model serves all tasks and regimes",
        "20_darcy to 26_burgers",
        "one checkpoint an equation",
        one_model,
    ),
}
