"""Moves a field onto a finer or coarser grid of the same domain.

A periodic axis is resampled band-limited, a bounded one by a cubic spline: both meet
the values at points that the grids share.
"""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import ShapeError
from prisma_lib.grids import Grid
from prisma_lib.spectral import resample
from prisma_lib.splines import not_a_knot


def refine(
    field: Float[Tensor, "*b x y"], grid: Grid, shape: tuple[int, int]
) -> Float[Tensor, "*b _ _"]:
    """Interpolates a field on another number of points.

    Args:
        field: Values on `grid`.
        grid: Where they are.
        shape: Points per axis of the wanted grid, which is of the same kind.

    Returns:
        Values on the wanted grid, of the dtype of the field.

    Raises:
        ShapeError: When the field is not on the grid.
    """
    if tuple(field.shape[-2:]) != grid.shape:
        raise ShapeError(
            f"a field of {field.shape[-2]} x {field.shape[-1]} points is not on a grid "
            f"of {grid.shape[0]} x {grid.shape[1]}: give the grid that it is on"
        )
    first = _last_axis(field.transpose(-1, -2).double(), grid, shape, 0)
    both = _last_axis(first.transpose(-1, -2), grid, shape, 1)
    return both.to(field.dtype)


def _last_axis(
    field: Float[Tensor, "*b n"], grid: Grid, shape: tuple[int, int], axis: int
) -> Float[Tensor, "*b m"]:
    if grid.periodic[axis]:
        return resample(field, (field.shape[-2], shape[axis]))
    other = replace(grid, shape=shape)
    given, wanted = (g.ticks(axis, field.dtype, field.device) for g in (grid, other))
    return field @ not_a_knot(given, wanted).T
