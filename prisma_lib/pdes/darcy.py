r"""Steady flow through a porous medium of two materials.

$$-\nabla \cdot (a \nabla u) = 1 \text{ in } (0, 1)^2, \quad u = 0 \text{ on the edge}$$

with the permeability a = 12 where a Gaussian random field is at least 0, else a = 3.
Solver and residual share one compact flux form with face-averaged coefficients.

The public data set of DiffusionPDE is made in another way, `recipe="diffusionpde"`: its
fields live on cell centres, and splines take the permeability to the nodes of the
solver and the pressure back. Permeabilities are drawn alike, as the public ones are.

Good values: u is positive, between 0 and about 0.0165, and the residual of a stored
(float32) pair is rounding, 5e-9 n² of the forcing in root mean square and up to 4e-8 n²
at single points. The public recipe leaves a residual near materials' interfaces and in
the outermost ring of points: less than 1e-4 at half of the points of 128², 0.9 in root
mean square.

Breaks when: the coefficient is not positive, or its contrast exceeds about 1e6. In the
public recipe splines overshoot below zero at some nodes of most fields, and u can then
be negative or too large: `outliers` tells.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn import functional

from prisma_lib import diffusionpde, flux_form
from prisma_lib.devices import spread
from prisma_lib.errors import ConfigError, DataError, NumericsError, unknown_name
from prisma_lib.fields import cosine_field, keyed_normal
from prisma_lib.pdes.base import PDE, Direction, Field, Interior, Kind, Metric
from prisma_lib.stencils import divergence_flux, grow, interior, laplacian

__all__ = ["Darcy"]

RECIPES = ("nodes", "diffusionpde")

# How far -1 / Δu may be from a material, relative to it. Rounding of a float32 pressure
# moves it by up to 4e-8 n², which is below that up to 500 points per axis. The splines
# of the public recipe let it ripple for some cells beside an interface.
_SURE = {"nodes": 0.01, "diffusionpde": 0.2}
# Points solved together: on a CPU a chunk's vectors stay in the cache.
_CHUNK_CPU, _CHUNK_GPU = 2**17, 2**24


class Darcy(PDE):
    """Darcy flow, from the permeability a to the pressure u.

    Args:
        size: Points per axis.
        recipe: "nodes": fields live on nodes, edge included, and solutions zero the
            residual. "diffusionpde": the public recipe, on cell centres.

    Raises:
        ConfigError: When the recipe is unknown or `size` is no whole number.
        ShapeError: When `size` is too small for the stencil.

    Reference:
        Huang et al. (2024), DiffusionPDE, `generate_darcy.m`. arXiv 2406.17763.
    """

    name: ClassVar[str] = "darcy"
    equation: ClassVar[str] = r"\nabla \cdot (a \nabla u) + 1 = 0"
    kind: Kind = "discrete"
    dihedral: ClassVar[bool] = True
    order: ClassVar[float | None] = 2.0
    low: ClassVar[float] = 3.0
    high: ClassVar[float] = 12.0
    forcing: ClassVar[float] = 1.0
    alpha: ClassVar[float] = 2.0
    tau: ClassVar[float] = 3.0
    # A permeability of at least 3 keeps the pressure in [0, 0.0246].
    plausible: ClassVar[tuple[float, float]] = (-1e-4, 0.03)
    variants: ClassVar[tuple[dict[str, float | int | bool | str], ...]] = (
        {"recipe": "diffusionpde"},
    )

    def __init__(self, size: int = 32, recipe: str = "nodes") -> None:
        super().__init__(size)
        if recipe not in RECIPES:
            raise unknown_name("recipe", recipe, RECIPES)
        self.recipe = recipe
        if recipe == "diffusionpde":
            self.grid = replace(self.grid, centred=True)
            self.kind, self.floor = "resampled", diffusionpde.floor(size)

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`."""
        return {"recipe": self.recipe}

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its input distribution, by name."""
        return {
            "recipe": self.recipe,
            "forcing": self.forcing,
            "low": self.low,
            "high": self.high,
            "alpha": self.alpha,
            "tau": self.tau,
        }

    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws two-valued permeabilities; see `PDE.draw`."""
        noise = keyed_normal(key, index, self.grid.shape, purpose="input")
        # Double precision, so that no batch size moves a value across the threshold.
        level = cosine_field(noise.double(), self.alpha, self.tau)
        return torch.where(level >= 0, self.high, self.low).float()[:, None]

    @torch.no_grad()
    def solve(self, a: Field, tolerance: float = 1e-11) -> Field:
        r"""Solves for the pressure by conjugate gradients with a fast Poisson solver.

        Cycles of float32 iterations solve for a correction; the residual is always
        taken in float64, so the result has the accuracy of float64. The contrast of a
        bounds the number of iterations, the grid does not.

        The public recipe solves by a sparse direct method of scipy, on the CPU.

        Args:
            a: Permeabilities at all points, positive.
            tolerance: Wanted $\|r\| / \|f\|$ over inner nodes. Where float64 itself
                rounds more than that (above 512 points per axis), its rounding counts.
                The public recipe always solves to rounding.

        Returns:
            Pressures of the dtype and on the device of `a`; zero at nodes of the edge.

        Raises:
            ShapeError: When `a` is not on this grid or the batch is empty.
            DataError: When a value of `a` is not positive and finite.
            ConfigError: When `tolerance` is not in (0, 1), or the public recipe lacks
                scipy.
            NumericsError: When a sample does not converge or is singular; names it.
        """
        self.check(a)
        _refuse_unphysical(a)
        if not 0 < tolerance < 1:
            raise ConfigError(
                f"tolerance={tolerance}: give a relative residual between 0 and 1, "
                "such as 1e-11"
            )
        if self.recipe == "diffusionpde":
            return self._solve_publicly(a)
        points = _CHUNK_CPU if a.device.type == "cpu" else _CHUNK_GPU
        chunk = max(1, points // self.size**2)
        spacing = self.grid.spacing
        u, starts = torch.zeros_like(a), range(0, len(a), chunk)

        def work(start: int) -> tuple[flux_form.Inner, flux_form.Solved]:
            part = a[start : start + chunk, 0].double()
            return flux_form.solve(part, self.forcing, spacing, tolerance)

        parts = spread(work, starts, a.device)
        for start, (solution, solved) in zip(starts, parts, strict=True):
            if not solved.all():
                worst = start + int(solved.logical_not().nonzero()[0])
                raise NumericsError(
                    f"sample {worst} of {len(a)} did not reach a relative residual of "
                    f"{tolerance:.1e}: its coefficient spans "
                    f"[{a[worst].min():.3g}, {a[worst].max():.3g}]; lower the contrast "
                    "or raise the tolerance"
                )
            interior(u[start : start + chunk, 0]).copy_(solution)
        return u

    def _solve_publicly(self, a: Field) -> Field:
        u = diffusionpde.pressure(a[:, 0].cpu(), self.forcing)[:, None]
        singular = u.isfinite().all(dim=(1, 2, 3)).logical_not()
        if singular.any():
            raise NumericsError(
                f"sample {int(singular.nonzero()[0])} of {len(a)} has no finite "
                "pressure: the spline through its permeability makes the system "
                'singular; use recipe="nodes"'
            )
        return u.to(a)

    def stencil(self, u: Field) -> Field:
        r"""Tells the materials apart by $-1 / \Delta u$; see `PDE.stencil`.

        Where the permeability is locally constant, this is it. Nodes on either side of
        an interface are of no material; they, and the edge, take over what most of the
        nearest sure nodes are. That misjudges 1.6 per cent of the nodes at 32 per axis,
        0.6 at 64, all at interfaces. In the public recipe, whose splines blur them, it
        is 4.3 and 3.0 per cent, and 2.0 at 128.
        """
        self.check(u=u)
        self.check_finite(u)
        return self.materials(u)[0]

    def materials(self, u: Field) -> tuple[Field, Bool[Tensor, "b 1 x y"]]:
        """Tells the materials apart, and where that is beyond doubt; see `stencil`."""
        curvature = laplacian(u.double(), self.grid.spacing)
        level = functional.pad(-self.forcing / curvature, (1, 1, 1, 1))
        a = self.snap(level)
        sure = (level / a - 1).abs() < _SURE[self.recipe]
        return self.snap(grow(a, sure)).to(u.dtype), sure

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the divergence of a ∇u plus the forcing at inner points."""
        self.check(a, u)
        return divergence_flux(a, u, self.grid.spacing) + self.forcing

    def exact(self) -> tuple[Field, Field]:
        """Returns the radial pair a = 1 + r², a u' = -r / 2 about the centre.

        It solves the equation inside; it does not vanish on the edge.
        """
        x, y = self.grid.coordinates(torch.float64)
        a = (1 + (x - 0.5).square() + (y - 0.5).square())[None, None]
        return a, -a.log() / 4

    def outliers(self, a: Field, u: Field) -> Bool[Tensor, " b"]:
        """Marks unphysical pressures: somewhere below -1e-4 or above 0.03."""
        low, high = self.plausible
        return ((u < low) | (u > high)).any(dim=(1, 2, 3))

    def error(self, direction: Direction) -> Metric:
        """Names the share of wrong points for a recovered permeability."""
        return "error_rate" if direction == "inverse" else "relative_l2"

    def snap(self, a: Field) -> Field:
        """Moves a predicted permeability to the nearer of the two materials."""
        middle = (self.low + self.high) / 2
        return torch.where(a >= middle, self.high, self.low).to(a.dtype)


def _refuse_unphysical(a: Field) -> None:
    bad = ~(a.isfinite() & (a > 0))
    if bad.any():
        where = bad.nonzero()[0].tolist()
        raise DataError(
            f"the permeability must be positive and finite; {int(bad.sum())} value(s) "
            f"are not, the first is {a[tuple(where)].item()} at {where} (b, c, x, y); "
            "clamp it to [3, 12]"
        )
