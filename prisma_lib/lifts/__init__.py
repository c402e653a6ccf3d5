"""Lifts: classical estimates of both fields from whatever was measured.

A lift is what numerical analysis knows without a network: the numerical solver or the
explicit inverse where a field was observed as a whole, best linear estimates from
sensors (kriging) where not, and one followed by the other. Every equation has one; an
equation that no module here knows better is kriged. It is an input of networks and a
row of every table.

`lift` is the door, and `pde.lift` the same. What an equation does is in the module of
its family, as a variant of `estimates.estimate`.
"""

import torch

from prisma_lib.lifts import burgers, darcy, eikonal, flows, linear
from prisma_lib.lifts.estimates import estimate
from prisma_lib.lifts.noise import noise_of
from prisma_lib.lifts.priors import kriging_of, training_pairs
from prisma_lib.lifts.sensors import levels, sensors
from prisma_lib.observed import Lift, Noise, Observation
from prisma_lib.pdes.base import PDE
from prisma_lib.posterior import is_gaussian

__all__ = [
    "burgers",
    "darcy",
    "eikonal",
    "flows",
    "levels",
    "lift",
    "linear",
    "noise_of",
    "prepare",
]


def prepare(pde: PDE, device: torch.device | str = "cpu") -> None:
    """Makes what lifts of an equation share, which the first one would wait for.

    That is its covariance and, where a rule takes a whole field to the other one, the
    error of the rule. What noise on whole fields needs is too large to make unasked.

    Args:
        pde: The equation.
        device: Where the lifts will be.
    """
    kriging_of(pde, torch.device(device))
    if is_gaussian(pde) or estimate.dispatch(type(pde)) is estimate.dispatch(PDE):
        return
    a, u = (x.to(device) for x in training_pairs(pde)[:1].split(pde.channels, 1))
    none, every = torch.zeros_like, torch.ones_like
    lift(pde, Observation(a, none(u), every(a), none(u)))
    lift(pde, Observation(none(a), u, none(a), every(u)))


@torch.no_grad()
def lift(
    pde: PDE, observation: Observation, noise_sd: Noise = 0.0, **settings: int
) -> Lift:
    """Estimates both fields from what was measured, and says how far off that is.

    Where one field is known everywhere, the other follows from it, except at sensors of
    its own without noise, whose values are kept; those with noise are weighed against
    the doubt.

    Problems that share masks and noise share the expensive part, a Cholesky factor with
    as many rows as there are sensors.

    Args:
        pde: The equation, on the grid of the observation.
        observation: Any values of `a` and `u`, under any masks.
        noise_sd: Standard deviation of the sensor noise in physical units, at least 0:
            one number, one for `a` and one for `u`, such a pair for each problem (b, 2)
            or a map of it (b, 2, x, y). Values without noise count as known.
        **settings: Of Darcy flow `iterations`, 3: conjugate-gradient iterations from
            the pressure for a constant permeability.

    Returns:
        Estimate and standard deviation of its error, of the dtype and on the device of
        the observation; computed in float64.

    Raises:
        ConfigError: When the noise or a setting is impossible.
        DataError: When it is given no observation.
        ShapeError: When the observation is on another grid.
        NumericsError: When a flow is too fast for its time step.
    """
    pde.check_observation(observation)
    seen = sensors(observation, noise_sd, pde.channels)
    mean, sd = estimate(pde, seen, **settings)
    like, known = observation.a, seen.exact
    mean = torch.where(known, seen.values, mean).to(like.dtype)
    return Lift(mean, torch.where(known, 0.0, sd).to(like.dtype), pde.channels)
