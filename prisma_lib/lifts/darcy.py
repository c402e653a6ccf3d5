r"""Lifts of Darcy flow.

Forward: a few conjugate-gradient steps from the permeability to the pressure. Points of
unknown material take the geometric mean of both, weighted by how likely they are,
$3^{1-p} 12^p$: the effective permeability of a fine symmetric mixture.

Backward: $-1 / \Delta u$ where the pressure is known everywhere; elsewhere the best
linear estimate of the permeability, kept between the two materials.

Reference:
    Dykhne (1971), Conductivity of a two-dimensional two-phase system.
"""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from prisma_lib import diffusionpde, flux_form
from prisma_lib.checks import check_count
from prisma_lib.lifts.estimates import (
    MEASURED,
    error_of,
    estimate,
    kriged,
    no_settings,
    passed_on,
    weighed,
)
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.priors import training_pairs
from prisma_lib.lifts.sensors import Sensors
from prisma_lib.pdes.darcy import Darcy

Scalar = Float[Tensor, "b 1 x y"]

ITERATIONS = 3


@estimate.register
def _darcy(pde: Darcy, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings, "iterations")
    steps = settings.get("iterations", ITERATIONS)
    check_count("iterations", steps, 0, ITERATIONS)
    back, forth = seen.whole_u, seen.whole_a
    mean, sd = kriged(pde, seen, back | forth)
    mean[:, :1].clamp_(pde.low, pde.high)
    back &= ~forth
    if back.any():
        mean[back, :1], sure = pde.materials(mean[back, 1:])
        sd[back, :1] = torch.where(sure, *_doubts(pde)).to(sd)
    forward = seen.forward
    if forward.any():
        share = (mean[forward, :1] - pde.low) / (pde.high - pde.low)
        mixed = pde.low * (pde.high / pde.low) ** share
        known, a = seen.exact[forward, :1], seen.values[forward, :1]
        a = torch.where(known, a, mixed)
        mean[forward, 1:] = pressure(pde, a, iterations=steps)
        error = error_of(pressure, pde, iterations=steps)
        sd[forward, 1:] = passed_on(pde, sd[forward, 1:], error)
    return weighed(mean, sd, seen)


def pressure(pde: Darcy, a: Scalar, iterations: int) -> Scalar:
    """Approaches the pressure.

    Args:
        pde: The equation.
        a: Permeabilities, positive.
        iterations: Conjugate-gradient iterations from the solution for a constant.
    """
    if pde.recipe == "nodes":
        return _approximate(a, pde.forcing, iterations)
    there, back = (move.to(a) for move in diffusionpde.splines(pde.size))
    nodal = (there @ a @ there.T).clamp(pde.low, pde.high)
    return back @ _approximate(nodal, pde.forcing, iterations) @ back.T


def _approximate(a: Scalar, forcing: float, iterations: int) -> Scalar:
    spacing = 1 / (a.shape[-1] - 1)
    # float32 is enough for a few iterations.
    u = flux_form.approximate(a[:, 0].float(), forcing, (spacing, spacing), iterations)
    return functional.pad(u, (1, 1, 1, 1))[:, None].double()


@lru_cache(maxsize=8)
def _doubts(pde: Darcy) -> tuple[float, float]:
    """Returns the error of the permeability where it is sure and where it is not."""
    a, u = training_pairs(pde)[:MEASURED].split(1, dim=1)
    found, sure = pde.materials(u)
    square = (found - a).square()
    first, second = (float(square[part].mean().sqrt()) for part in (sure, ~sure))
    return first, second
