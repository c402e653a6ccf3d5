"""The symmetries of a square: turns and reflections, where an equation has them.

If an equation and the law of its inputs do not change when a square is turned or
reflected, its posterior turns and reflects with what was measured. A network is not
told so. Draws from all eight views of a problem have a mean that is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from jaxtyping import Shaped
from torch import Tensor

from prisma_lib.errors import ConfigError
from prisma_lib.observed import Observation
from prisma_lib.pdes.base import PDE
from prisma_lib.solver import Draws, Solver

ORDER = 8  # of the group
TURNS = 4

Moved = Shaped[Tensor, "*b x y"]


def moved(x: Moved, element: int) -> Moved:
    """Turns a square field, and reflects it.

    Args:
        x: Values on nodes, `x` and `y` last.
        element: Number of the symmetry, from 0, which does nothing, to 7.
    """
    turned = torch.rot90(x, element % TURNS, (-2, -1))
    return turned.flip(-1) if element >= TURNS else turned


def moved_back(x: Moved, element: int) -> Moved:
    """Undoes `moved`."""
    unturned = x.flip(-1) if element >= TURNS else x
    return torch.rot90(unturned, -(element % TURNS), (-2, -1))


def check_symmetric(pde: PDE) -> None:
    """Refuses an equation that a square's symmetries change.

    Raises:
        ConfigError: Naming the equation.
    """
    if not pde.dihedral:
        raise ConfigError(
            f"{pde.name} changes when the square is turned or reflected: its forcing, "
            "its axes of time or its domain single out a direction; leave symmetry out"
        )


@dataclass(frozen=True)
class SymmetricSolver:
    """Asks a solver for each draw from another of eight views: a `Solver`.

    Args:
        solver: What draws.

    Raises:
        ConfigError: When the equation does not have the symmetries of the square.
    """

    solver: Solver

    def __post_init__(self) -> None:
        check_symmetric(self.solver.pde)

    @property
    def pde(self) -> PDE:
        """The equation that it solves."""
        return self.solver.pde

    @property
    def calls(self) -> int:
        """Network calls for one draw."""
        return self.solver.calls

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Draws from the posterior; draw `s` sees the view `s` modulo 8.

        Args:
            observation: What was measured, physical units.
            samples: Draws per problem; with a multiple of 8 all views count alike.
            generator: Source of the solver's keys, one a view.

        Returns:
            Draws of `a` and `u`, physical units.
        """
        views = [*self._views(observation, samples, generator)]
        a, u = (
            torch.stack([views[s % ORDER][k][s // ORDER] for s in range(samples)])
            for k in range(2)
        )
        return a, u

    def _views(
        self, observation: Observation, samples: int, generator: torch.Generator
    ) -> Iterator[tuple[Draws, Draws]]:
        for element in range(min(ORDER, samples)):
            number = len(range(element, samples, ORDER))
            a, u = self.solver.solve(
                _moved(observation, element), samples=number, generator=generator
            )
            yield moved_back(a, element), moved_back(u, element)


def _moved(observation: Observation, element: int) -> Observation:
    parts = (getattr(observation, part.name) for part in fields(observation))
    return Observation(*(moved(part, element).contiguous() for part in parts))
