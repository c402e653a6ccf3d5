"""Whatever solves a problem: the contract, and PRISMA with its sampler.

A model, a schedule, a sampler and how the network runs make a `PrismaSolver`. Like
every `DiffusionSolver`, it splits its work into parts that fit into memory; a draw does
not depend on the split.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import memory, progress, sample
from prisma_lib.checks import check_count
from prisma_lib.edm import Schedule
from prisma_lib.errors import unknown_name
from prisma_lib.fields import GRFNoise
from prisma_lib.model import Prisma
from prisma_lib.observe import Observation, Pair
from prisma_lib.observed import Noise
from prisma_lib.pdes.base import PDE
from prisma_lib.philox import key_of
from prisma_lib.precision import execution, run_as
from prisma_lib.sample import State
from prisma_lib.symmetry import Views, check_symmetric
from prisma_lib.units import Normalised, Told

NOISE_GRIDS = ("train", "paper")

Draws = Float[Tensor, "samples b _ x y"]


@runtime_checkable
class Solver(Protocol):
    """Anything that draws both fields given an observation."""

    @property
    def pde(self) -> PDE:
        """The equation that it solves."""

    @property
    def calls(self) -> int:
        """Network calls for one draw."""

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Returns draws of `a` and `u`, in physical units."""


class DiffusionSolver(ABC):
    """Draws by going from noise to data, in parts that fit into memory."""

    model: Normalised
    max_batch: int | str
    watch: Callable[[State], None] | None

    @property
    def pde(self) -> PDE:
        """The model's equation."""
        return self.model.pde

    @abstractmethod
    def levels(self, observation: Observation) -> Schedule:
        """Returns the noise levels to visit."""

    @abstractmethod
    def need(self, shape: tuple[int, int]) -> int:
        """Returns the bytes that one draw takes on a grid."""

    @abstractmethod
    def source(self, shape: tuple[int, int]) -> GRFNoise:
        """Returns the noise to start from on a grid."""

    @abstractmethod
    def condition(self, observation: Observation) -> tuple[Told, Pair]:
        """Returns what the network is told of all problems, and the mask."""

    @abstractmethod
    def states(
        self,
        noise: Pair,
        told: Told,
        mask: Pair,
        observation: Observation,
        rows: range,
    ) -> Iterator[State]:
        """Yields the state of some draws after each step.

        Args:
            noise: Their start noise.
            told: What the network is told of their problems, observed values first.
            mask: 1 where observed.
            observation: What was measured of all problems, of which these are a part.
            rows: Numbers of the draws; draw `s` of problem `j` is `s * batch + j`.
        """

    @torch.no_grad()
    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Draws from the posterior.

        The generator yields one key; the noise of draw `s` of problem `j` depends on
        the key and on `s * batch + j` alone.

        Args:
            observation: What was measured, physical units.
            samples: Draws per problem.
            generator: Source of the key.

        Returns:
            Draws of `a` and `u`, physical units.

        Raises:
            ShapeError: When the model cannot run on the observation's grid.
            NumericsError: When a draw is not finite; names the first such step.
            ConfigError: When not even one draw fits into memory (exit code 4).
        """
        key = key_of(generator)
        shape, device = observation.shape, self.model.mean.device
        seen = self.condition(observation.to(device))
        schedule = self.levels(observation)
        source, total = self.source(shape), samples * observation.batch
        need = self.need(shape)
        size = memory.fitting(need, device)
        size = size if isinstance(self.max_batch, str) else self.max_batch
        with progress.bar(total * schedule.steps, "step") as bar:

            def draw(rows: range) -> tuple[Tensor, Tensor]:
                noise = source.draw(key, rows, self.model.channels, shape=shape)
                return self._run(noise.to(device), rows, *seen, observation, bar)

            parts = memory.in_parts(
                draw,
                total,
                size,
                f"one draw of {shape[0]} x {shape[1]} points on {device}, which takes "
                f"about {need / 1e9:.2g} GB, with max_batch={size} to begin with",
                f"use a grid of {shape[0] // 2} points, or a device with more memory",
            )
        x = self.model.denormalise(torch.cat([x for x, _ in parts]))
        sample.refuse_non_finite(
            x, torch.stack([flags for _, flags in parts]), schedule
        )
        a, u = x.unflatten(0, (samples, observation.batch)).split(self.pde.channels, 2)
        return a, u

    def _run(
        self,
        noise: Tensor,
        rows: range,
        told: Tensor,
        mask: Tensor,
        observation: Observation,
        bar: Any,
    ) -> tuple[Tensor, Tensor]:
        """Returns the draws `rows`, and whether all of them were finite in each step.

        Nothing here waits for a GPU: the flags are read once, after the last part.
        """
        problem = torch.arange(rows.start, rows.stop, device=noise.device)
        problem = problem.remainder(len(told))
        told, mask = told[problem], mask[problem]
        flags, steps = [], self.levels(observation).steps
        for state in self.states(noise, told, mask, observation, rows):
            flags.append(state.x.isfinite().all())
            done = rows.start * steps + state.step * len(rows)
            bar.update(done - bar.n)
            if self.watch:
                self.watch(state)
            x = state.x
        return x, torch.stack(flags)


def check_max_batch(max_batch: int | str) -> None:
    """Refuses what is neither "auto" nor a number of draws.

    Raises:
        ConfigError: When it is anything else.
    """
    if max_batch != "auto":
        check_count("max_batch", max_batch, 1, 32)


@dataclass(frozen=True)
class PrismaSolver(DiffusionSolver):
    """A PRISMA model with its sampler: a `Solver`.

    Args:
        model: The denoiser.
        schedule: Noise levels to visit.
        sampler: "heun" (the paper's), "euler" or "multistep": one call a step.
        noise_grid: "train" draws the noise of the training grid and resamples it band-
            limited onto another grid; "paper" keeps the kernel on every grid.
        max_batch: Largest number of draws computed at once; "auto" takes what should
            fit into memory. It is halved when memory runs out.
        precision: "float32", or "bf16" for the network's matrix products.
        noise_sd: Standard deviation of the sensor noise in physical units, of a model
            of PRISMA-L: one number, one for `a` and one for `u`, such a pair for each
            problem (b, 2), or a map of it (b, 2, x, y). None: it is estimated.
        compile: True: `torch.compile` the network, with CUDA graphs on a GPU; or the
            name of one of its backends. Keep the solver then: each compiles anew.
        symmetric: Whether draw `s` sees its problem turned and reflected, in view `s`
            modulo 8 of `symmetry`, and the first one as it is: where the equation has
            the symmetries of the square.
        watch: Called with every sampler state, for progress bars and trajectories. When
            memory ran out, the states of the smaller part start over.

    Raises:
        ConfigError: When a setting has no meaning, or the equation no symmetry.
    """

    model: Prisma
    schedule: Schedule = field(default_factory=Schedule)
    sampler: str = "heun"
    noise_grid: str = "train"
    max_batch: int | str = "auto"
    precision: str = "float32"
    noise_sd: Noise | None = None
    compile: bool | str = False
    symmetric: bool = False
    watch: Callable[[State], None] | None = None

    def __post_init__(self) -> None:
        sample.sampler(self.sampler)
        if self.noise_grid not in NOISE_GRIDS:
            raise unknown_name("noise_grid", self.noise_grid, NOISE_GRIDS)
        check_max_batch(self.max_batch)
        self.model.check_schedule(self.schedule, self.sampler)
        if self.symmetric:
            check_symmetric(self.pde)
        _ = self._network  # which checks the other two settings
        self.model.prepare()

    @cached_property
    def _network(self) -> Prisma:
        return run_as(self.model, self.precision, self.compile)

    @property
    def calls(self) -> int:
        """Denoiser calls for one draw."""
        return sample.calls(self.sampler, self.schedule.steps)

    @property
    def execution(self) -> str:
        """How the network runs, such as "float32, eager"."""
        return execution(self._network)

    def levels(self, observation: Observation) -> Schedule:
        """Returns the noise levels to visit: the same for every observation."""
        return self.schedule

    def need(self, shape: tuple[int, int]) -> int:
        """Returns the bytes that one draw takes on a grid."""
        return memory.per_draw(self.model.config.widths[0], shape)

    def condition(self, observation: Observation) -> tuple[Told, Pair]:
        """Returns what the network is told of all problems, and the mask."""
        return self.model.condition(observation, self.noise_sd)

    def states(
        self,
        noise: Pair,
        told: Told,
        mask: Pair,
        observation: Observation,
        rows: range,
    ) -> Iterator[State]:
        """Yields the state after each step of the sampler; see `DiffusionSolver`."""
        # The network is turned, and not the noise: states stay as the problem is.
        views = Views.of_draws(rows, observation.batch) if self.symmetric else Views()
        told, mask = views.of(told), views.of(mask)

        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            denoised: Tensor = self._network(views.of(x), sigma, told, mask)
            return views.back(denoised)

        return sample.sampler(self.sampler)(denoise, noise, self.schedule)

    def source(self, shape: tuple[int, int]) -> GRFNoise:
        """Returns the noise to start from, by the setting `noise_grid`."""
        trained = self.model.pde.grid
        if self.noise_grid == "train":
            return GRFNoise(trained)
        return GRFNoise(replace(trained, shape=shape))
