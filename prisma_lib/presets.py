"""The settings of a PRISMA network, and the sizes that have names."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from prisma_lib.checks import check_count
from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.nn.sra import Strategy
from prisma_lib.settings import built

S = TypeVar("S", bound="Settings")


class Settings:
    """Settings of a network: plain values, and the sizes that have names."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]]

    @classmethod
    def preset(cls: type[S], name: str, /, **changes: Any) -> S:
        """Returns a named configuration, with changes.

        Args:
            name: "tiny" (tests), "small" (32 x 32, a CPU), "base" (64 x 64, a GPU for
                minutes) or "paper" (128 x 128), as far as a network has them.
            **changes: Settings to replace.

        Raises:
            ConfigError: When the name or a setting is unknown, or a value impossible.
        """
        if name not in cls.PRESETS:
            raise unknown_name("preset", name, cls.PRESETS)
        return cls.from_dict({**cls.PRESETS[name], **changes})

    @classmethod
    def from_dict(cls: type[S], settings: Mapping[str, Any]) -> S:
        """Builds a configuration from plain values, such as those of a JSON file.

        Raises:
            ConfigError: When a name is unknown or a value impossible.
        """
        return built(cls, "model setting", settings)


@dataclass(frozen=True)
class BackboneSettings(Settings):
    """The settings of a U-shaped neural operator.

    Args:
        widths: Channels per level, fine to coarse.
        modes: Largest kept mode number per level.
        blocks: Blocks per level and direction.
        groups: Diagonal blocks of the spectral weights.
        embedding: Length E of the noise-level embedding.
        dropout: Probability of dropping a feature in training, in [0, 1).

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    PRESETS = {  # noqa: RUF012
        "tiny": {"widths": (12, 16, 24), "modes": (4, 3, 1), "embedding": 16},
        "small": {},
        "base": {
            "widths": (48, 64, 104, 128),
            "modes": (12, 8, 6, 3),
            "blocks": (1, 1, 1, 1),
            "embedding": 128,
        },
    }

    widths: tuple[int, ...] = (32, 48, 64)
    modes: tuple[int, ...] = (8, 6, 3)
    blocks: tuple[int, ...] = (1, 1, 1)
    groups: int = 4
    embedding: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
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

    @property
    def shape(self) -> dict[str, Any]:
        """The settings that every such operator has, by name."""
        known = [entry.name for entry in fields(BackboneSettings)]
        return {name: getattr(self, name) for name in known}


@dataclass(frozen=True)
class ModelConfig(BackboneSettings):
    """The settings of a PRISMA network: those of its backbone, and two more.

    Args:
        strategy: Name of a `Strategy`: how the residual enters the network.
        gate_input: "rms" feeds the gates the signed mean and the log rms of the
            residual; "paper" feeds the signed mean alone.

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    PRESETS = {  # noqa: RUF012
        **BackboneSettings.PRESETS,
        "paper": {  # 64 million parameters
            "widths": (64, 128, 224, 256),
            "modes": (32, 16, 8, 4),
            "blocks": (2, 2, 2, 2),
            "embedding": 256,
            "dropout": 0.13,
        },
    }

    strategy: str = "sra"
    gate_input: str = "rms"

    def __post_init__(self) -> None:
        if self.strategy not in [s.value for s in Strategy]:
            known = [s.value for s in Strategy]
            raise unknown_name("residual strategy", self.strategy, known)
        if self.gate_input not in ("rms", "paper"):
            raise unknown_name("gate input", self.gate_input, ["rms", "paper"])
        super().__post_init__()


RESIDUAL_STATES = ("mixed", "lifted", "both")


@dataclass(frozen=True)
class LiftConfig(ModelConfig):
    """The settings of a PRISMA-L network: those of PRISMA, and two more.

    Args:
        around: Whether the network is preconditioned around the lift, so that it adds
            to it what the lift is in doubt about; without, the lift is an input only.
        residual_state: Whose residual the network sees: "mixed", the noisy state with
            what is known put in, "lifted", the lift, or "both".

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    around: bool = True
    residual_state: str = "mixed"

    def __post_init__(self) -> None:
        if self.residual_state not in RESIDUAL_STATES:
            raise unknown_name("residual state", self.residual_state, RESIDUAL_STATES)
        super().__post_init__()


@dataclass(frozen=True)
class DistilConfig(LiftConfig):
    """The settings of a distilled PRISMA-L: those of PRISMA-L, and two more.

    Args:
        calls: Network calls of a draw, 1 or 2.
        stages: Network calls of the teacher's draws, an even number.

    Raises:
        ConfigError: When a setting is out of range or two do not fit.
    """

    calls: int = 1
    stages: int = 8

    def __post_init__(self) -> None:
        if type(self.calls) is not int or self.calls not in (1, 2):
            raise ConfigError(
                f"calls={self.calls!r}: a draw takes 1 or 2 network calls"
            )
        if check_count("stages", self.stages, 2, 8) % 2:
            raise ConfigError(
                f"stages={self.stages}: the teacher is half way after an even number "
                "of calls, such as 8"
            )
        super().__post_init__()
