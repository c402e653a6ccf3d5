"""Training as a generator of states.

`loop` yields its state after every step. The average of the weights, log, checkpoints,
progress bars, pictures and an early stop belong to callers: each takes the states and
passes them on. Everything random in a step is drawn from streams keyed by the seed and
the number of the image, so that a run continues from a checkpoint as if it had not
stopped, and several processes (see `parallel`) draw what one would.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from prisma_lib import checkpoints, feeds, guards, methods, parallel, pdes
from prisma_lib.devices import sent
from prisma_lib.draws import Draws, draw, images
from prisma_lib.edm import Levels
from prisma_lib.errors import ConfigError
from prisma_lib.feeds import BLOCK, Source
from prisma_lib.model import Prisma
from prisma_lib.observe import Pair
from prisma_lib.precision import run_as
from prisma_lib.recipes import Optimisers, optimiser, weight
from prisma_lib.trainconfig import TrainConfig
from prisma_lib.units import Errors, Normalised, Told

__all__ = [
    "BLOCK",
    "TrainConfig",
    "TrainState",
    "averaged",
    "learning_rate",
    "loop",
    "losses",
    "start",
]

DROPOUT = 2  # purpose of a random stream


@dataclass
class TrainState:
    """A training run after a step.

    Args:
        config: Settings of the run.
        source: Where its clean pairs come from.
        model: The network that is being trained.
        average: The same network with the moving average of the weights.
        optimiser: What moves the weights, with its moments.
        step: Steps done.
        seconds: Time spent on all steps so far, over all restarts.
        learning_rate: Learning rate of the last step.
        losses: Weighted error of each image of the last batch.
        gradient_norm: Norm of its gradient, before clipping.
        problems: Numbers of the problems in it; of several processes, this one's part.
        draws: What was drawn for them.
    """

    config: TrainConfig
    source: Source
    model: Normalised
    average: Normalised
    optimiser: Optimisers
    step: int = 0
    seconds: float = 0.0
    learning_rate: float = 0.0
    losses: Sequence[float] = ()
    gradient_norm: float = 0.0
    problems: Sequence[int] = ()
    draws: Draws | None = None

    @property
    def loss(self) -> float:
        """Loss of the last batch; NaN before the first."""
        return sum(self.losses) / len(self.losses) if self.losses else math.nan

    @property
    def images(self) -> int:
        """Number of problems trained on."""
        return self.step * self.config.batch


def start(config: TrainConfig, device: torch.device) -> TrainState:
    """Makes the state of a run before its first step.

    Args:
        config: Settings of the run.
        device: Where it computes.

    Raises:
        CheckpointError: When there are no weights to go on from, or of another network.
        ConfigError: When the equation, the preset or a model setting is unknown, or
            weights are of another equation.
        DataError: When the data file cannot be trained on.
    """
    pde = pdes.with_options(config.pde, config.size, config.options or {})
    network = methods.network(config.method)
    settings = network.settings.preset(config.preset, **(config.model or {}))
    source = feeds.source(config, pde)
    first = None if config.weights is None else checkpoints.load_any(config.weights)
    units = first.statistics if first else source.statistics
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = network(pde, settings, units)
    if first:
        model.begin(first)
    model.to(device)
    average = deepcopy(model).eval().requires_grad_(False)
    moves = optimiser(
        config.optimiser, model, config.learning_rate, config.weight_decay
    )
    return TrainState(config, source, model, average, moves)


def _running(config: TrainConfig, model: Normalised) -> Normalised:
    """Returns the model with a backbone that runs in the precision of the run.

    Raises:
        ConfigError: When the network of the run has one precision only.
    """
    if config.precision == "float32":
        return model
    if not isinstance(model, Prisma):
        raise ConfigError(
            f"method={config.method!r} trains in float32 only: leave out precision"
        )
    return run_as(model, config.precision)


def loop(state: TrainState) -> Iterator[TrainState]:
    """Trains from a state to the end of the budget.

    Several processes each take a part of every batch. The draws of an image, the losses
    and the gradient's norm are those of one process with the whole batch; only dropout
    leaves out other features.

    Args:
        state: Where to begin; changed in place.

    Yields:
        The state after each step.

    Raises:
        ConfigError: When the batch cannot be shared by the processes evenly.
        DataError: When the data have another scale than the noise levels are made for.
        NumericsError: When loss, gradient or a weight is not finite; the weights are
            then those of the step before.
    """
    config, model = state.config, state.model
    feeds.check_scale(config, state.source, model)
    noise = model.noise
    weights, part = list(model.parameters()), parallel.part(config.batch)
    pairs = feeds.batches(config, state.source, model, state.step, part)
    model.train()
    objective = parallel.shared(Objective(config, _running(config, model)))
    for step in range(state.step, config.steps):
        problems, x_0 = next(pairs)
        draws = draw(config, model.pde, noise, images(config, step, part), x_0.device)
        with _dropout(config, model, draws):
            errors = _evaluated(objective, model, x_0, draws)
        state.optimiser.zero_grad()
        errors.mean().backward()
        gradient = nn.utils.get_total_norm(
            [p.grad for p in weights if p.grad is not None]
        )
        suspects = guards.Suspects(step, model, problems, x_0, draws)
        state.losses, state.gradient_norm = guards.read(errors, gradient, suspects)
        nn.utils.clip_grads_with_norm_(weights, config.clip, gradient)
        state.learning_rate = learning_rate(config, step)
        state.optimiser.step(state.learning_rate)
        state.step, state.problems, state.draws = step + 1, problems, draws
        yield state


class Objective(nn.Module):
    """What a step makes small; a module, so that several processes can share it.

    Args:
        config: Settings of the run.
        network: The network, in the precision in which it runs.
    """

    def __init__(self, config: TrainConfig, network: Normalised) -> None:
        super().__init__()
        self.weighting, self.network = config.weighting, network

    def forward(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Returns the network's errors, weighted by noise level if need be."""
        errors = self.network.errors(x_0, sigma, noise, told, mask)
        if self.network.unweighted:
            errors = weight(self.weighting, sigma) * errors
        return errors


