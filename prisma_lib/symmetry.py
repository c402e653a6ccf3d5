"""The symmetries of a square: turns and reflections, where an equation has them.

If an equation and the law of its inputs do not change when a square is turned or
reflected, its posterior turns and reflects with what was measured. A network is not
told so. Draws from all eight views of a problem have a mean that does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Shaped
from torch import Tensor

from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import PDE

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
class Views:
    """The views in which some draws see their problems.

    Args:
        runs: Number of the symmetry, and how many draws in a row see it; nothing is
            moved without any.
    """

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of_draws(cls, rows: range, batch: int) -> "Views":
        """Gives draw `s` of every problem the view `s` modulo 8.

        Args:
            rows: Numbers of the draws; draw `s` of problem `j` is `s * batch + j`.
            batch: Number of problems.
        """
        runs = groupby(rows, key=lambda row: row // batch)
        return cls(tuple((s % ORDER, len([*run])) for s, run in runs))

    def of(self, x: Moved) -> Moved:
        """Moves the fields of each draw into its view."""
        return self._each(x, moved)

    def back(self, x: Moved) -> Moved:
        """Undoes `of`."""
        return self._each(x, moved_back)

    def _each(self, x: Moved, move: Callable[[Moved, int], Moved]) -> Moved:
        if not any(element for element, _ in self.runs):
            return x
        parts = x.split([number for _, number in self.runs])
        pairs = zip(parts, self.runs, strict=True)
        return torch.cat([move(part, element) for part, (element, _) in pairs])
