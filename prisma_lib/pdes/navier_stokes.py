r"""One or more steps of a forced two-dimensional flow in vorticity form.

$$\omega_t + v \cdot \nabla \omega = \nu \Delta \omega + f, \quad
v = (\psi_y, -\psi_x), \quad \Delta \psi = -\omega$$

on the unit torus, with $f = F (\sin 2 \pi (x + y) + \cos 2 \pi (x + y))$. The input is
the vorticity at a time t, the solution that at $t + \Delta t$. The residual is one step
of backward Euler,

$$r = (\omega' - \omega) / \Delta t + v' \cdot \nabla \omega'
- \nu \Delta \omega' - f,$$

whose truncation error a true pair keeps: at t = 0 a seventh of the tendency on 32
points per axis and a quarter on 64 and more, 2.5 per cent from t = 0.5 on. No mode is
in its null space: each is seen through the difference over $\Delta t$.

With `frames=3` the solution has three channels: the vorticities at $t + \Delta t$,
$t + 2 \Delta t$ and $t + 3 \Delta t$. The residual has one for each, too: the step of
backward Euler to this frame from the one before it, or from the input.

Ten consecutive numbers of a split, from its first on, are the times 0, 0.1, ..., 0.9 of
one trajectory. They are not independent: count trajectories, not pairs, for error bars,
and resample whole trajectories. No trajectory is in two splits.

Good values: viscosity 1e-3 down to 1e-5 on 64 points or more.

Breaks when: the flow crosses more than a fraction of a cell in a time step, which the
solver refuses; inputs as drawn never do.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.checks import check_count, check_number
from prisma_lib.errors import ConfigError
from prisma_lib.fields import fourier_field, keyed_normal
from prisma_lib.flows import (
    Frames,
    Transport,
    advection,
    check_speed,
    crank_nicolson,
    exact_flow,
    finer,
    laplacian,
    march,
    split_evenly,
    turning_speed,
)
from prisma_lib.grids import Grid
from prisma_lib.pdes.base import BLOCK, Field, Interior
from prisma_lib.spectral import resample
from prisma_lib.steps import OneStep

__all__ = ["NavierStokes"]

# Radians per step: the growth of Adams-Bashforth, a quarter of the fourth power, is
# then below what the viscosity takes away.
_STABLE = 0.5

_MOST_FRAMES = 10


class NavierStokes(OneStep):
    r"""Steps of vorticity, from ω(t) to ω(t + Δt) and the frames after it.

    Args:
        size: Points per axis.
        viscosity: The constant ν, in (0, 1].
        interval: The time Δt between input and solution, in (0, 10].
        forcing: Amplitude F of the forcing, in (-100, 100]; 0 for none.
        frames: Number of frames in the solution, its channels, from 1 to 10.

    Raises:
        ConfigError: When an argument is no number or out of range.
        ShapeError: When `size` is too small.

    Reference:
        Li et al. (2020), Fourier neural operator, `ns_2d.py`, with second-order instead
        of first-order advection and time steps of 5e-3 instead of 1e-4.
    """

    name: ClassVar[str] = "navier_stokes"
    equation: ClassVar[str] = (
        r"(\omega' - \omega) / \Delta t + v' \cdot \nabla \omega'"
        r" = \nu \Delta \omega' + f"
    )
    order: ClassVar[float | None] = None
    periodic: ClassVar[tuple[bool, bool]] = (True, True)
    # Rms of the residual of drawn pairs with the default constants at 32 points per
    # axis, the mean over 64 samples.
    floor = 0.0061
    variants: ClassVar[tuple[dict[str, float | int | bool | str], ...]] = (
        {"frames": 3},
    )
    alpha: ClassVar[float] = 2.5
    tau: ClassVar[float] = 7.0
    times: ClassVar[int] = 10
    spacing: ClassVar[float] = 0.1
    longest_step: ClassVar[float] = 5e-3

    def __init__(
        self,
        size: int = 32,
        viscosity: float = 1e-3,
        interval: float = 0.1,
        forcing: float = 0.1,
        frames: int = 1,
    ) -> None:
        super().__init__(size)
        self.viscosity = check_number("viscosity", viscosity, 0, 1, 1e-3)
        self.interval = check_number("interval", interval, 0, 10, 0.1)
        self.forcing = check_number("forcing", forcing, -100, 100, 0.1)
        self.frames = check_count("frames", frames, 1, 3)
        if self.frames > _MOST_FRAMES:
            raise ConfigError(
                f"frames={frames}: a solution holds at most {_MOST_FRAMES} frames; for "
                "more of them use trajectory(a, frames)"
            )

    @property
    def channels(self) -> tuple[int, int]:
        """One channel for the input, one for each frame of the solution."""
        return (1, self.frames)

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`."""
        return {
            "viscosity": self.viscosity,
            "interval": self.interval,
            "forcing": self.forcing,
            "frames": self.frames,
        }

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its input distribution, by name."""
        return {
            **self.options,
            "alpha": self.alpha,
            "tau": self.tau,
            "times": self.times,
            "spacing": self.spacing,
            "longest_step": self.longest_step,
        }

    @torch.no_grad()
    def draw(self, key: int, index: Sequence[int]) -> Field:
        """Draws vorticities, each at one of ten times; see `PDE.draw`.

        Number i of a split is trajectory `i // 10` of it at the time `(i % 10) / 10`.
        Its start is a Gaussian field; the solver goes on from there, in one pass for
        all numbers.
        """
        places = [self._place(i) for i in index]
        numbers = sorted({number for number, _ in places})
        noise = keyed_normal(key, numbers, self.grid.shape, purpose="input")
        w = fourier_field(noise.double(), self.alpha, self.tau)[:, None]
        last = max((time for _, time in places), default=0)
        later = [self._march(w, self.spacing, last)] if last else []
        states = torch.cat([w, *later], dim=1)
        rows = [numbers.index(number) for number, _ in places]
        return states[rows, [time for _, time in places], None].float()

    def origins(self, index: Sequence[int]) -> list[int]:
        """Returns the numbers of trajectories; see `PDE.origins`."""
        return [self._place(i)[0] for i in index]

    def _place(self, index: int) -> tuple[int, int]:
        """Returns the trajectory and the time in it that a number stands for."""
        block, within = divmod(index, BLOCK)
        number, time = divmod(within, self.times)
        return block * BLOCK + number, time

    def solve(self, a: Field) -> Field:
        """Steps the vorticity by Δt, once for each frame of the solution.

        Args:
            a: Vorticity at a time t; its mean stays as it is.

        Returns:
            Vorticity at t + Δt and the frames after it, of the dtype and on the device
            of `a`.

        Raises:
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value of `a` is not finite.
            NumericsError: When the flow is too fast for the time step; names it.
        """
        return self.trajectory(a, self.frames)

    @torch.no_grad()
    def trajectory(self, a: Field, frames: int) -> Frames:
        """Steps the vorticity by Δt many times.

        Args:
            a: Vorticity at a time t.
            frames: Number of steps of Δt, at least 1.

        Returns:
            Vorticities at t + Δt, t + 2 Δt, ..., one per frame, of the dtype of `a`.

        Raises:
            ConfigError: When `frames` is below 1.
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value of `a` is not finite.
            NumericsError: When the flow is too fast for the time step; names it.
        """
        self.check(a)
        self.check_finite(a)
        check_count("frames", frames, 1, 10)
        return self._march(a.double(), self.interval, frames).to(a.dtype)

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates a step of backward Euler to every frame, without aliasing."""
        self.check(a, u)
        return self._step(torch.cat([a, u[:, :-1]], dim=1), u)

    def _step(self, before: Frames, after: Frames) -> Frames:
        f = self.force(self.grid, after.dtype, after.device)
        change = (after - before) / self.interval
        return change + advection(after) - self.viscosity * laplacian(after) - f

    def exact(self) -> tuple[Field, Field]:
        """Returns an analytic last frame and what backward Euler reaches it from.

        The frame before the last is in closed form. Each step further back doubles the
        highest mode number, 2 at first; the pair is exact as long as the grid holds it.
        """
        u, advected, diffused = exact_flow(self.grid)
        forcing = self.force(self.grid, torch.float64)
        rate = advected - self.viscosity * diffused - forcing
        states = [u[None, None], (u + self.interval * rate)[None, None]]
        for _ in range(self.frames - 1):
            w = states[-1]
            # The residual without a change: advection less diffusion and forcing.
            states.append(w + self.interval * self._step(w, w))
        a, *frames = reversed(states)
        return a, torch.cat(frames, dim=1)

    def dynamics(self, grid: Grid, device: torch.device) -> tuple[Transport, Tensor]:
        """Returns tendency and damping of Fourier coefficients; see `OneStep`."""
        tendency = Transport(grid, self.force(grid, torch.float64, device))
        return tendency, self.viscosity * tendency.square

    def force(
        self, grid: Grid, dtype: torch.dtype, device: torch.device | None = None
    ) -> Float[Tensor, "x y"]:
        """Returns the forcing on a grid; see `OneStep`."""
        x, y = grid.coordinates(torch.float64)
        phase = 2 * math.pi * (x + y)
        return (self.forcing * (phase.sin() + phase.cos())).to(device, dtype)

    def _march(self, w: Field, interval: float, frames: int) -> Frames:
        """Returns the next frames, float64, without checks of the input."""
        grid = finer(self.grid)
        dt, steps = split_evenly(interval, min(self.longest_step, 0.64 / self.size))
        tendency, damping = self.dynamics(grid, w.device)

        def advance(w_hat: Tensor) -> Tensor:
            return crank_nicolson(w_hat, tendency, damping, dt, steps)

        out = []
        for _ in range(frames):
            # Back on this grid at every frame: each is the solution of the last.
            fine = resample(w, grid.shape)
            check_speed(turning_speed(fine[:, 0], grid), dt, _STABLE)
            w = resample(march(fine[:, 0], advance, 1), self.grid.shape)
            out.append(w)
        return torch.cat(out, dim=1)
