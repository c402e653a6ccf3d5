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

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from prisma_lib.edm import SIGMA_DATA, Levels, precondition
from prisma_lib.errors import ConfigError, ShapeError, unknown_name
from prisma_lib.nn.sra import Strategy
from prisma_lib.nn.uno import UNO, BackboneConfig
from prisma_lib.observe import Observation, Pair, mix
from prisma_lib.pdes.base import PDE, Field, Interior, Statistics

RESIDUAL_SCALARS = 2
COORDINATES = 2


@dataclass(frozen=True)
class ModelConfig:
    """The settings of a PRISMA network.

    Args:
        widths: Channels per level, fine to coarse.
        modes: Largest kept mode number per level.
        blocks: Blocks per level and direction.
        groups: Diagonal blocks of the spectral weights.
        embedding: Length E of the noise-level embedding.
        dropout: Probability of dropping a feature in training, in [0, 1).
        strategy: Name of a `Strategy`: how the residual enters the network.
        gate_input: "rms" feeds the gates the signed mean and the log rms of the
            residual; "paper" feeds the signed mean alone.

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    widths: tuple[int, ...] = (32, 48, 64)
    modes: tuple[int, ...] = (8, 6, 3)
    blocks: tuple[int, ...] = (1, 1, 1)
    groups: int = 4
    embedding: int = 64
    dropout: float = 0.0
    strategy: str = "sra"
    gate_input: str = "rms"

    def __post_init__(self) -> None:
        if self.strategy not in [s.value for s in Strategy]:
            known = [s.value for s in Strategy]
            raise unknown_name("residual strategy", self.strategy, known)
        if self.gate_input not in ("rms", "paper"):
            raise unknown_name("gate input", self.gate_input, ["rms", "paper"])
        if not len(self.widths) == len(self.modes) == len(self.blocks):
            raise ConfigError(
                f"widths={self.widths}, modes={self.modes}, blocks={self.blocks}: "
                "give one value per level in each"
            )
        if any(width % self.groups for width in self.widths):
            raise ConfigError(
                f"groups={self.groups} does not divide every width of {self.widths}: "
                "choose a common divisor"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} must lie in [0, 1)")

    @property
    def factor(self) -> int:
        """What a grid's points per axis must be divisible by."""
        return 2 ** (len(self.widths) - 1)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "ModelConfig":
        """Returns a named configuration, with changes.

        Args:
            name: "tiny" (tests), "small" (32 x 32, a CPU), "base" (64 x 64, a GPU for
                minutes) or "paper" (128 x 128, 64 million parameters).
            **changes: Settings to replace.

        Raises:
            ConfigError: When the name or a setting is unknown.
        """
        if name not in PRESETS:
            raise unknown_name("preset", name, PRESETS)
        return cls.from_dict(asdict(PRESETS[name]) | changes)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "ModelConfig":
        """Builds a configuration from plain values, such as those of a JSON file.

        Raises:
            ConfigError: When a name is unknown or a value impossible.
        """
        for name in settings:
            if name not in cls.__dataclass_fields__:
                raise unknown_name("model setting", name, cls.__dataclass_fields__)
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()
        }
        return cls(**values)


PRESETS = {
    "tiny": ModelConfig((12, 16, 24), (4, 3, 1), embedding=16),
    "small": ModelConfig(),
    "base": ModelConfig((48, 64, 104, 128), (12, 8, 6, 3), (1, 1, 1, 1), embedding=128),
    "paper": ModelConfig(
        (64, 128, 224, 256),
        (32, 16, 8, 4),
        (2, 2, 2, 2),
        embedding=256,
        dropout=0.13,
    ),
}


