r"""DiffusionPDE: an unconditional diffusion model, guided by observations and equation.

**Reference.** Huang et al. (2024), DiffusionPDE: generative PDE-solving under partial
observation. arXiv 2406.17763.

**What is implemented.** The prior: a denoiser of pairs (a, u) with the preconditioning
and loss of EDM, white noise and a U-Net of 3 x 3 convolutions, trained without
observations. The solver: Heun's method with the published noise levels, 2000 steps, and
after each step

$$x \leftarrow x - \zeta_a \nabla \|M_a (\hat a - a_{obs})\|
- \zeta_u \nabla \|M_u (\hat u - u_{obs})\| - \zeta_r \nabla \|r\| / n,$$

where $\hat a, \hat u$ are the last denoised estimates in physical units, the gradient
goes through all network calls of the step, and n is the number of points. The first 80
per cent of the steps follow the observations only; the others take a tenth of their
weights and the equation. Published weights and published residuals are here.

**Deviations.**

- The network is smaller: the size of PRISMA's, one skip connection per level, no
  augmentation of data (flips and rotations break the equation and its boundary).
- Training is that of this project: learning rate, weight average, noise levels, and
  no dropout (0.13 there).
- `residual="ours"` is divided by its scale, so that its weight has another unit.
- Fields are normalised to standard deviation 0.5 instead of their largest value to 1.
  `SCALES` holds the published scaling: gradients are taken in it, so that published
  weights move a field as far as published. The noise levels stay relative to 0.5.
- Draws are computed in batches, with one norm per draw, from states in float32; the
  publication draws one after the other in float64.
- Three gradients are taken as one, that of the weighted sum: the same number.
- An axis that is periodic is padded periodically, and fields may have several channels.
- Burgers' equation has the start as a second field, a copy along t.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.baselines.guidance import Losses, Moment, Target, Weights
from prisma_lib.baselines.guided import GuidedSolver, guided
from prisma_lib.baselines.prior import Prior
from prisma_lib.baselines.published import Residual, published_residual
from prisma_lib.diffusionpde import SCALING
from prisma_lib.edm import SIGMA_DATA
from prisma_lib.errors import ConfigError
from prisma_lib.fields import GRFNoise
from prisma_lib.nn.unet import ConvUNet
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE
from prisma_lib.presets import Settings

WHITE = {"scale": 1e-3, "jitter": 0.0}  # no correlation between neighbours

# For 500 observed points of 128 x 128; none were published for whole fields. That of
# Burgers belongs to its one field.
WEIGHTS = {
    "darcy": Weights(5, 5000, 100),
    "poisson": Weights(0.8, 40, 1),
    "helmholtz": Weights(0.8, 60, 1),
    "navier_stokes": Weights(1, 1, 1),
    "burgers": Weights(320, 320, 100),
}
# What multiplies `a` and `u` before the published network sees them.
SCALES = {name: (a[0], u[0]) for name, (a, u) in SCALING.items()}
NEAREST = {"kolmogorov": "navier_stokes", "eikonal": "darcy"}
ALONE, LATER = 0.8, 0.1  # share of steps that follow observations alone; weight after


@dataclass(frozen=True)
class UNetConfig(Settings):
    """The settings of a U-Net of convolutions.

    Args:
        widths: Channels per level; above 8 in steps that the group norm can split.
        blocks: Blocks per level and direction.
        embedding: Length of the noise-level embedding, even.
        dropout: Probability of dropping a feature in training, in [0, 1).

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    PRESETS = {  # noqa: RUF012
        "tiny": {"widths": (12, 16, 24), "blocks": (1, 1, 1), "embedding": 16},
        "small": {},
        "base": {
            "widths": (64, 96, 128, 160),
            "blocks": (2, 2, 2, 2),
            "embedding": 128,
        },
    }

    widths: tuple[int, ...] = (40, 64, 80)
    blocks: tuple[int, ...] = (2, 2, 2)
    embedding: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.blocks):
            raise ConfigError(
                f"widths={self.widths}, blocks={self.blocks}: give one value per level "
                "in each"
            )
        if any(width % max(1, width // 8) for width in self.widths):
            raise ConfigError(
                f"widths={self.widths}: a group norm splits a level into groups of "
                "about eight channels; choose multiples of 8"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} must lie in [0, 1)")

    @property
    def factor(self) -> int:
        """What a grid's points per axis must be divisible by."""
        return 2 ** (len(self.widths) - 1)


class DiffusionPDE(Prior):
    """The prior of DiffusionPDE: white noise, convolutions."""

    method = "diffusionpde"
    title: ClassVar[str] = "DiffusionPDE"
    settings = UNetConfig
    config: UNetConfig
    maps = 120

    @property
    def noise(self) -> GRFNoise:
        """White noise on the training grid."""
        return GRFNoise(self.pde.grid, **WHITE)

    def build(self) -> ConvUNet:
        """Makes the U-Net."""
        config = self.config
        return ConvUNet(
            self.channels,
            config.widths,
            config.blocks,
            config.embedding,
            config.dropout,
            self.pde.periodic,
        )

    def call(
        self, x: Pair, noise_level: Float[Tensor, " b"], pde: PDE
    ) -> Float[Tensor, "b c x y"]:
        """Evaluates the U-Net."""
        out: Tensor = self.backbone(x, noise_level)
        return out

    def solver(self, **settings: Any) -> "DiffusionPDESolver":
        """Makes the guided solver; see `Baseline.solver`.

        Args:
            **settings: Those of `DiffusionPDESolver`.
        """
        return guided(DiffusionPDESolver, self, settings)


@dataclass(frozen=True)
class DiffusionPDESolver(GuidedSolver):
    """DiffusionPDE's guidance; see `GuidedSolver` for the settings."""

    model: DiffusionPDE
    steps: int = 2000

    def published_weights(self, inverse: bool) -> Weights | None:
        """Returns the weights of the publication, the same in both directions."""
        return WEIGHTS.get(self.pde.name)

    def starting_weights(self, inverse: bool) -> Weights:
        """Returns published weights, or those of the nearest equation.

        The latter move the state of the network as far, in its units.
        """
        if self.pde.name in WEIGHTS:
            return WEIGHTS[self.pde.name]
        name = NEAREST[self.pde.name]
        nearest, scales = WEIGHTS[name], SCALES[name]
        own = (SIGMA_DATA / std for std in self.model.statistics.std)
        a, u = (
            weight / theirs * ours
            for weight, theirs, ours in zip(
                (nearest.a, nearest.u), scales, own, strict=True
            )
        )
        return Weights(a, u, nearest.pde)

    def published_residual(self, pde: PDE) -> Residual:
        """Returns the residual of the public code."""
        return published_residual(pde, spaced=False)

    @property
    def stretch(self) -> Float[Tensor, "1 c 1 1"] | float:
        """Takes the gradient in the published scaling: squares of the ratio."""
        if self.pde.name not in SCALES:
            return 1.0
        pairs = zip(SCALES[self.pde.name], self.pde.channels, strict=True)
        theirs = [scale for scale, c in pairs for _ in range(c)]
        std = self.model.std
        return (SIGMA_DATA / (std * std.new_tensor(theirs).view_as(std))).square()

    def loss(self, moment: Moment, denoised: Pair, target: Target) -> Losses:
        """Adds the norms of what is off, in physical units."""
        model, weights = self.model, target.weights
        off = target.mask * (denoised - target.x_obs) * (model.std / SIGMA_DATA)
        a, u = (_norm(part) for part in off.split(self.pde.channels, 1))
        observed = weights.a * a + weights.u * u
        if moment.step <= ALONE * moment.steps:
            return observed
        points = denoised.shape[-2] * denoised.shape[-1]
        r = self.mismatch(model.denormalise(denoised), target.pde)
        return LATER * observed + weights.pde * _norm(r) / points


def _norm(x: Float[Tensor, "b _ _ _"]) -> Losses:
    # Its gradient is 0 at 0, where that of a root of squares is none.
    return torch.linalg.vector_norm(x, dim=(1, 2, 3))
