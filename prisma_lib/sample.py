r"""Samplers as generators of states.

All integrate the probability-flow equation $dx / d\sigma = (x - D(x, \sigma)) / \sigma$
from the largest noise level to zero, and take the same arguments. A sampler yields its
state after every step; who wants a progress bar, a trajectory or an early stop wraps
the generator. Noise levels are numbers, never read back from a device, so that a GPU
is never waited for.

| name | order | denoiser calls in N steps |
|---|---|---|
| `euler` | 1 | N |
| `heun`, the paper's | 2 | 2 N - 1 |
| `multistep` | 2 | N |
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.edm import Schedule
from prisma_lib.errors import NumericsError, unknown_name

State_ = Float[Tensor, "b c x y"]
Denoiser = Callable[[State_, Float[Tensor, " b"]], State_]


@dataclass(frozen=True)
class State:
    """Where a sampler stands after a step.

    Args:
        step: Number of steps done.
        sigma: Noise level that the state has reached.
        x: The state.
        denoised: The denoiser's last estimate of the clean state.
        calls: Number of denoiser calls so far.
    """

    step: int
    sigma: float
    x: State_
    denoised: State_
    calls: int


Sampler = Callable[[Denoiser, State_, Schedule], Iterator[State]]


def euler(denoise: Denoiser, noise: State_, schedule: Schedule) -> Iterator[State]:
    """Integrates the probability-flow equation with Euler's first-order method.

    Args:
        denoise: Maps a state and the noise level of each sample to a clean estimate.
        noise: Unit-variance start noise; the start state is `sigma_max` times it.
        schedule: Noise levels to visit.

    Yields:
        The state after each step.

    Reference:
        Song et al. (2021), DDIM, in the variables of Karras et al. (2022), where it is
        Euler's method. arXiv 2010.02502.
    """
    x, steps = start(noise, schedule)
    for step, sigma, target in steps:
        denoised = denoise(x, x.new_full((len(x),), sigma))
        x = denoised + target / sigma * (x - denoised)
        yield State(step, target, x, denoised, calls=step)


def heun(denoise: Denoiser, noise: State_, schedule: Schedule) -> Iterator[State]:
    """Integrates the probability-flow equation with Heun's second-order method.

    The last step, to noise level zero, is an Euler step: N steps call the denoiser
    2 N - 1 times.

    Args:
        denoise: Maps a state and the noise level of each sample to a clean estimate.
        noise: Unit-variance start noise; the start state is `sigma_max` times it.
        schedule: Noise levels to visit.

    Yields:
        The state after each step.

    Reference:
        Karras et al. (2022), algorithm 1. arXiv 2206.00364. PRISMA's algorithm 2 omits
        the factor `sigma_max`.
    """
    x, steps = start(noise, schedule)
    for step, sigma, target in steps:
        x, denoised = heun_step(denoise, x, sigma, target)
        yield State(step, target, x, denoised, calls=2 * step - (target == 0))


def heun_step(
    denoise: Denoiser, x: State_, sigma: float, target: float
) -> tuple[State_, State_]:
    """Takes one step of Heun's method; a step to noise level zero is one of Euler's.

    Args:
        denoise: Maps a state and the noise level of each sample to a clean estimate.
        x: The state.
        sigma: Its noise level.
        target: The noise level to go to.

    Returns:
        The next state, and the denoiser's last estimate of the clean state.
    """
    denoised = denoise(x, x.new_full((len(x),), sigma))
    slope = (x - denoised) / sigma
    ahead = x + (target - sigma) * slope
    if target > 0:
        denoised = denoise(ahead, x.new_full((len(x),), target))
        slope = (slope + (ahead - denoised) / target) / 2
        ahead = x + (target - sigma) * slope
    return ahead, denoised


def multistep(denoise: Denoiser, noise: State_, schedule: Schedule) -> Iterator[State]:
    r"""Integrates the probability-flow equation with the multistep DPM-Solver++(2M).

    With $\lambda = -\ln \sigma$ the step of size h is exact for a constant estimate D,
    and of second order for one that is linear in $\lambda$, whose slope comes from the
    call before, a step of size h' ago:

    $$x \leftarrow \frac{\sigma_+}{\sigma} x + \Big(1 - \frac{\sigma_+}{\sigma}\Big)
    \Big(D + \frac{h}{2 h'} (D - D')\Big).$$

    The first step has no call before it, and the last one, to noise level zero, is
    infinitely long: both take D as it is.

    Args:
        denoise: Maps a state and the noise level of each sample to a clean estimate.
        noise: Unit-variance start noise; the start state is `sigma_max` times it.
        schedule: Noise levels to visit.

    Yields:
        The state after each step.

    Reference:
        Lu et al. (2022), DPM-Solver++, algorithm 2. arXiv 2211.01095.
    """
    x, steps = start(noise, schedule)
    before, h_before = None, 0.0
    for step, sigma, target in steps:
        denoised = denoise(x, x.new_full((len(x),), sigma))
        h = math.log(sigma / target) if target > 0 else math.inf
        guess = denoised
        if before is not None and target > 0:
            guess = denoised + h / (2 * h_before) * (denoised - before)
        x = guess + target / sigma * (x - guess)
        before, h_before = denoised, h
        yield State(step, target, x, denoised, calls=step)


SAMPLERS: dict[str, Sampler] = {"euler": euler, "heun": heun, "multistep": multistep}


def sampler(name: str) -> Sampler:
    """Returns the sampler of a name.

    Raises:
        ConfigError: When there is none of that name; names the nearest one.
    """
    if name not in SAMPLERS:
        raise unknown_name("sampler", name, SAMPLERS)
    return SAMPLERS[name]


def calls(name: str, steps: int) -> int:
    """Returns how often a sampler calls the denoiser in a number of steps.

    Raises:
        ConfigError: When there is no sampler of that name.
    """
    return 2 * steps - 1 if sampler(name) is heun else steps


def start(
    noise: State_, schedule: Schedule
) -> tuple[State_, Iterator[tuple[int, float, float]]]:
    """Begins a sampler.

    Args:
        noise: Unit-variance start noise.
        schedule: Noise levels to visit.

    Returns:
        The start state, and number, noise level and target of every step.
    """
    sigmas = schedule.sigmas().tolist()
    pairs = enumerate(itertools.pairwise(sigmas), start=1)
    return sigmas[0] * noise, ((step, *pair) for step, pair in pairs)


def refuse_non_finite(
    x: State_, finite: Bool[Tensor, "_ _"], schedule: Schedule
) -> None:
    """Refuses draws that exploded.

    Args:
        x: The draws.
        finite: Whether the states of each part were finite after each step.
        schedule: Noise levels that were visited.

    Raises:
        NumericsError: When a draw is not finite; names the first such step.
    """
    broken = x.isfinite().all(3).all(2).all(1).logical_not()
    if not broken.any():
        return
    steps = schedule.steps
    # What is broken once stays broken.
    step = min(int(finite.all(0).sum()) + 1, steps)
    sigma = schedule.sigmas()[step]
    raise NumericsError(
        f"{int(broken.sum())} of {len(x)} draws became non-finite, first in step "
        f"{step} of {steps}, at noise level {sigma:.3g}: check that what was "
        "observed lies in the range of the training data"
    )
