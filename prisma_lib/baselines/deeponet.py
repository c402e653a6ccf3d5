r"""DeepONet: a branch that reads the field, a trunk that reads where to answer.

$$\hat u(x) = b_0 + \sum_{k=1}^{p} b_k(a) \, t_k(x)$$

The unstacked form with a bias, both networks fully connected. The branch reads the
field at all points of the grid, which are its sensors and stay where they are; the
trunk is asked at the same points.

Deviations from the publication:

- GELU in the place of ReLU: the solutions are smooth, and so are then the functions of
  the trunk.
- The loss is the relative L2 error in physical units, as for FNO, not the squared one.
- A field of several channels has coefficients of its own for each, over one trunk.
- Fields are normalised by one mean and one standard deviation each.
- Schedule, weight decay and averaging of the weights are those of the plan. Both
  operators share a clipped gradient.
- The inverse operator is trained like the forward one, on pairs the other way round.

Reference:
    Lu et al. (2021), Learning nonlinear operators via DeepONet based on the universal
    approximation theorem of operators, arXiv 1910.03193.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from prisma_lib.baselines.operators import Operators, Place
from prisma_lib.checks import check_count
from prisma_lib.denoiser import places
from prisma_lib.errors import ShapeError
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.presets import Settings


@dataclass(frozen=True)
class DeepONetConfig(Settings):
    """The settings of a DeepONet; both operators have the same.

    Args:
        width: Neurons of each hidden layer, in branch and trunk.
        layers: Hidden layers of each.
        terms: Number of terms p in the sum.

    Raises:
        ConfigError: When a setting is out of range.
    """

    PRESETS = {  # noqa: RUF012
        "tiny": {"width": 48, "terms": 32},
        "small": {},
        "base": {"width": 384, "terms": 256},
    }

    width: int = 192
    layers: int = 2
    terms: int = 192

    def __post_init__(self) -> None:
        for name, example in (("width", 192), ("layers", 2), ("terms", 192)):
            check_count(name, getattr(self, name), 1, example)


class DeepONet(Operators):
    """A pair of DeepONets.

    Args:
        pde: The equation, on the grid that the branch reads.
        config: Settings of each operator.
        statistics: Mean and standard deviation per field, physical units.
    """

    method = "deeponet"
    title = "DeepONet"
    settings = DeepONetConfig
    config: DeepONetConfig

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """Makes an operator."""
        n1, n2 = self.pde.grid.shape
        return DeepOperator(inputs * n1 * n2, places(self.pde), outputs, self.config)

    def on(self, shape: tuple[int, int]) -> PDE:
        """Returns the equation on its own grid.

        Raises:
            ShapeError: When another grid is asked for.
        """
        own = self.pde.grid.shape
        if shape != own:
            raise ShapeError(
                f"a grid of {shape[0]} x {shape[1]} points does not fit a DeepONet "
                f"that was trained on {own[0]} x {own[1]}: the points are the sensors "
                "of its branch; resample the fields, or train one for this grid"
            )
        return self.pde


class DeepOperator(nn.Module):
    """A DeepONet.

    Args:
        sensors: Numbers that the branch reads.
        numbers: Numbers that the trunk reads of a point.
        outputs: Channels of the output field.
        config: Its settings.
    """

    def __init__(
        self, sensors: int, numbers: int, outputs: int, config: DeepONetConfig
    ) -> None:
        super().__init__()
        width, terms = [config.width] * config.layers, config.terms
        self.branch = _dense([sensors, *width, outputs * terms])
        self.trunk = nn.Sequential(_dense([numbers, *width, terms]), nn.GELU())
        self.bias = nn.Parameter(torch.zeros(outputs, 1, 1))

    def forward(self, field: Field, place: Place) -> Field:
        """Maps one field to the other, both normalised."""
        terms = self.trunk(place.movedim(0, -1))
        coefficients = self.branch(field.flatten(1))
        coefficients = coefficients.unflatten(1, (-1, terms.shape[-1]))
        return torch.einsum("bop,xyp->boxy", coefficients, terms) + self.bias


def _dense(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for one, other in pairwise(sizes):
        layers += [nn.Linear(one, other), nn.GELU()]
    return nn.Sequential(*layers[:-1])