def losses(config: TrainConfig, model: Normalised, x_0: Pair, draws: Draws) -> Errors:
    """Computes the loss of each image of a batch.

    Args:
        config: Settings of the run.
        model: The network.
        x_0: Clean pairs, normalised.
        draws: What was drawn for them.
    """
    return _evaluated(Objective(config, model), model, x_0, draws)


def _evaluated(
    objective: nn.Module, model: Normalised, x_0: Pair, draws: Draws
) -> Errors:
    sigma = sent(draws.sigma, x_0.device)
    told = model.told(x_0, draws.mask, draws.sensors)
    errors: Errors = objective(x_0, sigma, draws.noise, told, draws.mask)
    return errors


@contextmanager
def _dropout(config: TrainConfig, model: Normalised, draws: Draws) -> Iterator[None]:
    """Keys the features that are dropped by the first image of this process."""
    if not getattr(model.config, "dropout", 0):
        yield
        return
    device = draws.mask.device
    key = np.random.SeedSequence([config.seed, DROPOUT, draws.numbers[0]])
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))
        yield


def learning_rate(config: TrainConfig, step: int) -> float:
    """Returns the learning rate of a step: a linear rise, then half a cosine to 0."""
    rise = min(1.0, (step + 1) * config.batch / max(config.warmup, 1))
    fall = 0.5 * (1 + math.cos(math.pi * step / config.steps))
    return config.learning_rate * rise * fall


def averaged(states: Iterator[TrainState]) -> Iterator[TrainState]:
    """Moves the average of the weights after each step and passes the states on."""
    for state in states:
        config = state.config
        # The window grows with the run at first, so that the start is forgotten.
        half_life = min(config.ema_half_life, 0.05 * state.images)
        share = 1 - 0.5 ** (config.batch / half_life)
        average, current = (
            [weight.detach() for weight in network.parameters()]
            for network in (state.average, state.model)
        )
        torch._foreach_lerp_(average, current, share)
        yield state
