"""Judges an ensemble of draws: every number with an interval over problems.

The points of a field depend on each other, problems do not: what is resampled are whole
problems, and a ratio or a correlation is computed anew of each resample.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.ensembles import (
    Draws,
    Fields,
    PerProblem,
    coverage,
    crps,
    interval,
    rank_counts,
    share,
)
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.intervals import (
    Columns,
    Number,
    mean,
    number,
    ratio,
    root,
    root_ratio,
)

__all__ = [
    "LEVELS",
    "Number",
    "correlation",
    "distances",
    "expected",
    "histogram",
    "mean",
    "measures",
    "number",
    "placed",
    "root_ratio",
]

LEVELS = (0.5, 0.9)


def pearson(values: Columns) -> Float[Tensor, " resamples"]:
    """Computes Pearson's correlation of two numbers of each problem."""
    centred = values - values.mean(dim=1, keepdim=True)
    x, y = (centred / centred.norm(dim=1, keepdim=True)).unbind(-1)
    return (x * y).sum(dim=1)


def correlation(x: PerProblem, y: PerProblem, key: int = 0) -> Number:
    """Computes Pearson's correlation over problems, with its interval.

    Args:
        x: A number of each problem.
        y: Another one.
        key: Names the random stream of the resampling.

    Raises:
        DataError: When there is no correlation, as of two equal problems.
    """
    return number(torch.stack([x, y], dim=1), pearson, key)


def measures(
    draws: Draws,
    truth: Fields,
    judged: Bool[Tensor, "b c x y"] | None = None,
    key: int = 0,
) -> dict[str, Number]:
    r"""Judges an ensemble by everything that this project prints of one.

    Args:
        draws: As many draws as the intervals need, 19 or 99; see
            `ensembles.coverage`.
        truth: True fields.
        judged: Points where the truth is not known beforehand; others count in no
            interval.
        key: Names the random stream of the resampling.

    Returns:
        `ensemble_spread`, the standard deviation pooled over points and problems, and
        `crps` in the unit of the field; `spread_skill`, the spread over the error of
        the mean times $\sqrt{(m + 1) / m}$; `coverage_50` and `coverage_90`.

    Raises:
        ConfigError: When no interval of so many draws has these levels.
        ShapeError: When draws and truth do not fit.
        DataError: When the mean of the draws has no error at all.
    """
    covered = {
        f"coverage_{round(100 * level)}": coverage(draws, truth, level, judged)
        for level in LEVELS
    }
    variance = draws.double().var(dim=0).flatten(1).mean(dim=1)
    error = (draws.double().mean(dim=0) - truth.double()).square()
    means = {"crps": crps(draws, truth), **covered}
    return {
        "ensemble_spread": number(variance[:, None], root, key),
        "spread_skill": spread_skill(draws, error, key),
        **{name: number(each[:, None], mean, key) for name, each in means.items()},
    }


def distances(
    draws: Draws,
    exact_mean: Fields,
    exact_std: Fields,
    key: int = 0,
) -> dict[str, Number]:
    r"""Compares an ensemble with a posterior whose mean and spread are known.

    Args:
        draws: At least two draws.
        exact_mean: Mean of the posterior.
        exact_std: Its standard deviation at every point.
        key: Names the random stream of the resampling.

    Returns:
        `mean_distance`, the root mean square difference of the means in units of the
        exact spread, which is $1 / \sqrt m$ for m exact draws and their own sampling
        error alone; `spread_ratio`, the spread of the draws over the exact one.

    Raises:
        ConfigError: When there is a single draw.
    """
    if len(draws) < 2:
        raise ConfigError("one draw has no spread: ask for samples=19")
    squares = (
        (draws.double().mean(dim=0) - exact_mean.double()).square(),
        draws.double().var(dim=0),
        exact_std.double().square(),
    )
    off, mine, exact = (each.flatten(1).mean(dim=1) for each in squares)
    return {
        "mean_distance": number(torch.stack([off, exact], 1), root_ratio, key),
        "spread_ratio": number(torch.stack([mine, exact], 1), root_ratio, key),
    }


