"""Many time steps: a solver answers, and its answer is its next question.

A state is observed as a regime says, the solver draws the frames after it, and the last
of them is the next state. What hides or disturbs a state can enter once, with the first
one, or anew with every state that is handed on; sensors then see the solver's own state
and nothing of the truth.
"""

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib import data
from prisma_lib.answers import Answer
from prisma_lib.cells import Benchmark, Cell, observation_of
from prisma_lib.checks import check_count
from prisma_lib.errors import NumericsError, unknown_name
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import Field
from prisma_lib.pdes.navier_stokes import NavierStokes
from prisma_lib.shelf import Shelf
from prisma_lib.solver import Draws, Solver

ENTRIES = ("once", "every")
COSTS = ("width", "seconds", "calls", "peak_mb")

Frames = Float[Tensor, "b frames x y"]


@dataclass(frozen=True)
class Rolled:
    """A rollout and what it cost.

    Args:
        frames: The frames, on the CPU.
        width: Frames of one answer.
        seconds: Time of one answer to one problem, its observation included.
        calls: Network calls of one answer.
        peak_mb: Memory of the process at most, so far.
    """

    frames: Frames
    width: int
    seconds: float
    calls: int
    peak_mb: int

    def cost(self, step: int) -> dict[str, str | int]:
        """Returns the columns of a result row of what it takes to get to a step.

        Args:
            step: Number of the frame, from 1 on.
        """
        answers = -(-step // self.width)
        return {
            "seconds_per_sample": f"{answers * self.seconds:.3g}",
            "calls": answers * self.calls,
            "peak_mb": self.peak_mb,
        }


@dataclass
class LiftThenSolve:
    """The reference solver from the classical estimate of the state; learns nothing.

    Args:
        pde: The flow.
        noise_sd: Standard deviation of the sensor noise, physical units; one number, or
            one for `a` and one for `u`.
    """

    pde: NavierStokes
    noise_sd: float | tuple[float, float] = 0.0
    calls: int = 1

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Returns the estimate and what follows from it; every draw is the same.

        Raises:
            ConfigError: When the noise is impossible.
            NumericsError: When the flow of the estimate is too fast for the time step.
        """
        a = self.pde.lift(observation, self.noise_sd).a
        u = self.pde.solve(a)
        return a.expand(samples, *a.shape), u.expand(samples, *u.shape)


def starts(pde: NavierStokes, num: int, seed: int = 0) -> Benchmark:
    """Draws the starts of trajectories of the test split.

    Args:
        pde: The flow.
        num: Number of trajectories.
        seed: Seed of the data.

    Returns:
        States at the time 0 with the frames after them, as test problems: each is of a
        trajectory of its own, so that they are independent.

    Raises:
        ConfigError: When a number is impossible.
    """
    check_count("num", num, 1, 32)
    numbers = data.sample_numbers("test", num * pde.times)[:: pde.times]
    a, u = pde.pair(seed, numbers)
    return Benchmark(pde, a, u, data.statistics(pde, seed=seed), seed)


def rollout(
    solver: Solver,
    problems: Benchmark,
    steps: int,
    regime: str = "full",
    entering: str = "once",
    later: Solver | None = None,
) -> Frames:
    """Goes many steps ahead, one draw a call.

    Args:
        solver: A method of the equation; it answers with one frame or several.
        problems: States at the time 0.
        steps: Number of frames; those of a last answer beyond them are dropped.
        regime: What is observed of a state, one of `cells.REGIMES`.
        entering: "once": of the first state, and all of the later ones is known;
            "every": of each state, with other sensors and other noise.
        later: Answers states of which all is known after one of which it was not: a
            guided method has other weights for them. By default the solver itself.

    Returns:
        The frames, on the device of the problems. Where a solver gives up because a
        state blew up, this one and all later ones are NaN.

    Raises:
        ConfigError: When the regime, `entering` or the number of steps is impossible.
    """
    check_count("steps", steps, 1, 10)
    if entering not in ENTRIES:
        raise unknown_name("way of entering", entering, ENTRIES)
    state, frames = problems.a, problems.a[:, :0]
    while frames.shape[1] < steps:
        call = frames.shape[1] // problems.pde.channels[1]
        hidden = regime if call == 0 or entering == "every" else "full"
        asked = solver if hidden == regime else later or solver
        seen = _observed(problems, state, hidden, call)
        generator = torch.Generator().manual_seed(problems.seed + call)
        try:
            _, u = asked.solve(seen, samples=1, generator=generator)
        except NumericsError:
            break
        frames = torch.cat([frames, u[0].to(frames)], dim=1)
        state = frames[:, -1:]
    missing = max(0, steps - frames.shape[1])
    return F.pad(frames[:, :steps], (0, 0, 0, 0, 0, missing), value=torch.nan)


def timed(solver: Solver, problems: Benchmark, steps: int, *how: Any) -> Rolled:
    """Goes many steps ahead as `rollout` does, and says what that cost.

    Args:
        solver: See `rollout`.
        problems: The time of a batch is shared equally by them.
        steps: Number of frames.
        *how: The regime, `entering` and `later` of `rollout`, in this order.

    Raises:
        ConfigError: When the regime, `entering` or the number of steps is impossible.
    """
    began = time.perf_counter()
    frames = rollout(solver, problems, steps, *how).cpu()
    seconds = time.perf_counter() - began
    width = problems.pde.channels[1]
    answers = -(-steps // width) * problems.n
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Rolled(frames, width, seconds / answers, solver.calls, peak)


def kept(
    shelf: Shelf, solver: Solver, problems: Benchmark, steps: int, *how: Any
) -> Rolled:
    """Returns a rollout that is kept, or makes it as `timed` does and keeps it.

    Args:
        shelf: Where rollouts are kept, so that a run that is cut goes on.
        solver: See `rollout`.
        problems: See `rollout`.
        steps: See `rollout`.
        *how: The regime, `entering` and `later` of `rollout`, in this order.

    Raises:
        ConfigError: When the regime, `entering` or the number of steps is impossible.
    """
    solvers = [each for each in (solver, *how[2:]) if each is not None]
    cell: Cell = ("forward", how[0] if how else "full")
    who = f"{type(solver).__name__}, {steps} frames, {how[:2]}"

    def make() -> Iterator[Answer]:
        made = timed(solver, problems, steps, *how)
        about = {name: getattr(made, name) for name in COSTS}
        yield Answer(problems, cell, None, made.frames[None], about)

    (answer,) = shelf.kept(who, solvers, problems, [cell], 1, make)
    assert answer.u is not None
    return Rolled(answer.u[0], **answer.about)


def _observed(problems: Benchmark, state: Field, regime: str, call: int) -> Observation:
    """Observes a state; the first one as tables do, later ones by other sensors."""
    now = replace(problems, a=state, seed=problems.seed + call)
    return observation_of(now, "forward", regime)
