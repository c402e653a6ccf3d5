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

from prisma_lib import philox, sensors
from prisma_lib.devices import sent
from prisma_lib.edm import SIGMA_DATA, Levels
from prisma_lib.fields import GRFNoise, keyed_normal, keyed_uniform
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE
from prisma_lib.tasks import TASKS, sample_rates, sample_tasks, task_masks
from prisma_lib.trainconfig import TrainConfig
from prisma_lib.units import SensorNoise

STREAM = 2  # to be raised when the same settings draw other numbers than before
CHOICES = 4  # uniform numbers for an image's task, rate (two) and noise level
WAYS = ("forward", "inverse")
OTHERS = 1 << 40  # between the seeds of masks in training and of those in tables


@dataclass(frozen=True)
class Draws:
    """The random part of a batch.

    Args:
        numbers: Number of each image in the run.
        tasks: Positions in `TASKS`, on the CPU.
        sigma: Noise levels, on the CPU.
        mask: 1 where observed, for both fields, on the device of the training.
        noise: Noise of unit variance with the diffusion's covariance, likewise.
        sensors: Noise of the sensors, likewise; `None` where they have none.
    """

    numbers: range
    tasks: Int[Tensor, " b"]
    sigma: Levels
    mask: Pair
    noise: Pair
    sensors: SensorNoise | None = None


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
    normal, _ = _sources(device)
    mask = _mask(config, pde, numbers, tasks, rates, device)
    white = (sum(pde.channels), *noise.white_shape)
    eps = noise.colour(normal(config.seed, numbers, white, "training noise"))
    noisy = _sensors(config, pde, numbers, device) if config.noise_max else None
    return Draws(numbers, tasks, sigma, mask, eps, noisy)


def choose(
    config: TrainConfig, numbers: range
) -> tuple[Int[Tensor, " b"], Float[Tensor, " b"], Levels]:
    """Draws the small part: tasks, rates and noise levels of images of one batch.

    Args:
        config: Settings of the run.
        numbers: Numbers of the images.
    """
    choices = keyed_uniform(config.seed, numbers, (CHOICES,), "training choices")
    level = choices[:, 3]
    if config.group > 1:
        heads = _heads(config, numbers)
        choices = keyed_uniform(config.seed, heads, (CHOICES,), "training choices")
    task, coin, rate, _ = choices.unbind(1)
    if config.group > 1:  # few groups in a batch: spread evenly over the tasks
        groups = config.batch // config.group
        task = (torch.tensor(numbers) // config.group % groups + task) / groups
    tasks = sample_tasks(task, config.task_probabilities)
    rates = sample_rates(
        coin, rate, config.p_min, config.p_max, mixture=config.mask_mixture
    )
    return tasks, rates, _levels(config, numbers, level)


def _heads(config: TrainConfig, numbers: range) -> list[int]:
    """Returns the first image of the group of each."""
    return [number - number % config.group for number in numbers]


def _mask(
    config: TrainConfig,
    pde: PDE,
    numbers: range,
    tasks: Int[Tensor, " b"],
    rates: Float[Tensor, " b"],
    device: torch.device,
) -> Pair:
    """Draws what is observed; a sensor measures all channels of its field."""
    _, uniform = _sources(device)
    heads, (n1, n2) = _heads(config, numbers), pde.grid.shape
    drawn = (1, n1, n2) if pde.sensors == "points" else (1, 1, n2)  # or whole columns
    points = uniform(config.seed, heads, drawn, "training mask").expand(-1, 1, n1, n2)
    both = torch.zeros(len(heads), dtype=torch.bool)
    if config.both or config.layouts != ("points",):
        chosen = keyed_uniform(config.seed, heads, (2,), "sensor choices")
        both = chosen[:, 0] < config.both
        which = (chosen[:, 1] * len(config.layouts)).long().tolist()
        points = _laid_out(config, heads, which, rates, points)
    masks = list(task_masks(tasks, rates, points))
    if both.any():
        # The other field is seen at as many points, which are others.
        other = uniform(config.seed, heads, drawn, "other mask") < sent(
            rates.where(both, 0.0), device
        ).view(-1, 1, 1, 1)
        forward, inverse = (TASKS.index(f"sparse_{way}") for way in WAYS)
        for k, task in enumerate((inverse, forward)):
            asked = sent((tasks == task).view(-1, 1, 1, 1), device)
            masks[k] = torch.where(asked, other.float().expand_as(points), masks[k])
    pairs = zip(masks, pde.channels, strict=True)
    return torch.cat([field.expand(-1, c, -1, -1) for field, c in pairs], 1)


def _laid_out(
    config: TrainConfig,
    heads: list[int],
    which: list[int],
    rates: Float[Tensor, " b"],
    points: Float[Tensor, "b 1 x y"],
) -> Float[Tensor, "b 1 x y"]:
    """Puts the sensors of some images elsewhere than at single points."""
    points = points.clone()
    shape = (points.shape[-2], points.shape[-1])
    for row, (head, number, rate) in enumerate(
        zip(heads, which, rates.tolist(), strict=True)
    ):
        layout = config.layouts[number]
        if layout != "points":
            key = config.seed + OTHERS
            points[row] = sensors.places(layout, key, [head], shape, rate)[0]
    return points


def _sensors(
    config: TrainConfig, pde: PDE, numbers: range, device: torch.device
) -> SensorNoise:
    """Draws the noise of all sensors that there could be, normalised."""
    normal, equal = _sources(device)
    heads = _heads(config, numbers)
    uniform = keyed_uniform(config.seed, heads, (2,), "sensor levels")
    level = SIGMA_DATA * config.noise_max * (2 * uniform - 1).clamp(min=0)
    grid = pde.grid.shape
    sd = sent(level.float(), device)[..., None, None].expand(-1, -1, *grid)
    if config.noise_maps:
        coin = keyed_uniform(config.seed, heads, (1,), "sensor maps")
        uneven = sent(coin < config.noise_maps, device)[..., None, None]
        share = equal(config.seed, heads, (2, *grid), "sensor shares")
        sd = sd * torch.where(uneven, share.to(sd), 1.0)
    shape = (sum(pde.channels), *grid)
    values = normal(config.seed, numbers, shape, "training sensor noise")
    channels = torch.tensor(pde.channels, device=device)
    return SensorNoise(sd.repeat_interleave(channels, 1) * values, sd)


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
    # Each group has levels of all sizes.
    groups = config.batch // config.group
    place = place % config.group * groups + place // config.group
    share = (place + uniform.double()) / config.batch
    z = torch.special.ndtri(share.clamp(1e-6, 1 - 1e-6))
    return (config.p_mean + config.p_std * z).exp().float()
