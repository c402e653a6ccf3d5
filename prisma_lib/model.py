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

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib.denoiser import Denoiser, place, places
from prisma_lib.edm import Levels, Schedule, precondition
from prisma_lib.lifts import corrections
from prisma_lib.nn.spectral import kept_modes
from prisma_lib.nn.sra import Strategy
from prisma_lib.nn.uno import UNO, BackboneConfig
from prisma_lib.observe import Pair, mix
from prisma_lib.pdes.base import PDE, Field, Interior, Statistics
from prisma_lib.presets import ModelConfig
from prisma_lib.units import Told

__all__ = ["ModelConfig", "Prisma"]

RESIDUAL_SCALARS = 2


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
    title = "PRISMA"
    settings = ModelConfig
    config: ModelConfig

    def __init__(self, pde: PDE, config: ModelConfig, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self.strategy = Strategy(config.strategy)
        scalars = RESIDUAL_SCALARS if config.gate_input == "rms" else 1
        self.summary = scalars * self.residuals
        concat = self.strategy is Strategy.CONCAT
        newton = self.strategy is Strategy.NEWTON
        residuals = pde.residual_channels * self.residuals
        self.backbone = UNO(
            BackboneConfig(
                inputs=self.inputs
                + places(pde)
                + concat * residuals
                + newton * self.channels,
                outputs=self.channels,
                residuals=residuals,
                strategy=self.strategy,
                summary=self.summary,
                periodic=pde.periodic,
                **config.shape,
            )
        )

    @property
    def inputs(self) -> int:
        """Number of input channels but those of `denoiser.place`."""
        return 3 * self.channels

    @property
    def residuals(self) -> int:
        """Number of states whose residual the network sees."""
        return 1

    def check_schedule(self, schedule: Schedule, sampler: str) -> None:
        """Refuses noise levels that the network was not trained for: here none is.

        Args:
            schedule: Noise levels to visit.
            sampler: Name of the sampler.

        Raises:
            ConfigError: Naming the settings that it needs.
        """

    def prepare(self) -> None:
        """Makes what all answers share, so that none is timed with it: here nothing."""

    def forward(self, x_sigma: Pair, sigma: Levels, told: Told, mask: Pair) -> Pair:
        """Denoises.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Noise level of each sample, at least 0.
            told: Observed values, normalised, 0 where the mask is 0.
            mask: 1 where observed.

        Returns:
            The denoiser's estimate of the clean state, normalised.

        Raises:
            ShapeError: When the grid is not square or cannot be pooled.
        """
        base, out, state = self.preconditioned(x_sigma, sigma, told)
        pde = self.pde_on((x_sigma.shape[-2], x_sigma.shape[-1]))
        where = place(pde, x_sigma.dtype, x_sigma.device)
        where = where.expand(len(x_sigma), -1, -1, -1)
        inputs = torch.cat([state, mask, where], 1)
        residuals, summary = self.residual_levels(x_sigma, told, mask)
        if self.strategy is Strategy.CONCAT:
            inputs = torch.cat([inputs, residuals[0]], 1)
        if self.strategy is Strategy.NEWTON:
            inputs = torch.cat([inputs, self.newton(x_sigma, told, mask)], 1)
        dtype = self.backbone.project.weight.dtype
        residuals = [r.to(dtype) for r in residuals]
        inputs, summary = inputs.to(dtype), summary.to(dtype)
        noise_level = precondition(sigma).noise
        return base + out * self.backbone(inputs, noise_level, residuals, summary)

    def preconditioned(
        self, x_sigma: Pair, sigma: Levels, told: Told
    ) -> tuple[Pair, Float[Tensor, "b _ _ _"], Float[Tensor, "b _ x y"]]:
        """Prepares the state for the network, and its output for the state.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Its noise level.
            told: Observed values.

        Returns:
            The estimate without the network, the scale of what the network adds to it,
            and what the network sees of state and observation.
        """
        c = precondition(sigma)
        skip, out, scale = (v[:, None, None, None] for v in (c.skip, c.out, c.input))
        return skip * x_sigma, out, torch.cat([scale * x_sigma, told], 1)

    def denoised(self, x_sigma: Pair, sigma: Levels, told: Told, mask: Pair) -> Pair:
        """Denoises noisy states of which some points are observed."""
        out: Pair = self(x_sigma, sigma, told, mask)
        return out

    def residual(self, x_sigma: Pair, told: Told, mask: Pair) -> Field:
        """Evaluates the observation-informed residual on the full grid.

        Args:
            x_sigma: Noisy state, normalised.
            told: Observed values, normalised.
            mask: 1 where observed.

        Returns:
            Residual in physical units, float32, zero where the stencil has no value.
        """
        states = self.states(x_sigma, told, mask)
        return torch.cat([self.residual_of(state) for state in states], 1)

    def states(self, x_sigma: Pair, told: Told, mask: Pair) -> list[Pair]:
        """Lists the states whose residual the network sees, normalised.

        Args:
            x_sigma: Noisy state, normalised.
            told: Observed values, normalised.
            mask: 1 where observed.
        """
        guided = self.strategy is not Strategy.UNGUIDED
        return [mix(mask, told, x_sigma) if guided else x_sigma]

    def newton(self, x_sigma: Pair, told: Told, mask: Pair) -> Pair:
        """Returns the mixed state after a Newton step, each field of rms at most 1.

        Args:
            x_sigma: Noisy state, normalised.
            told: Observed values, normalised.
            mask: 1 where observed.
        """
        state = self.states(x_sigma, told, mask)[0].float()
        pde = self.pde_on((state.shape[-2], state.shape[-1]))
        a, u = self.denormalise(state).split(pde.channels, 1)
        found = self.normalise(torch.cat(corrections.corrected(pde, a, u), 1))
        return found / (1 + found.square().mean((2, 3), True)).sqrt()

    def residual_of(self, x: Pair) -> Field:
        """Evaluates the residual of a state on the full grid.

        Args:
            x: State, normalised.

        Returns:
            Residual in physical units, float32, zero where the stencil has no value.
        """
        pde = self.pde_on((x.shape[-2], x.shape[-1]))
        a, u = self.denormalise(x.float()).split(pde.channels, 1)
        r = pde.residual(a, u)
        margin = [(n - m) // 2 for n, m in zip(a.shape[2:], r.shape[2:], strict=True)]
        return F.pad(r, (margin[1], margin[1], margin[0], margin[0]))

    def residual_levels(
        self, x_sigma: Pair, told: Told, mask: Pair
    ) -> tuple[list[Interior], Float[Tensor, "b s"]]:
        """Normalises the residual for every level of the backbone.

        Args:
            x_sigma: Noisy state, normalised.
            told: Observed values, normalised.
            mask: 1 where observed.

        Returns:
            The residual per level, of rms at most 1, fine to coarse; and the scalars
            for the gates: signed mean and logarithm of the rms.
        """
        if self.strategy in (Strategy.NONE, Strategy.NEWTON):
            return [], x_sigma.new_zeros(len(x_sigma), self.summary)
        r = self.residual(x_sigma, told, mask).unflatten(1, (self.residuals, -1))
        levels, size = [], self._size(r)
        mean = (r / size).mean((2, 3, 4))
        # A factor of ten in r is 0.23 here; the range over all noise levels is about 2.
        log_rms = (size / self.residual_floor).log()[..., 0, 0, 0] / 10
        for level in range(len(self.config.widths)):
            if level:
                r = F.avg_pool2d(r.flatten(1, 2), 2).unflatten(1, (self.residuals, -1))
            levels.append((r / self._size(r)).flatten(1, 2))
        return levels, torch.cat([mean, log_rms], 1)[:, : self.summary]

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

    def _size(self, r: Float[Tensor, "b k c x y"]) -> Tensor:
        return (r.square().mean((2, 3, 4), True) + self.residual_floor.square()).sqrt()
