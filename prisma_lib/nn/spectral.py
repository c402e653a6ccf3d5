r"""Spectral convolution as real matrix products.

The kept modes of a real field are $k_1 \in \{-K_1, \dots, K_1\}$ on the first axis and
$k_2 \in \{0, \dots, K_2\}$ on the second. Their coefficients are computed by two small
matrix products with cosine and sine tables, so that only kept modes are ever formed,
and stored as real pairs with the mode axis first: `(m, b, 2, c)`. No weight and no
coefficient is complex: half precision, DDP and every optimiser treat them as they are.

Both transforms can also be FFTs that are cut to the kept modes. "auto" takes matrix
products, which are the faster ones on a CPU, but for a forward transform of more than
32 modes there. On a GPU, where this was not measured, it takes matrix products.

Fields are best stored channels last: then every product and every rearrangement below
runs along contiguous channels.

The forward transform carries the factor $1 / (n_1 n_2)$: a coefficient means the same
on every grid, and so does a weight.
"""

from functools import cache
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Spectrum = Float[Tensor, "m b 2 c"]
Modes = tuple[int, int]
Transform = Literal["auto", "matrix", "fft"]

# Above this mode number the forward FFT is the faster one on a CPU.
MATRIX_LIMIT = 32


def kept_modes(modes: Modes, shape: tuple[int, int]) -> Modes:
    """Limits the kept modes to those that a grid resolves below its Nyquist mode.

    Args:
        modes: Wanted largest mode number per axis.
        shape: Points per axis.

    Returns:
        Largest mode number per axis on this grid.
    """
    first, second = (min(k, (n - 1) // 2) for k, n in zip(modes, shape, strict=True))
    return first, second


@cache
@torch.inference_mode(False)  # a table outlives the call that first needed it
def _tables(
    modes: Modes, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the analysis tables of both axes, then the synthesis tables of both.

    Real inverse of a half spectrum: columns $k_2 > 0$ stand for their conjugates too
    and count twice; taking the real part makes the column $k_2 = 0$ Hermitian.
    """
    (k1, k2), (n1, n2) = modes, shape
    rows = torch.arange(-k1, k1 + 1, dtype=torch.float64)
    columns = torch.arange(0, k2 + 1, dtype=torch.float64)
    phase1 = 2 * torch.pi / n1 * torch.outer(rows, torch.arange(n1).double())
    phase2 = 2 * torch.pi / n2 * torch.outer(torch.arange(n2).double(), columns)
    c1, s1, c2, s2 = phase1.cos(), phase1.sin(), phase2.cos(), phase2.sin()
    twice = torch.where(columns > 0, 2.0, 1.0)
    real, imaginary = torch.cat([c1, s1], 1), torch.cat([-s1, c1], 1)
    analysis1 = torch.stack([real, imaginary], 1).flatten(0, 1) / n1
    analysis2 = torch.cat([c2, -s2], 1).T / n2
    real, imaginary = torch.stack([c1, -s1], 1), torch.stack([s1, c1], 1)
    synthesis1 = torch.cat([real.flatten(0, 1), imaginary.flatten(0, 1)], 1).T
    synthesis2 = torch.cat([twice * c2, -twice * s2], 1)
    tables = analysis1, analysis2, synthesis1, synthesis2
    first, second, third, fourth = (t.contiguous().to(device, dtype) for t in tables)
    return first, second, third, fourth


def analyse(
    x: Float[Tensor, "b c x y"], modes: Modes, transform: Transform = "auto"
) -> Spectrum:
    r"""Computes the kept Fourier coefficients of real fields.

    $$\hat x(k) = \frac{1}{n_1 n_2} \sum_j x_j e^{-2 \pi i k \cdot j / n}$$

    Args:
        x: Real fields.
        modes: Largest kept mode number per axis, below the Nyquist mode.
        transform: "matrix" products, "fft", or whichever measured faster.

    Returns:
        Real and imaginary parts of the modes, in row-major order of $(k_1, k_2)$.
    """
    b, c, n1, n2 = x.shape
    rows, columns = 2 * modes[0] + 1, modes[1] + 1
    large = x.device.type == "cpu" and max(modes) > MATRIX_LIMIT
    if transform == "fft" or (transform == "auto" and large):
        z = torch.fft.rfft(_wide(x), dim=3, norm="forward")[..., :columns]
        z = torch.fft.fft(z, dim=2, norm="forward").roll(modes[0], 2)[:, :, :rows]
        pairs = torch.view_as_real(z).permute(2, 3, 0, 4, 1)
        return pairs.reshape(rows * columns, b, 2, c).to(x.dtype)
    table1, table2, _, _ = _tables(modes, (n1, n2), x.dtype, x.device)
    z = table2 @ x.permute(0, 2, 3, 1)
    z = z.view(b, n1, 2, columns, c).permute(2, 1, 3, 0, 4).reshape(2 * n1, -1)
    spectrum = (table1 @ z).view(rows, 2, columns, b, c)
    return spectrum.permute(0, 2, 3, 1, 4).reshape(rows * columns, b, 2, c)


def synthesise(
    spectrum: Spectrum,
    modes: Modes,
    shape: tuple[int, int],
    transform: Transform = "auto",
) -> Float[Tensor, "b c x y"]:
    """Evaluates the real field that has the given kept coefficients.

    Args:
        spectrum: Coefficients as `analyse` returns them.
        modes: Largest kept mode number per axis.
        shape: Points per axis of the result.
        transform: "matrix" products, "fft", or whichever measured faster.

    Returns:
        Real fields: the inverse of `analyse` for fields that hold kept modes only.
    """
    _, b, _, c = spectrum.shape
    n1 = shape[0]
    rows, columns = 2 * modes[0] + 1, modes[1] + 1
    if transform == "fft":
        pairs = spectrum.view(rows, columns, b, 2, c).permute(2, 4, 0, 1, 3)
        kept = torch.view_as_complex(_wide(pairs).contiguous())
        z = kept.new_zeros(b, c, n1, columns)
        z[:, :, : modes[0] + 1] = kept[:, :, modes[0] :]
        z[:, :, n1 - modes[0] :] = kept[:, :, : modes[0]]
        z = torch.fft.ifft(z, dim=2, norm="forward")
        z[..., 0] = z[..., 0].real.to(z.dtype)  # makes the whole spectrum Hermitian
        x = torch.fft.irfft(z, n=shape[1], dim=3, norm="forward")
        return x.to(spectrum.dtype, memory_format=torch.channels_last)
    _, _, table1, table2 = _tables(modes, shape, spectrum.dtype, spectrum.device)
    z = spectrum.view(rows, columns, b, 2, c).permute(0, 3, 1, 2, 4)
    z = (table1 @ z.reshape(2 * rows, -1)).view(2, n1, columns, b, c)
    z = z.permute(3, 1, 0, 2, 4).reshape(b, n1, 2 * columns, c)
    return (table2 @ z).permute(0, 3, 1, 2)


def _wide(x: Tensor) -> Tensor:
    """Returns float32 in place of half precision, which FFTs do not take."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def central_modes(
    weight: Float[Tensor, "rows columns ..."], modes: Modes
) -> Float[Tensor, "m ..."]:
    """Picks the values of the modes that a coarser grid still resolves.

    Args:
        weight: One value per mode, rows $-K_1..K_1$, columns $0..K_2$.
        modes: Largest mode number per axis that is wanted.

    Returns:
        The values of those modes in row-major order.
    """
    centre = weight.shape[0] // 2
    rows = slice(centre - modes[0], centre + modes[0] + 1)
    return weight[rows, : modes[1] + 1].flatten(0, 1)


class ModeProduct(nn.Module):
    r"""Multiplies every kept mode by its own complex matrix over the channels.

    The products are real and batched over modes: real and imaginary parts of all
    samples, as rows, times $W_r$ and times $W_i$. With `groups > 1` the matrix of a
    mode is block diagonal over channel groups.

    Args:
        channels: Channels of input and output, divisible by `groups`.
        modes: Largest kept mode number per axis.
        groups: Number of diagonal blocks.

    Reference:
        Li et al. (2021), Fourier neural operator, section 4. arXiv 2010.08895.
    """

    def __init__(self, channels: int, modes: Modes, groups: int = 1) -> None:
        super().__init__()
        self.modes, self.groups = modes, groups
        width = channels // groups
        shape = (2 * modes[0] + 1, modes[1] + 1, groups, 2, width, width)
        self.weight = nn.Parameter(torch.randn(shape) * (2 * width) ** -0.5)

    def forward(self, spectrum: Spectrum, modes: Modes) -> Spectrum:
        """Applies the weights of the modes that the grid resolves."""
        m, b, _, c = spectrum.shape
        weight = central_modes(self.weight, modes).flatten(0, 1)
        width = c // self.groups
        x = spectrum.reshape(m, 2 * b, self.groups, width).transpose(1, 2)
        x = x.reshape(-1, 2 * b, width)
        # Two products read the weights where they lie; one would need a copy of them.
        by_real, by_imaginary = (
            torch.bmm(x, part).view(m, self.groups, b, 2, width)
            for part in weight.unbind(1)
        )
        real = by_real[..., 0, :] - by_imaginary[..., 1, :]
        imaginary = by_real[..., 1, :] + by_imaginary[..., 0, :]
        y = torch.stack([real, imaginary], 3).permute(0, 2, 3, 1, 4)
        return y.reshape(m, b, 2, c)
