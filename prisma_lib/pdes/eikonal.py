r"""Distance to the boundary of a shape.

$$|\nabla u| = 1, \qquad u = 0 \text{ on the boundary of the shape}$$

The input is the indicator of an irregular shape in the unit square, 1 inside and 0
outside: a Fourier curve, a gear, a polygon, or the union of two. The solution is the
signed distance to its boundary, negative inside. The equation does not say which shape
it is about: the residual does not depend on `a`.

Data come from `pair`, which knows the polygon: its distances are exact. `solve` knows
only the indicator at the nodes; it returns the distance to the boundary that marching
squares draws between them, which errs by a fraction of the spacing (by 3 % of u at 32
nodes per axis), and by more behind a tip that the nodes miss. It is what any solver can
do with `a` alone, and a baseline of its own.

The gradient is taken by central differences. Its null space holds whatever repeats
every second node along x, y or both, a checkerboard among them: those are not seen.

Good values: u between about -0.3 and 1, with slopes of 1. The residual is of order h²
where u is smooth, but of order 1 where u has a kink: on the medial axis, and along
lines outside from corners that point inwards. Kinks cover a share h of the square, so
that the residual of exact pairs, the floor, falls like the root of h.

Breaks when: a shape is thinner than the spacing, so that the nodes miss it.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.errors import DataError
from prisma_lib.fields import keyed_uniform
from prisma_lib.pdes.base import PDE, Direction, Field, Interior, Kind, Metric
from prisma_lib.shapes import (
    contour,
    distance,
    fill,
    packed,
    random_rings,
    sides,
    union,
)
from prisma_lib.stencils import gradient

__all__ = ["Eikonal"]

Pair = tuple[Float[Tensor, "b p 2"], Float[Tensor, "b p 2"], Bool[Tensor, " b"]]


class Eikonal(PDE):
    """The eikonal equation, from the indicator of a shape to its signed distance.

    Args:
        size: Nodes per axis, both ends included.

    Raises:
        ConfigError: When `size` is not a whole number.
        ShapeError: When `size` is too small for the stencil.
    """

    name: ClassVar[str] = "eikonal"
    equation: ClassVar[str] = r"|\nabla u| = 1"
    kind: Kind = "geometric"
    dihedral: ClassVar[bool] = True
    order: ClassVar[float | None] = None
    vertices: ClassVar[int] = 128
    smallest: ClassVar[float] = 0.2
    largest: ClassVar[float] = 0.35
    margin: ClassVar[float] = 0.05
    united: ClassVar[float] = 0.25

    def __init__(self, size: int = 32) -> None:
        super().__init__(size)
        # Measured on 512 pairs; right to 2 per cent from 8 to 128 nodes.
        h = self.grid.spacing[0]
        self.floor = 0.485 * math.sqrt(h) + 0.33 * h

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """The constants of the distribution of shapes."""
        return {
            "vertices": self.vertices,
            "smallest": self.smallest,
            "largest": self.largest,
            "margin": self.margin,
            "united": self.united,
        }

    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws indicators of shapes; see `PDE.draw`."""
        return self._indicator(self._shapes(key, index))

    def pair(
        self,
        key: int,
        index: Sequence[int],
        device: torch.device | str | None = None,
    ) -> tuple[Field, Field]:
        """Draws shapes with the exact distance to their polygons; see `PDE.pair`."""
        first, second, united = self._shapes(key, index)
        a = self._indicator((first, second, united)).to(device)
        u = torch.empty_like(a)
        for chosen in (~united, united):
            if chosen.any():
                both = first[chosen], second[chosen]
                boundary = union(*both) if united[chosen].any() else sides(both[0])
                u[chosen] = self._signed(boundary.to(device), a[chosen] > 0).float()
        return a, u

    @torch.no_grad()
    def solve(self, a: Field) -> Field:
        """Returns the distance to the boundary that the nodes tell.

        Args:
            a: Indicator of a shape; the boundary is where it passes 0.5, linear between
                nodes.

        Returns:
            Signed distances of the dtype of `a`, negative inside.

        Raises:
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value is not finite, or a field has no boundary.
        """
        self.check(a)
        self.check_finite(a)
        level = a[:, 0].double() - 0.5
        segments, kept = contour(level, *self._ticks(a.device))
        bare = ~kept.any(1)
        if bare.any():
            raise DataError(
                f"sample {int(bare.nonzero()[0])} of {len(a)} has no boundary: its "
                "input must pass 0.5 somewhere; give 1 inside a shape and 0 outside"
            )
        return self._signed(packed(segments, kept), level[:, None] >= 0).to(a.dtype)

    def stencil(self, u: Field) -> Field:
        """Tells the inside by its sign; see `PDE.stencil`."""
        self.check(u=u)
        self.check_finite(u)
        return (u < 0).to(u.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the length of the gradient minus 1 at inner nodes."""
        self.check(a, u)
        slopes = torch.stack(gradient(u, self.grid.spacing))
        # This norm has the gradient 0 where it is 0; a root of squares has none.
        return torch.linalg.vector_norm(slopes, dim=0) - 1

    def exact(self) -> tuple[Field, Field]:
        """Returns a disc whose centre, its medial axis, lies outside the square."""
        x, y = self.grid.coordinates(torch.float64)
        u = torch.hypot(x + 0.3, y + 0.2)[None, None] - 0.9
        return (u < 0).double(), u

    def error(self, direction: Direction) -> Metric:
        """Names the share of wrong points for a recovered shape."""
        return "error_rate" if direction == "inverse" else "relative_l2"

    def snap(self, a: Field) -> Field:
        """Moves a predicted indicator onto its two values."""
        return (a >= 0.5).to(a.dtype)

    def _shapes(self, key: int, index: Sequence[int]) -> Pair:
        """Draws two polygons a sample, and whether their union is the shape."""
        united = keyed_uniform(key, index, (1,), "united")[:, 0] < self.united
        radii = self.smallest, self.largest
        first, second = (
            random_rings(key, index, self.vertices, radii, self.margin, purpose)
            for purpose in ("first shape", "second shape")
        )
        return first, second, united

    def _indicator(self, shapes: Pair) -> Field:
        first, second, united = shapes
        x, y = self._ticks()
        a = fill(x, y, first) | (fill(x, y, second) & united[:, None, None])
        return a[:, None].float()

    def _signed(self, boundary: Tensor, within: Bool[Tensor, "b 1 x y"]) -> Field:
        u = distance(*self._ticks(boundary.device), boundary)[:, None]
        return torch.where(within, -u, u)

    def _ticks(
        self, device: torch.device | str | None = None
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        x, y = self.grid.coordinates(torch.float64, device)
        return x[:, 0], y[0]
