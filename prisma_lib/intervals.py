"""Intervals of what was measured on some problems: the bootstrap.

The points of a field depend on each other, problems do not, and the times of one
trajectory do: what is resampled are whole problems or trajectories.

Reference:
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib.ensembles import PerProblem
from prisma_lib.errors import DataError, ShapeError
from prisma_lib.fields import keyed_uniform

RESAMPLES = 2000
LEVEL = 0.95
# Student's quantile of 97.5 % by the number of problems, where they are fewer than a
# bootstrap needs: no resample leaves the range of their values, which holds the mean of
# two in one case of two.
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182}

# Values of every problem in, resample by resample; one number a resample out.
Columns = Float[Tensor, "resamples b k"]
Statistic = Callable[[Columns], Float[Tensor, " resamples"]]


class Number(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def number(values: Float[Tensor, "b k"], statistic: Statistic, key: int = 0) -> Number:
    """Computes a statistic of problems, with the bootstrap interval of `ends`.

    Resamples of which the statistic has no value, such as the correlation of one
    problem drawn again and again, are left out of the interval.

    Args:
        values: Some numbers of each problem.
        statistic: Reduces them, for many resamples at once.
        key: Names the random stream of the resampling.

    Raises:
        DataError: When a value is not finite, or the statistic of all is not.
    """
    if not values.isfinite().all():
        raise DataError(
            "values of problems must be finite to be resampled: leave out problems "
            "that no draw could be made for"
        )
    values, n = values.double().cpu(), len(values)
    whole = statistic(values[None])[0]
    if not whole.isfinite():
        raise DataError(
            f"the statistic of {n} problem(s) is {whole.item()}: give more problems, "
            "and such that differ"
        )
    found = statistic(values[resamples(n, RESAMPLES, key)])
    return Number(whole.item(), *ends(whole.item(), found[found.isfinite()], n))


def mean(values: Columns) -> Float[Tensor, " resamples"]:
    """Averages one number of each problem."""
    return values[..., 0].mean(dim=1)


def root(values: Columns) -> Float[Tensor, " resamples"]:
    """Takes the root of the mean of one number of each problem."""
    return mean(values).sqrt()


def ratio(values: Columns) -> Float[Tensor, " resamples"]:
    """Takes the ratio of two means."""
    above, below = values.mean(dim=1).unbind(-1)
    return above / below


def root_ratio(values: Columns) -> Float[Tensor, " resamples"]:
    """Takes the root of the ratio of two means."""
    return ratio(values).sqrt()


def resamples(n: int, num: int, key: int) -> Int[Tensor, "num n"]:
    """Draws what each resample of a bootstrap is made of.

    Args:
        n: What can be drawn, each time anew.
        num: Number of resamples.
        key: Names the random stream.
    """
    uniform = keyed_uniform(key, [0], (num, n), purpose="bootstrap")[0]
    return (uniform.double() * n).long()


def bootstrap_interval(
    values: PerProblem,
    key: int = 0,
    *,
    over: PerProblem | None = None,
    origins: Sequence[int] | None = None,
) -> tuple[float, float]:
    """Computes a percentile bootstrap interval of the mean, or of a ratio of means.

    For paired differences give the differences. Ends are those of `ends`.

    Args:
        values: One number per problem. A single one is its own interval.
        key: Names the random stream of the resampling.
        over: Numbers of the same problems, whose mean divides that of the values; both
            are resampled together.
        origins: What each problem comes from, such as the number of its trajectory:
            whole trajectories are resampled. By default all are independent.

    Returns:
        Lower and upper bound.

    Raises:
        DataError: When a value is not finite, or there is none.
        ShapeError: When there are more or fewer origins than values.
    """
    if not len(values) or not values.isfinite().all():
        raise DataError(
            f"{len(values)} values, {int((~values.isfinite()).sum())} of them not "
            "finite: an interval needs at least one value, and all finite"
        )
    pairs = torch.stack([values, torch.ones_like(values) if over is None else over], 1)
    sums = _summed(pairs.double().cpu(), origins or range(len(values)))
    whole, n = sums.sum(dim=0), len(sums)
    above, below = sums[resamples(n, RESAMPLES, key)].sum(dim=1).unbind(1)
    return ends((whole[0] / whole[1]).item(), above / below, n)


def ends(
    value: float, found: Float[Tensor, " resamples"], n: int
) -> tuple[float, float]:
    """Returns a 95 % interval, by percentiles, or of very few problems by Student's.

    The latter is of logarithms where all is positive, as errors are.

    Args:
        value: The number.
        found: The same of every resample.
        n: Number of independent problems that were resampled.
    """
    if n not in STUDENT:
        low, high = found.quantile(tails(n)).tolist()
        return low, high
    positive = bool((found > 0).all())
    spread = (found.log() if positive else found).std(correction=0).item()
    half = STUDENT[n] * spread * math.sqrt(n / (n - 1))
    if positive:
        return value * math.exp(-half), value * math.exp(half)
    return value - half, value + half


def tails(n: int) -> Float[Tensor, "2"]:
    r"""Returns the percentiles of a bootstrap distribution that make a 95 % interval.

    Resamples of n problems spread by $\sqrt{(n - 1) / n}$ of what they should, and the
    percentiles 2.5 and 97.5 % are those of a normal distribution: of 8 problems with
    log-normal errors, which scatter by 0.6 in the logarithm, such an interval holds the
    mean in 84 % of cases. The percentiles are moved out to where
    Student's distribution has its own.

    Args:
        n: Number of independent problems that are resampled.

    Reference:
        Hesterberg (2015), What teachers should know about the bootstrap,
        doi:10.1080/00031305.2015.1089789, section 5.1; Abramowitz & Stegun 26.7.5.
    """
    normal = NormalDist()
    z, free = normal.inv_cdf((1 + LEVEL) / 2), max(n - 1, 1)
    student = z + (z**3 + z) / (4 * free)
    student += (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    student += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    tail = normal.cdf(-student * math.sqrt(n / free))
    return torch.tensor([tail, 1 - tail], dtype=torch.float64)


def _summed(
    pairs: Float[Tensor, "b 2"], origins: Sequence[int]
) -> Float[Tensor, "o 2"]:
    """Adds up what comes from the same origin."""
    if len(origins) != len(pairs):
        raise ShapeError(
            f"{len(origins)} origins for {len(pairs)} problems: give one for each"
        )
    known, place = torch.tensor(origins).unique(return_inverse=True)
    return pairs.new_zeros(len(known), 2).index_add_(0, place, pairs)
