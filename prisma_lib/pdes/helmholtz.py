r"""The Helmholtz equation with a random source.

$$\Delta u + k^2 u = a \text{ in } (0, 1)^2, \qquad u = 0 \text{ on the boundary}$$

The source is the Gaussian field of Poisson's equation with its edge ring set to zero,
as in the public data set of DiffusionPDE, where k = 1. The sine transform solves the
5-point stencil exactly.

Good values: k from 0 to 4; u is smooth, about 0.004 in size at k = 1 and 0.011 at
k = 4.

Breaks when: k² meets an eigenvalue of the discrete Laplacian, the first of which is
near 2 π² = 19.74 (k = 4.44): u is then unbounded, and k² within one per cent is
refused. In float32 the residual of a stored u carries rounding that grows with the
square of the size.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch

from prisma_lib.conditioning import White
from prisma_lib.errors import ConfigError
from prisma_lib.fields import cosine_field, keyed_normal
from prisma_lib.pdes.base import Field, Interior, Kind
from prisma_lib.posterior import LinearGaussian
from prisma_lib.spectral import sine_eigenvalues, solve_dirichlet
from prisma_lib.stencils import interior, laplacian

__all__ = ["Helmholtz"]

_RESONANT = 0.01


class Helmholtz(LinearGaussian):
    """The Helmholtz equation on the unit square with zero edges.

    Args:
        size: Nodes per axis, both ends included.
        k: Wavenumber, from 0 to the largest with four nodes per wave.

    Raises:
        ConfigError: When `size` is not a whole number, or `k` is out of range or within
            one per cent (of k²) of a resonance.
        ShapeError: When `size` is too small for the stencil.
    """

    name: ClassVar[str] = "helmholtz"
    equation: ClassVar[str] = r"\Delta u + k^2 u = a"
    kind: Kind = "discrete"
    dihedral: ClassVar[bool] = True
    order: ClassVar[float | None] = 2.0
    alpha: ClassVar[float] = 2.0
    tau: ClassVar[float] = 3.0

    def __init__(self, size: int = 32, k: float = 1.0) -> None:
        super().__init__(size)
        largest = math.pi / (2 * max(self.grid.spacing))
        number = isinstance(k, int | float) and not isinstance(k, bool)
        if not (number and 0 <= k <= largest):
            raise ConfigError(
                f"k={k!r}: the wavenumber must be a number from 0 to {largest:.4g}, "
                f"where a wave has four nodes of a grid of {size}; the usual one is 1"
            )
        self.k = float(k)
        self._refuse_resonance()

    def _refuse_resonance(self) -> None:
        eigenvalues = -sine_eigenvalues((self.size - 2,) * 2, self.grid.spacing)
        distance = (self.k**2 / eigenvalues - 1).abs()
        if distance.min() <= _RESONANT:
            nearest = eigenvalues.flatten()[distance.argmin()].item()
            raise ConfigError(
                f"k={self.k}: k² = {self.k**2:.4g} is within one per cent of the "
                f"eigenvalue {nearest:.4g} of the Laplacian on {self.size} nodes per "
                f"axis, where u is unbounded; stay away from k = {nearest**0.5:.4g}"
            )

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`."""
        return {"k": self.k}

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """The wavenumber and the constants of the distribution of sources."""
        return {"k": self.k, "alpha": self.alpha, "tau": self.tau}

    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws sources, zero at the edge; see `PDE.draw`."""
        noise = keyed_normal(key, index, self.grid.shape, purpose="input")
        return self.colour(noise.double()).to(torch.float32)

    def colour(self, white: White) -> Field:
        """Maps white noise to Gaussian sources that are zero at the edge."""
        return _ringed(interior(cosine_field(white, self.alpha, self.tau)[:, None]))

    def propagate(self, a: Field) -> Field:
        """Solves the 5-point stencil exactly."""
        return _ringed(solve_dirichlet(interior(a), self.grid.spacing, self.k**2))

    def stencil(self, u: Field) -> Field:
        """Applies the discrete operator, exact everywhere; see `PDE.stencil`."""
        self.check(u=u)
        self.check_finite(u)
        u64 = u.double()
        inner = laplacian(u64, self.grid.spacing) + self.k**2 * interior(u64)
        return _ringed(inner).to(u.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the Laplacian of `u` plus k² `u` minus `a` at inner nodes."""
        self.check(a, u)
        shifted = self.k**2 * interior(u) - interior(a)
        return laplacian(u, self.grid.spacing) + shifted

    def exact(self) -> tuple[Field, Field]:
        r"""Returns $u = \sin(\pi x) \sin(2 \pi y)$ and $a = (k^2 - 5 \pi^2) u$."""
        x, y = self.grid.coordinates(torch.float64)
        u = (torch.sin(torch.pi * x) * torch.sin(2 * torch.pi * y))[None, None]
        return (self.k**2 - 5 * torch.pi**2) * u, u


def _ringed(inner: Interior) -> Field:
    return torch.nn.functional.pad(inner, (1, 1, 1, 1))
