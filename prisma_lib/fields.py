r"""Random fields: white noise by number, Gaussian inputs of PDEs, diffusion noise.

White noise is keyed: sample `i` of a stream depends on `(key, i)` alone, whatever batch
it is drawn in, and is made on the CPU. Coloured fields are linear maps of white noise.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import ConfigError, NumericsError, ShapeError
from prisma_lib.grids import Grid
from prisma_lib.spectral import resample


def keyed_normal(
    key: int, index: Sequence[int], shape: tuple[int, ...], purpose: str | int = 0
) -> Float[Tensor, "b ..."]:
    """Draws standard normal numbers that belong to sample numbers.

    Args:
        key: Names the stream, in [0, 2^64).
        index: Numbers of the wanted samples in the stream, each in [0, 2^64).
        shape: Shape of one sample.
        purpose: Keeps draws for different uses of the same sample independent.

    Returns:
        One sample per number, float32, on the CPU.

    Raises:
        ConfigError: When a key or number is out of range.

    Reference:
        Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3 (Philox).
    """
    out = np.empty((len(index), *shape), dtype=np.float32)
    for row, random in zip(out, _streams(key, index, purpose), strict=True):
        random.standard_normal(dtype=np.float32, out=row)
    return torch.from_numpy(out)


def keyed_uniform(
    key: int, index: Sequence[int], shape: tuple[int, ...], purpose: str | int = 0
) -> Float[Tensor, "b ..."]:
    """Draws uniform numbers in [0, 1) that belong to sample numbers.

    Args:
        key: Names the stream, in [0, 2^64).
        index: Numbers of the wanted samples in the stream, each in [0, 2^64).
        shape: Shape of one sample.
        purpose: Keeps draws for different uses of the same sample independent.

    Returns:
        One sample per number, float32, on the CPU.

    Raises:
        ConfigError: When a key or number is out of range.
    """
    out = np.empty((len(index), *shape), dtype=np.float32)
    for row, random in zip(out, _streams(key, index, purpose), strict=True):
        random.random(dtype=np.float32, out=row)
    return torch.from_numpy(out)


def _streams(
    key: int, index: Sequence[int], purpose: str | int
) -> Iterator[np.random.Generator]:
    """Yields one generator, set to the start of each sample's stream in turn."""
    word = zlib.crc32(purpose.encode()) if isinstance(purpose, str) else purpose
    if not all(0 <= number < 2**64 for number in (key, word, *index)):
        raise ConfigError(
            f"key={key}, purpose={purpose!r}, index={list(index)[:4]}...: a random "
            "stream is named by whole numbers in [0, 2^64), such as key=0, index=[0]"
        )
    philox = np.random.Philox(key=np.array([key, 0], np.uint64))
    random = np.random.Generator(philox)
    start = philox.state
    start["state"]["counter"][3] = word
    for number in index:
        # Setting the state is three times faster than building a generator.
        start["state"]["key"][1] = number
        philox.state = start
        yield random


def cosine_field(
    noise: Float[Tensor, "b x y"], alpha: float = 2.0, tau: float = 3.0
) -> Float[Tensor, "b x y"]:
    r"""Colours white noise into a Gaussian field with free edges on the unit square.

    The covariance is $\tau^{2 \alpha - 2} (-\Delta + \tau^2)^{-\alpha}$ with Neumann
    edges, without the constant mode:

    $$a = \sum_{k \neq 0} \tau^{\alpha - 1} (\pi^2 |k|^2 + \tau^2)^{-\alpha / 2}
    \, \xi_k \, \sqrt{n_1 n_2} \, \phi_k$$

    where $\phi_k$ is the orthonormal cosine basis (DCT-III).

    Args:
        noise: Standard normal coefficients $\xi_k$, $k = 0$ first.
        alpha: Smoothness, above 1.
        tau: Inverse length scale, above 0.

    Returns:
        Fields of zero mean.

    Reference:
        Li et al. (2020), Fourier neural operator, data of Darcy flow.
    """
    _check_colour(alpha, tau)
    (first, k1), (second, k2) = (
        _cosine_basis(n, noise.dtype, noise.device) for n in noise.shape[-2:]
    )
    density = math.pi**2 * (k1[:, None] ** 2 + k2**2) + tau**2
    weight = tau ** (alpha - 1) * density ** (-alpha / 2)
    weight[0, 0] = 0
    scale = math.sqrt(noise.shape[-2] * noise.shape[-1])
    return first.T @ (scale * weight * noise) @ second


