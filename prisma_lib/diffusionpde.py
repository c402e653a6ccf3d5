r"""How DiffusionPDE made its data: pressures in a porous medium, and all scalings.

Fields live on cell centres. The permeability is moved to as many nodes by a not-a-knot
cubic spline, extrapolated to the edge; there the 5-point flux form of
$-\nabla \cdot (a \nabla u) = f$ with zero edges is solved; the pressure is moved back
by a spline. The public code moves the constant forcing too, which leaves it as it is.

The spline overshoots where the permeability jumps: at some nodes of most fields it is
negative. The system is then indefinite, and some pressures are unphysical.

Reference:
    Huang et al. (2024), DiffusionPDE, `generate_darcy.m` and `solve_gwf.m`. arXiv
    2406.17763.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from prisma_lib import flux_form
from prisma_lib.errors import ConfigError
from prisma_lib.grids import Grid
from prisma_lib.splines import not_a_knot

Centred = Float[Tensor, "b n n"]
Nodal = Float[Tensor, "b n n"]
Affine = tuple[float, float]

# Factor and shift, of a and of u, from physical units to those that DiffusionPDE trains
# in: its scripts `generate_*.py` hold the inverse.
SCALING: dict[str, tuple[Affine, Affine]] = {
    "darcy": ((0.2, -1.5), (115, -0.9)),
    "poisson": ((1 / 2.15, 0), (36.5, 0)),
    "helmholtz": ((1 / 2.15, 0), (1 / 0.028, 0)),
    "navier_stokes": ((1 / 1.6, 0), (1 / 1.6, 0)),
    "burgers": ((1 / 1.415, 0), (1 / 1.415, 0)),
}


def pressure(a: Centred, forcing: float) -> Centred:
    """Solves for the pressure.

    Args:
        a: Permeabilities at cell centres of the unit square, on the CPU.
        forcing: Constant right side.

    Returns:
        Pressures at cell centres, float64; NaN for a sample whose system is singular.

    Raises:
        ConfigError: When scipy is not installed.
    """
    there, back = splines(a.shape[-1])
    return back @ nodal_pressure(there @ a.double() @ there.T, forcing) @ back.T


def splines(n: int) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]:
    """Returns the matrices that move one axis to the nodes, and back from them.

    Args:
        n: Cell centres per axis, and nodes.
    """
    centres, nodes = _axis(n, centred=True), _axis(n, centred=False)
    return not_a_knot(centres, nodes), not_a_knot(nodes, centres)


def floor(n: int) -> float:
    """Returns the root mean square of the residual that pressures leave.

    It is evaluated at cell centres, not at the nodes of the solver. The outermost ring
    leaves a part that hardly depends on the grid. At interfaces of the permeability the
    residual grows with n, on a share 1 / n of the points. Fitted to 4000 fields of 16²
    points to 40 of 256², outliers left out; it holds within 9 per cent.

    Args:
        n: Cell centres per axis.
    """
    return math.sqrt(0.42 + 0.0038 * n)


def _axis(n: int, centred: bool) -> Float[Tensor, " n"]:
    return Grid((n, n), centred=centred).ticks(0, torch.float64)


def nodal_pressure(a: Nodal, forcing: float) -> Nodal:
    """Solves the flux form on the nodes by a sparse direct method, sample by sample.

    Args:
        a: Permeabilities at the nodes of the unit square, of any sign, float64.
        forcing: Constant right side.

    Returns:
        Pressures at the nodes, zero on the edge; NaN for a sample whose system is
        singular.

    Raises:
        ConfigError: When scipy is not installed.
    """
    m = a.shape[-1] - 2
    solutions = np.stack([_direct(field, forcing) for field in a])
    inner = torch.from_numpy(solutions).view(len(a), m, m)
    return functional.pad(inner, (1, 1, 1, 1))


def _direct(a: Float[Tensor, "n n"], forcing: float) -> NDArray[np.float64]:
    """Solves one sample; values at inner nodes, row by row."""
    spacing = 1 / (len(a) - 1)
    try:
        from scipy.sparse.linalg import splu

        matrix = flux_form.matrix(a, (spacing, spacing))
    except ImportError as error:
        raise ConfigError(
            'recipe="diffusionpde" solves with scipy, which is not installed: '
            "pip install 'prisma-lib[notebooks]'",
            exit_code=4,
        ) from error
    right = np.full(matrix.shape[0], forcing)
    try:
        # The order for symmetric matrices halves the fill; rows still pivot.
        return splu(matrix, permc_spec="MMD_AT_PLUS_A").solve(right)
    except RuntimeError:  # exactly singular
        return np.full_like(right, np.nan)
