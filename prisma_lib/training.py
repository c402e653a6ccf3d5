"""Training as a generator of states.

`loop` yields its state after every step; progress bars, checkpoints and pictures belong
to the caller. Everything random in step `i` is drawn from streams keyed by the seed and
`i`, so that a run continues from a checkpoint as if it had not stopped. Every batch
holds fresh problems: no field is ever seen twice.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from prisma_lib import data, pdes
from prisma_lib.errors import ConfigError, NumericsError, unknown_name
from prisma_lib.fields import GRFNoise
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.recipes import Optimisers, optimiser, weight
from prisma_lib.tasks import sample_rates, sample_tasks, task_masks

BLOCK = 8  # steps whose problems are solved together: the solver is faster in bulk


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run.

    Args:
        pde: Name of the equation.
        size: Points per axis.
        options: Options of the equation that differ from its defaults.
        preset: Name of a model preset.
        model: Model settings that differ from the preset.
        name: Name of the model; its folder under outputs/models.
        images: Training problems in all; the learning rate falls to 0 over them.
        batch: Problems per step.
        learning_rate: Peak of AdamW's learning rate.
        warmup: Images over which the learning rate rises linearly.
        weight_decay: AdamW's decoupled weight decay.
        ema_half_life: Half-life of the weight average, in images.
        clip: Largest norm of the gradient.
        optimiser: "adamw" or "muon".
        weighting: "edm" or "min_snr": how noise levels count in the loss.
        stored: Number of problems that every epoch repeats; 0: each is new.
        p_mean: Mean of ln sigma.
        p_std: Standard deviation of ln sigma.
        mask_mixture: "paper" or "sparse": how observation rates are drawn.
        seed: Seed of everything.

    Raises:
        ConfigError: When a value is out of range.
    """

    pde: str = "darcy"
    size: int = 32
    options: dict[str, Any] | None = None
    preset: str = "small"
    model: dict[str, Any] | None = None
    name: str = "darcy-32"
    images: int = 200_000
    batch: int = 32
    learning_rate: float = 2e-3
    warmup: int = 3_200
    weight_decay: float = 1e-4
    ema_half_life: int = 10_000
    clip: float = 1.0
    optimiser: str = "adamw"
    weighting: str = "edm"
    stored: int = 0
    p_mean: float = 0.0
    p_std: float = 1.6
    mask_mixture: str = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("images", "batch", "learning_rate", "p_std", "clip"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)} must be positive")
        if self.images < self.batch:
            raise ConfigError(
                f"images={self.images} is less than one batch of {self.batch}"
            )

    @property
    def steps(self) -> int:
        """Number of optimiser steps."""
        return self.images // self.batch

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "TrainConfig":
        """Builds the settings from plain values.

        Raises:
            ConfigError: When a name is unknown or a value out of range.
        """
        known = [entry.name for entry in fields(cls)]
        for name in settings:
            if name not in known:
                raise unknown_name("training setting", name, known)
        return replace(cls(), **settings)


@dataclass
class TrainState:
    """A training run after a step.

    Args:
        step: Steps done.
        model: The network that is being trained.
        average: Exponential moving average of its weights.
        optimiser: What moves the weights, with its moments.
        loss: Loss of the last batch.
        learning_rate: Learning rate of the last step.
        seconds: Time spent on all steps so far, over all restarts.
    """

    step: int
    model: Prisma
    average: AveragedModel
    optimiser: Optimisers
    loss: float = float("nan")
    learning_rate: float = 0.0
    seconds: float = 0.0


def generator(
    seed: int, purpose: int, step: int, device: torch.device
) -> torch.Generator:
    """Returns the random generator of one purpose in one step."""
    key = np.random.SeedSequence([seed, purpose, step]).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(key[0] >> np.uint64(1)))


