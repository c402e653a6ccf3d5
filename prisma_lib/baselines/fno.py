"""FNO: the Fourier neural operator, from the package of its authors.

The network is `neuralop.models.FNO`: coordinates beside the field, a lifting, Fourier
layers of dense weights with a linear skip, a projection. It is trained by the relative
L2 error in physical units, with Adam, as published, and runs on other grids than that
of the training.

Deviations from the publication:

- The layers are those of neuralop 2: each also has a mixing of channels of half the
  width, with a soft gate around it, and its own bias.
- A network has 4 layers as published, but the width and the modes that give a forward
  and an inverse operator together the size of PRISMA.
- Only bounded axes are padded, by zeros at both ends, not at one.
- Fields are normalised by one mean and one standard deviation each, not point by point.
- Coordinates are those of the equation's grid. The layer of neuralop takes every axis
  for a periodic one, and stays on the device of its first call.
- Schedule, weight decay and averaging of the weights are those of the plan: linear rise
  and cosine instead of steps. Both operators share a clipped gradient.
- The inverse operator is trained like the forward one, on pairs the other way round.

Reference:
    Li et al. (2021), Fourier neural operator for parametric partial differential
    equations, arXiv 2010.08895; Kossaifi et al. (2024), A library for learning neural
    operators, arXiv 2412.10354.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from prisma_lib.baselines.operators import Operators, Place
from prisma_lib.checks import check_count, check_number
from prisma_lib.denoiser import places
from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import Field
from prisma_lib.presets import Settings


@dataclass(frozen=True)
class FNOConfig(Settings):
    """The settings of an FNO; both operators have the same.

    Args:
        width: Channels of the Fourier layers.
        modes: Kept modes per axis, of both signs, an even number.
        layers: Number of Fourier layers.
        padding: Zeros at each end of a bounded axis, as a share of its points.

    Raises:
        ConfigError: When a setting is out of range.
    """

    PRESETS = {  # noqa: RUF012
        "tiny": {"width": 10, "modes": 6},
        "small": {},
        "base": {"width": 28, "modes": 24},
    }

    width: int = 24
    modes: int = 12
    layers: int = 4
    padding: float = 0.0625

    def __post_init__(self) -> None:
        for name, example in (("width", 24), ("modes", 12), ("layers", 4)):
            check_count(name, getattr(self, name), 1, example)
        if self.modes % 2:
            raise ConfigError(
                f"modes={self.modes}: give an even number, of both signs together, "
                "such as modes=12"
            )
        if self.padding:
            check_number("padding", self.padding, 0, 1, 0.0625)


class FNO(Operators):
    """A pair of Fourier neural operators.

    Args:
        pde: The equation, on the grid that the operators are trained on.
        config: Settings of each operator.
        statistics: Mean and standard deviation per field, physical units.

    Raises:
        ConfigError: When neuralop is not installed.
    """

    method = "fno"
    title = "FNO"
    settings = FNOConfig
    config: FNOConfig

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """Makes an operator."""
        ends = [0.0 if wraps else self.config.padding for wraps in self.pde.periodic]
        return FourierOperator(inputs + places(self.pde), outputs, self.config, ends)


class FourierOperator(nn.Module):
    """An FNO of neuralop whose weights are real numbers.

    Args:
        inputs: Channels of the input field and of the points' `Place`.
        outputs: Channels of the output field.
        config: Its settings.
        padding: Zeros at each end of each axis, as a share of its points.

    Raises:
        ConfigError: When neuralop is not installed.
    """

    def __init__(
        self, inputs: int, outputs: int, config: FNOConfig, padding: list[float]
    ) -> None:
        super().__init__()
        self.network = _neuralop().FNO(
            n_modes=(config.modes, config.modes),
            in_channels=inputs,
            out_channels=outputs,
            hidden_channels=config.width,
            n_layers=config.layers,
            positional_embedding=None,
            domain_padding=padding,
        )
        for layer in self.network.fno_blocks.convs:
            layer.weight = Pairs(layer.weight.to_tensor())
        # neuralop adds the arguments of its constructor, which are no tensors.
        self.register_state_dict_post_hook(  # type: ignore[no-untyped-call]
            _without_arguments
        )

    def forward(self, field: Field, place: Place) -> Field:
        """Maps one field to the other, both normalised."""
        where = place.expand(len(field), -1, -1, -1)
        mapped: Field = self.network(torch.cat([field, where], 1))
        return mapped


class Pairs(nn.Module):
    """A complex weight as pairs of real numbers, which checkpoints hold.

    It stands where a layer of neuralop has its dense tensor and reads part of it.

    Args:
        weight: The complex numbers to begin with.
    """

    def __init__(self, weight: Complex[Tensor, "i o x y"]) -> None:
        super().__init__()
        self.pairs = nn.Parameter(torch.view_as_real(weight.detach()).clone())

    def __getitem__(self, part: tuple[slice, ...]) -> Complex[Tensor, "i o _ _"]:
        """Returns the weights of some modes."""
        pairs: Float[Tensor, "i o x y 2"] = self.pairs
        return torch.view_as_complex(pairs)[part]


def _without_arguments(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> None:
    state.pop("_metadata", None)


def _neuralop() -> Any:
    try:
        with warnings.catch_warnings():  # its import sets a filter for all warnings
            from neuralop import models
    except ImportError as error:
        raise ConfigError(
            "FNO and PINO are made of neuralop, which is not installed: "
            "pip install 'prisma-lib[baselines]'",
            exit_code=4,
        ) from error
    return models
