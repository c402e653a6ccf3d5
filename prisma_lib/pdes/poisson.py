r"""Poisson's equation with a random source.

$$\Delta u = a \text{ in } (0, 1)^2, \qquad u = 0 \text{ on the boundary}$$

The source is a Gaussian field, as in the public data set of DiffusionPDE. The text of
PRISMA describes its indicator, 1 where the field is positive and 0 elsewhere, which
`binary=True` draws. The sine transform solves
the 5-point stencil exactly.

Good values: any size; u is smooth, about 0.004 in size.

Breaks when: never by itself: the operator is linear and well conditioned. In
float32 the residual of a stored u carries rounding that grows with the square of the
size.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.conditioning import White
from prisma_lib.errors import ConfigError
from prisma_lib.fields import cosine_field, keyed_normal
from prisma_lib.pdes.base import Direction, Field, Interior, Kind, Metric
from prisma_lib.posterior import LinearGaussian
from prisma_lib.spectral import solve_dirichlet
from prisma_lib.stencils import interior, laplacian

__all__ = ["Poisson"]


class Poisson(LinearGaussian):
    """Poisson's equation on the unit square with zero edges.

    Args:
        size: Nodes per axis, both ends included.
        binary: Draw sources that are 1 where the Gaussian field is positive, else 0.

    Raises:
        ConfigError: When `size` or `binary` has the wrong type.
        ShapeError: When `size` is too small for the stencil.
    """

    name: ClassVar[str] = "poisson"
    equation: ClassVar[str] = r"\Delta u = a"
    kind: Kind = "discrete"
    dihedral: ClassVar[bool] = True
    order: ClassVar[float | None] = 2.0
    alpha: ClassVar[float] = 2.0
    tau: ClassVar[float] = 3.0

    def __init__(self, size: int = 32, binary: bool = False) -> None:
        super().__init__(size)
        if not isinstance(binary, bool):
            raise ConfigError(f"binary={binary!r}: give True or False")
        self.binary = binary

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`."""
        return {"binary": self.binary}

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """The constants of the distribution of sources."""
        return {"binary": self.binary, "alpha": self.alpha, "tau": self.tau}

    @property
    def gaussian(self) -> bool:
        """Whether the inputs are Gaussian, so that posteriors are known."""
        return not self.binary

    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws sources; see `PDE.draw`."""
        noise = keyed_normal(key, index, self.grid.shape, purpose="input")
        a = self.colour(noise.double())
        return (a > 0 if self.binary else a).to(torch.float32)

    def colour(self, white: White) -> Field:
        """Maps white noise to Gaussian sources."""
        return cosine_field(white, self.alpha, self.tau)[:, None]

    def propagate(self, a: Field) -> Field:
        """Solves the 5-point stencil exactly."""
        u = solve_dirichlet(interior(a), self.grid.spacing)
        return torch.nn.functional.pad(u, (1, 1, 1, 1))

    def stencil(self, u: Field) -> Field:
        """Takes the Laplacian, exact inside; see `PDE.stencil`.

        The solution does not see the edge of its source. It is filled in along the
        normal, halfway between the nearest value and a straight line, which serves
        this rough field better than either: 4 per cent off over all nodes at 32 per
        axis, 1.5 at 64.
        """
        self.check(u=u)
        self.check_finite(u)
        inner = laplacian(u.double(), self.grid.spacing)
        fill = _filled(self.size)
        return self.snap(fill.to(inner) @ inner @ fill.T.to(inner)).to(u.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the Laplacian of `u` minus `a` at inner nodes."""
        self.check(a, u)
        return laplacian(u, self.grid.spacing) - interior(a)

    def exact(self) -> tuple[Field, Field]:
        r"""Returns $u = \sin(\pi x) \sin(2 \pi y)$ and its Laplacian."""
        x, y = self.grid.coordinates(torch.float64)
        u = torch.sin(torch.pi * x) * torch.sin(2 * torch.pi * y)
        return (-5 * torch.pi**2 * u)[None, None], u[None, None]

    def error(self, direction: Direction) -> Metric:
        """Judges binary sources by their share of wrong values."""
        wrong = self.binary and direction == "inverse"
        return "error_rate" if wrong else "relative_l2"

    def snap(self, a: Field) -> Field:
        """Moves binary sources onto their two values; leaves others as they are."""
        if not self.binary:
            return a
        return (a >= 0.5).to(a.dtype)


def _filled(size: int) -> Float[Tensor, "n inner"]:
    """Returns the matrix that adds a value at either end of a line of inner nodes."""
    ends = torch.zeros(2, size - 2, dtype=torch.float64)
    ends[0, :2] = torch.tensor([1.5, -0.5])
    ends[1] = ends[0].flip(0)
    inner = torch.eye(size - 2, dtype=torch.float64)
    return torch.cat([ends[:1], inner, ends[1:]])
