r"""Lifts of Burgers' equation: its exact solution from an estimate of the start.

The transform of Cole and Hopf makes it the heat equation,

$$u = -2 \nu \frac{\varphi_x}{\varphi}, \quad \varphi_t = \nu \varphi_{xx}, \quad
\varphi(0, x) = \exp\Big(-\frac{1}{2 \nu} \int_0^x u_0\Big),$$

which costs a few Fourier transforms. It holds for starts of zero mean; others are seen
from a frame that moves with their mean. Where the exponent spans so much that float64
loses the smallest values of φ, the reference solver takes over.

Reference:
    Hopf (1950), The partial differential equation u_t + u u_x = μ u_xx.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.lifts.estimates import estimate, kriged, no_settings, passed_on, weighed
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.sensors import Sensors
from prisma_lib.pdes.burgers import Burgers
from prisma_lib.spectral import resample

Scalar = Float[Tensor, "b 1 x y"]

_FINE = 256  # points on which φ is resolved
_SPAN = 25.0  # of the exponent: e^-25 is 1e-11


@estimate.register
def _burgers(pde: Burgers, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings)
    forth, back = seen.whole_a, seen.whole_u
    mean, sd = kriged(pde, seen, forth | back)
    mean[back & ~forth, :1] = mean[back & ~forth, 1:, :1]
    forward = seen.forward
    if forward.any():
        mean[forward, 1:] = history(pde, mean[forward, :1])
        sd[forward, 1:] = passed_on(pde, sd[forward, 1:], 0.0)
    return weighed(mean, sd, seen)


def history(pde: Burgers, a: Scalar) -> Scalar:
    """Solves for the history of starts, copied along t, whose copies are averaged.

    Args:
        pde: The equation.
        a: Starts, float64.

    Raises:
        NumericsError: When a start is too fast for the reference solver.
    """
    start = a.mean(-2)[:, 0]
    level = start.mean(-1, keepdim=True)
    integral = _integral(start - level) / (-2 * pde.viscosity)
    exponent = integral - integral.amax(-1, keepdim=True)
    far = exponent.amin(-1) < -_SPAN
    u = _by_heat(pde, exponent, level)[:, None]
    if far.any():
        u[far] = pde.solve(a[far].mean(-2, keepdim=True).expand(*a[far].shape))
    return u


def _integral(start: Float[Tensor, "b x"]) -> Float[Tensor, "b fine"]:
    """Integrates starts of zero mean on a finer grid of length 1."""
    fine = max(1, _FINE // start.shape[-1]) * start.shape[-1]
    start = resample(start, (len(start), fine))
    k = _wavenumbers(fine, start.device)
    inverse = torch.where(k > 0, 1 / k, 0.0)
    return torch.fft.irfft(-1j * inverse * torch.fft.rfft(start), n=fine)


def _by_heat(
    pde: Burgers, exponent: Float[Tensor, "b fine"], level: Float[Tensor, "b 1"]
) -> Float[Tensor, "b t x"]:
    t = pde.grid.coordinates(torch.float64, exponent.device)[0, :, :1]
    fine = exponent.shape[-1]
    k = _wavenumbers(fine, exponent.device)
    phi_hat = torch.fft.rfft(exponent.exp())[:, None]
    # What moves with the mean flow is where it was, and the mean flow times t further.
    phase = -1j * k * (t * level[..., None])
    phi_hat = phi_hat * torch.exp(phase - pde.viscosity * k.square() * t)
    phi, phi_x = torch.fft.irfft(torch.stack([phi_hat, 1j * k * phi_hat]), n=fine)
    u = level[..., None] - 2 * pde.viscosity * phi_x / phi
    return u[..., :: fine // pde.size]


def _wavenumbers(num: int, device: torch.device) -> Float[Tensor, " half"]:
    k = torch.arange(num // 2 + 1, dtype=torch.float64, device=device)
    return 2 * torch.pi * k
