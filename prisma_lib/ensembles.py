"""How well an ensemble of draws says what is known and what is not.

Draws are on the first axis. Everything is computed in float64. A calibrated ensemble is
one from which the truth could have been drawn: it spreads as far as its mean errs, and
its intervals hold the truth as often as they say.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.fields import keyed_uniform

Fields = Float[Tensor, "b c x y"]
Draws = Float[Tensor, "m b c x y"]
PerProblem = Float[Tensor, " b"]


def spread(draws: Draws) -> PerProblem:
    r"""Computes the standard deviation of an ensemble, pooled over points.

    $$\sqrt{\overline{s^2}}, \qquad s^2 = \frac{1}{m - 1} \sum_i (x_i - \bar x)^2$$

    Args:
        draws: At least two draws.

    Returns:
        Standard deviations, in the unit of the field.

    Raises:
        ConfigError: When there is a single draw.
    """
    _check_draws(draws)
    return draws.double().var(dim=0).flatten(1).mean(dim=1).sqrt()


def coverage(
    draws: Draws,
    truth: Fields,
    level: float = 0.9,
    judged: Bool[Tensor, "b c x y"] | None = None,
) -> PerProblem:
    r"""Computes the share of points whose truth lies in the ensemble's interval.

    The interval $[x_{(j)}, x_{(m + 1 - j)}]$ of ordered draws holds the truth of a
    calibrated ensemble with probability $(m + 1 - 2j) / (m + 1)$ exactly; quantiles of
    few draws do not. Bounds belong to the interval, so points that no draw can miss
    (observed ones, edges of known value) count as covered unless they are left out.

    Args:
        draws: Draws; 19 or 99 of them fit the usual levels.
        truth: True fields.
        level: Nominal coverage, one of $(m + 1 - 2j) / (m + 1)$.
        judged: Points that count; all unless given.

    Returns:
        Fractions, one per problem.

    Raises:
        ConfigError: When no interval of so many draws has this level.
        ShapeError: When draws and truth do not fit.
        DataError: When no point of a problem is judged.
    """
    _check_draws(draws, truth)
    low, high = interval(draws, level)
    inside = (low <= truth) & (truth <= high)
    all_points = torch.ones_like(inside)
    return share(inside.double(), all_points if judged is None else judged)


def interval(draws: Draws, level: float = 0.9) -> tuple[Fields, Fields]:
    r"""Finds $[x_{(j)}, x_{(m + 1 - j)}]$ of ordered draws at every point.

    Args:
        draws: Draws; 19 or 99 of them fit the usual levels.
        level: Nominal coverage, one of $(m + 1 - 2j) / (m + 1)$.

    Returns:
        Lower and upper ends, in the unit of the field.

    Raises:
        ConfigError: When no interval of so many draws has this level.
    """
    m = len(draws)
    j = round((m + 1) * (1 - level) / 2)
    exact = (m + 1 - 2 * j) / (m + 1)
    if j < 1 or exact <= 0 or not math.isclose(exact, level, abs_tol=1e-6):
        raise ConfigError(
            f"level={level}: {m} draws have intervals of (m + 1 - 2j) / (m + 1), such "
            f"as {(m - 1) / (m + 1):.4g}; use one of these, or 19 or 99 draws"
        )
    ordered = draws.sort(dim=0).values
    return ordered[j - 1], ordered[m - j]


def share(values: Fields, judged: Bool[Tensor, "b c x y"]) -> PerProblem:
    """Averages over the points that are judged.

    Args:
        values: A number of every point.
        judged: Points that count.

    Returns:
        Means, one per problem.

    Raises:
        DataError: When no point of a problem is judged.
    """
    points = judged.flatten(1).sum(dim=1)
    if not points.all():
        raise DataError(
            f"no point of problem {int(points.argmin())} is judged: leave the problem "
            "out, or judge at least one of its points"
        )
    return torch.where(judged, values, 0.0).flatten(1).sum(dim=1) / points


def crps(draws: Draws, truth: Fields) -> PerProblem:
    r"""Computes the fair continuous ranked probability score, averaged over points.

    $$\frac 1 m \sum_i |x_i - y| - \frac{1}{2 m (m - 1)} \sum_{i, j} |x_i - x_j|$$

    Its expectation does not depend on the number of draws m, and is smallest for draws
    from the true distribution. It can be slightly negative.

    Args:
        draws: At least two draws.
        truth: True fields.

    Returns:
        Scores, in the unit of the field.

    Raises:
        ConfigError: When there is a single draw.
        ShapeError: When draws and truth do not fit.

    Reference:
        Ferro (2014), Fair scores for ensemble forecasts. doi:10.1002/qj.2270.
    """
    _check_draws(draws, truth)
    m = len(draws)
    ordered = draws.double().sort(dim=0).values
    distance = (ordered - truth.double()).abs().mean(dim=0)
    # The sum over pairs of sorted draws: x_(k) counts k - 1 times up, m - k times down.
    rank = torch.arange(1 - m, m, 2, dtype=torch.float64, device=draws.device)
    pairs = torch.einsum("m,mbcxy->bcxy", rank, ordered) / (m * (m - 1))
    return (distance - pairs).flatten(1).mean(dim=1)


def spread_skill(draws: Draws, truth: Fields) -> Float[Tensor, ""]:
    r"""Computes the ratio of an ensemble's spread to the error of its mean.

    $$\sqrt{\frac{m + 1}{m}} \;
    \sqrt{\overline{s^2}} \Big/ \sqrt{\overline{(\bar x - y)^2}}$$

    with $s^2$ as in `spread` and both means over points and problems. A calibrated
    ensemble has 1, an overconfident one less.

    Args:
        draws: At least two draws.
        truth: True fields.

    Returns:
        The ratio over all problems together.

    Raises:
        ConfigError: When there is a single draw.
        ShapeError: When draws and truth do not fit.
        DataError: When the mean of the draws has no error at all.

    Reference:
        Fortin et al. (2014), Why should ensemble spread match the RMSE of the ensemble
        mean? doi:10.1175/JHM-D-14-0008.1.
    """
    _check_draws(draws, truth)
    m = len(draws)
    variance = draws.double().var(dim=0).mean()
    error = (draws.double().mean(dim=0) - truth.double()).square().mean()
    if error == 0:
        raise DataError(
            "the mean of the draws equals the truth everywhere, so spread over error "
            "has no value: judge a field that was not fully observed"
        )
    return ((m + 1) / m * variance / error).sqrt()


def rank_counts(
    draws: Draws,
    truth: Fields,
    judged: Bool[Tensor, "b c x y"] | None = None,
    key: int = 0,
) -> Float[Tensor, "b ranks"]:
    r"""Counts at how many points the truth takes each place among the draws.

    Of m draws there are m + 1 places, and the truth of a calibrated ensemble takes all
    of them equally often. Too narrow an ensemble fills the outer places, too wide a one
    the inner ones. Where the truth equals some draws, as in a field of few levels, one
    of their places is drawn for it.

    Args:
        draws: At least two draws.
        truth: True fields.
        judged: Points that count; all unless given.
        key: Names the random stream of the ties.

    Returns:
        Numbers of points, per problem, from the lowest place to the highest.

    Raises:
        ConfigError: When there is a single draw.
        ShapeError: When draws and truth do not fit.

    Reference:
        Hamill (2001), Interpretation of rank histograms.
        doi:10.1175/1520-0493(2001)129<0550:IORHFV>2.0.CO;2.
    """
    _check_draws(draws, truth)
    below, ties = (draws < truth).sum(dim=0), (draws == truth).sum(dim=0)
    shape = tuple(truth.shape[1:])
    uniform = keyed_uniform(key, range(len(truth)), shape, purpose="ties")
    rank = below + (uniform.double().to(truth.device) * (ties + 1)).long()
    weight = torch.ones_like(rank) if judged is None else judged.long()
    counts = weight.new_zeros(len(truth), len(draws) + 1)
    counts.scatter_add_(1, rank.flatten(1), weight.flatten(1))
    return counts.double()


def _check_draws(draws: Tensor, truth: Tensor | None = None) -> None:
    if len(draws) < 2:
        raise ConfigError(
            f"{len(draws)} draw(s): an ensemble needs at least 2; ask for samples=19"
        )
    if truth is not None and draws.shape[1:] != truth.shape:
        raise ShapeError(
            f"draws have shape {tuple(draws.shape)}, truth {tuple(truth.shape)}: the "
            "draws need one more axis in front, (m, b, c, x, y)"
        )
