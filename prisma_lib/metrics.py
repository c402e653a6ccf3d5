"""How good fields and ensembles of fields are.

Everything is computed in float64 and comes back as one number per problem, so that
means, intervals and paired differences can be taken after. Relative numbers are
fractions, not percent. What judges ensembles is in `ensembles.py`, intervals are in
`intervals.py`; both can be imported from here too.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.ensembles import (
    Fields,
    PerProblem,
    coverage,
    crps,
    spread,
    spread_skill,
)
from prisma_lib.errors import DataError, ShapeError
from prisma_lib.intervals import bootstrap_interval, resamples
from prisma_lib.spectral import radial_spectrum

__all__ = [
    "ResidualMoments",
    "bootstrap_interval",
    "coverage",
    "crps",
    "error_rate",
    "iou",
    "radial_power",
    "relative_l2",
    "resamples",
    "residual_moments",
    "spectrum_error",
    "spread",
    "spread_skill",
]


def relative_l2(prediction: Fields, truth: Fields) -> PerProblem:
    r"""Computes the error relative to the truth.

    $$\|\hat f - f\|_2 / \|f\|_2$$

    There is no small constant in the denominator: where the truth is zero everywhere,
    the result is the absolute error, the root mean square of the prediction.

    Args:
        prediction: Predicted fields.
        truth: True fields.

    Returns:
        Fractions, one per problem.

    Raises:
        ShapeError: When the shapes differ.
    """
    _check_same(prediction, truth)
    error = (prediction.double() - truth.double()).flatten(1)
    size = truth.double().flatten(1).norm(dim=1)
    absolute = error.shape[1] ** 0.5
    return error.norm(dim=1) / torch.where(size > 0, size, absolute)


def error_rate(
    prediction: Fields, truth: Fields, snap: Callable[[Fields], Fields]
) -> PerProblem:
    """Computes the share of points on the wrong level of a piecewise constant field.

    Args:
        prediction: Predicted fields.
        truth: True fields, on the levels.
        snap: Moves values onto the levels, such as `pde.snap`.

    Returns:
        Fractions, one per problem.

    Raises:
        ShapeError: When the shapes differ.
        DataError: When the truth is not on the levels.
    """
    _check_same(prediction, truth)
    levels = snap(truth)
    if not torch.allclose(levels, truth, rtol=1e-5, atol=0):
        raise DataError(
            "the error rate needs a truth on the levels of the input, such as 3 and "
            "12; judge a continuous field by relative_l2"
        )
    # A snapped NaN is a level like any other.
    wrong = (snap(prediction) != levels) | prediction.isnan()
    return wrong.double().flatten(1).mean(dim=1)


def radial_power(field: Fields) -> Float[Tensor, "b c k"]:
    """Averages the power of a field over shells of equal mode number.

    Args:
        field: Fields.

    Returns:
        Mean power per mode of each shell, from shell 0, the squared mean, up to the
        Nyquist mode of the shorter axis.
    """
    n1, n2 = field.shape[-2:]
    # A peak has power 1 in every mode, so that its spectrum counts them.
    peak = torch.zeros(1, 1, n1, n2, dtype=torch.float64, device=field.device)
    peak[..., 0, 0] = n1 * n2
    shells = radial_spectrum(field.double()) / radial_spectrum(peak)
    return shells[..., : min(n1, n2) // 2 + 1]


def spectrum_error(prediction: Fields, truth: Fields) -> PerProblem:
    r"""Computes the relative error of the radially averaged power spectrum.

    $$\|\hat P - P\|_2 / \|P\|_2$$

    over the shells from 1 on: the mean of a field is not structure and would hide it.
    A truth without structure gives the absolute error, as in `relative_l2`.

    Args:
        prediction: Predicted fields.
        truth: True fields.

    Returns:
        Fractions, one per problem.

    Raises:
        ShapeError: When the shapes differ.

    Reference:
        PRISMA, appendix "Spectral Power Analysis".
    """
    _check_same(prediction, truth)
    spectra = (radial_power(f)[:, :, None, 1:] for f in (prediction, truth))
    return relative_l2(*spectra)


class ResidualMoments(NamedTuple):
    """Root mean square, skewness and excess kurtosis, one each per problem."""

    rms: PerProblem
    skewness: PerProblem
    excess_kurtosis: PerProblem


def residual_moments(r: Fields) -> ResidualMoments:
    r"""Computes the size and shape of the distribution of residual values.

    $$\sqrt{\overline{r^2}}, \qquad m_3 / m_2^{3/2}, \qquad m_4 / m_2^2 - 3$$

    with the central moments $m_j$ over the points of a problem; a normal distribution
    has skewness and excess kurtosis 0. A constant residual has no shape: both are 0.

    Args:
        r: Residuals.

    Returns:
        The three numbers per problem.
    """
    values = r.double().flatten(1)
    rms = values.square().mean(dim=1).sqrt()
    centred = values - values.mean(dim=1, keepdim=True)
    sd = centred.square().mean(dim=1, keepdim=True).sqrt()
    # Rounding of the mean leaves a constant field with a spread of about 1e-16.
    shapeless = sd[:, 0] <= 1e-12 * rms
    standard = centred / torch.where(shapeless[:, None], 1.0, sd)
    skewness = standard.pow(3).mean(dim=1)
    kurtosis = standard.pow(4).mean(dim=1) - 3
    return ResidualMoments(
        rms,
        torch.where(shapeless, 0.0, skewness),
        torch.where(shapeless, 0.0, kurtosis),
    )


def iou(
    prediction: Bool[Tensor, "b c x y"], truth: Bool[Tensor, "b c x y"]
) -> PerProblem:
    """Computes intersection over union of two sets of points; 1 if both are empty.

    Args:
        prediction: Points of the predicted set, such as `phi < 0`.
        truth: Points of the true set.

    Returns:
        Fractions, one per problem.

    Raises:
        ShapeError: When the shapes differ.
    """
    _check_same(prediction, truth)
    both = (prediction & truth).flatten(1).sum(dim=1).double()
    either = (prediction | truth).flatten(1).sum(dim=1).double()
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


def _check_same(prediction: Tensor, truth: Tensor) -> None:
    if prediction.shape != truth.shape or not truth.numel():
        raise ShapeError(
            f"prediction has shape {tuple(prediction.shape)}, truth "
            f"{tuple(truth.shape)}: both must be the same (b, c, x, y), not empty"
        )
