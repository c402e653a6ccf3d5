r"""States corrected by one step of Newton's method: what the residual means.

A residual says how wrong a state is in units of the equation; a correction says it in
those of the fields. With a cheap inverse P of the linearised operator,

$$u^* = u - P \, r(a, u),$$

and $a^*$ is the input that makes the residual at $u$ vanish, where that is explicit.
For linear equations $u^*$ is the solution for $a$, whatever $u$ is.
"""

from functools import singledispatch

import torch
from torch import Tensor
from torch.nn import functional

from prisma_lib.errors import ConfigError
from prisma_lib.flows import finer
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.pdes.darcy import Darcy
from prisma_lib.posterior import LinearGaussian
from prisma_lib.spectral import resample, solve_dirichlet
from prisma_lib.stencils import laplacian
from prisma_lib.steps import OneStep

RING = (1, 1, 1, 1)


@singledispatch
def corrected(pde: PDE, a: Field, u: Field) -> tuple[Field, Field]:
    """Corrects each field by the other.

    Args:
        pde: The equation, on the grid of the fields.
        a: Input fields, physical units, however noisy.
        u: Solution fields.

    Returns:
        Corrected input and solution; where the equation gives no correction, such as on
        the edge of a domain, they are left as they are.

    Raises:
        ConfigError: When the equation has no correction.
    """
    raise ConfigError(
        f"{pde.name} has no Newton step: choose another residual strategy, such as sra"
    )


@corrected.register
def _linear(pde: LinearGaussian, a: Field, u: Field) -> tuple[Field, Field]:
    # The residual is the operator on u minus a.
    return a + functional.pad(pde.residual(a, u), RING), pde.propagate(a)


@corrected.register
def _darcy(pde: Darcy, a: Field, u: Field) -> tuple[Field, Field]:
    spacing = pde.grid.spacing
    # The operator of the mean permeability, which may be anything in a noisy state.
    scale = a.mean((2, 3), keepdim=True).clamp(pde.low, pde.high)
    step = solve_dirichlet(pde.residual(a, u), spacing) / scale
    curvature = laplacian(u, spacing)
    small = pde.forcing / (2 * pde.high)
    # Where the pressure hardly curves the permeability would be infinite.
    level = pde.forcing / (-curvature).clamp(min=small)
    found = a.clone()
    found[..., 1:-1, 1:-1] = level
    return found, u - functional.pad(step, RING)


@corrected.register
def _flow(pde: OneStep, a: Field, u: Field) -> tuple[Field, Field]:
    r = pde.residual(a, u)
    return a + pde.interval * r[:, :1], u - _damped(pde, r)


def _damped(pde: OneStep, r: Field) -> Tensor:
    """Applies the inverse of 1 / Δt and damping."""
    grid = finer(pde.grid)
    _, damping = pde.dynamics(grid, r.device)
    r_hat = torch.fft.rfft2(resample(r.double(), grid.shape))
    fine = torch.fft.irfft2(r_hat / (1 / pde.interval + damping), s=grid.shape)
    return resample(fine, pde.grid.shape).to(r.dtype)
