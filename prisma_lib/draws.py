"""What training draws at random for an image: task, mask, noise level and noise.

Image `n` is the n-th problem that a run trains on, counted over all steps. What is
drawn for it depends on the seed and `n` alone, so that neither a restart nor the number
of processes that share a batch changes anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib import philox
from prisma_lib.edm import Levels
from prisma_lib.fields import GRFNoise, keyed_normal, keyed_uniform
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE
from prisma_lib.tasks import sample_rates, sample_tasks, task_masks
from prisma_lib.trainconfig import TrainConfig

STREAM = 2  # to be raised when the same settings draw other numbers than before
CHOICES = 4  # uniform numbers for an image's task, rate (two) and noise level


@dataclass(frozen=True)
class Draws:
    """The random part of a batch.

    Args:
        numbers: Number of each image in the run.
        tasks: Positions in `TASKS`, on the CPU.
        rates: Share of observed points if the task is sparse, on the CPU.
        sigma: Noise levels, on the CPU.
        mask: 1 where observed, for both fields, on the device of the training.
        noise: Noise of unit variance with the diffusion's covariance, likewise.
    """

    numbers: range
    tasks: Int[Tensor, " b"]
    rates: Float[Tensor, " b"]
    sigma: Levels
    mask: Pair
    noise: Pair


def images(config: TrainConfig, step: int, part: range | None = None) -> range:
    """Returns the numbers of the images in a step.

    Args:
        config: Settings of the run.
        step: Number of the step.
        part: Positions in the batch, without gaps; all by default.
    """
    return range(step * config.batch, (step + 1) * config.batch)[as_slice(part)]


def as_slice(part: range | None) -> slice:
    """Turns positions without gaps into a slice; `None` takes all."""
    return slice(None) if part is None else slice(part.start, part.stop)


def draw(
    config: TrainConfig,
    pde: PDE,
    noise: GRFNoise,
    numbers: range,
    device: torch.device,
) -> Draws:
    """Draws everything random for images of one batch.

    Args:
        config: Settings of the run.
        pde: The equation.
        noise: Diffusion noise on the training grid.
        numbers: Numbers of the images.
        device: Where masks and noise are needed.
    """
    tasks, rates, sigma = choose(config, numbers)
    normal, uniform = _sources(device)
    n1, n2 = pde.grid.shape
    drawn = (1, n1, n2) if pde.sensors == "points" else (1, 1, n2)  # or whole columns
    points = uniform(config.seed, numbers, drawn, "training mask").expand(-1, 1, n1, n2)
    # A sensor measures all channels of its field.
    pairs = zip(task_masks(tasks, rates, points), pde.channels, strict=True)
    mask = torch.cat([field.expand(-1, c, -1, -1) for field, c in pairs], 1)
    white = (sum(pde.channels), *noise.white_shape)
    eps = noise.colour(normal(config.seed, numbers, white, "training noise"))
    return Draws(numbers, tasks, rates, sigma, mask, eps)


def choose(
    config: TrainConfig, numbers: range
) -> tuple[Int[Tensor, " b"], Float[Tensor, " b"], Levels]:
    """Draws the small part: tasks, rates and noise levels of images of one batch.

    Args:
        config: Settings of the run.
        numbers: Numbers of the images.
    """
    choices = keyed_uniform(config.seed, numbers, (CHOICES,), "training choices")
    task, coin, rate, level = choices.unbind(1)
    tasks = sample_tasks(task, config.task_probabilities)
    rates = sample_rates(
        coin, rate, config.p_min, config.p_max, mixture=config.mask_mixture
    )
    return tasks, rates, _levels(config, numbers, level)


def _sources(device: torch.device) -> tuple[Callable[..., Tensor], ...]:
    """Returns what draws normal and uniform numbers fastest on a device."""
    if device.type == "cpu":
        return keyed_normal, keyed_uniform
    return partial(philox.normal, device=device), partial(philox.uniform, device=device)


def _levels(
    config: TrainConfig, numbers: range, uniform: Float[Tensor, " b"]
) -> Levels:
    """Draws noise levels: one of each equal slice of probability in a batch.

    That is the same law as independent levels, with less variance of the loss.
    """
    place = torch.tensor(numbers) % config.batch
    share = (place + uniform.double()) / config.batch
    z = torch.special.ndtri(share.clamp(1e-6, 1 - 1e-6))
    return (config.p_mean + config.p_std * z).exp().float()
