r"""FunDPS: a diffusion model in function space, guided by observations and equation.

**Reference.** Yao et al. (2025), Guided diffusion sampling on function spaces with
applications to PDEs. arXiv 2505.17004.

**What is implemented.** The prior: a denoiser of pairs (a, u) with the preconditioning
and loss of EDM, noise that is a Gaussian random field with the public code's kernel,
and a U-shaped neural operator that sees the coordinates, trained without observations.
The solver: Heun's method, 200 or 500 steps, and after each step but the last

$$x \leftarrow x - c(\sigma) \nabla \big(w_a L_a + w_u L_u\big)
- c_r(\sigma) w_r \nabla L_r$$

through both network calls of the step. The losses of the last denoised estimate are
in normalised units: the mean square over observed points, or its root for the inverse
problems of Helmholtz and Navier-Stokes; of the residual, Huber's loss averaged over
points. While the step starts from a noise level above 1, c = 1 and c_r = 0, afterwards
both are the level. Published weights and residuals are here; the inverse problem of
Poisson runs from noise level 10 to 0.01.

**Deviations.**

- The network is this project's backbone without residual attention and observations, of
  PRISMA's size: one block a level and direction, where the publication has four and
  five. Its blocks have one spectral convolution beside a local 3 x 3 path and
  end in a 3 x 3 convolution, where the publication has two spectral convolutions with
  low-rank weights and no local path; `local=False` leaves the local paths out. Its
  change of resolution is an average and a copy, not a spectral one.
- Training is that of this project: learning rate, weight average, noise levels, and
  no dropout (0.13 there).
- `residual="ours"` is divided by its scale, so that its weight has another unit.
- The noise is drawn exactly by FFT instead of a Cholesky factor, wraps around periodic
  axes, and its nodes include both ends of bounded ones.
- States are float32 instead of float64, and draws of a batch have masks of their own.
- Permeabilities are judged after snapping them, which the metric does.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib.baselines.guidance import Losses, Moment, Target, Weights
from prisma_lib.baselines.guided import GuidedSolver, guided
from prisma_lib.baselines.prior import Prior
from prisma_lib.baselines.published import Residual, published_residual
from prisma_lib.denoiser import place, places
from prisma_lib.nn.sra import Strategy
from prisma_lib.nn.uno import UNO, BackboneConfig
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE
from prisma_lib.presets import BackboneSettings

# Forward and inverse, for 500 observed points of 128 x 128; none were published for
# whole fields.
WEIGHTS = {
    "darcy": (Weights(a=10000), Weights(u=50000)),
    "poisson": (Weights(a=10000), Weights(u=20000)),
    "helmholtz": (Weights(a=10000, pde=1), Weights(u=5000, pde=1)),
    "navier_stokes": (Weights(a=5000, pde=1), Weights(u=7500, pde=10)),
}
ROOTED = ("helmholtz", "navier_stokes")  # inverse problems that use the root
NEAREST = {
    "kolmogorov": "navier_stokes",
    "burgers": "navier_stokes",
    "eikonal": "darcy",
}
POINTS = 128**2  # of the published grid
SWITCH = 1.0  # noise level below which the coefficients follow it


@dataclass(frozen=True)
class OperatorConfig(BackboneSettings):
    """The settings of the prior's operator: those of any backbone, and one more.

    Args:
        local: Whether 3 x 3 convolutions mix neighbouring points.

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    local: bool = True


class FunDPS(Prior):
    """The prior of FunDPS: noise in function space, a neural operator."""

    method = "fundps"
    title: ClassVar[str] = "FunDPS"
    settings = OperatorConfig
    config: OperatorConfig
    maps = 80

    def build(self) -> UNO:
        """Makes the operator."""
        config = self.config
        return UNO(
            BackboneConfig(
                inputs=self.channels + places(self.pde),
                outputs=self.channels,
                residuals=0,
                strategy=Strategy.NONE,
                summary=0,
                periodic=self.pde.periodic,
                local=config.local,
                **config.shape,
            )
        )

    def call(
        self, x: Pair, noise_level: Float[Tensor, " b"], pde: PDE
    ) -> Float[Tensor, "b c x y"]:
        """Evaluates the operator on the state and what is known of its points."""
        where = place(pde, x.dtype, x.device).expand(len(x), -1, -1, -1)
        inputs = torch.cat([x, where], 1)
        out: Tensor = self.backbone(inputs, noise_level, [], x.new_zeros(len(x), 0))
        return out

    def solver(self, **settings: Any) -> "FunDPSSolver":
        """Makes the guided solver; see `Baseline.solver`.

        Args:
            **settings: Those of `FunDPSSolver`.
        """
        return guided(FunDPSSolver, self, settings)


@dataclass(frozen=True)
class FunDPSSolver(GuidedSolver):
    """FunDPS's guidance; see `GuidedSolver` for the settings."""

    model: FunDPS
    steps: int = 200

    def published_weights(self, inverse: bool) -> Weights | None:
        """Returns the weights of the publication, if it has this equation.

        Where both fields were observed, each has the weight of its own direction.
        """
        if self.pde.name not in WEIGHTS:
            return None
        return _both(self.pde.name, inverse)

    def starting_weights(self, inverse: bool) -> Weights:
        """Returns published weights, or the nearest equation's, for this grid's points.

        What a loss that is averaged over observed points pulls a smooth field by falls
        with the number of all points: as published, weights for 128 x 128 of them make
        a sampler on 32 x 32 explode.
        """
        points = math.prod(self.pde.grid.shape)
        return _both(_nearest(self.pde.name), inverse).scaled(points / POINTS)

    def published_residual(self, pde: PDE) -> Residual:
        """Returns the residual of the public code."""
        return published_residual(pde, spaced=True)

    def published_range(self, inverse: bool) -> tuple[float, float]:
        """Returns the smallest positive and the largest published noise level."""
        if inverse and self.pde.name == "poisson":
            return 0.01, 10.0
        return super().published_range(inverse)

    def loss(self, moment: Moment, denoised: Pair, target: Target) -> Losses | None:
        """Adds mean squares of what is off in normalised units, or their roots."""
        if moment.step == moment.steps:
            return None
        weights, late = target.weights, moment.sigma <= SWITCH
        off = target.mask * (denoised - target.x_obs)
        rooted = target.inverse and _nearest(self.pde.name) in ROOTED
        total = denoised.new_zeros(len(denoised))
        parts = (x.split(self.pde.channels, 1) for x in (off, target.mask))
        for weight, part, mask in zip((weights.a, weights.u), *parts, strict=True):
            num = mask.sum((1, 2, 3)).clamp(min=1)
            # The gradient of this norm is 0 at 0, where that of a root is none.
            norm = torch.linalg.vector_norm(part, dim=(1, 2, 3))
            mean = norm / num.sqrt() if rooted else norm.square() / num
            total = total + weight * mean
        if not late:
            return total
        if weights.pde:
            r = self.mismatch(self.model.denormalise(denoised), target.pde)
            huber = F.huber_loss(r, torch.zeros_like(r), reduction="none")
            total = total + weights.pde * huber.mean((1, 2, 3))
        return moment.sigma * total


def _nearest(name: str) -> str:
    return NEAREST.get(name, name)


def _both(name: str, inverse: bool) -> Weights:
    forward, backward = WEIGHTS[name]
    return Weights(forward.a, backward.u, (backward if inverse else forward).pde)
