"""The truncated transforms and the mode product against torch's FFT."""

import pytest
import torch

from prisma_lib.nn.spectral import ModeProduct, analyse, kept_modes, synthesise

SIZES = [(32, 32), (17, 20), (16, 9)]
MODES = (4, 3)


def reference(x, weight, modes):
    """Multiplies kept modes one by one and takes torch's inverse, all in complex."""
    n1, n2 = x.shape[-2:]
    x_hat = torch.fft.fft2(x.to(torch.complex128), norm="forward")
    w = torch.complex(weight[:, :, :, 0], weight[:, :, :, 1]).squeeze(2)
    y_hat = torch.zeros_like(x_hat)
    for row, k1 in enumerate(range(-modes[0], modes[0] + 1)):
        for k2 in range(modes[1] + 1):
            y = torch.einsum("bc,cd->bd", x_hat[:, :, k1 % n1, k2], w[row, k2])
            y_hat[:, :, k1 % n1, k2] += y / 2 if k2 == 0 else y
            y_hat[:, :, -k1 % n1, -k2 % n2] += y.conj() / 2 if k2 == 0 else y.conj()
    return torch.fft.ifft2(y_hat, norm="forward").real


@pytest.mark.parametrize("shape", SIZES)
def test_spectral_convolution_equals_an_explicit_sum_over_modes(shape):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *shape, dtype=torch.float64)
    product = ModeProduct(3, MODES).double()

    y = synthesise(product(analyse(x, MODES), MODES), MODES, shape)

    expected = reference(x, product.weight.detach(), MODES)
    torch.testing.assert_close(y.detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SIZES)
def test_coefficients_are_those_of_the_fft(shape):
    x = torch.randn(2, 3, *shape, dtype=torch.float64)

    got = analyse(x, MODES)

    rows = torch.arange(-MODES[0], MODES[0] + 1)
    wanted = torch.fft.fft2(x, norm="forward")[:, :, rows, : MODES[1] + 1]
    wanted = torch.stack([wanted.real, wanted.imag]).permute(3, 4, 1, 0, 2)
    torch.testing.assert_close(got, wanted.reshape(got.shape), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("k1", "k2"), [(3, 0), (-4, 0), (0, 3), (2, -2), (-2, 2)])
def test_a_kept_wave_passes_unchanged(k1, k2):
    x, y = torch.meshgrid(torch.arange(16.0), torch.arange(20.0), indexing="ij")
    wave = torch.cos(2 * torch.pi * (k1 * x / 16 + k2 * y / 20) + 0.3)[None, None]

    passed = synthesise(analyse(wave, MODES), MODES, (16, 20))

    torch.testing.assert_close(passed, wave, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("k1", "k2"), [(5, 0), (0, 4), (-5, 2), (3, 5)])
def test_a_wave_that_is_not_kept_is_removed(k1, k2):
    x, y = torch.meshgrid(torch.arange(16.0), torch.arange(20.0), indexing="ij")
    wave = torch.cos(2 * torch.pi * (k1 * x / 16 + k2 * y / 20) + 0.3)[None, None]

    passed = synthesise(analyse(wave, MODES), MODES, (16, 20))

    assert passed.abs().max() < 1e-5


def test_coefficients_do_not_depend_on_the_grid():
    def sampled(n):
        t = torch.arange(n, dtype=torch.float64) / n
        return (torch.sin(2 * torch.pi * t)[:, None] + torch.cos(6 * torch.pi * t))[
            None, None
        ]

    coarse, fine = analyse(sampled(16), MODES), analyse(sampled(64), MODES)

    torch.testing.assert_close(coarse, fine, rtol=0, atol=1e-14)


def test_grouped_weights_mix_no_channels_across_groups():
    product = ModeProduct(4, MODES, groups=2)
    x = torch.randn(1, 4, 16, 16)
    x[:, 2:] = 0

    y = synthesise(product(analyse(x, MODES), MODES), MODES, (16, 16))

    assert y[:, :2].abs().max() > 0.1
    assert y[:, 2:].abs().max() == 0


def test_modes_stay_below_nyquist():
    assert kept_modes((8, 8), (16, 32)) == (7, 8)


def test_coarser_grids_read_the_weights_of_the_same_modes():
    product = ModeProduct(2, MODES)
    wide, narrow = torch.zeros(9 * 4, 1, 2, 2), torch.zeros(5 * 3, 1, 2, 2)
    wide[(4 + 1) * 4 + 1] = 1  # mode (1, 1) of modes (4, 3)
    narrow[(2 + 1) * 3 + 1] = 1  # mode (1, 1) of modes (2, 2)

    fine, coarse = product(wide, MODES), product(narrow, (2, 2))

    torch.testing.assert_close(coarse[10], fine[21])
    assert coarse.abs().sum() == coarse[10].abs().sum()


def test_no_parameter_is_complex_and_casts_keep_the_output():
    product = ModeProduct(4, MODES)
    x = torch.randn(1, 4, 16, 16)
    y = synthesise(product(analyse(x, MODES), MODES), MODES, (16, 16))

    product = product.to(torch.bfloat16)
    low = x.to(torch.bfloat16)
    z = synthesise(product(analyse(low, MODES), MODES), MODES, (16, 16))

    assert not any(p.is_complex() for p in product.parameters())
    assert (z.float() - y).norm() / y.norm() < 3e-2
