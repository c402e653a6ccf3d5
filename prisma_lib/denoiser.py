"""What all denoisers have in common: grids, observations, and the error of training."""

from abc import abstractmethod
from functools import lru_cache
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.edm import Levels
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.observe import Observation, Pair
from prisma_lib.observed import Noise
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.units import Errors, Normalised, Told

Network = TypeVar("Network", bound="Denoiser")

COORDINATES = 2


class Denoiser(Normalised):
    """A network that takes noise out of pairs, on every grid that it can pool.

    Args:
        pde: The equation, on the grid that the network is trained on.
        config: Settings of the network, with the pooling `factor`.
        statistics: Mean and standard deviation per field, shared by its channels, and
            the residual of the stored truth, all in physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    def __init__(self, pde: PDE, config: Any, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self._pdes = {pde.grid.shape: pde}  # one per grid: every call asks for it
        check_grid(pde.grid.shape, config.factor)

    @abstractmethod
    def denoised(self, x_sigma: Pair, sigma: Levels, told: Told, mask: Pair) -> Pair:
        """Denoises.

        Args:
            x_sigma: Noisy states, normalised.
            sigma: Their noise levels.
            told: What the network is told of the clean ones; see `Normalised.told`.
            mask: 1 where observed.
        """

    def errors(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Computes the denoising error of each image.

        Args:
            x_0: Clean pairs, normalised.
            sigma: Noise levels.
            noise: Noise of unit variance.
            told: What the network is told of them.
            mask: 1 where observed.

        Returns:
            Mean over fields and points of the squared error, without a weight.

        Reference:
            PRISMA, algorithm 1. arXiv 2512.01370.
        """
        x_sigma = x_0 + sigma[:, None, None, None] * noise
        denoised = self.denoised(x_sigma, sigma, told, mask)
        return (denoised - x_0).square().mean((1, 2, 3))

    def condition(
        self, observation: Observation, noise_sd: Noise | None = None
    ) -> tuple[Told, Pair]:
        """Prepares an observation for the denoiser.

        Args:
            observation: What was measured, physical units.
            noise_sd: Noise of the sensors, of a network that is told of it.

        Returns:
            What the network is told, the normalised observed values first, 0 where
            unobserved; and the mask.

        Raises:
            ConfigError: When the network is told of no noise, but there is some.
            ShapeError: When the grid cannot be pooled.

        Warns:
            UserWarning: When values do not look like those of the training.
        """
        self.check_shape(observation.shape)
        if noise_sd is not None:
            raise ConfigError(
                f"noise_sd={noise_sd}: {self.method} was trained without noisy sensors "
                "and is told of no noise; leave noise_sd out, or use a model of "
                "prisma-l"
            )
        mask = observation.mask
        x_obs = self.normalise(observation.x)
        self.warn_of_range(x_obs, mask, stacklevel=4)
        return torch.where(mask > 0, x_obs, torch.zeros_like(x_obs)), mask

    def with_equation(self: Network, pde: PDE) -> Network:
        """Returns the network with other coefficients; see `Normalised`."""
        told = super().with_equation(pde)
        told._pdes = {pde.grid.shape: pde}
        return told

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuses a grid that cannot be pooled.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        check_grid(shape, self.config.factor)

    def pde_on(self, shape: tuple[int, int]) -> PDE:
        """Returns the equation on a grid.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        if shape not in self._pdes:
            check_grid(shape, self.config.factor)
            self._pdes[shape] = self.pde.resized(shape[0])
        return self._pdes[shape]


def check_grid(shape: tuple[int, int], factor: int) -> None:
    """Refuses grids that are not square or that the pooling levels cannot divide.

    Equations have one `size`: their solvers, noise and stored data are square.

    Raises:
        ShapeError: Naming the nearest valid sizes.
    """
    if shape[0] != shape[1]:
        raise ShapeError(
            f"a grid of {shape[0]} x {shape[1]} points is not square: an equation has "
            f"one size for both axes; resample the fields to {max(shape)} points each"
        )
    for n in shape:
        if n % factor or n < 2 * factor:
            below = max(n // factor, 2) * factor
            raise ShapeError(
                f"a grid of {shape[0]} x {shape[1]} points cannot be halved "
                f"{factor.bit_length() - 1} times: points per axis must be a multiple "
                f"of {factor}, such as {below} or {below + factor}"
            )


# Every call needs it, and its numbers would have to travel to the device.
@lru_cache(maxsize=32)
@torch.inference_mode(False)
def place(pde: PDE, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "_ x y"]:
    """Returns what a network is told of every point, the same in all problems.

    Returns:
        Coordinates as shares of the domain, less one half, and what drives the equation
        there, of largest size 1. A network that has to find a force of the equation as
        a function of the coordinates needs thousands of problems for each wave of it.
    """
    grid = pde.grid
    lengths = torch.tensor(grid.lengths, dtype=dtype, device=device)
    shares = grid.coordinates(dtype, device) / lengths[:, None, None] - 0.5
    forces = pde.forces().to(device, dtype)
    largest = forces.abs().amax((1, 2), True)
    forces = torch.where(largest > 0, forces / largest, 0.0)
    return torch.cat([shares, forces])


def places(pde: PDE) -> int:
    """Returns the number of channels of `place`."""
    return COORDINATES + len(pde.forces())
