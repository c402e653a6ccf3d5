r"""Conjugate gradients for $-\nabla \cdot (a \nabla u) = f$ with zero edges.

The preconditioner is a fast Poisson solver: the contrast of the coefficient bounds the
number of iterations, the grid does not.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from prisma_lib.spectral import sine_basis, sine_eigenvalues
from prisma_lib.stencils import faces, interior

Inner = Float[Tensor, "b m1 m2"]
Solved = Bool[Tensor, " b"]

# A cycle is this many float32 iterations, which gain three to five digits for a
# contrast of 4; a cycle that gains less than one digit calls for longer ones.
_CYCLE, _MAX_CYCLES, _POOR_GAIN = 10, 10, 0.1


def solve(
    a: Float[Tensor, "b x y"],
    forcing: float,
    spacing: tuple[float, float],
    tolerance: float,
) -> tuple[Inner, Solved]:
    """Solves the flux form with zero edges by iterative refinement.

    Args:
        a: Coefficients at all nodes, positive, float64.
        forcing: Constant right side.
        spacing: Distance between nodes per axis.
        tolerance: Wanted relative residual.

    Returns:
        Solutions at inner nodes, and whether each is accurate enough.

    Reference:
        Concus and Golub (1973), Use of fast direct methods for the efficient numerical
        solution of nonseparable elliptic equations.
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


def approximate(
    a: Float[Tensor, "b x y"],
    forcing: float,
    spacing: tuple[float, float],
    iterations: int,
) -> Inner:
    """Approaches the solution by a few conjugate-gradient iterations.

    They start from the solution for a constant coefficient, the best there is.

    Args:
        a: Coefficients at all nodes, positive.
        forcing: Constant right side.
        spacing: Distance between nodes per axis.
        iterations: How many.

    Returns:
        Values at inner nodes, of the dtype of `a`.
    """
    f = torch.full_like(interior(a), forcing)
    return _conjugate_gradients(_Operator(a, spacing), f, 1 + iterations)


def matrix(a: Float[Tensor, "x y"], spacing: tuple[float, float]) -> Any:
    """Assembles the flux form on inner nodes, row by row, for a direct solver.

    Args:
        a: Coefficients at all nodes, of any sign, float64, on the CPU.
        spacing: Distance between nodes per axis.

    Returns:
        The negative operator as a scipy sparse array by columns; scipy is needed.
    """
    from scipy.sparse import diags_array

    across_x, across_y = (f / h**2 for f, h in zip(faces(a), spacing, strict=True))
    diagonal = across_x[1:] + across_x[:-1] + across_y[:, 1:] + across_y[:, :-1]
    along_x = -across_x[1:-1].flatten()
    # The last node of a row and the first of the next are no neighbours.
    along_y = -functional.pad(across_y[:, 1:-1], (0, 1)).flatten()[:-1]
    x, y, here = (band.numpy() for band in (along_x, along_y, diagonal.flatten()))
    row = diagonal.shape[1]
    sparse = diags_array(
        [x, y, here, y, x], offsets=[-row, -1, 0, 1, row], format="csc"
    )
    sparse.eliminate_zeros()
    return sparse


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
