"""Many time steps: a solver answers, and its answer is its next question.

A state is observed as a regime says, the solver draws the frames after it, and the last
of them is the next state. What hides or disturbs a state can enter once, with the first
one, or anew with every state that is handed on; sensors then see the solver's own state
and nothing of the truth.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib import data
from prisma_lib.cells import Benchmark, observation_of
from prisma_lib.checks import check_count
from prisma_lib.errors import NumericsError, unknown_name
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import Field
from prisma_lib.pdes.navier_stokes import NavierStokes
from prisma_lib.solver import Solver

ENTRIES = ("once", "every")

Frames = Float[Tensor, "b frames x y"]


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
) -> Frames:
    """Goes many steps ahead, one draw a call.

    Args:
        solver: A method of the equation; it answers with one frame or several.
        problems: States at the time 0.
        steps: Number of frames; those of a last answer beyond them are dropped.
        regime: What is observed of a state, one of `cells.REGIMES`.
        entering: "once": of the first state, and all of the later ones is known;
            "every": of each state, with other sensors and other noise.

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
        seen = _observed(problems, state, hidden, call)
        generator = torch.Generator().manual_seed(problems.seed + call)
        try:
            _, u = solver.solve(seen, samples=1, generator=generator)
        except NumericsError:
            break
        frames = torch.cat([frames, u[0].to(frames)], dim=1)
        state = frames[:, -1:]
    missing = max(0, steps - frames.shape[1])
    return F.pad(frames[:, :steps], (0, 0, 0, 0, 0, missing), value=torch.nan)


def _observed(problems: Benchmark, state: Field, regime: str, call: int) -> Observation:
    """Observes a state; the first one as tables do, later ones by other sensors."""
    now = replace(problems, a=state, seed=problems.seed + call)
    return observation_of(now, "forward", regime)
