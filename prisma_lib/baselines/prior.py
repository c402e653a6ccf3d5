"""Unconditional diffusion models of both fields, which guidance turns into solvers."""

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from prisma_lib.baselines.base import Baseline
from prisma_lib.checks import warn_of_range
from prisma_lib.edm import SIGMA_DATA, Levels, precondition
from prisma_lib.grids import Grid
from prisma_lib.model import check_grid
from prisma_lib.observe import Observation, Pair
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.units import Errors

BYTES = 4  # of a number in float32


class Prior(Baseline):
    """A denoiser of pairs `(a, u)` that sees no observation.

    Args:
        pde: The equation, on the grid that the network is trained on.
        config: Settings of the network, with `factor` and `widths`.
        statistics: Mean and standard deviation per field, physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    maps: ClassVar[
        int
    ]  # feature maps of the finest level that a guided step keeps, from above

    def __init__(self, pde: PDE, config: Any, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self._pdes = {pde.grid.shape: pde}  # one per grid: every call asks for it
        check_grid(pde.grid.shape, config.factor)
        self.backbone = self.build()

    @abstractmethod
    def build(self) -> nn.Module:
        """Makes the network inside the preconditioning, with fresh weights."""

    @abstractmethod
    def call(
        self, x: Pair, noise_level: Float[Tensor, " b"], grid: Grid
    ) -> Float[Tensor, "b c x y"]:
        """Evaluates the network inside the preconditioning.

        Args:
            x: State of unit variance.
            noise_level: c_noise of each sample.
            grid: Where the points are.
        """

    def forward(self, x_sigma: Pair, sigma: Levels) -> Pair:
        """Denoises.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Noise level of each sample, at least 0.

        Returns:
            The estimate of the clean state, normalised.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        c = precondition(sigma)
        skip, out, scale = (v[:, None, None, None] for v in (c.skip, c.out, c.input))
        grid = self.pde_on((x_sigma.shape[-2], x_sigma.shape[-1])).grid
        return skip * x_sigma + out * self.call(scale * x_sigma, c.noise, grid)

    def errors(self, x_0: Pair, sigma: Levels, noise: Pair, mask: Pair) -> Errors:
        """Computes the denoising error of each image; the mask plays no part."""
        x_sigma = x_0 + sigma[:, None, None, None] * noise
        return (self(x_sigma, sigma) - x_0).square().mean((1, 2, 3))

    def condition(self, observation: Observation) -> tuple[Pair, Pair]:
        """Normalises what was measured.

        Args:
            observation: What was measured, physical units.

        Returns:
            The normalised observed values, 0 where unobserved, and the mask.

        Raises:
            ShapeError: When the grid cannot be pooled.

        Warns:
            UserWarning: When values do not look like those of the training.
        """
        check_grid(observation.shape, self.config.factor)
        x_obs, mask = self.normalise(observation.x), observation.mask
        split = (x.split(self.pde.channels, 1) for x in (x_obs / SIGMA_DATA, mask))
        for name, z, seen in zip("au", *split, strict=True):
            warn_of_range(name, z, seen)
        return torch.where(mask > 0, x_obs, torch.zeros_like(x_obs)), mask

    def pde_on(self, shape: tuple[int, int]) -> PDE:
        """Returns the equation on a grid.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        if shape not in self._pdes:
            check_grid(shape, self.config.factor)
            self._pdes[shape] = self.pde.resized(shape[0])
        return self._pdes[shape]

    def per_draw(self, shape: tuple[int, int]) -> int:
        """Estimates the bytes that a guided step takes for one draw, from above."""
        width: int = self.config.widths[0]
        return self.maps * BYTES * width * shape[0] * shape[1]
