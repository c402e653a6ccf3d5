"""Honest baselines that learn nothing: the rows every table is read against."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from prisma_lib import data
from prisma_lib.errors import ConfigError
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import PDE
from prisma_lib.solve import Draws


@dataclass
class NumericalSolver:
    """The PDE's own reference solver: forward problems with full observations.

    Args:
        pde: The equation.
    """

    pde: PDE
    calls: int = 1

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Solves for `u`; every draw is the same.

        Raises:
            ConfigError: When a part of `a` is missing.
        """
        if not observation.mask_a.all():
            raise ConfigError(
                "the numerical solver needs the whole field a: it solves forward "
                "problems with full observations only"
            )
        u = self.pde.solve(observation.a)
        return _expand(observation.a, samples), _expand(u, samples)


@dataclass
class MeanField:
    """Answers with the mean over inputs of both fields, whatever was observed.

    Args:
        pde: The equation.
        num: Number of training problems in the mean.
    """

    pde: PDE
    num: int = 2048
    calls: int = 0
    _mean: tuple[Tensor, Tensor] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        a, u = data.problems(self.pde, self.num, split="train")
        self._mean = a.mean(0, True), u.mean(0, True)

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Returns the mean fields; every draw is the same."""
        a, u = (
            mean.to(observation.a).expand(observation.batch, -1, -1, -1)
            for mean in self._mean
        )
        return _expand(a, samples), _expand(u, samples)


def _expand(values: Tensor, samples: int) -> Tensor:
    return values.expand(samples, *values.shape)