def start(config: TrainConfig, device: torch.device) -> TrainState:
    """Makes the state of a run before its first step.

    Args:
        config: Settings of the run.
        device: Where it computes.
    """
    pde = pdes.load(config.pde, size=config.size, **(config.options or {}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        settings = ModelConfig.preset(config.preset, **(config.model or {}))
        model = Prisma(pde, settings, data.statistics(pde, seed=config.seed))
    model.to(device)

    def decayed(average: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        # The window grows with the run at first, so that the start is forgotten.
        seen = (float(count) + 1) * config.batch
        half_life = min(config.ema_half_life, 0.05 * seen)
        return torch.lerp(current, average, 0.5 ** (config.batch / half_life))

    average = AveragedModel(model, avg_fn=decayed)
    moves = optimiser(
        config.optimiser, model, config.learning_rate, config.weight_decay
    )
    return TrainState(0, model, average, moves)


def loop(config: TrainConfig, state: TrainState) -> Iterator[TrainState]:
    """Trains from a state to the end of the budget.

    Args:
        config: Settings of the run.
        state: Where to begin; changed in place.

    Yields:
        The state after each step.

    Raises:
        NumericsError: When loss or gradient is not finite; the weights are then those
            of the step before.
    """
    device = state.model.mean.device
    noise = GRFNoise(state.model.pde.grid)
    state.model.train()
    batches = _batches(config, state, device)
    for step in range(state.step, config.steps):
        x_0 = next(batches)
        rate = _learning_rate(config, step)
        loss = batch_loss(config, state.model, noise, x_0, step)
        state.optimiser.zero_grad()
        loss.backward()
        try:
            nn.utils.clip_grad_norm_(
                state.model.parameters(), config.clip, error_if_nonfinite=True
            )
        except RuntimeError as error:
            raise NumericsError(
                f"step {step}: loss {loss.item()} gave a non-finite gradient; lower "
                "the learning rate or resume from the last checkpoint"
            ) from error
        state.optimiser.step(rate)
        state.average.update_parameters(state.model)
        state.step, state.loss, state.learning_rate = step + 1, loss.item(), rate
        yield state


def batch_loss(
    config: TrainConfig, model: Prisma, noise: GRFNoise, x_0: Tensor, step: int
) -> Tensor:
    """Computes the denoising loss of one batch.

    Args:
        config: Settings of the run.
        model: The network.
        noise: Diffusion noise on the training grid.
        x_0: Clean pairs, normalised.
        step: Number of the step, which keys all draws.

    Returns:
        Mean over batch, fields and points of the weighted squared error.

    Reference:
        PRISMA, algorithm 1. arXiv 2512.01370.
    """
    num, device = len(x_0), x_0.device
    draws = generator(config.seed, 1, step, device)
    tasks = sample_tasks(num, draws)
    rates = sample_rates(num, draws, mixture=config.mask_mixture)
    masks = task_masks(tasks, rates, model.pde.grid.shape, draws)
    # A sensor measures all channels of its field.
    pairs = zip(masks, model.pde.channels, strict=True)
    mask = torch.cat([field.expand(-1, c, -1, -1) for field, c in pairs], 1)
    # One noise level per equal slice of probability: the same law, less variance.
    slices = (
        torch.arange(num, device=device)
        + torch.rand(num, generator=draws, device=device)
    ) / num
    z = torch.special.ndtri(slices.clamp(1e-6, 1 - 1e-6))
    sigma = (config.p_mean + config.p_std * z).exp()
    eps = noise.sample(num, x_0.shape[1], draws)
    x_sigma = x_0 + sigma[:, None, None, None] * eps
    denoised = model(x_sigma, sigma, torch.where(mask > 0, x_0, 0.0), mask)
    error = (denoised - x_0).square().mean((1, 2, 3))
    return (weight(config.weighting, sigma) * error).mean()


def _batches(
    config: TrainConfig, state: TrainState, device: torch.device
) -> Iterator[Tensor]:
    if config.stored:
        yield from _repeated(config, state, device)
    first = state.step // BLOCK
    blocks = data.stream(
        state.model.pde, config.batch * BLOCK, config.seed, first, device=device
    )
    skip = state.step - first * BLOCK
    for a, u in blocks:
        x = state.model.normalise(torch.cat([a, u], 1))
        yield from x.split(config.batch)[skip:]
        skip = 0


def _repeated(
    config: TrainConfig, state: TrainState, device: torch.device
) -> Iterator[Tensor]:
    """Yields batches of a fixed set, in a new order in every epoch."""
    fields = data.problems(state.model.pde, config.stored, "train", config.seed)
    x = state.model.normalise(torch.cat(fields, 1).to(device))
    per_epoch = config.stored // config.batch
    for step in itertools.count(state.step):
        epoch, position = divmod(step, per_epoch)
        order = torch.randperm(
            config.stored, generator=generator(config.seed, 2, epoch, device)
        )
        yield x[order[position * config.batch :][: config.batch]]


def _learning_rate(config: TrainConfig, step: int) -> float:
    rise = min(1.0, (step + 1) * config.batch / max(config.warmup, 1))
    fall = 0.5 * (1 + np.cos(np.pi * step / config.steps))
    return config.learning_rate * rise * float(fall)
