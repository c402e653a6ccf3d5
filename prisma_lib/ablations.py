"""Variants of one method side by side: what seeds and problems leave open.

A plan of trainings names its runs PDE-VARIANT-SEED, and every run is judged on the same
problems. Here the rows of all seeds become one row a variant.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prisma_lib import results
from prisma_lib.errors import DataError

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

Groups = dict[tuple[str, ...], dict[str, list[results.Row]]]


def averaged(rows: Iterable[results.Row]) -> list[results.Row]:
    r"""Averages the errors of each variant over seeds.

    The interval counts both kinds of chance. With relative deviations $d$ from the mean
    over $S$ seeds, pooled over the variants of a cell, and the half-width $h$ of the
    bootstrap interval over problems, which all seeds share, it is

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


def versus(rows: Iterable[results.Row]) -> list[tuple[str, results.Row, results.Row]]:
    """Compares attention with every other variant in every cell.

    Args:
        rows: What `averaged` returned.

    Returns:
        What `against` says of attention, its row, and the other's.
    """
    cells: dict[tuple[str, ...], dict[str, results.Row]] = {}
    for row in rows:
        where = tuple(str(row[name]) for name in ("pde", "direction", "regime"))
        cells.setdefault(where, {})[results.settings(row).get("variant", "")] = row
    return [
        (against(cell[OURS], other), cell[OURS], other)
        for cell in cells.values()
        for name, other in cell.items()
        if name != OURS and OURS in cell
    ]


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
    """Returns Student's 97.5 % quantile for at least one degree of freedom.

    Raises:
        ImportError: Without scipy, which the extra `notebooks` brings.
    """
    try:
        from scipy.stats import t
    except ImportError as error:
        raise ImportError(
            "intervals over seeds need scipy: pip install 'prisma-lib[notebooks]'"
        ) from error
    return float(t.ppf(0.975, degrees))
