"""What an explorer asks of a model: a test problem, what is seen of it, a sampler."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import checkpoints, data
from prisma_lib.answers import errors
from prisma_lib.cells import Benchmark, Hidden, observation_of, regimes
from prisma_lib.checks import check_seed
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError, NumericsError
from prisma_lib.explore.controls import Choice, Controls, Slider
from prisma_lib.model import Prisma
from prisma_lib.observe import Observation, Pair
from prisma_lib.pdes.base import Direction, Field
from prisma_lib.philox import key_of
from prisma_lib.sample import SAMPLERS, State
from prisma_lib.solve import PrismaSolver

PROBLEMS = 16  # test problems to choose from


@dataclass(frozen=True)
class Question:
    """A test problem, what is seen of it, and how it is solved.

    Args:
        model: Name of a shipped model, or its folder.
        problem: Number of the test problem.
        direction: One of the equation's directions.
        regime: "full", "sparse" or "noisy".
        rate: Share of points that carry a sensor, if sparse.
        noise: Standard deviation of the noise in units of the field's, if noisy.
        steps: Sampler steps.
        sampler: One of `SAMPLERS`.
        seed: Seed of sensors, noise and draws.
    """

    model: str = "darcy-32"
    problem: int = 0
    direction: str = "forward"
    regime: str = "full"
    rate: float = 0.1
    noise: float = 0.5
    steps: int = 10
    sampler: str = "heun"
    seed: int = 0


def named(name: str | Path) -> str:
    """Returns the name of a model, given it, its folder, or the name of its equation.

    Raises:
        CheckpointError: When there is none.
    """
    if str(name) not in checkpoints.shipped():
        for model in checkpoints.shipped():
            card = checkpoints.read_card(checkpoints.find(model))
            if card["pde"]["name"] == str(name):
                return model
    checkpoints.find(name)
    return str(name)


def title_of(name: str) -> str:
    """Returns what pictures call a model: its own name, also if a folder was given."""
    return str(
        checkpoints.read_card(checkpoints.find(name)).get("name", Path(name).name)
    )


def headline(q: Question) -> str:
    """Says in a few words what is asked of which model."""
    return f"{title_of(q.model)}, {q.direction}, {q.regime}"


def stamp(name: str) -> tuple[str, int]:
    """Identifies the weights that a name stands for now.

    Raises:
        CheckpointError: When there are none, or they cannot be read.
    """
    weights = checkpoints.find(name) / checkpoints.WEIGHTS
    try:
        return str(weights), weights.stat().st_mtime_ns
    except OSError as error:
        raise CheckpointError(
            f"{weights} cannot be read ({error}): train the model again, or name "
            f"another of {', '.join(checkpoints.shipped())}"
        ) from error


def model_of(name: str) -> Prisma:
    """Loads a model, or returns the one loaded before if its file has not changed."""
    return _loaded(name, stamp(name))


@lru_cache(maxsize=4)
def _loaded(name: str, weights: tuple[str, int]) -> Prisma:
    return checkpoints.load(name)


def pair_of(name: str, problem: int) -> tuple[Field, Field]:
    """Returns a test problem of a model's equation and its solution."""
    return _solved(name, stamp(name), problem)


@lru_cache(maxsize=64)
def _solved(name: str, weights: tuple[str, int], problem: int) -> tuple[Field, Field]:
    return data.problems(model_of(name).pde, 1, split="test", start=problem)


def controls(q: Question) -> Controls:
    """Returns the controls of a question, in the order in which they depend."""
    pde = model_of(q.model).pde
    names = dict.fromkeys((*checkpoints.shipped(), q.model))
    direction = q.direction if q.direction in pde.directions else pde.directions[0]
    columns = pde.sensors == "columns"
    return {
        "model": Choice("model", tuple(names)),
        "problem": Slider("test problem", 0, PROBLEMS - 1),
        "direction": Choice("direction", pde.directions),
        "regime": Choice("observation", regimes(direction)),
        "rate": Slider(
            "share of columns" if columns else "share of sensors",
            *(0.01, 0.5, 0.01),
            enabled=q.regime == "sparse",
        ),
        "noise": Slider("noise, std", 0.0, 3.0, 0.1, enabled=q.regime == "noisy"),
        "steps": Slider("sampler steps", 2, 40),
        "sampler": Choice("sampler", tuple(SAMPLERS)),
        "seed": Slider("seed", 0, 99),
    }


