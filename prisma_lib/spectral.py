r"""Fourier and sine transforms on real fields.

Periodic axes carry Fourier series, bounded axes with zero edges carry sine series. All
functions act on the last two axes, on any device, batched and differentiable.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import NumericsError

# A mode counts as resonant when its eigenvalue is this close to zero, relative to the
# largest: dividing by it would only amplify rounding.
_RESONANT = 1e-13


def resample(
    field: Float[Tensor, "*b x y"],
    shape: tuple[int, int],
    shift: tuple[float, float] = (0.0, 0.0),
) -> Float[Tensor, "*b _ _"]:
    """Moves a periodic field onto another grid of the same torus, band-limited.

    Modes that both grids resolve are kept, others dropped. The Nyquist mode of an even
    grid is shared by both signs, so that a field moved to a finer grid and back is
    unchanged.

    Args:
        field: Values on a periodic grid.
        shape: Points per axis of the wanted grid.
        shift: How far the first wanted point is from the first given one, per axis, in
            spacings of the wanted grid.

    Returns:
        Values on the wanted grid.
    """
    rows = _resample_last(field.transpose(-1, -2), shape[0], shift[0])
    return _resample_last(rows.transpose(-1, -2), shape[1], shift[1])


def _resample_last(field: Tensor, num: int, shift: float) -> Tensor:
    given = field.shape[-1]
    if num == given and not shift:
        return field
    kept = min(given, num)
    f_hat = torch.fft.rfft(field)[..., : kept // 2 + 1]
    if shift:
        k = torch.arange(kept // 2 + 1, dtype=field.dtype, device=field.device)
        f_hat = f_hat * torch.exp(2j * torch.pi * shift / num * k)
    weight = field.new_full((kept // 2 + 1,), num / given)
    if kept % 2 == 0 and num != given:
        # The finer grid has this mode twice (+ and -), the coarser one once.
        weight[-1] *= 0.5 if num > given else 2.0
    return torch.fft.irfft(f_hat * weight, n=num)


def wavenumbers(
    shape: tuple[int, int],
    lengths: tuple[float, float],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> tuple[Float[Tensor, "x 1"], Float[Tensor, "1 half"]]:
    r"""Returns the angular wavenumbers $2 \pi k / L$ in the order of `torch.fft.rfft2`.

    Args:
        shape: Points per axis.
        lengths: Length of the torus per axis.
        dtype: Wanted type.
        device: Wanted device.

    Returns:
        Wavenumbers of the first axis as a column, of the second as a row.
    """
    (n1, n2), (l1, l2) = shape, lengths
    k1 = torch.fft.fftfreq(n1, l1 / (2 * torch.pi * n1), dtype=dtype, device=device)
    k2 = torch.fft.rfftfreq(n2, l2 / (2 * torch.pi * n2), dtype=dtype, device=device)
    return k1[:, None], k2[None]


def derivative(
    u: Float[Tensor, "*b x y"], axis: int, length: float = 1.0, order: int = 1
) -> Float[Tensor, "*b x y"]:
    """Differentiates a periodic field along one of its last two axes.

    The Nyquist mode of an even number of points has no odd derivative on the grid and
    is dropped for odd orders.

    Args:
        u: Periodic field.
        axis: -2 for x, -1 for y.
        length: Length of the torus along that axis.
        order: Which derivative.

    Returns:
        The derivative, exact for the modes that the grid resolves.
    """
    n = u.shape[axis]
    u_hat = torch.fft.rfft(u.movedim(axis, -1), dim=-1)
    k = torch.arange(n // 2 + 1, dtype=u.dtype, device=u.device)
    factor = (2j * torch.pi / length * k) ** order
    if n % 2 == 0 and order % 2 == 1:
        factor[-1] = 0
    return torch.fft.irfft(factor * u_hat, n=n, dim=-1).movedim(-1, axis)


def solve_periodic(
    f: Float[Tensor, "*b x y"], lengths: tuple[float, float] = (1.0, 1.0)
) -> Float[Tensor, "*b x y"]:
    r"""Solves $\Delta u = f$ on the torus for the solution of zero mean.

    The mean of f, which no periodic u can produce, is left out.

    Args:
        f: Right side.
        lengths: Length of the torus per axis.

    Returns:
        The solution u.
    """
    n1, n2 = f.shape[-2:]
    k1, k2 = wavenumbers((n1, n2), lengths, f.dtype, f.device)
    square = k1.square() + k2.square()
    square[0, 0] = 1
    inverse = -1 / square
    inverse[0, 0] = 0
    return torch.fft.irfft2(inverse * torch.fft.rfft2(f), s=(n1, n2))


def sine_basis(
    n: int,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n n"]:
    r"""Returns the orthonormal sine transform of the first type as a matrix.

    $$S_{ij} = \sqrt{2 / (n + 1)} \, \sin(\pi i j / (n + 1))$$

    It is symmetric and its own inverse.

    Args:
        n: Number of inner nodes, boundary excluded.
        dtype: Wanted type; computed in float64.
        device: Wanted device.

    Returns:
        The matrix.
    """
    i = torch.arange(1, n + 1)
    # Whole turns are removed in integers: full accuracy for large n.
    angle = torch.outer(i, i).remainder(2 * (n + 1)).double() * (torch.pi / (n + 1))
    return ((2 / (n + 1)) ** 0.5 * angle.sin()).to(device, dtype)


def sine_transform(f: Float[Tensor, "*b x y"]) -> Float[Tensor, "*b x y"]:
    """Applies the orthonormal DST-I along both axes; its own inverse.

    Args:
        f: Values at inner nodes, zero on the boundary around them.

    Returns:
        Sine coefficients.
    """
    n1, n2 = f.shape[-2:]
    first = sine_basis(n1, f.dtype, f.device)
    return first @ f @ sine_basis(n2, f.dtype, f.device)


def sine_eigenvalues(
    shape: tuple[int, int],
    spacing: tuple[float, float],
    dtype: torch.dtype = torch.float64,
    device: torch.device | str | None = None,
) -> Float[Tensor, "x y"]:
    r"""Returns the eigenvalues of the 5-point Laplacian with zero boundary values.

    $$\lambda_k = -\sum_i \frac{4}{h_i^2} \sin^2 \frac{\pi k_i}{2 (n_i + 1)}$$

    Args:
        shape: Inner nodes per axis.
        spacing: Distance between nodes per axis.
        dtype: Wanted type.
        device: Wanted device.

    Returns:
        Eigenvalues, all negative, in the order of `sine_transform`.
    """
    first, second = (
        (torch.arange(1, n + 1).double() * (torch.pi / (2 * (n + 1)))).sin().square()
        * (-4 / h**2)
        for n, h in zip(shape, spacing, strict=True)
    )
    return (first[:, None] + second).to(device, dtype)


def solve_dirichlet(
    f: Float[Tensor, "*b x y"], spacing: tuple[float, float], shift: float = 0.0
) -> Float[Tensor, "*b x y"]:
    r"""Solves $\Delta_h u + s \, u = f$ at inner nodes, u = 0 on the boundary, exactly.

    Args:
        f: Right side at inner nodes.
        spacing: Distance between nodes per axis.
        shift: The constant s; k² for a Helmholtz equation.

    Returns:
        The solution at inner nodes.

    Raises:
        NumericsError: When the shift is minus an eigenvalue, so that there is none.
    """
    n1, n2 = f.shape[-2:]
    values = sine_eigenvalues((n1, n2), spacing) + shift
    if values.abs().min() <= _RESONANT * values.abs().max():
        raise NumericsError(
            f"shift={shift} is an eigenvalue of the Laplacian on {(n1, n2)} inner nodes"
            ": the equation has no unique solution; change it by one per cent"
        )
    return sine_transform(sine_transform(f) / values.to(f.device, f.dtype))


def radial_spectrum(field: Float[Tensor, "*b x y"]) -> Float[Tensor, "*b k"]:
    """Sums the power of a field over shells of equal mode number.

    Shell s holds the modes whose number |k| rounds to s, corners included, so that the
    shells add up to the mean square of the field. The mode number counts waves per
    domain. A field that is not periodic leaks into high shells.

    Args:
        field: Real field.

    Returns:
        Power per shell, from shell 0 up.
    """
    n1, n2 = field.shape[-2:]
    k1, k2 = wavenumbers((n1, n2), (1.0, 1.0), device=field.device)
    shell = ((k1.square() + k2.square()).sqrt() / (2 * torch.pi)).round().long()
    power = torch.fft.rfft2(field, norm="forward").abs().square()
    # Columns between the first and the Nyquist stand for their conjugates too.
    power[..., 1 : (n2 + 1) // 2] *= 2
    num = round(((n1 // 2) ** 2 + (n2 // 2) ** 2) ** 0.5) + 1
    total = power.new_zeros(*field.shape[:-2], num)
    return total.index_add_(-1, shell.flatten(), power.flatten(-2))
