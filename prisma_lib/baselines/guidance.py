r"""Guided sampling: an unconditional denoiser that is pulled towards what was measured.

Each step is one of Heun's method, after which the state moves down the gradient of a
loss of the last denoised estimate $\hat x$,

$$x \leftarrow \text{Heun}(x) - \nabla_x L\big(\hat x(x)\big),$$

with the gradient taken through every network call of the step. What the loss is makes
the method. Each draw has its own, so that a batch gives what its draws give alone.

Reference:
    Chung et al. (2023), Diffusion posterior sampling. arXiv 2209.14687.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import sample
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE
from prisma_lib.sample import Denoiser, State

Losses = Float[Tensor, " b"]


@dataclass(frozen=True)
class Weights:
    """How strongly each loss pulls, in the units of the method.

    Args:
        a: Weight of the loss of observed values of `a`, at least 0.
        u: Weight of that of `u`.
        pde: Weight of that of the residual.

    Raises:
        ConfigError: When a weight is negative or not finite.
    """

    a: float = 0.0
    u: float = 0.0
    pde: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 <= value < math.inf):
                raise ConfigError(
                    f"weights: {name}={value!r}: give a finite number of at least 0"
                )

    def scaled(self, factor: float) -> "Weights":
        """Returns all weights times a factor."""
        return Weights(*(factor * weight for weight in asdict(self).values()))


@dataclass(frozen=True)
class Moment:
    """Where a guided sampler stands.

    Args:
        step: Number of the step, from 1.
        steps: Number of all steps.
        sigma: Noise level that the step starts from.
    """

    step: int
    steps: int
    sigma: float


@dataclass(frozen=True)
class Target:
    """What the draws of a batch are pulled towards.

    Args:
        x_obs: Observed values, normalised, 0 where unobserved.
        mask: 1 where observed.
        pde: The equation, on the grid of the draws.
        weights: How strongly.
        inverse: Whether any value of `u` was observed.
    """

    x_obs: Pair
    mask: Pair
    pde: PDE
    weights: Weights
    inverse: bool


def guided_heun(
    denoise: Denoiser,
    noise: Pair,
    schedule: Schedule,
    loss: Callable[[Moment, Pair], Losses | None],
    stretch: Float[Tensor, "1 c 1 1"] | float,
) -> Iterator[State]:
    """Integrates the probability-flow equation with a pull after every step.

    Args:
        denoise: Maps a state and the noise level of each sample to a clean estimate.
        noise: Unit-variance start noise; the start state is `sigma_max` times it.
        schedule: Noise levels to visit.
        loss: Maps the denoised estimate of a step to the loss of each draw; `None`:
            no pull in this step.
        stretch: Factor of the gradient, for each channel.

    Yields:
        The state after each step.
    """
    x, steps = sample.start(noise, schedule)
    for step, sigma, target in steps:
        with torch.inference_mode(False), torch.enable_grad():
            before = x.clone().requires_grad_()
            x, denoised = sample.heun_step(denoise, before, sigma, target)
            losses = loss(Moment(step, schedule.steps, sigma), denoised)
            x = x.detach()
            if losses is not None:
                (pull,) = torch.autograd.grad(losses.sum(), before)
                x = x - stretch * pull
        calls = 2 * step - (target == 0)
        yield State(step, target, x, denoised.detach(), calls)
