r"""Exact posteriors of linear equations with Gaussian inputs.

Where `a` is a Gaussian field and `u` depends linearly on it, both are linear maps of
white noise, and their distribution given any measured values is Gaussian and known in
closed form. No method can have a smaller expected squared error than its mean: it is
the floor of a table, and its draws are the yardstick of calibration.

Everything is computed in float64. The cost is one Cholesky factor per distinct mask,
with as many rows as there are measured values.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.conditioning import (
    Conditioned,
    Values,
    White,
    condition,
    joint_of,
    rows_of,
    variance_of,
)
from prisma_lib.errors import ConfigError
from prisma_lib.fields import keyed_normal
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.philox import key_of

Draws = Float[Tensor, "samples b 1 x y"]


class LinearGaussian(PDE):
    """A PDE whose solution is linear in a Gaussian input of zero mean.

    It states two linear, differentiable maps, from which its posteriors follow.
    """

    @property
    def gaussian(self) -> bool:
        """Whether the inputs are Gaussian, so that posteriors are known."""
        return True

    @abstractmethod
    def colour(self, white: White) -> Field:
        """Maps white noise to inputs, linearly, in the dtype of the noise."""

    @abstractmethod
    def propagate(self, a: Field) -> Field:
        """Maps inputs to solutions, linearly, in the dtype of the input."""

    @torch.no_grad()
    def solve(self, a: Field) -> Field:
        """Solves the discrete equation exactly, in float64.

        Args:
            a: Inputs on this grid; their edge has no influence.

        Returns:
            Solutions of the dtype and on the device of `a`, zero at the edge.

        Raises:
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value of `a` is not finite.
        """
        self.check(a)
        self.check_finite(a)
        return self.propagate(a.double()).to(a.dtype)

    def gaussian_posterior(
        self, observation: Observation, noise_sd: float | tuple[float, float] = 0.0
    ) -> "GaussianPosterior":
        """Conditions both fields on what was measured; see `gaussian_posterior`."""
        return gaussian_posterior(self, observation, noise_sd)


def is_gaussian(pde: PDE) -> TypeGuard[LinearGaussian]:
    """Says whether the exact posterior of an equation is known."""
    return isinstance(pde, LinearGaussian) and pde.gaussian


def gaussian_posterior(
    pde: PDE,
    observation: Observation,
    noise_sd: float | tuple[float, float] = 0.0,
) -> "GaussianPosterior":
    """Conditions both fields of an equation on what was measured.

    Args:
        pde: A linear equation with Gaussian inputs, on the grid of the observation.
        observation: Any values of `a` and `u`, under any masks.
        noise_sd: Standard deviation of the sensor noise in physical units, at least 0;
            one number, or one for `a` and one for `u`. Without noise the values count
            as known to a millionth of their field's standard deviation.

    Returns:
        The posterior of every problem of the batch, on the observation's device.

    Raises:
        ConfigError: When the equation has no Gaussian posterior or the noise is
            impossible.
        DataError: When it is given no observation.
        ShapeError: When the observation is on another grid.
    """
    if not is_gaussian(pde):
        raise ConfigError(
            f"{pde.name} with {pde.options} has no posterior in closed form: it needs "
            "a linear equation with Gaussian inputs, such as poisson or helmholtz"
        )
    pde.check_observation(observation)
    pair = noise_sd if isinstance(noise_sd, tuple) else (noise_sd, noise_sd)
    numbers = [sd for sd in pair if isinstance(sd, int | float)]
    if len(numbers) != 2 or not all(math.isfinite(sd) and sd >= 0 for sd in numbers):
        raise ConfigError(
            f"noise_sd={noise_sd}: noise needs a finite standard deviation of at least "
            "0 in physical units, or one for a and one for u"
        )
    return GaussianPosterior(pde, observation, (float(pair[0]), float(pair[1])))


@dataclass(frozen=True)
class GaussianPosterior:
    """The exact distribution of both fields given what was measured.

    `gaussian_posterior` makes it. Results are float64, on the observation's device.

    Args:
        pde: The equation.
        observation: What was measured.
        noise_sd: Standard deviation of the noise on `a` and on `u`.
    """

    pde: LinearGaussian
    observation: Observation
    noise_sd: tuple[float, float]

    @torch.no_grad()
    def mean(self) -> tuple[Field, Field]:
        """Returns the mean of `a` and of `u`."""
        white = torch.zeros_like(self._values[:, 0]).flatten(1)
        for problems, known in self._groups():
            white[problems] = known.mean(self._measured(problems, known))
        return self._fields(white)

    @torch.no_grad()
    def std(self) -> tuple[Field, Field]:
        """Returns the standard deviation of `a` and of `u` at every point."""
        prior = variance_of(self._both, self._values[:, 0]).flatten()
        variance = prior.expand(len(self._values), -1).clone()
        for problems, known in self._groups():
            every = torch.arange(variance.shape[1], device=variance.device)
            joint = joint_of(self._both, known.rows, every, self._values[:, 0])
            variance[problems] -= known.explained(joint)
        std = variance.clamp(min=0).sqrt().view_as(self._values)
        return std[:, :1], std[:, 1:]

    @torch.no_grad()
    def sample(self, num: int, generator: torch.Generator) -> tuple[Draws, Draws]:
        """Draws both fields.

        The generator yields one key; draw `s` of problem `j` depends on the key and on
        `s * batch + j` alone.

        Args:
            num: Draws per problem, at least 1.
            generator: Source of the key.

        Returns:
            Draws of `a` and of `u`.

        Raises:
            ConfigError: When `num` is below 1.
        """
        if num < 1:
            raise ConfigError(f"num={num}: ask for at least one draw")
        key = key_of(generator)
        batch = self.observation.batch
        white = self._values[:, 0].flatten(1).repeat(num, 1)
        for problems, known in self._groups():
            rows = [s * batch + j for s in range(num) for j in problems.tolist()]
            fresh, noise = self._normal(key, rows)
            values = self._measured(problems, known).repeat(num, 1)
            white[rows] = known.draw(values, fresh, noise[:, known.seen])
        a, u = self._fields(white)
        return a.unflatten(0, (num, batch)), u.unflatten(0, (num, batch))

    @cached_property
    def _values(self) -> Values:
        return self.observation.x.double()

    def _measured(self, problems: Tensor, known: Conditioned) -> Float[Tensor, "j m"]:
        return self._values[problems].flatten(1)[:, known.seen]

    def _normal(self, key: int, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Returns standard normal numbers for inputs and for sensors, flat."""
        shape = (3, *self.observation.shape)
        normal = keyed_normal(key, rows, shape, purpose="posterior")
        normal = normal.to(self._values)
        return normal[:, 0].flatten(1), normal[:, 1:].flatten(1)

    def _both(self, white: White) -> Values:
        a = self.pde.colour(white)
        return torch.cat([a, self.pde.propagate(a)], dim=1)

    def _fields(self, white: Float[Tensor, "b n"]) -> tuple[Field, Field]:
        both = self._both(white.unflatten(1, self.observation.shape))
        return both[:, :1], both[:, 1:]

    def _groups(self) -> Iterator[tuple[Tensor, Conditioned]]:
        """Yields the numbers of the problems that share a mask, and what they share."""
        masks, number = self._masks
        for i in range(len(masks)):
            known = self._first if i == 0 else self._conditioned(masks[i])
            yield (number == i).nonzero()[:, 0], known

    @cached_property
    def _masks(self) -> tuple[Tensor, Tensor]:
        mask = self.observation.mask.flatten(1)
        masks, number = mask.unique(dim=0, return_inverse=True)
        return masks, number

    # Kept, since a full observation has this mask only and its factor takes longest.
    @cached_property
    def _first(self) -> Conditioned:
        return self._conditioned(self._masks[0][0])

    def _conditioned(self, mask: Float[Tensor, " both"]) -> Conditioned:
        seen = mask.nonzero()[:, 0]
        like = self._values[:, 0]
        rows = rows_of(self._both, seen, like)
        # A product of m rows costs m² n² steps, the map m n³ of them.
        few = len(seen) < 4 * max(self.observation.shape)
        covariance = rows @ rows.T if few else joint_of(self._both, rows, seen, like)
        points = like[0].numel()
        sd = like.new_tensor(self.noise_sd)[seen // points]
        return condition(rows, covariance, seen, sd, points)


@dataclass
class ExactPosterior:
    """The row "exact posterior" of a table: a `Solver` that calls no network.

    Args:
        pde: A linear equation with Gaussian inputs.
        noise_sd: Standard deviation of the sensor noise, physical units; one number, or
            one for `a` and one for `u`.
    """

    pde: PDE
    noise_sd: float | tuple[float, float] = 0.0
    calls: int = 0

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Draws from the exact posterior.

        Args:
            observation: What was measured, physical units.
            samples: Draws per problem.
            generator: Source of randomness.

        Returns:
            Draws of `a` and `u`, of the observation's dtype.

        Raises:
            ConfigError: When the equation has no Gaussian posterior.
            ShapeError: When the observation is on another grid.
        """
        posterior = gaussian_posterior(self.pde, observation, self.noise_sd)
        a, u = posterior.sample(samples, generator)
        return a.to(observation.a.dtype), u.to(observation.u.dtype)
