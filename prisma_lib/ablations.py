"""Variants of one method side by side: what seeds and problems leave open.

A plan of trainings names its runs PDE-VARIANT-SEED, and every run is judged on the same
problems. Here the rows of all seeds become one row a variant, and variants are compared
by their seeds: the problems are common, so their chance is none of a comparison.
"""

import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from prisma_lib import results
from prisma_lib.errors import DataError
from prisma_lib.ranks import FAILS, HOLDS, OPEN

BETTER, WORSE, UNDECIDED = "better", "worse", "cannot be said"
WHERE = ("scale", "pde", "direction", "regime", "setting", "metric", "n")

OURS = "sra"
# The paper's names of the variants in its two tables of ablations.
PAPER = {
    "none": "no_pde_residual",
    "concat": "residual_concat",
    "sra": "residual_sra",
    "no_gate": "no_gating",
    "multiplicative": "multiplicative_gate",
    "magnitude_only": "residual_magnitude_only",
    "phase_blind": "attention_no_phase",
    "unguided": "no_guided_residual",
}

Cell = tuple[str, ...]
Groups = dict[Cell, dict[str, list[results.Row]]]


class Gap(NamedTuple):
    """A difference with its 95 % interval over seeds; below zero is better.

    Without two seeds, or where no seed differs, the ends are NaN.
    """

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """`BETTER` or `WORSE` where the interval is on one side, else `UNDECIDED`."""
        if self.high < 0:
            return BETTER
        return WORSE if self.low > 0 else UNDECIDED

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Value and ends as ratios, for a difference of logarithms."""
        return math.exp(self.value), math.exp(self.low), math.exp(self.high)


@dataclass(frozen=True)
class Versus:
    """Attention against another variant in one cell, on common problems.

    Args:
        cell: Where, by the names of `WHERE`.
        other: The other variant.
        gap: The difference of the logarithms of their errors.
        rows: The rows of both, one a seed.
    """

    cell: Mapping[str, str]
    other: str
    gap: Gap
    rows: Sequence[results.Row]

    @property
    def place(self) -> Cell:
        """Direction and regime."""
        return self.cell["direction"], self.cell["regime"]


def averaged(rows: Iterable[results.Row]) -> list[results.Row]:
    r"""Averages the errors of each variant over seeds.

    The interval is that of one value, not of a comparison: it counts the chance of
    seeds and that of problems, which a comparison on common problems is free of; see
    `versus`. With relative deviations $d$ from the mean over $S$ seeds, pooled over the
    variants of a cell, and the half-width $h$ of the bootstrap interval over problems,
    which all seeds share, it is

    $$\bar e \pm \sqrt{\big(t \, \bar e \, \mathrm{sd}(d) / \sqrt S\big)^2 + h^2},$$

    where $t$ is Student's quantile for the pooled degrees of freedom. With a single
    seed there are none, and the interval is that of the problems alone.

    Args:
        rows: Rows of errors with an interval, as `screen.judged` makes them.

    Returns:
        A row for each cell and variant; the setting names variant and seeds, seconds
        are the median.

    Raises:
        DataError: When a run's name has other parts than PDE-VARIANT-SEED.
    """
    return [
        _mean(key, name, runs, _spread(list(variants.values())))
        for key, variants in grouped(rows).items()
        for name, runs in variants.items()
    ]


def grouped(rows: Iterable[results.Row]) -> Groups:
    """Sorts rows with an error by cell and variant; of a seed the last row counts."""
    found: dict[tuple[str, ...], dict[str, dict[str, results.Row]]] = {}
    for row in rows:
        if row.get("regime") and results.number(row) is not None:
            _, variant, seed = parts(row)
            cell = found.setdefault(tuple(str(row[name]) for name in WHERE), {})
            cell.setdefault(variant, {})[seed] = row
    return {
        key: {name: [*seeds.values()] for name, seeds in cell.items()}
        for key, cell in found.items()
    }


def parts(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Splits the name of a run into equation, variant and seed.

    Raises:
        DataError: When it has other parts.
    """
    names = str(row["run"]).split("-")
    if len(names) != 3:
        raise DataError(
            f"run {row['run']!r}: variants are told apart by names such as "
            "helmholtz-sra-0 (PDE-VARIANT-SEED); name the plan's trainings so"
        )
    return names[0], names[1], names[2]


