"""Samplers as generators of states.

A sampler yields its state after every step; who wants a progress bar, a trajectory or
an early stop wraps the generator.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from prisma_lib.edm import Schedule

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
    sigmas = schedule.sigmas().tolist()
    x, calls = sigmas[0] * noise, 0
    for step, (sigma, target) in enumerate(itertools.pairwise(sigmas), start=1):
        denoised = denoise(x, x.new_full((len(x),), sigma))
        slope = (x - denoised) / sigma
        euler = x + (target - sigma) * slope
        calls += 1
        if target > 0:
            denoised = denoise(euler, x.new_full((len(x),), target))
            slope = (slope + (euler - denoised) / target) / 2
            euler = x + (target - sigma) * slope
            calls += 1
        x = euler
        yield State(step, target, x, denoised, calls)
