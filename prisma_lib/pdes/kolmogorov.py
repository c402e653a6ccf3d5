r"""One step of two-dimensional turbulence that a sinusoidal force drives.

$$\omega_t + v \cdot \nabla \omega = \tfrac{1}{Re} \Delta \omega
- 4 \cos(4 y) - 0.1 \, \omega, \quad v = (\psi_y, -\psi_x), \;
\Delta \psi = -\omega$$

on the torus $(0, 2 \pi)^2$. Input and solution are neighbouring frames, 1/32 apart, of
a developed flow. The residual is one step of backward Euler,

$$r = (\omega' - \omega) / \Delta t + v' \cdot \nabla \omega'
- \tfrac{1}{Re} \Delta \omega' + 4 \cos(4 y) + 0.1 \, \omega'.$$

No mode is in its null space: each is seen through the difference over $\Delta t$.

Trajectories are solved on a finer grid and restricted to this one mode by mode. On a
coarse grid the residual of restricted frames keeps the stress of the modes that are
gone, besides the truncation error of the step: 40 per cent of the tendency at 32 and at
64 points per axis. That is the floor. `pair` gives such frames; `solve` steps the
restricted field on this grid, without a model of the missing modes, which is off by 3
per cent of the vorticity after one step at 32 points (doing nothing: 9 to 10).

Trajectories are kept on disk in a pool of `pool` for the numbers below 2^40, the
training split, and of `held_out` for each further block of 2^40 numbers. Numbers go
round the trajectories first and through their frames second; after
`pool * (frames - 1)` numbers they come again. Frames of one trajectory are not
independent: count trajectories for error bars, and resample whole trajectories.

Good values: `resolution=128`, with which a trajectory takes some twenty seconds on one
core and 10 MB on disk; 256 for reference data.

Breaks when: the resolution cannot hold the smallest eddies; at Reynolds number 1000 use
128 or more.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import progress
from prisma_lib.checks import check_count, check_number
from prisma_lib.errors import ConfigError
from prisma_lib.fields import fourier_field, keyed_normal
from prisma_lib.flows import (
    STABLE,
    Frames,
    Transport,
    advection,
    check_speed,
    exact_flow,
    finer,
    laplacian,
    march,
    runge_kutta,
    split_evenly,
    turning_speed,
)
from prisma_lib.grids import Grid
from prisma_lib.pdes.base import Field, Interior
from prisma_lib.pool import Pool, Trajectory, place
from prisma_lib.spectral import resample
from prisma_lib.steps import OneStep

__all__ = ["Kolmogorov"]


class Kolmogorov(OneStep):
    r"""One step of Kolmogorov flow, from ω(t) to ω(t + Δt).

    Args:
        size: Points per axis.
        reynolds: Reynolds number, in (0, 1e6].
        interval: The time Δt between frames, in (0, 1].
        resolution: Points per axis that trajectories are solved on, at least `size`.
        spin_up: Time from the random start to the first frame, in (0, 1000].
        frames: Frames per trajectory, at least 2.
        pool: Trajectories for training.
        held_out: Trajectories for each other split.
        cache: Folder of the trajectories. It is no constant of the equation.

    Raises:
        ConfigError: When an argument is of a wrong type or out of range.
        ShapeError: When `size` is too small.

    Reference:
        Shu, Li, Barati Farimani (2023), A physics-informed diffusion model for
        high-fidelity flow field reconstruction. arXiv 2211.14680.
    """

    name: ClassVar[str] = "kolmogorov"
    equation: ClassVar[str] = (
        r"(\omega' - \omega) / \Delta t + v' \cdot \nabla \omega'"
        r" = \Delta \omega' / Re - 4 \cos(4 y) - 0.1 \omega'"
    )
    order: ClassVar[float | None] = None
    periodic: ClassVar[tuple[bool, bool]] = (True, True)
    lengths: ClassVar[tuple[float, float]] = (2 * math.pi, 2 * math.pi)
    # Rms of the residual of restricted pairs with the default constants at 32 points
    # per axis, the mean over 64 samples.
    floor = 5.6
    quick: ClassVar[dict[str, float | int | bool | str]] = {
        "resolution": 64,
        "spin_up": 0.25,
        "frames": 8,
        "pool": 3,
        "held_out": 1,
    }
    drag: ClassVar[float] = 0.1
    forcing: ClassVar[float] = 4.0
    wavenumber: ClassVar[int] = 4
    alpha: ClassVar[float] = 2.5
    tau: ClassVar[float] = 7.0
    longest_step: ClassVar[float] = 1 / 256

    def __init__(
        self,
        size: int = 32,
        reynolds: float = 1000.0,
        interval: float = 1 / 32,
        resolution: int = 128,
        spin_up: float = 10.0,
        frames: int = 320,
        pool: int = 36,
        held_out: int = 4,
        cache: Path | str = "outputs/data",
    ) -> None:
        super().__init__(size)
        self.reynolds = check_number("reynolds", reynolds, 0, 1e6, 1000)
        self.interval = check_number("interval", interval, 0, 1, 1 / 32)
        self.resolution = check_count("resolution", resolution, 4, 128)
        self.spin_up = check_number("spin_up", spin_up, 0, 1000, 10)
        self.frames = check_count("frames", frames, 2, 320)
        self.pool = check_count("pool", pool, 1, 36)
        self.held_out = check_count("held_out", held_out, 1, 4)
        if self.resolution < size:
            raise ConfigError(
                f"resolution={resolution} is below size={size}: trajectories are "
                f"restricted from a finer grid; give resolution={max(128, 2 * size)}"
            )
        if not isinstance(cache, str | Path):
            raise ConfigError(f"cache={cache!r}: give a folder, such as outputs/data")
        self.cache = Path(cache)
        self._trajectories = Pool(self.cache, self.name, self._origin, self._developed)

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size` and `cache`."""
        names = "reynolds interval resolution spin_up frames pool held_out"
        return {name: getattr(self, name) for name in names.split()}

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its inputs, by name."""
        return {**self._origin, "pool": self.pool, "held_out": self.held_out}

    @property
    def _origin(self) -> dict[str, float | int | bool | str]:
        """What decides the frames of a trajectory."""
        names = "reynolds interval resolution spin_up frames drag forcing wavenumber"
        names += " alpha tau longest_step"
        return {name: getattr(self, name) for name in names.split()}

    def resized(self, size: int) -> "Kolmogorov":
        """Returns the same equation on another grid, with the same trajectories."""
        return type(self)(size=size, cache=self.cache, **self.options)  # type: ignore[arg-type]

    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws restricted frames; see `PDE.draw`, and the module for the numbering.

        Trajectories that are not in the cache are made first.

        Raises:
            RunDirError: When a trajectory cannot be written.
        """
        return self.pair(key, index)[0]

    def pair(
        self,
        key: int,
        index: Sequence[int],
        device: torch.device | str | None = None,
    ) -> tuple[Field, Field]:
        """Draws frames with their true successors, both restricted.

        Args:
            key: Names the stream; each key has trajectories of its own.
            index: Numbers in the stream.
            device: Where to put the fields.

        Returns:
            Vorticities at t and at t + Δt, float32.

        Raises:
            RunDirError: When a trajectory cannot be written.
        """
        rows: dict[int, list[int]] = defaultdict(list)
        places = [place(i, *self._pools) for i in index]
        for row, (number, _) in enumerate(places):
            rows[number].append(row)
        both = torch.empty(len(places), 2, *self.grid.shape)
        with progress.bar(len(rows), "trajectory", leave=False) as bar:
            for number, members in rows.items():
                wanted = [places[row][1] + step for row in members for step in (0, 1)]
                fine = self._trajectories.frames(key, number, wanted)
                coarse = resample(fine.double(), self.grid.shape).float()
                both[members] = coarse.view(len(members), 2, *self.grid.shape)
                bar.update()
        a, u = both.to(device).split(1, dim=1)
        return a, u

    def origins(self, index: Sequence[int]) -> list[int]:
        """Returns the numbers of trajectories; see `PDE.origins`."""
        return [place(i, *self._pools)[0] for i in index]

    @property
    def _pools(self) -> tuple[tuple[int, int], int]:
        """Trajectories of the training split and of each other, and pairs in one."""
        return (self.pool, self.held_out), self.frames - 1

    @torch.no_grad()
    def solve(self, a: Field) -> Field:
        """Steps the vorticity by Δt on this grid.

        Args:
            a: Vorticity at a time t.

        Returns:
            Vorticity at t + Δt, of the dtype and on the device of `a`.

        Raises:
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value of `a` is not finite.
            NumericsError: When the flow is too fast for the time step; names it.
        """
        self.check(a)
        self.check_finite(a)
        grid = finer(self.grid)
        w = resample(a[:, 0].double(), grid.shape)
        u = self._march(w, grid, self.interval, 1)
        return resample(u, self.grid.shape).to(a.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates one step of backward Euler at every point, without aliasing."""
        self.check(a, u)
        change = (u - a) / self.interval + advection(u, self.lengths) + self.drag * u
        f = self.force(self.grid, u.dtype, u.device)
        return change - laplacian(u, self.lengths) / self.reynolds - f

    def exact(self) -> tuple[Field, Field]:
        """Returns an analytic ω' and the ω from which backward Euler reaches it."""
        u, advected, diffused = exact_flow(self.grid)
        rate = advected - diffused / self.reynolds + self.drag * u
        rate = rate - self.force(self.grid, torch.float64)
        return (u + self.interval * rate)[None, None], u[None, None]

    def _developed(self, key: int, number: int) -> Trajectory:
        """Solves a trajectory from its random start."""
        shape = (self.resolution, self.resolution)
        grid = Grid(shape, self.lengths, periodic=self.periodic)
        noise = keyed_normal(key, [number], shape, purpose="input").double()
        # The field of the unit torus, stretched over this one.
        ratio = 2 * math.pi
        start = ratio * fourier_field(noise, self.alpha, ratio * self.tau)
        first = self._march(start, grid, self.spin_up, 1)[:, 0]
        rest = self._march(first, grid, self.interval, self.frames - 1)
        # All modes that the 2/3 rule keeps; the others were never advected.
        kept = 2 * (self.resolution // 3) + 2
        return resample(torch.cat([first, rest[0]]), (kept, kept))

    def dynamics(self, grid: Grid, device: torch.device) -> tuple[Transport, Tensor]:
        """Returns tendency and damping of Fourier coefficients; see `OneStep`."""
        tendency = Transport(grid, self.force(grid, torch.float64, device))
        return tendency, tendency.square / self.reynolds + self.drag

    def force(
        self, grid: Grid, dtype: torch.dtype, device: torch.device | None = None
    ) -> Float[Tensor, "x y"]:
        """Returns the forcing on a grid; see `OneStep`."""
        _, y = grid.coordinates(torch.float64)
        return (-self.forcing * (self.wavenumber * y).cos()).to(device, dtype)

    @torch.no_grad()
    def _march(
        self, w: Float[Tensor, "b x y"], grid: Grid, interval: float, frames: int
    ) -> Frames:
        """Returns the next frames, float64."""
        longest = min(self.longest_step, 0.5 / grid.shape[0])
        dt, steps = split_evenly(interval, longest)
        check_speed(turning_speed(w, grid), dt, STABLE)
        tendency, damping = self.dynamics(grid, w.device)

        def advance(w_hat: Tensor) -> Tensor:
            return runge_kutta(w_hat, tendency, damping, dt, steps)

        return march(w, advance, frames)
