r"""The residuals that guide DiffusionPDE and FunDPS in their public codes.

They are not the equations' own. D is the central difference $(f_{i+1} - f_{i-1}) / 2$
with zeros beyond the grid, without the spacing, and $h = 1 / (n - 1)$.

| equation | DiffusionPDE | FunDPS |
|---|---|---|
| Darcy | $D \cdot (a D u) + 1$ | $D \cdot (a D u) / h^2 + 1$ |
| Poisson | $\Delta_h u - a$ | the same |
| Helmholtz | $\Delta_h u + u - a$ | the same |
| Navier-Stokes | $D_x u + D_y u$ | the same |
| Burgers | $D_t u + u D_x u - 0.01 D_x D_x u$ | the same |

What FunDPS takes from near the edge is cut off: one ring of points for second
differences and Navier-Stokes, two rings otherwise.

Breaks when: it is believed. Without $h$ the residual of Darcy is 1 at the truth and
nearly anywhere else; a sum of first derivatives of a vorticity is no law of physics.

Reference:
    Huang et al. (2024), DiffusionPDE, arXiv 2406.17763. Yao et al. (2025), FunDPS,
    arXiv 2505.17004.
"""

from collections.abc import Callable

from torch.nn import functional as F

from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import PDE, Field, Interior
from prisma_lib.stencils import interior, laplacian

Residual = Callable[[Field, Field], Interior]
NAMES = ("darcy", "poisson", "helmholtz", "navier_stokes", "burgers")

_X, _Y = -2, -1


def published_residual(pde: PDE, *, spaced: bool) -> Residual:
    """Returns the published residual of an equation.

    Args:
        pde: The equation, on any grid.
        spaced: FunDPS's form, which knows the spacing in Darcy and cuts off the edge;
            without it DiffusionPDE's.

    Raises:
        ConfigError: When none was published.
    """
    if pde.name not in NAMES:
        raise ConfigError(
            f"residual='published': there is none for {pde.name}, only for "
            f"{', '.join(NAMES)}; use residual='ours'"
        )
    h = 1 / (pde.size - 1)
    crop = (1 if pde.name == "navier_stokes" else 2) if spaced else 0

    def cropped(r: Interior) -> Interior:
        return r[..., crop : r.shape[-2] - crop, crop : r.shape[-1] - crop]

    if pde.name == "darcy":
        return lambda a, u: cropped(darcy(a, u, h if spaced else 1.0))
    if pde.name == "burgers":
        return lambda a, u: cropped(burgers(u))
    if pde.name == "navier_stokes":
        return lambda a, u: cropped(_central(u, _X) + _central(u, _Y))
    reaction = 1.0 if pde.name == "helmholtz" else 0.0
    return lambda a, u: laplacian(u, (h, h)) + reaction * interior(u) - interior(a)


def darcy(a: Field, u: Field, h: float) -> Field:
    """Evaluates the published residual of Darcy flow.

    Args:
        a: Permeability.
        u: Pressure.
        h: Spacing; 1 leaves it out.
    """
    fluxes = (_central(a * _central(u, axis), axis) for axis in (_X, _Y))
    return sum(fluxes, start=0 * u) / h**2 + 1


def burgers(u: Field) -> Field:
    """Evaluates the published residual of Burgers' equation, of unit spacing."""
    u_x = _central(u, _Y)
    return _central(u, _X) + u * u_x - 0.01 * _central(u_x, _Y)


def _central(f: Field, axis: int) -> Field:
    """Takes half the difference of both neighbours, zero beyond the grid."""
    padded = F.pad(f, (1, 1) if axis == _Y else (0, 0, 1, 1))
    n = f.shape[axis]
    return (padded.narrow(axis, 2, n) - padded.narrow(axis, 0, n)) / 2
