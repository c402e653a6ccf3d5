"""Unconditional diffusion models of both fields, which guidance turns into solvers."""

from abc import abstractmethod
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from prisma_lib import memory
from prisma_lib.baselines.base import Baseline
from prisma_lib.denoiser import Denoiser
from prisma_lib.edm import Levels, precondition
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.units import Told


class Prior(Denoiser, Baseline):
    """A denoiser of pairs `(a, u)` that sees no observation.

    Args:
        pde: The equation, on the grid that the network is trained on.
        config: Settings of the network, with `factor` and `widths`.
        statistics: Mean and standard deviation per field, physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    # Feature maps of the finest level that a guided step keeps, from above.
    maps: ClassVar[int]

    def __init__(self, pde: PDE, config: Any, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self.backbone = self.build()

    @abstractmethod
    def build(self) -> nn.Module:
        """Makes the network inside the preconditioning, with fresh weights."""

    @abstractmethod
    def call(
        self, x: Pair, noise_level: Float[Tensor, " b"], pde: PDE
    ) -> Float[Tensor, "b c x y"]:
        """Evaluates the network inside the preconditioning.

        Args:
            x: State of unit variance.
            noise_level: c_noise of each sample.
            pde: The equation on the grid of the state.
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
        pde = self.pde_on((x_sigma.shape[-2], x_sigma.shape[-1]))
        return skip * x_sigma + out * self.call(scale * x_sigma, c.noise, pde)

    def denoised(self, x_sigma: Pair, sigma: Levels, told: Told, mask: Pair) -> Pair:
        """Denoises noisy states; what was observed plays no part."""
        out: Pair = self(x_sigma, sigma)
        return out

    def per_draw(self, shape: tuple[int, int]) -> int:
        """Estimates the bytes that a guided step takes for one draw, from above."""
        return memory.per_draw(self.config.widths[0], shape, self.maps)