def expected(
    draws: Draws,
    exact_mean: Fields,
    exact_std: Fields,
    judged: Bool[Tensor, "b c x y"],
    key: int = 0,
) -> dict[str, Number]:
    r"""Judges an ensemble by all truths that its observation leaves possible.

    One truth a problem says little: a smooth field has few numbers of its own. Where
    the posterior is a known Gaussian of mean $\mu$ and standard deviation $\sigma$, the
    means over the truth are known too: an interval holds it with probability
    $\Phi((b - \mu) / \sigma) - \Phi((a - \mu) / \sigma)$, and the squared error of the
    mean of the draws is $(\bar x - \mu)^2 + \sigma^2$.

    Args:
        draws: As many draws as the intervals need, 19 or 99; see
            `ensembles.interval`.
        exact_mean: Mean of the posterior.
        exact_std: Its standard deviation at every point.
        judged: Points where the truth is not known beforehand; others count in no
            interval.
        key: Names the random stream of the resampling.

    Returns:
        `expected_coverage_50`, `expected_coverage_90` and `expected_spread_skill`: of
        a calibrated ensemble 0.5, 0.9 and 1.

    Raises:
        ConfigError: When no interval of so many draws has these levels.
        DataError: When a point is judged of which the posterior has no doubt.
    """
    mean_, std = exact_mean.double(), exact_std.double()
    if (std[judged] <= 0).any():
        raise DataError(
            "the posterior has no doubt of a judged point: judge those where "
            "exact_std > 0"
        )
    std = torch.where(judged, std, 1.0)
    found = {}
    for level in LEVELS:
        below, above = (
            torch.special.ndtr((end.double() - mean_) / std)
            for end in interval(draws, level)
        )
        held = share(above - below, judged)
        found[f"expected_coverage_{round(100 * level)}"] = number(
            held[:, None], mean, key
        )
    error = (draws.double().mean(dim=0) - mean_).square() + exact_std.double().square()
    return found | {"expected_spread_skill": spread_skill(draws, error, key)}


def spread_skill(draws: Draws, error: Fields, key: int) -> Number:
    r"""Computes the spread over the error of the mean, times $\sqrt{(m + 1) / m}$.

    Args:
        draws: m draws.
        error: Squared error of their mean at every point.
        key: Names the random stream of the resampling.
    """
    m = len(draws)
    variance = draws.double().var(dim=0).flatten(1).mean(dim=1)
    both = torch.stack([(m + 1) / m * variance, error.flatten(1).mean(dim=1)], dim=1)
    return number(both, root_ratio, key)


def placed(draws: Draws, truth: Fields, level: float = 0.9, key: int = 0) -> Number:
    """Computes how often the truth takes an inner place among draws of few levels.

    In a field of two values an interval holds its own ends, and the truth with them
    wherever one draw agrees. Here a truth that ties takes one of the places of the tie
    at random, and only points in doubt count, where not all draws are the truth. Both
    treat the truth like a draw, so that a calibrated ensemble has the level exactly.

    Args:
        draws: m draws, on the levels.
        truth: True fields, on the levels.
        level: Share of the m + 1 places that are inner ones, as many outside at either
            end.
        key: Names the random streams of ties and resampling.

    Returns:
        The share over all points in doubt.

    Raises:
        ConfigError: When no whole number of places makes the level.
        DataError: When no point is in doubt.
    """
    places = len(draws) + 1
    outer = round(places * (1 - level) / 2)
    if outer < 1 or not math.isclose(1 - 2 * outer / places, level, abs_tol=1e-6):
        raise ConfigError(
            f"level={level}: {places} places have the levels 1 - 2 j / {places}; use "
            "19 or 99 draws for 0.5 and 0.9"
        )
    counts = rank_counts(draws, truth, (draws != truth).any(dim=0), key)
    inner = counts[:, outer : places - outer].sum(dim=1)
    return number(torch.stack([inner, counts.sum(dim=1)], dim=1), ratio, key)


def histogram(
    draws: Draws,
    truth: Fields,
    judged: Bool[Tensor, "b c x y"] | None = None,
    bins: int = 20,
    key: int = 0,
) -> Float[Tensor, "bins 3"]:
    """Counts the places of the truth among the draws, as shares, with intervals.

    Args:
        draws: m draws; m + 1 places make the bins.
        truth: True fields.
        judged: Points that count; all unless given.
        bins: Number of bins, a divisor of m + 1.
        key: Names the random streams of ties and resampling.

    Returns:
        Share of points of each bin times the number of bins, 1 where calibrated, with
        the ends of its 95 % interval over problems.

    Raises:
        ConfigError: When the places do not fill the bins.
    """
    places = len(draws) + 1
    if places % bins:
        raise ConfigError(f"{places} places do not fill {bins} bins: use a divisor")
    counts = rank_counts(draws, truth, judged, key)
    counts = counts.unflatten(1, (bins, -1)).sum(dim=-1)
    total = counts.sum(dim=1, keepdim=True) / bins

    rows = [
        number(torch.cat([each[:, None], total], dim=1), ratio, key)
        for each in counts.unbind(1)
    ]
    return torch.tensor(rows, dtype=torch.float64)
