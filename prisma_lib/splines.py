r"""Cubic spline interpolation as a matrix, so that a batch is one product.

The spline is not-a-knot: its third derivative is continuous at the second and at the
last but one point, so that the first two pieces are one cubic, and the last two.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import DataError, ShapeError


def not_a_knot(
    points: Float[Tensor, " n"], targets: Float[Tensor, " m"]
) -> Float[Tensor, "m n"]:
    """Returns the matrix that interpolates values at points to targets.

    Targets beyond the first or last point are extrapolated by the cubic next to them.

    Args:
        points: Where values are given, increasing, at least 4.
        targets: Where they are wanted, in the unit of `points`.

    Returns:
        The matrix, float64, on the device of `points`. Its rows sum to 1.

    Raises:
        ShapeError: When there are fewer than 4 points.
        DataError: When the points do not increase.

    Reference:
        de Boor (1978), A Practical Guide to Splines, chapter IV.
    """
    if len(points) < 4:
        raise ShapeError(
            f"a not-a-knot spline through {len(points)} points: it needs at least 4"
        )
    x, t = points.double().contiguous(), targets.double().contiguous()
    h = x.diff()
    if not (h > 0).all():
        raise DataError(
            f"points {points.tolist()[:4]}... of a spline must increase: sort them and "
            "leave out double ones"
        )
    values = torch.eye(len(x), dtype=x.dtype, device=x.device)
    curvature = _curvature(h)
    piece = (torch.searchsorted(x, t) - 1).clamp(0, len(h) - 1)
    step = h[piece]
    left, right = (x[piece + 1] - t) / step, (t - x[piece]) / step
    bend_left, bend_right = (step.square() / 6 * (w**3 - w) for w in (left, right))
    return (
        left[:, None] * values[piece]
        + right[:, None] * values[piece + 1]
        + bend_left[:, None] * curvature[piece]
        + bend_right[:, None] * curvature[piece + 1]
    )


def _curvature(h: Float[Tensor, " pieces"]) -> Float[Tensor, "pieces+1 pieces+1"]:
    """Returns the matrix from values at points to second derivatives of the spline."""
    n = len(h) + 1
    system, slopes = h.new_zeros(n, n), h.new_zeros(n, n)
    inner = torch.arange(1, n - 1, device=h.device)
    # The slope is continuous at inner points.
    system[inner, inner - 1] = h[:-1] / 6
    system[inner, inner] = (h[:-1] + h[1:]) / 3
    system[inner, inner + 1] = h[1:] / 6
    slopes[inner, inner - 1] = 1 / h[:-1]
    slopes[inner, inner] = -1 / h[:-1] - 1 / h[1:]
    slopes[inner, inner + 1] = 1 / h[1:]
    # So is the third derivative next to the ends.
    for row, first in ((0, 0), (n - 1, n - 3)):
        before, after = h[first], h[first + 1]
        system[row, first : first + 3] = torch.stack([after, -before - after, before])
    return torch.linalg.solve(system, slopes)
