r"""Noise levels of elucidated diffusion: preconditioning, loss weight, schedule.

A noisy field is $x_\sigma = x_0 + \sigma \varepsilon$ with $\varepsilon \sim N(0, C)$ a
Gaussian random field of unit variance, and data normalised to standard deviation
$\sigma_d = 0.5$.

Reference:
    Karras et al. (2022), Elucidating the design space of diffusion-based generative
    models, table 1 and algorithm 1. arXiv 2206.00364.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.checks import check_count
from prisma_lib.errors import ConfigError

SIGMA_DATA = 0.5
# What the network is told of lower levels, where the denoiser keeps its input anyway.
LOWEST = 1e-8

Levels = Float[Tensor, " b"]


@dataclass(frozen=True)
class Preconditioning:
    """The four factors of a denoiser $D = c_{skip} x + c_{out} F(c_{in} x, c_{noise})$.

    Each has one value per sample.
    """

    skip: Levels
    out: Levels
    input: Levels
    noise: Levels


def precondition(sigma: Levels) -> Preconditioning:
    """Computes the preconditioning factors at noise levels `sigma` >= 0.

    At level 0 the denoiser returns its input: skip is 1 and out is 0.
    """
    total = sigma.square() + SIGMA_DATA**2
    return Preconditioning(
        skip=SIGMA_DATA**2 / total,
        out=sigma * SIGMA_DATA * total.rsqrt(),
        input=total.rsqrt(),
        noise=sigma.clamp(min=LOWEST).log() / 4,
    )


def loss_weight(sigma: Levels) -> Levels:
    r"""Returns $\lambda(\sigma) = (\sigma^2 + \sigma_d^2) / (\sigma \sigma_d)^2$."""
    return (sigma.square() + SIGMA_DATA**2) / (sigma * SIGMA_DATA).square()


@dataclass(frozen=True)
class Schedule:
    r"""Noise levels that a sampler visits, from the largest to zero.

    $$\sigma_i = \Big(\sigma_{max}^{1/\rho} + \frac{i}{N-1}
    (\sigma_{min}^{1/\rho} - \sigma_{max}^{1/\rho})\Big)^\rho, \quad \sigma_N = 0$$

    One step is a single Euler step from the largest level to zero.

    Args:
        steps: Number of steps N, at least 1.
        sigma_min: Smallest positive level.
        sigma_max: Largest level.
        rho: Bend of the schedule, positive; larger means more steps at low noise.

    Raises:
        ConfigError: When a value makes no descending schedule.
    """

    steps: int = 20
    sigma_min: float = 0.002
    sigma_max: float = 80.0
    rho: float = 7.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check_count("steps", self.steps, 1, 20))
        levels = (self.sigma_min, self.sigma_max)
        if not (_numbers(*levels) and 0 < self.sigma_min < self.sigma_max < math.inf):
            raise ConfigError(
                f"sigma_min={self.sigma_min!r}, sigma_max={self.sigma_max!r}: noise "
                "must fall, with 0 < sigma_min < sigma_max; the defaults are 0.002 and "
                "80"
            )
        if not (_numbers(self.rho) and 0 < self.rho < math.inf):
            raise ConfigError(f"rho={self.rho!r} must be positive; the default is 7")

    def sigmas(self) -> Float[Tensor, " levels"]:
        """Returns the `steps + 1` levels in float64, the last one zero."""
        ends = self.sigma_max ** (1 / self.rho), self.sigma_min ** (1 / self.rho)
        ramp = torch.linspace(*ends, self.steps, dtype=torch.float64)
        return torch.cat([ramp.pow(self.rho), ramp.new_zeros(1)])


def _numbers(*values: object) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
