"""`solve`: from what was measured to draws of both fields.

Whatever solves a problem meets one contract, `Solver`: PRISMA, a baseline, or the PDE's
own numerical solver. `solve` is the door for users; it takes arrays, checks them, and
returns a `Solution` in physical units.
"""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import progress
from prisma_lib.checks import Array, check_seed
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, NumericsError, ShapeError
from prisma_lib.fields import GRFNoise
from prisma_lib.grids import Grid
from prisma_lib.model import Prisma
from prisma_lib.observe import Observation, observation
from prisma_lib.pdes.base import PDE, Field, Interior
from prisma_lib.sample import State, heun

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


@dataclass(frozen=True)
class Solution:
    """Draws of both fields, in physical units.

    Args:
        a: Draws of the input field.
        u: Draws of the solution field.
        pde: The equation, on the grid of the fields.
        observation: What was measured.
        seed: Seed that repeats the draws.
    """

    a: Draws
    u: Draws
    pde: PDE
    observation: Observation
    seed: int

    def mean(self) -> tuple[Field, Field]:
        """Returns the mean over draws of `a` and of `u`."""
        return self.a.mean(0), self.u.mean(0)

    def std(self) -> tuple[Field, Field]:
        """Returns the standard deviation over draws, with ddof = 1.

        Raises:
            ConfigError: When there is a single draw.
        """
        if len(self.a) < 2:
            raise ConfigError(
                "one draw has no spread: call solve(..., samples=16) for a posterior"
            )
        return self.a.std(0), self.u.std(0)

    def residual(self) -> Interior:
        """Returns the residual of every draw; the first axis is samples times batch."""
        return self.pde.residual(self.a.flatten(0, 1), self.u.flatten(0, 1))

    def plot(self, problem: int = 0) -> Any:
        """Draws what was observed, the mean and the spread of one problem.

        Args:
            problem: Number of the problem in the batch.

        Returns:
            A matplotlib figure. Needs the extra `notebooks`.
        """
        from prisma_lib import plots

        return plots.solution(self, problem)


@dataclass
class PrismaSolver:
    """A PRISMA model with its sampler: a `Solver`.

    Args:
        model: The denoiser.
        schedule: Noise levels to visit.
        noise_grid: "train" draws the noise of the training grid and resamples it band-
            limited onto another grid; "paper" keeps the kernel on every grid.
        max_batch: Largest number of draws computed at once.
        watch: Called with every sampler state, for progress bars and trajectories.
    """

    model: Prisma
    schedule: Schedule = field(default_factory=Schedule)
    noise_grid: str = "train"
    max_batch: int = 128
    watch: Callable[[State], None] | None = None

    @property
    def pde(self) -> PDE:
        """The model's equation."""
        return self.model.pde

    @property
    def calls(self) -> int:
        """Denoiser calls for one draw."""
        return 2 * self.schedule.steps - 1

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
            NumericsError: When a draw is not finite.
        """
        key = int(torch.randint(2**63 - 1, (), generator=generator).item())
        device = self.model.mean.device
        tiled = observation.to(device).repeat(samples)
        x_obs, mask = self.model.condition(tiled)
        total, channels = samples * observation.batch, self.model.channels
        parts = []
        chunks = range(0, total, self.max_batch)
        source = self._noise(observation.shape)
        with progress.bar(len(chunks) * self.schedule.steps, "step") as bar:
            for start in chunks:
                rows = slice(start, min(start + self.max_batch, total))
                index = range(rows.start, rows.stop)
                noise = source.draw(key, index, channels, shape=observation.shape)
                for state in self._states(noise.to(device), x_obs[rows], mask[rows]):
                    bar.update()
                    x = state.x
                parts.append(x)
        x = self.model.denormalise(torch.cat(parts))
        if not torch.isfinite(x).all():
            raise NumericsError(
                f"a draw became non-finite in {self.schedule.steps} steps: check that "
                "the observation lies in the range of the training data"
            )
        a, u = x.unflatten(0, (samples, observation.batch)).split(self.pde.channels, 2)
        return a, u

    def _states(self, noise: Tensor, x_obs: Tensor, mask: Tensor) -> Iterator[State]:
        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            denoised: Tensor = self.model(x, sigma, x_obs, mask)
            return denoised

        for state in heun(denoise, noise, self.schedule):
            if self.watch:
                self.watch(state)
            yield state

    def _noise(self, shape: tuple[int, int]) -> GRFNoise:
        trained = self.model.pde.grid
        if self.noise_grid == "train":
            return GRFNoise(trained)
        return GRFNoise(Grid(shape, trained.lengths, periodic=trained.periodic))


def solve(
    model: Prisma | Solver,
    a: Array | None = None,
    u: Array | None = None,
    *,
    mask_a: Array | None = None,
    mask_u: Array | None = None,
    steps: int = 20,
    samples: int = 1,
    seed: int | None = None,
    **settings: Any,
) -> Solution:
    """Draws both fields given what was measured of them.

    Args:
        model: A model from `load`, or any `Solver`.
        a: Input field, `(b, c, x, y)`, or `(x, y)` if it has one channel, NumPy or
            torch, physical units; without a mask NaN means missing. None: nothing of
            it was measured.
        u: Solution field, likewise.
        mask_a: 1 or True where `a` was measured.
        mask_u: 1 or True where `u` was measured.
        steps: Sampler steps; `2 steps - 1` network calls.
        samples: Draws per problem.
        seed: Repeats the draws; None draws one, kept in `Solution.seed`.
        **settings: `sigma_min`, `sigma_max`, `rho` of the schedule; `noise_grid`,
            `max_batch`, `watch` of `PrismaSolver`.

    Returns:
        The draws, with shape `(samples, b, c, x, y)`.

    Raises:
        ConfigError: When a setting has no meaning.
        ShapeError: When a field does not fit the model's grid.
        DataError: When values cannot be used.
        NumericsError: When a draw is not finite.
    """
    solver = _as_solver(model, steps, settings)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ConfigError(f"samples={samples!r}: ask for at least one draw")
    drawn = secrets.randbits(62) if seed is None else check_seed(seed)
    owner = _on_grid_of(solver.pde, a if a is not None else u)
    seen = observation(owner, a, u, mask_a, mask_u, allow_nothing=True)
    generator = torch.Generator().manual_seed(drawn)
    draws_a, draws_u = solver.solve(seen, samples=samples, generator=generator)
    return Solution(draws_a, draws_u, owner, seen, drawn)


def _as_solver(model: Prisma | Solver, steps: int, settings: dict[str, Any]) -> Solver:
    if not isinstance(model, Prisma):
        return model
    names = ("sigma_min", "sigma_max", "rho")
    levels = {k: settings.pop(k) for k in names if k in settings}
    try:
        return PrismaSolver(model, Schedule(steps, **levels), **settings)
    except TypeError as error:
        raise ConfigError(f"solve does not know a setting: {error}") from error


def _on_grid_of(pde: PDE, values: Array | None) -> PDE:
    if values is None or getattr(values, "ndim", 0) < 2:
        return pde
    first, second = values.shape[-2:]
    if first != second:
        raise ShapeError(f"a field of {first} x {second} points: fields are square")
    return pde if first == pde.size else pde.resized(first)
