"""What was measured of a pair `(a, u)`, and a classical estimate of the rest."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

# Fields, or both along the channel axis, those of `a` first.
Values = Float[Tensor, "b _ x y"]
# Standard deviation of sensor noise: one number, one for `a` and one for `u`, such a
# pair for each problem (b, 2), or a map of it (b, 2, x, y).
Noise = float | tuple[float, float] | Tensor | NDArray[Any]


@dataclass(frozen=True)
class Observation:
    """Values and masks of what was measured, float32, in physical units.

    Args:
        a: Measured input field; 0 where it was not measured.
        u: Measured solution field; 0 where it was not measured.
        mask_a: 1 where `a` was measured, else 0.
        mask_u: 1 where `u` was measured, else 0.
    """

    a: Values
    u: Values
    mask_a: Values
    mask_u: Values

    @property
    def batch(self) -> int:
        """Number of problems."""
        return self.a.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Points per axis."""
        return self.a.shape[-2], self.a.shape[-1]

    @property
    def x(self) -> Values:
        """Both fields as channels, those of `a` first."""
        return torch.cat([self.a, self.u], dim=1)

    @property
    def mask(self) -> Values:
        """Both masks as channels, those of `a` first."""
        return torch.cat([self.mask_a, self.mask_u], dim=1)

    def to(self, device: torch.device | str) -> "Observation":
        """Returns the observation on another device."""
        return Observation(*(part.to(device) for part in vars(self).values()))

    def repeat(self, samples: int) -> "Observation":
        """Repeats every problem; draw `s` of problem `j` is row `s * batch + j`."""
        tiled = (part.repeat(samples, 1, 1, 1) for part in vars(self).values())
        return Observation(*tiled)


@dataclass(frozen=True)
class Lift:
    """A classical estimate of both fields and its doubt, in physical units.

    Args:
        mean: Estimate of `a` and `u` as channels, those of `a` first.
        sd: Standard deviation of its error at every point, 0 where the value is known.
        channels: Number of channels of `a` and of `u`.
    """

    mean: Values
    sd: Values
    channels: tuple[int, int]

    @property
    def a(self) -> Values:
        """The estimate of the input field."""
        return self.mean[:, : self.channels[0]]

    @property
    def u(self) -> Values:
        """The estimate of the solution field."""
        return self.mean[:, self.channels[0] :]
