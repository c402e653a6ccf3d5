r"""Periodic flows: velocity, advection and time steps in Fourier space.

The state of a flow in the plane is its vorticity $\omega$. Its stream function solves
$\Delta \psi = -\omega$, its velocity is $v = (\psi_y, -\psi_x)$, and

$$\omega_t + v \cdot \nabla \omega = \nu \Delta \omega + f.$$

Products are free of aliasing: they are taken on a grid of one and a half times the
points (`finer`), so that the 2/3 rule keeps all modes of the grid itself.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from prisma_lib.errors import NumericsError
from prisma_lib.grids import Grid
from prisma_lib.spectral import derivative, resample, solve_periodic, wavenumbers

Scalar = Float[Tensor, "*b x y"]
Modes = Complex[Tensor, "*b half"]
Tendency = Callable[[Tensor], Tensor]
Frames = Float[Tensor, "b frames x y"]

# Grid points advanced together: on a CPU the stages of a step stay in the cache.
_CHUNK_CPU, _CHUNK_GPU = 2**15, 2**24
# Radians per step of `runge_kutta`, which is stable up to 2.8.
STABLE = 2.5


def velocity(
    w: Float[Tensor, "*b x y"], lengths: tuple[float, float] = (1.0, 1.0)
) -> tuple[Float[Tensor, "*b x y"], Float[Tensor, "*b x y"]]:
    """Returns the velocity along x and along y of a vorticity, without mean flow.

    Args:
        w: Vorticity; its mean, which no periodic flow has, is left out.
        lengths: Length of the torus per axis.
    """
    psi = -solve_periodic(w, lengths)
    return derivative(psi, -1, lengths[1]), -derivative(psi, -2, lengths[0])


def advection(
    w: Float[Tensor, "*b x y"], lengths: tuple[float, float] = (1.0, 1.0)
) -> Float[Tensor, "*b x y"]:
    r"""Evaluates $v \cdot \nabla \omega$ without aliasing in any mode of the grid.

    Args:
        w: Vorticity.
        lengths: Length of the torus per axis.
    """
    n1, n2 = w.shape[-2:]
    fine = resample(w, _finer((n1, n2)))
    v1, v2 = velocity(fine, lengths)
    product = v1 * derivative(fine, -2, lengths[0])
    product = product + v2 * derivative(fine, -1, lengths[1])
    return resample(product, (n1, n2))


def finer(grid: Grid) -> Grid:
    """Returns the grid on which the 2/3 rule keeps the modes of this one."""
    return replace(grid, shape=_finer(grid.shape))


def _finer(shape: tuple[int, int]) -> tuple[int, int]:
    return 2 * math.ceil(3 * shape[0] / 4), 2 * math.ceil(3 * shape[1] / 4)


def laplacian(
    w: Float[Tensor, "*b x y"], lengths: tuple[float, float] = (1.0, 1.0)
) -> Float[Tensor, "*b x y"]:
    """Evaluates the Laplacian of a periodic field.

    Args:
        w: Periodic field.
        lengths: Length of the torus per axis.
    """
    along_x = derivative(w, -2, lengths[0], order=2)
    return along_x + derivative(w, -1, lengths[1], order=2)


class Transport:
    r"""The tendency $f - v \cdot \nabla \omega$ of Fourier coefficients, dealiased.

    Modes above a third of the points per axis neither act nor are acted on.

    Args:
        grid: A periodic grid.
        forcing: The forcing f at its points, float64, on the wanted device.
    """

    def __init__(self, grid: Grid, forcing: Float[Tensor, "x y"]) -> None:
        self.shape = grid.shape
        k1, k2 = wavenumbers(grid.shape, grid.lengths, device=forcing.device)
        self.square = k1.square() + k2.square()
        inverse = 1 / torch.where(self.square > 0, self.square, torch.inf)
        kept = torch.ones_like(self.square)
        for k, n, length in zip((k1, k2), grid.shape, grid.lengths, strict=True):
            kept = kept * ((k * length / (2 * torch.pi)).abs().round() * 3 <= n)
        # What makes v_1, v_2, ω_x and ω_y of ω.
        factors = (k2 * inverse, -k1 * inverse, k1.expand_as(kept), k2.expand_as(kept))
        self.factors = 1j * kept * torch.stack(factors)[:, None]
        self.kept = kept
        self.forcing = torch.fft.rfft2(forcing)

    def __call__(self, w_hat: Complex[Tensor, "b x half"]) -> Tensor:
        """Evaluates the tendency."""
        v1, v2, w_x, w_y = torch.fft.irfft2(self.factors * w_hat, s=self.shape)
        product = v1.mul_(w_x).addcmul_(v2, w_y)
        return torch.fft.rfft2(product).mul_(-self.kept).add_(self.forcing)


def crank_nicolson(
    w_hat: Modes, tendency: Tendency, damping: Tensor, dt: float, steps: int
) -> Modes:
    r"""Steps $\hat w_t = -d \hat w + N(\hat w)$, second order in time.

    The damping is treated by Crank-Nicolson, the tendency by Adams-Bashforth of second
    order after a first step of Heun's.

    Args:
        w_hat: Fourier coefficients at the start.
        tendency: The function N.
        damping: The rate d of each mode, at least 0.
        dt: Time step.
        steps: Number of steps, at least 1.

    Returns:
        Fourier coefficients after all steps.
    """
    gain = dt / (1 + dt / 2 * damping)
    decay = (1 - dt / 2 * damping) / (1 + dt / 2 * damping)
    before = tendency(w_hat)
    guess = decay * w_hat + gain * before
    w_hat = decay * w_hat + gain / 2 * (before + tendency(guess))
    for _ in range(steps - 1):
        now = tendency(w_hat)
        # In place from here on: nothing else holds these.
        w_hat = decay * w_hat
        w_hat += gain * before.mul_(-0.5).add_(now, alpha=1.5)
        before = now
    return w_hat


def runge_kutta(
    w_hat: Modes, tendency: Tendency, damping: Tensor, dt: float, steps: int
) -> Modes:
    r"""Steps $\hat w_t = -d \hat w + N(\hat w)$, fourth order in time.

    The integrating factor $e^{d t}$ takes the damping out exactly; the classical
    Runge-Kutta method does the rest.

    Args:
        w_hat: Fourier coefficients at the start.
        tendency: The function N.
        damping: The rate d of each mode, at least 0.
        dt: Time step.
        steps: Number of steps.

    Returns:
        Fourier coefficients after all steps.
    """
    half = torch.exp(-dt / 2 * damping)
    whole = half.square()
    for _ in range(steps):
        first = tendency(w_hat)
        middle, end = half * w_hat, whole * w_hat
        second = tendency(middle + dt / 2 * half * first)
        third = tendency(middle + dt / 2 * second)
        fourth = tendency(end + dt * half * third)
        w_hat = end + dt / 6 * (whole * first + fourth)
        w_hat += dt / 3 * half * (second + third)
    return w_hat


def march(
    w: Float[Tensor, "b x y"], advance: Callable[[Tensor], Tensor], frames: int
) -> Frames:
    """Advances vorticities frame by frame.

    Args:
        w: Vorticities at the start.
        advance: Takes Fourier coefficients from one frame to the next.
        frames: Number of frames.

    Returns:
        The frames after the start.

    Raises:
        NumericsError: When a frame is not finite; names the sample.
    """
    shape = (w.shape[-2], w.shape[-1])
    out = w.new_empty(len(w), frames, *shape)
    chunk = chunk_size(shape[0] * shape[1], w.device)
    for part, result in zip(w.split(chunk), out.split(chunk), strict=True):
        w_hat = torch.fft.rfft2(part)
        for frame in range(frames):
            w_hat = advance(w_hat)
            result[:, frame] = torch.fft.irfft2(w_hat, s=shape)
    finite = out.isfinite().all(-1).all(-1).all(-1)
    if not finite.all():
        raise NumericsError(
            f"sample {int((~finite).nonzero()[0])} of {len(w)} became infinite: the "
            "flow grew too fast for the time step; use milder coefficients"
        )
    return out


def chunk_size(points: int, device: torch.device) -> int:
    """Returns how many samples of so many points are best advanced together."""
    together = _CHUNK_CPU if device.type == "cpu" else _CHUNK_GPU
    return max(1, together // points)


def split_evenly(interval: float, longest: float) -> tuple[float, int]:
    """Returns the time step that divides an interval, at most `longest`, and a count.

    Args:
        interval: Time to cover.
        longest: Longest time step, up to rounding.
    """
    steps = math.ceil(interval / longest * (1 - 1e-12))
    return interval / steps, steps


def exact_flow(grid: Grid) -> tuple[Scalar, Scalar, Scalar]:
    r"""Returns a vorticity with its advection and Laplacian, all in closed form.

    $$\omega = \sin \theta + \cos \varphi, \quad
    v \cdot \nabla \omega = \tfrac85 \cos \theta \sin \varphi, \quad
    \Delta \omega = -\kappa^2 (\sin \theta + 5 \cos \varphi)$$

    with $\theta = \kappa x$, $\varphi = \kappa (x + 2 y)$ on a square torus of length
    $2 \pi / \kappa$. No symmetry hides a swapped axis or a wrong sign.

    Args:
        grid: A periodic grid on a square.

    Returns:
        Vorticity, advection and Laplacian, float64.
    """
    kappa = 2 * math.pi / grid.lengths[0]
    x, y = grid.coordinates(torch.float64)
    theta, phi = kappa * x, kappa * (x + 2 * y)
    w = theta.sin() + phi.cos()
    laplacian = -(kappa**2) * (theta.sin() + 5 * phi.cos())
    return w, 8 / 5 * theta.cos() * phi.sin(), laplacian


def check_speed(speed: Float[Tensor, " b"], dt: float, limit: float) -> None:
    """Refuses a flow that is too fast for a time step.

    Args:
        speed: Largest |v| |k| of each sample, in radians per unit of time.
        dt: Time step.
        limit: Radians per step up to which the method is stable.

    Raises:
        NumericsError: Naming the sample.
    """
    if (dt * speed > limit).any():
        worst = int(speed.argmax())
        raise NumericsError(
            f"sample {worst} of {len(speed)} turns by {dt * speed[worst]:.3g} radians "
            f"in a time step of {dt:.3g}: the solver is stable up to {limit:g}; scale "
            f"the field down by {dt * speed[worst] / limit:.3g} or use a coarser grid"
        )


def turning_speed(w: Float[Tensor, "b x y"], grid: Grid) -> Float[Tensor, " b"]:
    """Returns the largest |v_1 k_1| + |v_2 k_2| of each sample over dealiased modes."""
    pairs = zip(velocity(w, grid.lengths), grid.spacing, strict=True)
    first, second = (v.abs() * (2 * torch.pi / (3 * h)) for v, h in pairs)
    return (first + second).amax((1, 2))
