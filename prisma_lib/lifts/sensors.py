"""Measured values with their noise, sorted by what problems of a batch share."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.observed import Noise, Observation, Values

Problems = Bool[Tensor, " b"]


@dataclass(frozen=True)
class Sensors:
    """Measured values of both fields as channels, those of `a` first.

    Args:
        values: What was measured, float64; 0 elsewhere.
        seen: Where.
        sd: Standard deviation of the noise on each of them.
        split: Number of channels of `a`.
    """

    values: Values
    seen: Bool[Tensor, "b c x y"]
    sd: Float[Tensor, "b c x y"]
    split: int

    def of(self, chosen: Problems) -> "Sensors":
        """Returns some of the problems."""
        values, seen = self.values[chosen], self.seen[chosen]
        return Sensors(values, seen, self.sd[chosen], self.split)

    @property
    def exact(self) -> Bool[Tensor, "b c x y"]:
        """Where values are known without noise."""
        return self.seen & (self.sd == 0)

    @property
    def whole_a(self) -> Problems:
        """Problems whose input is known everywhere, without noise."""
        return self.exact[:, : self.split].flatten(1).all(1)

    @property
    def whole_u(self) -> Problems:
        """Problems whose solution is known everywhere, without noise."""
        return self.exact[:, self.split :].flatten(1).all(1)

    @property
    def only_a(self) -> Problems:
        """Problems without a sensor of the solution."""
        return ~self.seen[:, self.split :].flatten(1).any(1)

    @property
    def only_u(self) -> Problems:
        """Problems without a sensor of the input."""
        return ~self.seen[:, : self.split].flatten(1).any(1)

    @property
    def forward(self) -> Problems:
        """Problems whose solution is to follow from the input, and not from sensors.

        It has none, or the input is known everywhere; if both fields are, nothing is to
        follow.
        """
        return self.only_a | (self.whole_a & ~self.whole_u)

    @property
    def backward(self) -> Problems:
        """Problems whose input is to follow from the solution, as in `forward`."""
        return self.only_u | (self.whole_u & ~self.whole_a)

    def told(self, values: Values, where: Bool[Tensor, "b c x y"]) -> "Sensors":
        """Returns the sensors after more values became known without noise.

        Args:
            values: The values.
            where: Which of them.
        """
        return replace(
            self,
            values=torch.where(where, values, self.values),
            seen=self.seen | where,
            sd=torch.where(where, 0.0, self.sd),
        )

    def without(self, chosen: Problems, channels: slice) -> "Sensors":
        """Returns the sensors without those of some channels of some problems."""
        seen = self.seen.clone()
        seen[:, channels] &= ~chosen[:, None, None, None]
        return replace(self, values=torch.where(seen, self.values, 0.0), seen=seen)

    def groups(self) -> Iterator[Int[Tensor, " k"]]:
        """Yields the numbers of the problems that share masks and noise."""
        packed = np.packbits(self.seen.flatten(1).cpu().numpy(), axis=1)
        # The noise of what nobody measures makes no difference.
        noise = torch.where(self.seen, self.sd, 0.0).cpu().numpy()
        found: dict[bytes, list[int]] = {}
        for number, (mask, sd) in enumerate(zip(packed, noise, strict=True)):
            found.setdefault(mask.tobytes() + sd.tobytes(), []).append(number)
        for numbers in found.values():
            yield torch.tensor(numbers, device=self.values.device)


def sensors(
    observation: Observation, noise_sd: Noise, channels: tuple[int, int]
) -> Sensors:
    """Sorts out what was measured, and ignores what stands where nothing was.

    Args:
        observation: Values and masks.
        noise_sd: Standard deviation of the noise, physical units; see `lift`.
        channels: Number of channels of `a` and of `u`.

    Raises:
        ConfigError: When the noise is impossible.
        ShapeError: When there are not as many noise levels as problems or points.
    """
    seen = observation.mask.bool()
    values = torch.where(seen, observation.x.double(), 0.0)
    sd = levels(noise_sd, observation).to(values)
    sd = sd.repeat_interleave(torch.tensor(channels, device=sd.device), dim=1)
    return Sensors(values, seen, sd, channels[0])


def levels(noise_sd: Noise, observation: Observation) -> Float[Tensor, "b 2 x y"]:
    """Returns maps of the noise of each problem's sensors, float64.

    Args:
        noise_sd: Its standard deviation; see `lift`.
        observation: What they measured.

    Raises:
        ConfigError: When the noise is impossible.
        ShapeError: When there are not as many noise levels as problems or points.
    """
    batch, shape = observation.batch, observation.shape
    impossible = ConfigError(
        f"noise_sd={noise_sd}: noise needs a finite standard deviation of at least 0 "
        "in physical units, or one for a and one for u"
    )
    try:
        found = torch.as_tensor(noise_sd, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise impossible from error
    if found.shape not in ((), (2,), (batch, 2), (batch, 2, *shape)):
        raise ShapeError(
            f"noise_sd of shape {tuple(found.shape)}: give one level, one for a and "
            f"one for u, such a pair for each of the {batch} problems {(batch, 2)}, or "
            f"maps of them {(batch, 2, *shape)}"
        )
    if not ((found >= 0) & (found < math.inf)).all():
        raise impossible
    found = found if found.ndim > 2 else found[..., None, None]
    return found.expand(batch, 2, *shape)