def _cosine_basis(
    num: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Returns the orthonormal cosine basis, one mode a row, and its mode numbers."""
    k = torch.arange(num, dtype=torch.float64)
    basis = math.sqrt(2 / num) * torch.cos(math.pi / num * torch.outer(k, k + 0.5))
    basis[0] /= math.sqrt(2)
    return basis.to(device, dtype), k.to(device, dtype)


def fourier_field(
    noise: Float[Tensor, "b x y"], alpha: float = 2.5, tau: float = 7.0
) -> Float[Tensor, "b x y"]:
    r"""Colours white noise into a periodic Gaussian field on the unit torus.

    Mode $k \neq 0$ has the amplitude
    $\sqrt 2 \, \tau^{\alpha - 1} (4 \pi^2 |k|^2 + \tau^2)^{-\alpha / 2}$; the standard
    deviation at a point does not depend on the grid, up to modes that it cannot hold.

    Args:
        noise: White noise on the grid points.
        alpha: Smoothness, above 1.
        tau: Inverse length scale, above 0.

    Returns:
        Periodic fields of zero mean.

    Reference:
        Li et al. (2020), Fourier neural operator, data of Navier-Stokes.
    """
    _check_colour(alpha, tau)
    n1, n2 = noise.shape[-2:]
    k1 = torch.fft.fftfreq(n1, 1 / n1, dtype=noise.dtype, device=noise.device)
    k2 = torch.fft.rfftfreq(n2, 1 / n2, dtype=noise.dtype, device=noise.device)
    density = 4 * math.pi**2 * (k1[:, None] ** 2 + k2**2) + tau**2
    weight = math.sqrt(2) * tau ** (alpha - 1) * density ** (-alpha / 2)
    weight[0, 0] = 0
    scale = math.sqrt(n1 * n2)
    return torch.fft.irfft2(scale * weight * torch.fft.rfft2(noise), s=(n1, n2))


def _check_colour(alpha: float, tau: float) -> None:
    if not (1 < alpha < math.inf and 0 < tau < math.inf):
        raise ConfigError(
            f"alpha={alpha}, tau={tau}: a random field of finite variance needs "
            "alpha above 1 and tau above 0, such as alpha=2, tau=3"
        )


class GRFNoise:
    r"""Gaussian noise of diffusion models with a covariance in space.

    $$C(d) = \exp\big(-d / (2 s^2)\big) + \epsilon \, [d = 0]$$

    for points at distance $d$ on the unit square; distances wrap on periodic axes. The
    draw is exact (circulant embedding): bounded axes lie in a torus of twice their
    length, 2(n - 1) points for n nodes and 2n for n cell centres, periodic ones in
    their own n points. It costs two FFTs.

    Args:
        grid: Where the points are; each axis counts as length 1.
        scale: $s$, above 0. At 0.05 the correlation length is 0.005.
        jitter: $\epsilon$, at least 0.

    Raises:
        ConfigError: When scale or jitter is impossible.
        NumericsError: When the covariance does not fit on the torus.

    Reference:
        Dietrich and Newsam (1997), Fast and exact simulation of stationary Gaussian
        processes through circulant embedding. The kernel is that of the public code
        of FunDPS, arXiv 2505.17004, which calls it RBF; the distance is not squared.
    """

    def __init__(self, grid: Grid, scale: float = 0.05, jitter: float = 1e-4) -> None:
        if not (0 < scale < math.inf and 0 <= jitter < math.inf):
            raise ConfigError(
                f"scale={scale}, jitter={jitter}: noise needs a scale above 0 and a "
                "jitter of at least 0, such as scale=0.05, jitter=1e-4"
            )
        self.grid, self.scale, self.jitter = grid, scale, jitter
        self.white_shape = _torus(grid)
        self._amplitude = self._root_spectrum()

    def _root_spectrum(self) -> Float[Tensor, "m1 half"]:
        """Returns the square roots of the eigenvalues of the covariance."""
        m1, m2 = self.white_shape
        half1, half2 = m1 // 2 + 1, m2 // 2 + 1
        steps = [
            torch.arange(half, dtype=torch.float64) / cells
            for half, cells in zip((half1, half2), self.grid.cells, strict=True)
        ]
        kernel = (steps[0][:, None].square() + steps[1].square()).sqrt_()
        kernel.div_(-2 * self.scale**2).exp_()
        kernel[0, 0] += self.jitter
        # The kernel is even along both axes: half of each says all, and the transform
        # of an even sequence is real.
        rows = torch.fft.hfft(kernel, n=m2)[:, :half2]
        eigenvalues = torch.fft.hfft(rows, n=m1, dim=0)
        if eigenvalues.min() < -1e-6 * eigenvalues.max():
            raise NumericsError(
                f"noise of scale={self.scale} correlates farther than the grid of "
                f"{self.grid.shape} can hold (eigenvalue {eigenvalues.min():.1e}); "
                "choose a smaller scale, such as 0.05"
            )
        return eigenvalues.clamp(min=0).sqrt()

    def colour(
        self,
        white: Float[Tensor, "b c m1 m2"],
        shape: tuple[int, int] | None = None,
    ) -> Float[Tensor, "b c _ _"]:
        """Colours white noise, a linear map.

        Args:
            white: White noise of `white_shape`.
            shape: Grid of the result on the same domain, by default this one. On
                another grid it is the same draw, resampled band-limited.

        Returns:
            The noise at the points of the grid.

        Raises:
            ShapeError: When `white` has another shape than `white_shape`.
        """
        if tuple(white.shape[-2:]) != self.white_shape:
            raise ShapeError(
                f"white noise has {tuple(white.shape[-2:])} points but a grid of "
                f"{self.grid.shape} needs {self.white_shape}; draw it of white_shape"
            )
        amplitude = self._amplitude.to(white.device, white.dtype)
        torus = torch.fft.irfft2(amplitude * torch.fft.rfft2(white), s=self.white_shape)
        grid = self.grid if shape is None else replace(self.grid, shape=shape)
        # The first cell centre of a finer grid is nearer to the edge.
        s1, s2 = (
            start * (1 - cells / own)
            for start, cells, own in zip(
                grid.offset, grid.cells, self.grid.cells, strict=True
            )
        )
        n1, n2 = grid.shape
        return resample(torus, _torus(grid), (s1, s2))[..., :n1, :n2]

    def sample(
        self, num: int, channels: int, generator: torch.Generator
    ) -> Float[Tensor, "b c x y"]:
        """Draws noise on the device of the generator, float32."""
        shape = (num, channels, *self.white_shape)
        return self.colour(
            torch.randn(shape, generator=generator, device=generator.device)
        )

    def draw(
        self,
        key: int,
        index: Sequence[int],
        channels: int,
        shape: tuple[int, int] | None = None,
    ) -> Float[Tensor, "b c _ _"]:
        """Draws the noise numbered `index` of the stream `key`, float32, on the CPU."""
        white = (channels, *self.white_shape)
        noise = keyed_normal(key, index, white, purpose="diffusion noise")
        return self.colour(noise, shape)


def _torus(grid: Grid) -> tuple[int, int]:
    """Returns the points of a torus in which the grid does not meet its images."""
    (n1, n2), (first, second) = grid.cells, grid.periodic
    return n1 if first else 2 * n1, n2 if second else 2 * n2
