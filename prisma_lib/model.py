r"""PRISMA: a denoiser that sees observations, masks and the PDE residual.

$$D(x_\sigma, \sigma, y) = c_{skip} x_\sigma + c_{out} F_\theta\big(c_{in} x_\sigma,
M x_{obs}, M, r, c_{noise}\big), \qquad
r = R\big(M x_{obs} + (1 - M) x_\sigma\big).$$

The fields are normalised to mean 0 and standard deviation 0.5 inside this module and in
physical units everywhere else. The residual is always evaluated in physical units and
float32, then divided by $\sqrt{\text{rms}(r)^2 + s_0^2}$, where $s_0$ is the residual
of the stored truth; its logarithm goes to the gates, so that nothing is lost.

Reference:
    PRISMA, section "Method" and algorithm 1. arXiv 2512.01370.
"""

import warnings
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib.denoiser import Denoiser, check_grid
from prisma_lib.edm import Levels, precondition
from prisma_lib.grids import Grid
from prisma_lib.nn.spectral import kept_modes
from prisma_lib.nn.sra import Strategy
from prisma_lib.nn.uno import UNO, BackboneConfig
from prisma_lib.observe import Pair, mix
from prisma_lib.pdes.base import PDE, Field, Interior, Statistics
from prisma_lib.presets import ModelConfig

__all__ = ["ModelConfig", "Prisma", "check_grid"]

RESIDUAL_SCALARS = 2
COORDINATES = 2


class Prisma(Denoiser):
    """The conditional denoiser of one PDE.

    Args:
        pde: The equation, on the grid that the model is trained on.
        config: Settings of the network.
        statistics: Mean and standard deviation per field, shared by its channels, and
            the residual of the stored truth, all in physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    method = "prisma"
    settings = ModelConfig
    config: ModelConfig

    def __init__(self, pde: PDE, config: ModelConfig, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self.strategy = Strategy(config.strategy)
        self.summary = RESIDUAL_SCALARS if config.gate_input == "rms" else 1
        concat = self.strategy is Strategy.CONCAT
        self.backbone = UNO(
            BackboneConfig(
                inputs=3 * self.channels + COORDINATES + concat * pde.residual_channels,
                outputs=self.channels,
                residuals=pde.residual_channels,
                strategy=self.strategy,
                summary=self.summary,
                periodic=pde.periodic,
                **config.shape,
            )
        )

    def forward(self, x_sigma: Pair, sigma: Levels, x_obs: Pair, mask: Pair) -> Pair:
        """Denoises.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Noise level of each sample, at least 0.
            x_obs: Observed values, normalised, 0 where the mask is 0.
            mask: 1 where observed.

        Returns:
            The denoiser's estimate of the clean state, normalised.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        c = precondition(sigma)
        skip, out, scale = (v[:, None, None, None] for v in (c.skip, c.out, c.input))
        grid = self.pde_on((x_sigma.shape[-2], x_sigma.shape[-1])).grid
        where = place(grid, x_sigma.dtype, x_sigma.device)
        where = where.expand(len(x_sigma), -1, -1, -1)
        inputs = torch.cat([scale * x_sigma, x_obs, mask, where], 1)
        residuals, summary = self.residual_levels(x_sigma, x_obs, mask)
        if self.strategy is Strategy.CONCAT:
            inputs = torch.cat([inputs, residuals[0]], 1)
        dtype = self.backbone.project.weight.dtype
        residuals = [r.to(dtype) for r in residuals]
        inputs, summary = inputs.to(dtype), summary.to(dtype)
        return skip * x_sigma + out * self.backbone(inputs, c.noise, residuals, summary)

    def denoised(self, x_0: Pair, x_sigma: Pair, sigma: Levels, mask: Pair) -> Pair:
        """Denoises noisy states of which the points in the mask are observed."""
        out: Pair = self(x_sigma, sigma, torch.where(mask > 0, x_0, 0.0), mask)
        return out

    def residual(self, x_sigma: Pair, x_obs: Pair, mask: Pair) -> Field:
        """Evaluates the observation-informed residual on the full grid.

        Args:
            x_sigma: Noisy state, normalised.
            x_obs: Observed values, normalised.
            mask: 1 where observed.

        Returns:
            Residual in physical units, float32, zero where the stencil has no value.
        """
        guided = self.strategy is not Strategy.UNGUIDED
        x_mix = mix(mask, x_obs, x_sigma) if guided else x_sigma
        pde = self.pde_on((x_mix.shape[-2], x_mix.shape[-1]))
        a, u = self.denormalise(x_mix.float()).split(pde.channels, 1)
        r = pde.residual(a, u)
        margin = [(n - m) // 2 for n, m in zip(a.shape[2:], r.shape[2:], strict=True)]
        return F.pad(r, (margin[1], margin[1], margin[0], margin[0]))

    def residual_levels(
        self, x_sigma: Pair, x_obs: Pair, mask: Pair
    ) -> tuple[list[Interior], Float[Tensor, "b s"]]:
        """Normalises the residual for every level of the backbone.

        Args:
            x_sigma: Noisy state, normalised.
            x_obs: Observed values, normalised.
            mask: 1 where observed.

        Returns:
            The residual per level, of rms at most 1, fine to coarse; and the scalars
            for the gates: signed mean and logarithm of the rms.
        """
        if self.strategy is Strategy.NONE:
            return [], x_sigma.new_zeros(len(x_sigma), self.summary)
        r = self.residual(x_sigma, x_obs, mask)
        levels, size = [], self._size(r)
        mean = (r / size).mean((1, 2, 3))
        # A factor of ten in r is 0.23 here; the range over all noise levels is about 2.
        log_rms = (size / self.residual_floor).log()[:, 0, 0, 0] / 10
        for level in range(len(self.config.widths)):
            if level:
                r = F.avg_pool2d(r, 2)
            levels.append(r / self._size(r))
        return levels, torch.stack([mean, log_rms], 1)[:, : self.summary]

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuses a grid that cannot be pooled, and warns of one without some modes.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.

        Warns:
            UserWarning: When the grid is too coarse for some of the kept modes, which
                are then left out.
        """
        super().check_shape(shape)
        for level, k in enumerate(self.config.modes):
            kept = min(kept_modes((k, k), (shape[0] >> level, shape[1] >> level)))
            if kept < k:
                warnings.warn(
                    f"a grid of {shape[0]} x {shape[1]} points resolves {kept} of {k} "
                    f"modes at level {level}: the others are left out; use at least "
                    f"{(2 * k + 1) << level} points per axis to keep them all",
                    stacklevel=4,
                )
                return

    def _size(self, r: Interior) -> Tensor:
        return (r.square().mean((1, 2, 3), True) + self.residual_floor.square()).sqrt()


@cache  # every call needs it, and its numbers would have to travel to the device
@torch.inference_mode(False)
def place(
    grid: Grid, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "2 x y"]:
    """Returns the coordinates of all points as shares of the domain, less one half."""
    lengths = torch.tensor(grid.lengths, dtype=dtype, device=device)
    return grid.coordinates(dtype, device) / lengths[:, None, None] - 0.5