class Prisma(nn.Module):
    """The conditional denoiser of one PDE.

    Args:
        pde: The equation, on the grid that the model is trained on.
        config: Settings of the network.
        statistics: Mean and standard deviation per field and the residual of the
            stored truth, all in physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    mean: Tensor
    std: Tensor
    residual_floor: Tensor

    def __init__(self, pde: PDE, config: ModelConfig, statistics: Statistics) -> None:
        super().__init__()
        self.pde, self.config, self.statistics = pde, config, statistics
        self.strategy = Strategy(config.strategy)
        check_grid(pde.grid.shape, config.factor)
        shape = (1, 2, 1, 1)
        for name, values in (
            ("mean", torch.tensor(statistics.mean).view(shape)),
            ("std", torch.tensor(statistics.std).view(shape)),
            ("residual_floor", torch.tensor(statistics.residual_rms)),
        ):
            self.register_buffer(name, values, persistent=False)
        self.summary = RESIDUAL_SCALARS if config.gate_input == "rms" else 1
        concat = self.strategy is Strategy.CONCAT
        self.backbone = UNO(
            BackboneConfig(
                inputs=6 + COORDINATES + concat,
                outputs=2,
                widths=config.widths,
                modes=config.modes,
                blocks=config.blocks,
                groups=config.groups,
                embedding=config.embedding,
                dropout=config.dropout,
                strategy=self.strategy,
                summary=self.summary,
                periodic=pde.periodic,
            )
        )

    def normalise(self, x: Pair) -> Pair:
        """Maps fields from physical units to mean 0 and standard deviation 0.5."""
        return (x - self.mean) * (SIGMA_DATA / self.std)

    def denormalise(self, x: Pair) -> Pair:
        """Maps normalised fields to physical units."""
        return x * (self.std / SIGMA_DATA) + self.mean

    def condition(self, observation: Observation) -> tuple[Pair, Pair]:
        """Returns the normalised observed values, 0 where unobserved, and the mask."""
        check_grid(observation.shape, self.config.factor)
        mask = observation.mask
        x_obs = self.normalise(observation.x)
        return torch.where(mask > 0, x_obs, torch.zeros_like(x_obs)), mask

    def forward(self, x_sigma: Pair, sigma: Levels, x_obs: Pair, mask: Pair) -> Pair:
        """Denoises.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Noise level of each sample, positive.
            x_obs: Observed values, normalised, 0 where the mask is 0.
            mask: 1 where observed.

        Returns:
            The denoiser's estimate of the clean state, normalised.
        """
        c = precondition(sigma)
        skip, out, scale = (v[:, None, None, None] for v in (c.skip, c.out, c.input))
        place = self._coordinates(x_sigma)
        inputs = torch.cat([scale * x_sigma, x_obs, mask, place], 1)
        residuals, summary = self.residual_levels(x_sigma, x_obs, mask)
        if self.strategy is Strategy.CONCAT:
            inputs = torch.cat([inputs, residuals[0]], 1)
        return skip * x_sigma + out * self.backbone(inputs, c.noise, residuals, summary)

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
        pde = self._pde_on((x_mix.shape[-2], x_mix.shape[-1]))
        a, u = self.denormalise(x_mix.float()).split(1, 1)
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

    def _size(self, r: Interior) -> Tensor:
        return (r.square().mean((1, 2, 3), True) + self.residual_floor.square()).sqrt()

    def _pde_on(self, shape: tuple[int, int]) -> PDE:
        if shape == self.pde.grid.shape:
            return self.pde
        return self.pde.resized(shape[0])

    def _coordinates(self, x: Pair) -> Pair:
        grid = self._pde_on((x.shape[-2], x.shape[-1])).grid
        place = grid.coordinates(x.dtype, x.device)
        lengths = torch.tensor(grid.lengths, dtype=x.dtype, device=x.device)
        return (place / lengths[:, None, None] - 0.5).expand(len(x), -1, -1, -1)


def check_grid(shape: tuple[int, int], factor: int) -> None:
    """Refuses grids that the pooling levels cannot divide.

    Raises:
        ShapeError: Naming the nearest valid sizes.
    """
    for n in shape:
        if n % factor or n < 2 * factor:
            below = max(n // factor, 2) * factor
            raise ShapeError(
                f"a grid of {shape[0]} x {shape[1]} points cannot be halved "
                f"{factor.bit_length() - 1} times: points per axis must be a multiple "
                f"of {factor}, such as {below} or {below + factor}"
            )
