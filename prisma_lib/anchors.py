"""Honest baselines that learn nothing: the rows every table is read against.

`of` is the one door: it gives all baselines that apply to a cell of a table, whatever
the equation.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from prisma_lib import data
from prisma_lib.cells import check_cell
from prisma_lib.errors import ConfigError
from prisma_lib.lifts import prepare
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import PDE, Direction, Field
from prisma_lib.pdes.darcy import Darcy
from prisma_lib.posterior import ExactPosterior, is_gaussian
from prisma_lib.solve import Draws, Solver

# What the first iterations of Darcy's forward lift are worth, by method; it has three.
CUT = {"lift (1 iteration)": 1, "lift (2 iterations)": 2}


def of(
    pde: PDE,
    direction: Direction,
    regime: str,
    noise_sd: float | tuple[float, float] = 0.0,
    num: int = 2048,
) -> dict[str, Solver]:
    """Returns every baseline that applies to a cell of an equation's table.

    - "numerical solver": full forward problems.
    - "stencil": full inverse problems, where the equation has an explicit inverse.
    - "persistence": copies one field to the other, for one time step, full and noisy.
    - "mean field": everywhere; what nothing observed is worth.
    - "lift": everywhere; the classical estimate of `pde.lift`. Of full forward problems
      of Darcy flow also cut short, after the iterations of `CUT`.
    - "exact posterior": everywhere, where it is known.

    Args:
        pde: The equation.
        direction: One of its directions.
        regime: One of `cells.REGIMES`.
        noise_sd: Standard deviation of the sensor noise, physical units; one number, or
            one for `a` and one for `u`. Only the lift and the exact posterior use it.
        num: Number of training problems in the mean field.

    Returns:
        Solvers by the name of their row.

    Raises:
        ConfigError: When the equation has no such cell.
    """
    check_cell(pde, direction, regime)
    found: dict[str, Solver] = {}
    if (direction, regime) == ("forward", "full"):
        found["numerical solver"] = NumericalSolver(pde)
    if (direction, regime) == ("inverse", "full") and _is_explicit(pde):
        found["stencil"] = Stencil(pde)
    if pde.kind == "one_step" and regime != "sparse":
        found["persistence"] = Persistence(pde)
    found["mean field"] = MeanField(pde, num)
    found["lift"] = Lifted(pde, noise_sd)
    if isinstance(pde, Darcy) and (direction, regime) == ("forward", "full"):
        found |= {name: Lifted(pde, noise_sd, few) for name, few in CUT.items()}
    if is_gaussian(pde):
        found["exact posterior"] = ExactPosterior(pde, noise_sd)
    return found


def _is_explicit(pde: PDE) -> bool:
    rest = torch.zeros(1, pde.channels[1], *pde.grid.shape)
    return pde.stencil(rest) is not None


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
class Stencil:
    """The PDE's own explicit inverse: inverse problems with full observations.

    Args:
        pde: The equation.
    """

    pde: PDE
    calls: int = 0

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Recovers `a`; every draw is the same.

        Raises:
            ConfigError: When a part of `u` is missing, or the equation has no explicit
                inverse.
        """
        if not observation.mask_u.all():
            raise ConfigError(
                "the stencil needs the whole field u: it solves inverse problems with "
                "full observations only"
            )
        a = self.pde.stencil(observation.u)
        if a is None:
            raise ConfigError(
                f"{self.pde.name} gives no explicit inverse: ask anchors.of for the "
                "baselines that it has"
            )
        return _expand(a, samples), _expand(observation.u, samples)


@dataclass
class Persistence:
    """Copies the observed field to the other one: nothing changes in a time step.

    Args:
        pde: An equation of one time step.
    """

    pde: PDE
    calls: int = 0

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Copies what was observed, noise included; every draw is the same.

        Every frame of the solution is a copy of the input, the input one of the first.

        Raises:
            ConfigError: When neither field was observed as a whole, or the equation is
                not one of a time step.
        """
        if self.pde.kind != "one_step":
            raise ConfigError(
                f"persistence needs an equation of one time step; {self.pde.name} is "
                f"of the kind {self.pde.kind!r}"
            )
        known_a, known_u = observation.mask_a.all(), observation.mask_u.all()
        if not (known_a or known_u):
            raise ConfigError(
                "persistence needs the whole field a or u: it copies one to the other"
            )
        a = observation.a if known_a else observation.u[:, :1]
        u = observation.u if known_u else observation.a.expand_as(observation.u)
        return _expand(a, samples), _expand(u, samples)


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
    _mean: tuple[Field, Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._mean = _means(self.pde, self.num)

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Returns the mean fields; every draw is the same."""
        a, u = (
            mean.to(observation.a).expand(observation.batch, -1, -1, -1)
            for mean in self._mean
        )
        return _expand(a, samples), _expand(u, samples)


@dataclass
class Lifted:
    """Answers with the classical estimate of both fields; see `lifts.lift`.

    Args:
        pde: The equation.
        noise_sd: Standard deviation of the sensor noise, physical units; one number, or
            one for `a` and one for `u`.
        iterations: Of Darcy's forward lift, 0 to 3; by default those of the lift.
    """

    pde: PDE
    noise_sd: float | tuple[float, float] = 0.0
    iterations: int | None = None
    calls: int = 0

    def __post_init__(self) -> None:
        # What is made once for an equation is not part of the time of a problem.
        prepare(self.pde)

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Returns the estimate; every draw is the same.

        Raises:
            ConfigError: When the noise is impossible, or the lift has no iterations.
            ShapeError: When the observation is on another grid.
        """
        few = {} if self.iterations is None else {"iterations": self.iterations}
        lift = self.pde.lift(observation, self.noise_sd, **few)
        return _expand(lift.a, samples), _expand(lift.u, samples)


# A table asks for the same means in each of its cells.
@lru_cache(maxsize=8)
def _means(pde: PDE, num: int) -> tuple[Field, Field]:
    a, u = data.problems(pde, num, split="train")
    return a.mean(0, True), u.mean(0, True)


def _expand(values: Tensor, samples: int) -> Tensor:
    return values.expand(samples, *values.shape)
