"""Where the points of a field are.

A bounded axis has nodes `i L / (n - 1)`, both ends included; a periodic axis has nodes
`i L / n`, without the right end. The first tensor axis is the first name in `axes`.
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

    Raises:
        ShapeError: When an axis has fewer than 4 points.
    """

    shape: tuple[int, int]
    lengths: tuple[float, float] = (1.0, 1.0)
    axes: tuple[str, str] = ("x", "y")
    periodic: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        if min(self.shape) < 4:
            raise ShapeError(
                f"a grid of {self.shape[0]} x {self.shape[1]} points is too small: "
                "each axis needs at least 4 points for a second difference; "
                "choose size=16 or larger"
            )

    @property
    def spacing(self) -> tuple[float, float]:
        """Distance between neighbouring points, per axis."""
        first, second = (
            length / (n if wraps else n - 1)
            for n, length, wraps in zip(
                self.shape, self.lengths, self.periodic, strict=True
            )
        )
        return first, second

    def coordinates(
        self,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Float[Tensor, "2 x y"]:
        """Returns the coordinates of all points, one channel per axis."""
        ticks = [
            torch.arange(n, dtype=dtype, device=device) * h
            for n, h in zip(self.shape, self.spacing, strict=True)
        ]
        return torch.stack(torch.meshgrid(*ticks, indexing="ij"))
