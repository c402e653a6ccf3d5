"""`solve`: from what was measured to draws of both fields.

Whatever solves a problem meets one contract, `Solver`: PRISMA, a baseline, or the PDE's
own numerical solver. `solve` is the door for users; it takes arrays, checks them, and
returns a `Solution` in physical units. The contract and `PrismaSolver` are in
`solver.py` and can be imported from here too.
"""

import secrets
from dataclasses import dataclass, fields
from typing import Any

import torch

from prisma_lib.checks import Array, check_count, check_seed
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, ShapeError, unknown_name
from prisma_lib.model import Prisma
from prisma_lib.observe import Observation, observation
from prisma_lib.pdes.base import PDE, Field, Interior
from prisma_lib.solver import Draws, PrismaSolver, Solver

__all__ = ["Draws", "PrismaSolver", "Solution", "Solver", "solve"]


@dataclass(frozen=True)
class Solution:
    """Draws of both fields, in physical units.

    Args:
        a: Draws of the input field.
        u: Draws of the solution field.
        pde: The equation, on the grid of the fields.
        observation: What was measured.
        seed: Seed that repeats the draws.
        execution: How the network ran, such as "float32, eager"; empty for a solver
            that does not say.
    """

    a: Draws
    u: Draws
    pde: PDE
    observation: Observation
    seed: int
    execution: str = ""

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

        Raises:
            ConfigError: When there is no such problem.
        """
        from prisma_lib import plots

        num = self.observation.batch
        if not 0 <= problem < num:
            raise ConfigError(f"problem={problem!r}: give a number from 0 to {num - 1}")

        return plots.solution(self, problem)


def solve(
    model: Prisma | Solver,
    a: Array | None = None,
    u: Array | None = None,
    *,
    mask_a: Array | None = None,
    mask_u: Array | None = None,
    steps: int | None = None,
    samples: int = 1,
    seed: int | None = None,
    **settings: Any,
) -> Solution:
    """Draws both fields given what was measured of them.

    Args:
        model: A model from `load`, or any `Solver`.
        a: Input field, `(b, c, x, y)`, or `(x, y)` if it has one channel, NumPy or
            torch, physical units; without a mask NaN means missing. None: nothing of
            it was measured. With neither `a` nor `u` the draws are unconditional.
        u: Solution field, likewise.
        mask_a: 1 or True where `a` was measured.
        mask_u: 1 or True where `u` was measured.
        steps: Sampler steps, by default 20; `2 steps - 1` network calls with Heun's
            method, `steps` with the others.
        samples: Draws per problem.
        seed: Repeats the draws; None draws one, kept in `Solution.seed`.
        **settings: `sigma_min`, `sigma_max`, `rho` of the schedule; `sampler`,
            `noise_grid`, `max_batch`, `precision`, `noise_sd`, `compile`, `symmetric`,
            `watch` of `PrismaSolver`. A `Solver` has its own and takes none.

    Returns:
        The draws, with shape `(samples, b, c, x, y)`.

    Raises:
        ConfigError: When a setting has no meaning, or not even one draw fits into
            memory (exit code 4).
        ShapeError: When a field does not fit the model's grid.
        DataError: When values cannot be used, or fields hold no measured value.
        NumericsError: When a draw is not finite; names the first such step.
    """
    solver = _as_solver(model, steps, settings)
    check_count("samples", samples, 1, 16)
    drawn = secrets.randbits(62) if seed is None else check_seed(seed)
    owner = _on_grid_of(solver.pde, a if a is not None else u)
    nothing = a is None and u is None
    seen = observation(owner, a, u, mask_a, mask_u, allow_nothing=nothing)
    generator = torch.Generator().manual_seed(drawn)
    draws_a, draws_u = solver.solve(seen, samples=samples, generator=generator)
    how = getattr(solver, "execution", "")
    return Solution(draws_a, draws_u, owner, seen, drawn, how)


def _as_solver(
    model: Prisma | Solver, steps: int | None, settings: dict[str, Any]
) -> Solver:
    if not hasattr(model, "pde"):  # an equation has none, and nor has a name
        raise ConfigError(
            f"a {type(model).__name__} is no model: load one first, such as "
            'load("darcy-32")'
        )
    levels = ("sigma_min", "sigma_max", "rho")
    own = [f.name for f in fields(PrismaSolver) if f.name not in ("model", "schedule")]
    for name in settings:
        if name not in (*levels, *own):
            raise unknown_name("setting of solve", name, (*levels, *own))
    given = {} if steps is None else {"steps": steps}
    if not isinstance(model, Prisma):
        settings |= given
        if settings:
            raise ConfigError(
                f"{', '.join(settings)}: {type(model).__name__} has its own settings; "
                "give them where it is made"
            )
        return model
    given |= {k: v for k, v in settings.items() if k in levels}
    rest = {k: v for k, v in settings.items() if k in own}
    return PrismaSolver(model, Schedule(**given), **rest)


def _on_grid_of(pde: PDE, values: Array | None) -> PDE:
    if values is None or getattr(values, "ndim", 0) < 2:
        return pde
    first, second = values.shape[-2:]
    if first != second:
        raise ShapeError(f"a field of {first} x {second} points: fields are square")
    return pde if first == pde.size else pde.resized(first)
