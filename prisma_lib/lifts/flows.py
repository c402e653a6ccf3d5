r"""Lifts of flows over one time step: two Runge-Kutta steps, forward or backward.

The state that was measured is completed by kriging first. Two steps of fourth order do
where the reference solvers take eight or twenty. Backward in time diffusion amplifies a
mode by $e^{d \Delta t}$, with its damping rate d; the gain is held at a hundred, so
that modes which the flow has forgotten are not invented.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.flows import STABLE, finer, march, runge_kutta, turning_speed
from prisma_lib.lifts.estimates import (
    error_of,
    estimate,
    kriged,
    no_settings,
    passed_on,
    weighed,
)
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.sensors import Problems, Sensors
from prisma_lib.observed import Values
from prisma_lib.spectral import resample
from prisma_lib.steps import OneStep

_STEPS = 2  # of the classical Runge-Kutta method to a frame
_MOST_GAIN = math.log(100)

State = Float[Tensor, "b 1 x y"]


@estimate.register
def _flow(pde: OneStep, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings)
    mean, sd = kriged(pde, seen, seen.whole_a | seen.whole_u)
    forward, backward = seen.forward, seen.backward
    if forward.any():
        mean[forward, 1:] = later(pde, mean[forward, :1])
        sd[forward, 1:] = passed_on(pde, sd[forward, 1:], error_of(later, pde))
    if backward.any():
        mean[backward, :1] = earlier(pde, mean[backward, 1:])
    back = backward & seen.whole_u
    if back.any():
        sd[back, :1] = error_of(earlier, pde, inverse=True).to(sd)
    return weighed(mean, sd, seen)


def later(pde: OneStep, a: State) -> Values:
    """Steps a state to the frames of the solution.

    States that two steps would not hold are left to the reference solver.

    Args:
        pde: The equation.
        a: States, float64.

    Raises:
        NumericsError: When a state is too fast for the reference solver, too.
    """
    fast = _is_fast(pde, a)
    u = a.new_empty(len(a), *pde.channels[1:], *pde.grid.shape)
    if fast.any():
        u[fast] = pde.solve(a[fast])
    if not fast.all():
        u[~fast] = _march(pde, a[~fast], pde.interval, pde.channels[1])
    return u


def earlier(pde: OneStep, u: Values) -> State:
    """Steps the first frame of a solution back to the input.

    States that two steps would not hold take the step of backward Euler.

    Args:
        pde: The equation.
        u: Solutions, float64.
    """
    fast = _is_fast(pde, u[:, :1])
    a = torch.empty_like(u[:, :1])
    if fast.any():
        a[fast] = pde.stencil(u[fast])
    if not fast.all():
        a[~fast] = _march(pde, u[~fast, :1], -pde.interval, 1)
    return a


def _is_fast(pde: OneStep, w: State) -> Problems:
    speed = turning_speed(resample(w[:, 0], finer(pde.grid).shape), finer(pde.grid))
    return speed * pde.interval > STABLE * _STEPS


def _march(pde: OneStep, w: State, interval: float, frames: int) -> Values:
    """Returns the frames that are so far apart."""
    grid = finer(pde.grid)
    tendency, damping = pde.dynamics(grid, w.device)
    if interval < 0:
        damping = damping.clamp(max=_MOST_GAIN / -interval)

    def advance(w_hat: Tensor) -> Tensor:
        return runge_kutta(w_hat, tendency, damping, interval / _STEPS, _STEPS)

    fine = resample(w[:, 0], grid.shape)
    return resample(march(fine, advance, frames), pde.grid.shape)
