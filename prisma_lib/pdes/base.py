"""The contract that every equation meets.

A PDE pairs an input field `a` with a solution field `u`, both of shape `(b, c, x, y)`
in physical units, of one channel unless the PDE says otherwise. It draws inputs, solves
for `u`, and evaluates its residual. The kind of a PDE says which contract tests it must
pass:

- `discrete`: `solve` zeroes `residual` to rounding.
- `resampled`: `solve` works on other points than those of the fields and interpolates,
  which leaves a residual in solved pairs.
- `one_step`: `u` is the state one time step after `a`; the residual of a fine solution
  keeps the truncation error of one implicit step.
- `space_time`: the residual lives on a space-time grid.
- `geometric`: a distance-like field; the residual is meaningful away from its kinks.

What may be asked of a PDE are its `directions`: forward, from `a` to `u`; inverse, from
`u` to `a`; reconstruct, from a part of `u` to all of it. Its `sensors` stand at points,
or at columns: places on the last axis of a space-time grid that see all times.

A new equation is a new module here whose class `__all__` names: nothing else changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib import given
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.grids import Grid
from prisma_lib.observed import Lift, Noise, Observation
from prisma_lib.philox import key_of

# The channels of `a`, of `u` and of the residual may differ.
Field = Float[Tensor, "b _ x y"]
Interior = Float[Tensor, "b _ _ _"]
Kind = Literal["discrete", "resampled", "one_step", "space_time", "geometric"]
Direction = Literal["forward", "inverse", "reconstruct"]
Metric = Literal["relative_l2", "error_rate"]
Sensors = Literal["points", "columns"]

# Numbers of problems come in blocks of this many; a split is a block.
BLOCK = 1 << 40


@dataclass(frozen=True)
class Statistics:
    """What normalises the fields of a PDE, in physical units.

    Args:
        mean: Mean of `a` and of `u`, over all their channels.
        std: Standard deviation of `a` and of `u`, likewise, positive.
        residual_rms: Root mean square of the residual of the stored truth: rounding
            for steady equations, the declared floor for others.
    """

    mean: tuple[float, float]
    std: tuple[float, float]
    residual_rms: float


class PDE(ABC):
    """An equation with its input distribution, reference solver and residual.

    Args:
        size: Points per axis.

    Raises:
        ConfigError: When `size` is not a whole number.
        ShapeError: When `size` is too small for the stencil.
    """

    name: ClassVar[str]
    equation: ClassVar[str]
    kind: Kind
    order: ClassVar[float | None]
    floor: float = 0.0
    periodic: ClassVar[tuple[bool, bool]] = (False, False)
    lengths: ClassVar[tuple[float, float]] = (1.0, 1.0)
    directions: ClassVar[tuple[Direction, ...]] = ("forward", "inverse")
    sensors: ClassVar[Sensors] = "points"
    # Whether turned and mirrored problems are problems of the same distribution.
    dihedral: ClassVar[bool] = False
    # Constructor arguments of a variant that is cheap to draw, for tests, smoke runs.
    quick: ClassVar[dict[str, float | int | bool | str]] = {}
    # Constructor arguments of variants that must meet the contract, too.
    variants: ClassVar[tuple[dict[str, float | int | bool | str], ...]] = ()

    def __init__(self, size: int = 32) -> None:
        if isinstance(size, bool) or not isinstance(size, int):
            raise ConfigError(
                f"size={size!r} is no number of points: give a whole number such as 32"
            )
        self.size = size
        self.grid = Grid((size, size), self.lengths, periodic=self.periodic)

    @property
    def channels(self) -> tuple[int, int]:
        """Number of channels of `a` and of `u`."""
        return (1, 1)

    @property
    def residual_channels(self) -> int:
        """Number of channels of the residual: one for each of `u`."""
        return self.channels[1]

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its input distribution, by name."""
        return {}

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`, by name."""
        return {}

    def forces(self) -> Float[Tensor, "_ x y"]:
        """Returns what drives the equation in space alike in all problems: nothing."""
        return torch.empty(0, *self.grid.shape, dtype=torch.float64)

    def resized(self, size: int) -> "PDE":
        """Returns the same equation on a grid of `size` points per axis."""
        return type(self)(size=size, **self.options)

    @abstractmethod
    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws the inputs numbered `index` of the random stream `key`.

        Input `i` of a stream does not depend on which others are drawn with it, nor on
        the device: it is drawn on the CPU.

        Args:
            key: Names the stream, in [0, 2^64).
            index: Numbers of the wanted inputs in the stream.

        Returns:
            Inputs in physical units, float32, on the CPU.
        """

    def sample(self, num: int, generator: torch.Generator) -> Field:
        """Draws `num` inputs; the generator yields the key of their stream.

        Args:
            num: Number of inputs, at least 1.
            generator: Source of randomness; advanced by one draw whatever `num` is.

        Returns:
            Inputs in physical units, float32, on the CPU.

        Raises:
            ConfigError: When `num` is below 1.
        """
        if num < 1:
            raise ConfigError(f"num={num}: ask for at least one sample")
        return self.draw(key_of(generator), range(num))

    @abstractmethod
    def solve(self, a: Field) -> Field:
        """Solves for `u` with the reference solver, in float64 inside.

        Args:
            a: Inputs on this PDE's grid, physical units.

        Returns:
            Solutions of the dtype and on the device of `a`.
        """

    def pair(
        self,
        key: int,
        index: Sequence[int],
        device: torch.device | str | None = None,
    ) -> tuple[Field, Field]:
        """Draws and solves the problems numbered `index` of the stream `key`.

        Data are made of these pairs. An equation that knows more about an input than
        its values at the nodes overrides it, and `u` is then more accurate than
        `solve(a)`.

        Args:
            key: Names the stream, in [0, 2^64).
            index: Numbers of the wanted problems in the stream.
            device: Where to solve; inputs are drawn on the CPU.

        Returns:
            `draw(key, index)` and its solutions, float32, on the device.
        """
        a = self.draw(key, index).to(device)
        return a, self.solve(a)

    @abstractmethod
    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the residual in physical units where it is defined.

        Args:
            a: Input field.
            u: Solution field.

        Returns:
            Left side minus right side of the equation, `residual_channels` of them: the
            interior of a bounded domain, every point of a periodic one.
        """

    def stencil(self, u: Field) -> Field | None:
        """Recovers the input from a whole solution, where the equation gives it away.

        It learns nothing and amplifies noise as a derivative does: a baseline of the
        inverse problem with full observations.

        Args:
            u: Solution at all points, physical units.

        Returns:
            The input, of the dtype and on the device of `u`; `None` where the equation
            has no explicit inverse.

        Raises:
            ShapeError: When `u` is not on this PDE's grid or holds no field.
            DataError: When a value of `u` is not finite.
        """
        return None

    @abstractmethod
    def exact(self) -> tuple[Field, Field]:
        """Returns a smooth pair that solves the continuous equation, in float64."""

    def check(self, a: Tensor | None = None, u: Tensor | None = None) -> None:
        """Refuses fields that are not `(b, c, x, y)` on this grid.

        Args:
            a: Input field, if one was handed in.
            u: Solution field, likewise.

        Raises:
            DataError: When one is no tensor of floating-point numbers.
            ShapeError: When one has another grid, number of channels or number of
                samples, or holds no sample.
        """
        given.check_fields(self.name, self.grid.shape, self.channels, a, u)

    def check_observation(self, observation: Observation) -> None:
        """Refuses what is no observation on this grid.

        Args:
            observation: What was handed in.

        Raises:
            DataError: When it is a field or anything else.
            ShapeError: When it is on another grid; see `check`.
        """
        if not isinstance(observation, Observation):
            raise DataError(
                f"a {type(observation).__name__} is no observation of {self.name}: "
                "make one with prisma_lib.observe.observation(pde, a, u)"
            )
        self.check(observation.a, observation.u)

    def check_finite(self, field: Field) -> None:
        """Refuses fields with gaps.

        Args:
            field: What a user handed in.

        Raises:
            DataError: When a value is not finite.
        """
        given.check_finite(self.name, field)

    def outliers(self, a: Field, u: Field) -> Bool[Tensor, " b"]:
        """Marks the pairs that statistics leave out: by default none."""
        return torch.zeros(len(u), dtype=torch.bool, device=u.device)

    def origins(self, index: Sequence[int]) -> list[int]:
        """Numbers what each problem of a stream comes from, such as its trajectory.

        Problems of one origin are not independent.
        """
        return list(index)

    def error(self, direction: Direction) -> Metric:
        """Names the metric that judges a prediction in this direction."""
        return "relative_l2"

    def snap(self, a: Field) -> Field:
        """Moves a predicted input onto the values that inputs can have."""
        return a

    def lift(
        self, observation: Observation, noise_sd: Noise = 0.0, **settings: int
    ) -> Lift:
        """Estimates both fields without a network; see `lifts.lift`."""
        from prisma_lib import lifts

        return lifts.lift(self, observation, noise_sd, **settings)