def asked(q: Question) -> Benchmark:
    """Returns the problem alone, with what is hidden of it."""
    model = model_of(q.model)
    columns = max(1, round(q.rate * model.pde.size))
    return Benchmark(
        *(model.pde, *pair_of(q.model, q.problem), model.statistics, q.seed),
        hidden=Hidden(rate=q.rate, columns=columns, noise=q.noise),
        index=(q.problem,),
    )


def observed(q: Question) -> Observation:
    """Returns what is seen of the problem: the same sensors for the same seed.

    Raises:
        ConfigError: When nothing would be left to find.
    """
    return observation_of(asked(q), cast(Direction, q.direction), q.regime)


def path(q: Question, seen: Observation, draws: int = 1) -> Iterator[State]:
    """Yields the sampler's states; the last ones are the draws of `solve`.

    Args:
        q: The question.
        seen: What is seen of one problem.
        draws: Number of draws.

    Raises:
        CheckpointError: When the model cannot be read.
        ConfigError: When the seed or a setting of the sampler is impossible.
        NumericsError: When a draw becomes non-finite; names the step.
    """
    model = model_of(q.model)
    solver = PrismaSolver(model, Schedule(q.steps), q.sampler)
    generator = torch.Generator().manual_seed(check_seed(q.seed))
    key = key_of(generator)
    source = solver.source(seen.shape)
    noise = source.draw(key, range(draws), model.channels, shape=seen.shape)
    told, mask = solver.condition(seen.repeat(draws))
    for state in solver.states(noise, told, mask, seen, range(draws)):
        if not state.x.isfinite().all():
            raise NumericsError(
                f"a draw became non-finite in step {state.step} of {q.steps}: take "
                "more steps, less noise or another model"
            )
        yield state


def percent(q: Question, x: Pair) -> Float[Tensor, " b"]:
    """Returns the error of predictions of both fields in the direction's metric.

    Args:
        q: The question.
        x: Predictions, physical units.
    """
    bench = asked(q)
    found = (part.cpu() for part in x.split(bench.pde.channels, 1))
    direction = cast(Direction, q.direction)
    each = [
        errors(bench, direction, *pair)
        for pair in zip(*(part.split(1) for part in found), strict=True)
    ]
    return torch.cat(each)


def sides(q: Question) -> tuple[str, str]:
    """Returns the symbols of the observed and the wanted field."""
    return {"forward": ("a", "u"), "inverse": ("u", "a")}.get(q.direction, ("u", "u"))


def part(q: Question, x: Pair, symbol: str, channel: int) -> Float[Tensor, "b x y"]:
    """Returns a channel of one of both fields; the last one if there are fewer.

    Args:
        q: The question.
        x: Both fields along the channel axis.
        symbol: "a" or "u".
        channel: Number of the channel.
    """
    field = x.split(model_of(q.model).pde.channels, 1)["au".index(symbol)]
    return field[:, min(channel, field.shape[1] - 1)]


def hidden(q: Question, seen: Observation, channel: int) -> Float[Tensor, "x y"]:
    """Returns what is seen of the observed field, NaN where nothing is."""
    values = seen.x.masked_fill(seen.mask == 0, torch.nan)
    return part(q, values, sides(q)[0], channel)[0]


def depth(q: Question) -> int:
    """Returns the number of channels of the wanted field."""
    channels = model_of(q.model).pde.channels
    return channels["au".index(sides(q)[1])]
