"""What the baselines that are trained have in common."""

from abc import abstractmethod
from typing import Any, ClassVar

from prisma_lib.solver import Solver
from prisma_lib.units import Normalised


class Baseline(Normalised):
    """A published method that is trained like PRISMA and answers the same questions."""

    title: ClassVar[str]  # name of its rows

    @abstractmethod
    def solver(self, **settings: Any) -> Solver:
        """Makes the method that answers observations with this network.

        Args:
            **settings: Settings of the method, such as the number of steps.

        Raises:
            ConfigError: When a setting has no meaning.
        """
