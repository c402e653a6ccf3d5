"""Where the points of a field are.

A bounded axis has nodes `i L / (n - 1)`, both ends included, or cell centres
`(i + 1/2) L / n`, none of them on the edge; a periodic axis has nodes `i L / n`,
without the right end. The first tensor axis is the first name in `axes`.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import ShapeError


@dataclass(frozen=True)
class Grid:
    """A rectangular grid of two axes.

    Args:
        shape: Number of points per axis, at least 4 each.
        lengths: Length of the domain per axis, in the PDE's unit of length (or time).
        axes: Name of each axis.
        periodic: Whether each axis is periodic.
        centred: Whether the points of bounded axes are cell centres, not nodes.

    Raises:
        ShapeError: When an axis has fewer than 4 points.
    """

    shape: tuple[int, int]
    lengths: tuple[float, float] = (1.0, 1.0)
    axes: tuple[str, str] = ("x", "y")
    periodic: tuple[bool, bool] = (False, False)
    centred: bool = False

    def __post_init__(self) -> None:
        if min(self.shape) < 4:
            raise ShapeError(
                f"a grid of {self.shape[0]} x {self.shape[1]} points is too small: "
                "each axis needs at least 4 points for a second difference; "
                "choose size=16 or larger"
            )

    @property
    def cells(self) -> tuple[int, int]:
        """Number of spacings that make up the length, per axis."""
        first, second = (
            n if wraps or self.centred else n - 1
            for n, wraps in zip(self.shape, self.periodic, strict=True)
        )
        return first, second

    @property
    def spacing(self) -> tuple[float, float]:
        """Distance between neighbouring points, per axis."""
        (first, second), (n1, n2) = self.lengths, self.cells
        return first / n1, second / n2

    @property
    def offset(self) -> tuple[float, float]:
        """Place of the first point in units of the spacing, per axis."""
        start = 0.5 if self.centred else 0.0
        first, second = (0.0 if wraps else start for wraps in self.periodic)
        return first, second

    def ticks(
        self,
        axis: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, " n"]:
        """Returns the coordinates of the points along one axis."""
        numbers = torch.arange(self.shape[axis], dtype=dtype, device=device)
        return (numbers + self.offset[axis]) * self.spacing[axis]

    def coordinates(
        self,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "2 x y"]:
        """Returns the coordinates of all points, one channel per axis."""
        ticks = [self.ticks(axis, dtype, device) for axis in (0, 1)]
        return torch.stack(torch.meshgrid(*ticks, indexing="ij"))
