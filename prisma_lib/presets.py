"""The settings of a PRISMA network, and the sizes that have names."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.nn.sra import Strategy


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