def spent(rows: Iterable[results.Row], metric: str) -> dict[tuple[str, str], float]:
    """Averages what trainings took over seeds.

    Args:
        rows: Rows that `screen.judged` made.
        metric: "minutes" or "images".

    Returns:
        The mean by equation and variant.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        value = results.number(row)
        if row["metric"] == metric and value is not None:
            found.setdefault(parts(row)[:2], []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def against(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Says whether one error is smaller than another, by intervals that are apart.

    Args:
        one: A row with `low` and `high`.
        other: The row that it is compared with.

    Returns:
        `BETTER`, `WORSE`, or `UNDECIDED` where the intervals overlap.
    """
    if float(one["high"]) < float(other["low"]):
        return BETTER
    return WORSE if float(one["low"]) > float(other["high"]) else UNDECIDED


def welch(one: Sequence[float], other: Sequence[float]) -> Gap:
    """Compares two means by Welch's t interval, which lets their deviations differ.

    Args:
        one: One value a seed.
        other: Those that they are compared with.

    Returns:
        The difference of the means with its interval.
    """
    gap = statistics.fmean(one) - statistics.fmean(other)
    alike = len({*one}) == len({*other}) == 1
    if min(len(one), len(other)) < 2 or alike:
        return Gap(gap, math.nan, math.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one sample without any deviation
        test = scipy_stats().ttest_ind(one, other, equal_var=False)
    return Gap(gap, *map(float, test.confidence_interval(0.95)))


def versus(rows: Iterable[results.Row]) -> list[Versus]:
    """Compares attention with every other variant in every cell, by seeds.

    Args:
        rows: Rows of errors, one a seed, as `screen.judged` makes them.
    """
    return [
        Versus(
            dict(zip(WHERE, key, strict=True)),
            name,
            welch(_logs(cell[OURS]), _logs(runs)),
            [*cell[OURS], *runs],
        )
        for key, cell in grouped(rows).items()
        for name, runs in cell.items()
        if name != OURS and OURS in cell
    ]


def concluded(verdicts: Iterable[str]) -> str:
    """Says what comparisons say together: one that is worse decides.

    Args:
        verdicts: `BETTER`, `WORSE` or `UNDECIDED` of each.

    Returns:
        `FAILS`; `HOLDS` when more are better than undecided; else `OPEN`.
    """
    found = list(verdicts)
    if WORSE in found:
        return FAILS
    return HOLDS if found.count(BETTER) > found.count(UNDECIDED) else OPEN


def deviation(runs: Sequence[results.Row]) -> float:
    """Returns the relative deviation of an error over seeds; NaN of a single seed."""
    return statistics.stdev(_logs(runs)) if len(runs) > 1 else math.nan


def _logs(runs: Sequence[results.Row]) -> list[float]:
    return [math.log(float(run["value"])) for run in runs]


def _spread(variants: Sequence[Sequence[results.Row]]) -> tuple[float, int]:
    """Returns the relative deviation of one seed, pooled, and degrees of freedom."""
    squares, degrees = 0.0, 0
    for runs in variants:
        values = [float(run["value"]) for run in runs]
        mean = sum(values) / len(values)
        squares += sum((value / mean - 1) ** 2 for value in values)
        degrees += len(values) - 1
    return (math.sqrt(squares / degrees) if degrees else 0.0), degrees


def _mean(
    key: tuple[str, ...],
    variant: str,
    runs: Sequence[results.Row],
    spread: tuple[float, int],
) -> results.Row:
    seeds, (deviation, degrees) = len(runs), spread
    value = sum(float(run["value"]) for run in runs) / seeds
    widths = [float(run["high"]) - float(run["low"]) for run in runs]
    problems = sum(widths) / seeds / 2
    by_seeds = value * deviation / math.sqrt(seeds)
    if degrees:
        by_seeds *= quantile(degrees)
    half = math.hypot(by_seeds, problems)
    seconds = sorted(float(run["seconds_per_sample"]) for run in runs)[seeds // 2]
    where = dict(zip(WHERE, key, strict=True))
    numbers = {"value": value, "low": max(0.0, value - half), "high": value + half}
    return {
        **where,
        **{name: runs[-1][name] for name in ("method", "steps", "calls", "device")},
        **{name: f"{number:.4g}" for name, number in numbers.items()},
        "setting": f"{where['setting']};variant={variant};seeds={seeds}",
        "seconds_per_sample": f"{seconds:.3g}",
        "seed": runs[-1]["seed"],
    }


def quantile(degrees: int) -> float:
    """Returns Student's 97.5 % quantile for at least one degree of freedom."""
    return float(scipy_stats().t.ppf(0.975, degrees))


def scipy_stats() -> ModuleType:
    """Imports what intervals are made with.

    Raises:
        ImportError: Without scipy, which the extra `notebooks` brings.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError(
            "intervals over seeds need scipy: pip install 'prisma-lib[notebooks]'"
        ) from error
    return stats
