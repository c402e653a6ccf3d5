"""Claims about the residual's distribution along a draw (44_residual_moments)."""

from collections.abc import Callable, Sequence
from statistics import fmean

from prisma_lib import results
from prisma_lib.ablations import BETTER, UNDECIDED, WORSE
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
)
from prisma_lib.claims.shares import ENDS
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import OPEN

NOTEBOOK = "44_residual_moments"
MOMENTS = ("residual_abs_skewness", "residual_abs_excess_kurtosis")
# A skewness below 1/2 in size is that of a fairly symmetric distribution; the kurtosis
# of independent values has twice its standard deviation.
NEAR_ZERO = dict(zip(MOMENTS, (0.5, 1.0), strict=True))

Rows = Sequence[results.Row]


def near_zero(
    metrics: Sequence[str], directions: Sequence[str] = ("forward", "inverse")
) -> Callable[[Evidence], Finding]:
    """C11, E14 and E15: moments of the estimate's residual are small and the least.

    PRISMA is compared with a rival on the same problems where there are rows of those,
    else with its rows on others. The mean over the steps stands for a draw; since the
    steps of a draw depend on each other, its interval goes from the mean of lower ends
    to the mean of upper ends.

    Args:
        metrics: Of `MOMENTS`.
        directions: Directions that are asked.

    Returns:
        The judge: no comparison may be reversed, and most must be decided.
    """

    def claim(found: Evidence) -> Finding:
        places: dict[tuple[str, str], list[results.Row]] = {}
        for metric in metrics:
            for row in found.select(sweep="residual_moments", metric=metric):
                mine = results.settings(row).get("of") == "estimate"
                if mine and whole(row) and row["direction"] in directions:
                    places.setdefault((row["direction"], metric), []).append(row)
        verdicts, texts, used = [], [], []
        for (direction, metric), rows in places.items():
            answers, text = place(rows, NEAR_ZERO[metric])
            if answers:
                short = metric.removeprefix("residual_abs_").replace("_", " ")
                texts.append(f"{short} {direction} {text}")
                verdicts += answers
                used += rows
        tally = Tally.of(verdicts)
        if not tally.count:
            return Finding(OPEN, NO_ROWS)
        what = "comparisons (near zero, a skewness below 0.5 and an excess kurtosis "
        what += "below 1; below each baseline); means over the steps with intervals: "
        what += "; ".join(texts)
        holds = not tally.bad and tally.good > tally.open
        text = tally.says("as said", "reversed", what)
        return decided(holds, text, used, tally.interval)

    return claim


def whole(row: results.Row) -> bool:
    """Says whether a row has a number with both ends of its interval."""
    return all(results.number(row, name) is not None for name in ("value", *ENDS))


def place(rows: Rows, limit: float) -> tuple[list[str], str]:
    """Compares PRISMA's moment with zero and with those of others.

    Args:
        rows: Rows of one moment and direction, of all methods and steps.
        limit: Below it a moment is near zero.

    Returns:
        Verdicts, none without a rival, and what they rest on.
    """
    methods: dict[tuple[str, int], list[results.Row]] = {}
    for row in rows:
        methods.setdefault((row["method"], int(row["n"])), []).append(row)
    ours = {n: mean(mine) for (who, n), mine in methods.items() if who == OURS}
    rest = {key: mean(mine) for key, mine in methods.items() if key[0] != OURS}
    if not ours or not rest:
        return [], ""
    most = max(ours)
    verdicts = [stands(ours[most], (limit, limit, limit))]
    verdicts += [stands(ours.get(n, ours[most]), rest[who, n]) for who, n in rest]
    told = {(OURS, n): each for n, each in ours.items()} | rest
    texts = [f"{who} {spoken(each)} (n = {n})" for (who, n), each in told.items()]
    return verdicts, ", ".join(texts)


def mean(rows: Rows) -> tuple[float, ...]:
    """Averages numbers and both ends of their intervals over rows."""
    return tuple(fmean(float(r[name]) for r in rows) for name in ("value", *ENDS))


def spoken(number: tuple[float, ...]) -> str:
    """Writes a number with its interval."""
    return "{:.2g} [{:.2g}, {:.2g}]".format(*number)


def stands(mine: tuple[float, ...], other: tuple[float, ...]) -> str:
    """Says whether a number is below another, their intervals apart."""
    if mine[2] < other[1]:
        return BETTER
    return WORSE if mine[1] > other[2] else UNDECIDED


CLAIMS = {
    "C11": Claim(
        "skewness and kurtosis of the residual stay near zero, unlike the baselines'",
        NOTEBOOK,
        "Poisson, figures without numbers",
        near_zero(MOMENTS),
    ),
    "E14": Claim(
        "skewness of the residual over the steps: near zero for PRISMA only",
        NOTEBOOK,
        "Poisson, forward, a figure without numbers",
        near_zero(MOMENTS[:1], ("forward",)),
    ),
    "E15": Claim(
        "excess kurtosis of the residual over the steps: near zero for PRISMA only",
        NOTEBOOK,
        "Poisson, figures without numbers",
        near_zero(MOMENTS[1:]),
    ),
}
