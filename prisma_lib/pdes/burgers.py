r"""Burgers' equation, whose solution is a field over space and time.

$$u_t + u \, u_x = \nu \, u_{xx}, \qquad u(0, x) = u_0(x)$$

for x in [0, 1), periodic, and t in [0, 1], both ends included. The axes of a field are
(t, x). The input is the start $u_0$, copied along t. The residual is spectral in x and
takes central differences in t, second order, so that it exists on the rows
1 to n - 2: not at the first and the last time.

The residual does not see the input. At a state of rest its null space has two modes for
each wave in x: one is a solution, which decays, and one alternates in sign from row to
row, $(-1)^i$ for the constant, and is no solution.

A sensor stands at a place x and sees all times: a column of the field. What may be
wanted from a few columns is the start or the whole history (`reconstruct`).

Good values: `viscosity` 0.01; fronts are then about a twentieth of the domain wide.

Breaks when: a front is thinner than six cells. The solver does not suffer, since it
works on a finer grid, but the residual does: its floor falls with the grid.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.checks import check_number
from prisma_lib.fields import keyed_normal
from prisma_lib.flows import (
    STABLE,
    check_speed,
    chunk_size,
    runge_kutta,
    split_evenly,
)
from prisma_lib.grids import Grid
from prisma_lib.pdes.base import PDE, Direction, Field, Interior, Kind, Sensors
from prisma_lib.spectral import derivative, resample

__all__ = ["Burgers"]


class Burgers(PDE):
    """Burgers' equation, from the start to the whole history.

    Args:
        size: Points per axis, of time with both ends, of space without the right one.
        viscosity: The constant ν, in (5e-4, 1].

    Raises:
        ConfigError: When an argument is of a wrong type or out of range.
        ShapeError: When `size` is too small.

    Reference:
        Li et al. (2020), Fourier neural operator, `gen_burgers1.m`.
    """

    name: ClassVar[str] = "burgers"
    equation: ClassVar[str] = r"u_t + u \, u_x = \nu \, u_{xx}"
    kind: Kind = "space_time"
    order: ClassVar[float | None] = None
    periodic: ClassVar[tuple[bool, bool]] = (False, True)
    directions: ClassVar[tuple[Direction, ...]] = ("forward", "inverse", "reconstruct")
    sensors: ClassVar[Sensors] = "columns"
    # Rms of the residual of solutions with the default constants at 32 points per axis,
    # the mean over 64 samples.
    floor = 0.01
    gamma: ClassVar[float] = 2.5
    tau: ClassVar[float] = 7.0
    sigma: ClassVar[float] = 49.0
    modes: ClassVar[int] = 64

    def __init__(self, size: int = 32, viscosity: float = 0.01) -> None:
        super().__init__(size)
        self.viscosity = check_number("viscosity", viscosity, 5e-4, 1, 0.01)
        shape, lengths = self.grid.shape, self.lengths
        self.grid = Grid(shape, lengths, axes=("t", "x"), periodic=self.periodic)

    @property
    def options(self) -> dict[str, float | int | bool | str]:
        """The constructor's arguments beside `size`."""
        return {"viscosity": self.viscosity}

    @property
    def coefficients(self) -> dict[str, float | int | bool | str]:
        """Every constant of the equation and its input distribution, by name."""
        return {
            "viscosity": self.viscosity,
            "gamma": self.gamma,
            "tau": self.tau,
            "sigma": self.sigma,
            "modes": self.modes,
        }

    def draw(self, key: int, index: Sequence[int]) -> Field:
        r"""Draws starts, copied along t; see `PDE.draw`.

        Mode k has a cosine and a sine of standard deviation
        $\sqrt 2 \, \sigma \, ((2 \pi k)^2 + \tau^2)^{-\gamma / 2}$, k from 1 to 64. A
        grid holds those that it resolves, of the same draw for every grid.
        """
        n = self.grid.shape[1]
        num = min(self.modes, (n - 1) // 2)
        noise = keyed_normal(key, index, (2, self.modes), purpose="input").double()
        k = 2 * torch.pi * torch.arange(1, num + 1, dtype=torch.float64)
        size = (
            math.sqrt(2) * self.sigma * (k.square() + self.tau**2) ** (-self.gamma / 2)
        )
        angle = torch.outer(k, torch.arange(n, dtype=torch.float64) / n)
        cosine, sine = (size * noise[..., :num]).unbind(1)
        start = cosine @ angle.cos() + sine @ angle.sin()
        return start.float()[:, None, None].repeat(1, 1, self.grid.shape[0], 1)

    @torch.no_grad()
    def solve(self, a: Field) -> Field:
        """Solves for the history of a start.

        Args:
            a: The start, copied along t; the row t = 0 is read.

        Returns:
            The solution at all times, of the dtype and on the device of `a`.

        Raises:
            ShapeError: When `a` is not on this grid or holds no field.
            DataError: When a value of `a` is not finite.
            NumericsError: When a start is too fast for the time step; names it.
        """
        self.check(a)
        self.check_finite(a)
        start = a[:, 0, 0].double()
        return history(start, self.grid, self.viscosity)[:, None].to(a.dtype)

    def stencil(self, u: Field) -> Field:
        """Copies the row t = 0, which is the start; see `PDE.stencil`."""
        self.check(u=u)
        self.check_finite(u)
        return u[..., :1, :].expand_as(u).clone()

    def residual(self, a: Field, u: Field) -> Interior:
        """Evaluates the equation on all rows but the first and the last time."""
        self.check(a, u)
        return space_time_residual(u, self.grid, self.viscosity)

    def exact(self) -> tuple[Field, Field]:
        """Returns a pair by the transform of Cole and Hopf, with wide fronts."""
        u = cole_hopf(self.grid, self.viscosity)[None, None]
        return u[..., :1, :].expand_as(u).clone(), u

    def snap(self, a: Field) -> Field:
        """Averages a predicted start over its copies."""
        first = a[..., :1, :]
        # Differences from one copy are exactly zero where nothing is to be done.
        return (first + (a - first).mean(-2, keepdim=True)).expand_as(a)


def space_time_residual(
    u: Float[Tensor, "*b t x"], grid: Grid, viscosity: float
) -> Float[Tensor, "*b t-2 x"]:
    """Evaluates the residual of Burgers' equation where central differences exist.

    Args:
        u: Field over time and space, periodic in space.
        grid: Its grid, of any shape.
        viscosity: The constant ν.
    """
    u_t = (u[..., 2:, :] - u[..., :-2, :]) / (2 * grid.spacing[0])
    inner, length = u[..., 1:-1, :], grid.lengths[1]
    u_x = derivative(inner, -1, length)
    return u_t + inner * u_x - viscosity * derivative(inner, -1, length, order=2)


def history(
    start: Float[Tensor, "b x"], grid: Grid, viscosity: float
) -> Float[Tensor, "b t x"]:
    """Solves Burgers' equation on a grid of any shape.

    The start is taken to be band-limited. It is moved to a grid of at least 256 points,
    on which the fronts of the default viscosity are resolved, stepped there, and its
    values are read at the wanted points.

    Args:
        start: Values at t = 0, float64.
        grid: The grid over time and space.
        viscosity: The constant ν.

    Returns:
        Values at all points of the grid.

    Raises:
        NumericsError: When a start is too fast for the time step; names it.
    """
    (times, n), length = grid.shape, grid.lengths[1]
    stride = math.ceil(max(256, 2.56 * length / viscosity) / n)
    fine = stride * n
    mode = torch.arange(fine // 2 + 1, dtype=torch.float64, device=start.device)
    k, kept = 2 * torch.pi / length * mode, (3 * mode <= fine).double()
    dt, steps = split_evenly(grid.spacing[0], 0.5 * length / fine)
    check_speed(start.abs().amax(1) * (k * kept).max(), dt, STABLE)
    flux, damping = -0.5j * k * kept, viscosity * k.square()

    def tendency(u_hat: Tensor) -> Tensor:
        u = torch.fft.irfft(u_hat * kept, n=fine)
        return flux * torch.fft.rfft(u.square_())

    out = start.new_empty(len(start), times, n)
    chunk = chunk_size(fine, start.device)
    for part, result in zip(start.split(chunk), out.split(chunk), strict=True):
        result[:, 0] = part
        u_hat = torch.fft.rfft(resample(part, (len(part), fine)))
        for row in range(1, times):
            u_hat = runge_kutta(u_hat, tendency, damping, dt, steps)
            result[:, row] = torch.fft.irfft(u_hat, n=fine)[:, ::stride]
    return out


def cole_hopf(grid: Grid, viscosity: float) -> Float[Tensor, "t x"]:
    r"""Evaluates an exact solution of Burgers' equation.

    $$u = -2 \nu \frac{\varphi_x}{\varphi}, \quad \varphi = 1
    + \tfrac12 e^{-\nu \kappa^2 t} \cos \kappa x
    + \tfrac15 e^{-4 \nu \kappa^2 t} \sin 2 \kappa x$$

    where φ is a positive solution of the heat equation and $\kappa = 2 \pi / L$. Its
    front is a quarter of the domain wide.

    Args:
        grid: The grid over time and space.
        viscosity: The constant ν.

    Reference:
        Hopf (1950), The partial differential equation u_t + u u_x = μ u_xx.
    """
    t, x = grid.coordinates(torch.float64)
    kappa = 2 * torch.pi / grid.lengths[1]
    first = 0.5 * (-viscosity * kappa**2 * t).exp()
    second = 0.2 * (-4 * viscosity * kappa**2 * t).exp()
    phi = 1 + first * (kappa * x).cos() + second * (2 * kappa * x).sin()
    phi_x = -first * (kappa * x).sin() + 2 * second * (2 * kappa * x).cos()
    return -2 * viscosity * kappa * phi_x / phi
