"""Networks of one equation's fields, which they see without units.

Fields are in physical units outside of a network and have mean 0 and standard deviation
0.5 inside.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from prisma_lib.checks import warn_of_range
from prisma_lib.edm import SIGMA_DATA, Levels
from prisma_lib.errors import ConfigError
from prisma_lib.fields import GRFNoise
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.presets import Settings
from prisma_lib.tensorfile import check_fit

UNITS = ("mean", "std", "residual_floor")

Errors = Float[Tensor, " b"]
Told = Float[Tensor, "b t x y"]  # observed values, then what else a network is told


@dataclass(frozen=True)
class SensorNoise:
    """Noise of the sensors in training, normalised as the fields are.

    Args:
        values: What it adds to each value, should that be observed.
        sd: Its standard deviation on `a` and on `u` at every point.
    """

    values: Pair
    sd: Float[Tensor, "b 2 x y"]


Network = TypeVar("Network", bound="Normalised")


class Normalised(nn.Module, ABC):
    """A network that knows its equation and the units of the fields: what is trained.

    Args:
        pde: The equation, on the grid that the network is trained on.
        config: Settings of the network, a dataclass.
        statistics: Mean and standard deviation per field, shared by its channels, and
            the residual of the stored truth, all in physical units.
    """

    method: ClassVar[str]  # name in plans and cards
    settings: ClassVar[type[Settings]]
    unweighted: bool = True  # its errors are still to be weighted by noise level
    mean: Tensor
    std: Tensor
    residual_floor: Tensor

    def __init__(self, pde: PDE, config: Any, statistics: Statistics) -> None:
        super().__init__()
        self.pde, self.config, self.statistics = pde, config, statistics
        for name, values in (("mean", statistics.mean), ("std", statistics.std)):
            pairs = zip(values, pde.channels, strict=True)
            each = torch.tensor([value for value, c in pairs for _ in range(c)])
            self.register_buffer(name, each.view(1, -1, 1, 1), persistent=False)
        floor = torch.tensor(statistics.residual_rms)
        self.register_buffer("residual_floor", floor, persistent=False)

    @property
    def channels(self) -> int:
        """Number of channels of both fields together."""
        return sum(self.pde.channels)

    @property
    def noise(self) -> GRFNoise:
        """Noise of the diffusion on the training grid."""
        return GRFNoise(self.pde.grid)

    def begin(self, first: "Normalised") -> None:
        """Takes the weights of a trained network, to go on from them.

        Args:
            first: A network of the same equation and settings.

        Raises:
            CheckpointError: When its network is another.
            ConfigError: When it is of another equation.
        """
        own, other = self.pde, first.pde
        if (own.name, own.channels) != (other.name, other.channels):
            raise ConfigError(
                f"weights of a model of {other.name} with channels {other.channels}: "
                f"this one is of {own.name} with {own.channels}"
            )
        check_fit(first.state_dict(), self.state_dict(), "weights")
        self.load_state_dict(first.state_dict())

    def told(self, x_0: Pair, mask: Pair, sensors: SensorNoise | None = None) -> Told:
        """Returns what the network is told of clean pairs: their values at sensors.

        Args:
            x_0: Clean pairs, normalised.
            mask: 1 where observed.
            sensors: Noise of the sensors, if they have any.
        """
        measured = x_0 if sensors is None else x_0 + sensors.values
        return torch.where(mask > 0, measured, 0.0)

    @abstractmethod
    def errors(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Computes what training makes small, for each image.

        Args:
            x_0: Clean pairs, normalised.
            sigma: Noise levels.
            noise: Noise of unit variance.
            told: What the network is told of them; see `told`.
            mask: 1 where observed.

        Returns:
            Errors; of a network that is `unweighted`, before they are weighted by noise
            level.
        """

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> "Normalised":
        """Casts and moves the network; the units move too, but stay float32."""
        units = {name: getattr(self, name) for name in UNITS}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in units.items():
            moved = fn(value)
            kept = moved if moved.dtype == value.dtype else value.to(moved.device)
            setattr(self, name, kept)
        return self

    def with_equation(self: Network, pde: PDE) -> Network:
        """Returns the network with the residual of other coefficients.

        Weights and units are those of the training, and are shared.

        Args:
            pde: The equation with other coefficients, on the training grid.

        Raises:
            ConfigError: When it is another equation, grid or number of channels.
        """
        own, other = ((p.name, p.size, p.channels) for p in (self.pde, pde))
        if own != other:
            raise ConfigError(
                f"{self.method} was trained for {own[0]} with {own[1]} points per axis "
                f"and channels {own[2]}, asked for {other[0]} with {other[1]} and "
                f"{other[2]}: only coefficients may differ"
            )
        told = copy.copy(self)
        told.pde = pde
        return told

    def warn_of_range(self, x_obs: Pair, mask: Pair, stacklevel: int) -> None:
        """Warns of observed values that do not look like those of the training.

        Args:
            x_obs: Observed values, normalised.
            mask: 1 where observed.
            stacklevel: Whom the warnings name, counted from here.

        Warns:
            UserWarning: When they do not; see `checks.warn_of_range`.
        """
        split = (x.split(self.pde.channels, 1) for x in (x_obs / SIGMA_DATA, mask))
        for name, z, seen in zip("au", *split, strict=True):
            warn_of_range(name, z, seen, stacklevel + 1)

    def normalise(self, x: Pair) -> Pair:
        """Maps fields from physical units to mean 0 and standard deviation 0.5."""
        return (x - self.mean) * (SIGMA_DATA / self.std)

    def denormalise(self, x: Pair) -> Pair:
        """Maps normalised fields to physical units."""
        return x * (self.std / SIGMA_DATA) + self.mean
