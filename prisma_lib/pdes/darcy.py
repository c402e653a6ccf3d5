r"""Steady flow through a porous medium of two materials.

$$-\nabla \cdot (a \nabla u) = 1 \text{ in } (0, 1)^2, \quad u = 0 \text{ on the edge}$$

with the permeability a = 12 where a Gaussian random field is at least 0, else a = 3.
Solver and residual share one compact flux form with face-averaged coefficients.

Good values: u is positive, between 0 and about 0.0165, and the residual of a stored
(float32) pair is rounding, about 1e-7 n² relative to the forcing.

Breaks when: the coefficient is not positive, or its contrast exceeds about 1e6.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from prisma_lib.errors import ConfigError, DataError, NumericsError
from prisma_lib.fields import cosine_field, keyed_normal
from prisma_lib.pdes.base import PDE, Direction, Field, Interior, Kind, Metric
from prisma_lib.spectral import sine_basis, sine_eigenvalues
from prisma_lib.stencils import divergence_flux, faces, grow, interior, laplacian

__all__ = ["Darcy"]

Inner = Float[Tensor, "b m1 m2"]
Solved = Bool[Tensor, " b"]

# How far -1 / Δu may be from a material, relative to it. Rounding of a float32 pressure
# moves it by up to 4e-8 n², which is below that up to 500 points per axis.
_SURE = 0.01
# Points solved together: on a CPU a chunk's vectors stay in the cache.
_CHUNK_CPU, _CHUNK_GPU = 2**17, 2**24
# A cycle is this many float32 iterations, which gain three to five digits for a
# contrast of 4; a cycle that gains less than one digit calls for longer ones.
_CYCLE, _MAX_CYCLES, _POOR_GAIN = 10, 10, 0.1


class Darcy(PDE):
    """Darcy flow, from the permeability a to the pressure u.

    Args:
        size: Points per axis, edge included.

    Reference:
        Huang et al. (2024), DiffusionPDE, `generate_darcy.m`. arXiv 2406.17763. Here
        the coefficient is drawn on the nodes, without the spline that the public data
        has in between and that makes it negative at some nodes of most fields.
    """

    name: ClassVar[str] = "darcy"
    equation: ClassVar[str] = r"\nabla \cdot (a \nabla u) + 1 = 0"
    kind: ClassVar[Kind] = "discrete"
    order: ClassVar[float | None] = 2.0
    low: ClassVar[float] = 3.0
    high: ClassVar[float] = 12.0
    forcing: ClassVar[float] = 1.0
    alpha: ClassVar[float] = 2.0
    tau: ClassVar[float] = 3.0

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its input distribution, by name."""
        return {
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

        Args:
            a: Permeabilities at all nodes, positive.
            tolerance: Wanted $\|r\| / \|f\|$ over inner nodes. Where float64 itself
                rounds more than that (above 512 points per axis), its rounding counts.

        Returns:
            Pressures of the dtype and on the device of `a`, zero at the edge.

        Raises:
            ShapeError: When `a` is not on this grid or the batch is empty.
            DataError: When a value of `a` is not positive and finite.
            ConfigError: When `tolerance` is not in (0, 1).
            NumericsError: When a sample does not converge; names it.
        """
        self.check(a)
        _refuse_unphysical(a)
        if not 0 < tolerance < 1:
            raise ConfigError(
                f"tolerance={tolerance}: give a relative residual between 0 and 1, "
                "such as 1e-11"
            )
        points = _CHUNK_CPU if a.device.type == "cpu" else _CHUNK_GPU
        chunk = max(1, points // self.size**2)
        spacing = self.grid.spacing
        u = torch.zeros_like(a)
        for start in range(0, len(a), chunk):
            part = a[start : start + chunk, 0].double()
            solution, solved = _refine(part, self.forcing, spacing, tolerance)
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

    def stencil(self, u: Field) -> Field:
        r"""Tells the materials apart by $-1 / \Delta u$; see `PDE.stencil`.

        Where the permeability is locally constant, this is it. Nodes on either side of
        an interface are of no material; they, and the edge, take over what most of the
        nearest sure nodes are. That misjudges 1.6 per cent of the nodes at 32 per axis,
        0.6 at 64, all at interfaces.
        """
        self.check(u=u)
        self.check_finite(u)
        curvature = laplacian(u.double(), self.grid.spacing)
        level = functional.pad(-self.forcing / curvature, (1, 1, 1, 1))
        a = self.snap(level)
        return self.snap(grow(a, (level / a - 1).abs() < _SURE)).to(u.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the divergence of a ∇u plus the forcing at inner nodes."""
        self.check(a, u)
        return divergence_flux(a, u, self.grid.spacing) + self.forcing

    def exact(self) -> tuple[Field, Field]:
        """Returns the radial pair a = 1 + r², a u' = -r / 2 about the centre.

        It solves the equation inside; it does not vanish on the edge.
        """
        x, y = self.grid.coordinates(torch.float64)
        a = (1 + (x - 0.5).square() + (y - 0.5).square())[None, None]
        return a, -a.log() / 4

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


def _refine(
    a: Float[Tensor, "b x y"],
    forcing: float,
    spacing: tuple[float, float],
    tolerance: float,
) -> tuple[Inner, Solved]:
    """Solves a chunk by iterative refinement.

    Args:
        a: Coefficients, float64.
        forcing: Constant right side.
        spacing: Distance between nodes per axis.
        tolerance: Wanted relative residual.

    Returns:
        Solutions at inner nodes, and whether each is accurate enough.
    """
    # A power of two, so that nothing rounds: single precision cannot overflow then.
    exponent = torch.frexp(a.amax((1, 2), keepdim=True)).exponent
    a = torch.ldexp(a, -exponent)
    operator = _Operator(a, spacing)
    inner, length = _Operator(a.float(), spacing), _CYCLE
    f = torch.full_like(interior(a), forcing)
    u, r, size = torch.zeros_like(f), f, _norm(f)
    wanted, solved = tolerance * size, torch.zeros_like(size, dtype=torch.bool)
    for _ in range(_MAX_CYCLES):
        step = _conjugate_gradients(inner, (r / size).to(inner.dtype), length)
        # Solved samples stay as they are: no sample depends on its neighbours.
        u += torch.where(solved, 0, size) * step
        r = f - operator(u)
        before, size = size, _norm(r)
        rounding = 4 * torch.finfo(u.dtype).eps * _norm(operator.diagonal * u)
        solved = size <= torch.maximum(wanted, rounding)
        if solved.all():
            break
        if (size > _POOR_GAIN * before)[~solved].any():
            inner, length = operator, 2 * length
    return torch.ldexp(u, -exponent), solved.flatten()


class _Operator:
    """The negative flux-form operator on inner nodes, with its preconditioner.

    Fields of the batch are one long vector. A node's neighbours are then at fixed
    distances, and couplings across the edge of a field, which are zero, keep fields
    apart: four contiguous passes instead of strided ones.
    """

    def __init__(self, a: Float[Tensor, "b x y"], spacing: tuple[float, float]) -> None:
        (h1, h2), (m1, m2) = spacing, interior(a).shape[1:]
        across_x, across_y = faces(a)
        across_x, across_y = across_x / h1**2, across_y / h2**2
        self.dtype = a.dtype
        self.diagonal = across_x[:, 1:] + across_x[:, :-1]
        self.diagonal += across_y[..., 1:] + across_y[..., :-1]
        self.along_x = functional.pad(across_x[:, 1:-1], (0, 0, 0, 1)).flatten()[:-m2]
        self.along_y = functional.pad(across_y[..., 1:-1], (0, 1)).flatten()[:-1]
        self.row = m2
        self.sines = tuple(sine_basis(m, a.dtype, a.device) for m in (m1, m2))
        self.inverse = -1 / sine_eigenvalues((m1, m2), spacing, a.dtype, a.device)

    def __call__(self, u: Inner) -> Inner:
        """Applies the operator."""
        flat, row = u.flatten(), self.row
        out = self.diagonal.flatten() * flat
        out[row:].addcmul_(self.along_x, flat[:-row], value=-1)
        out[:-row].addcmul_(self.along_x, flat[row:], value=-1)
        out[1:].addcmul_(self.along_y, flat[:-1], value=-1)
        out[:-1].addcmul_(self.along_y, flat[1:], value=-1)
        return out.view_as(u)

    def precondition(self, r: Inner) -> Inner:
        """Solves with a coefficient of 1 by sine transforms."""
        first, second = self.sines
        return first @ (first @ r @ second).mul_(self.inverse) @ second


def _conjugate_gradients(operator: _Operator, f: Inner, iterations: int) -> Inner:
    """Runs a fixed number of preconditioned conjugate-gradient iterations from zero."""
    tiny = torch.finfo(f.dtype).tiny
    u, p, r = torch.zeros_like(f), torch.zeros_like(f), f.clone()
    before = f.new_full((len(f), 1, 1), torch.inf)
    for _ in range(iterations):
        z = operator.precondition(r)
        energy = _dot(r, z)
        p = z.addcmul_(energy / before, p)
        q = operator(p)
        curvature = _dot(p, q)
        # Zero once a sample is solved to the last bit; a neighbour must not see a NaN.
        step = torch.where(curvature > tiny, energy / curvature, 0)
        u.addcmul_(step, p)
        r.addcmul_(step, q, value=-1)
        before = energy.clamp(min=tiny)
    return u


def _dot(f: Inner, g: Inner) -> Float[Tensor, "b 1 1"]:
    return torch.linalg.vecdot(f.flatten(1), g.flatten(1))[:, None, None]


def _norm(f: Inner) -> Float[Tensor, "b 1 1"]:
    return _dot(f, f).sqrt().clamp(min=torch.finfo(f.dtype).tiny)
