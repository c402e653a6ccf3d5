import math

import numpy as np
import pytest
import torch
from scipy.fft import dstn

from prisma_lib.errors import NumericsError
from prisma_lib.fields import keyed_normal
from prisma_lib.spectral import (
    derivative,
    radial_spectrum,
    resample,
    sine_eigenvalues,
    sine_transform,
    solve_dirichlet,
    solve_periodic,
    wavenumbers,
)
from prisma_lib.stencils import interior, laplacian

SHAPES = [(8, 8), (7, 9), (8, 11), (5, 6)]


def noise(*shape):
    return keyed_normal(0, [0], shape)[0].double()


def torus(shape):
    ticks = (torch.arange(n, dtype=torch.float64) / n * 2 * torch.pi for n in shape)
    return torch.meshgrid(*ticks, indexing="ij")


def wave(shape):
    x, y = torus(shape)
    return torch.cos(x + 2 * y) + 0.5 * torch.sin(2 * x - y) + 0.25


@pytest.mark.parametrize("given", SHAPES)
@pytest.mark.parametrize("wanted", [(16, 16), (13, 12), (9, 10)])
def test_resampling_moves_waves_exactly(given, wanted):
    moved = resample(wave(given), wanted)

    torch.testing.assert_close(moved, wave(wanted))


@pytest.mark.parametrize("given", SHAPES)
@pytest.mark.parametrize("wanted", [(16, 16), (13, 15), (11, 12)])
def test_resampling_up_then_down_changes_nothing(given, wanted):
    field = noise(2, 3, *given)

    again = resample(resample(field, wanted), given)

    torch.testing.assert_close(again, field)


@pytest.mark.parametrize("given", SHAPES)
@pytest.mark.parametrize("wanted", [(16, 16), (13, 12), (9, 10), SHAPES[0]])
def test_resampling_to_shifted_points_moves_waves_exactly(given, wanted):
    x, y = (
        ticks + 2 * torch.pi * shift / n
        for ticks, shift, n in zip(torus(wanted), (0.3, -0.5), wanted, strict=True)
    )

    moved = resample(wave(given), wanted, (0.3, -0.5))

    expected = torch.cos(x + 2 * y) + 0.5 * torch.sin(2 * x - y) + 0.25
    torch.testing.assert_close(moved, expected)


def test_a_shifted_nyquist_wave_stays_real_and_between_its_points():
    x, _ = torus((8, 4))

    fine = resample(torch.cos(4 * x), (16, 4), (0.5, 0.0))

    shifted = torus((16, 4))[0] + torch.pi / 16
    torch.testing.assert_close(fine, torch.cos(4 * shifted))


def test_resampling_keeps_the_points_that_both_grids_share():
    field = noise(8, 6)

    torch.testing.assert_close(resample(field, (16, 12))[::2, ::2], field)


def test_resampling_down_keeps_the_values_of_a_nyquist_wave():
    x, _ = torus((16, 4))

    coarse = resample(torch.cos(4 * x), (8, 4))

    torch.testing.assert_close(coarse, torch.cos(4 * torus((8, 4))[0]))


@pytest.mark.parametrize("shape", SHAPES)
def test_periodic_derivatives_are_exact_on_waves(shape):
    x, y = torus(shape)

    u_x = derivative(wave(shape), -2, length=2 * torch.pi)
    u_yy = derivative(wave(shape), -1, length=2 * torch.pi, order=2)

    expected = -torch.sin(x + 2 * y) + torch.cos(2 * x - y)
    torch.testing.assert_close(u_x, expected)
    expected = -4 * torch.cos(x + 2 * y) - 0.5 * torch.sin(2 * x - y)
    torch.testing.assert_close(u_yy, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_odd_derivatives_of_any_field_are_antisymmetric(shape):
    f, g = noise(2, *shape)

    left = (derivative(f, -1) * g).sum()

    torch.testing.assert_close(left, -(f * derivative(g, -1)).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_periodic_solve_inverts_the_laplacian_up_to_the_mean(shape):
    lengths = (2.0, 3.0)
    f = noise(4, *shape)

    u = solve_periodic(f, lengths)

    again = derivative(u, -2, 2.0, order=2) + derivative(u, -1, 3.0, order=2)
    torch.testing.assert_close(again, f - f.mean((-1, -2), keepdim=True))
    assert u.mean((-1, -2)).abs().max() < 1e-14


def test_wavenumbers_follow_the_order_of_the_real_transform():
    k1, k2 = wavenumbers((4, 6), (1.0, 2 * torch.pi))

    turns = torch.tensor([0, 1, -2, -1], dtype=torch.float64)
    torch.testing.assert_close(k1[:, 0], 2 * torch.pi * turns)
    torch.testing.assert_close(k2[0], torch.arange(4, dtype=torch.float64))


@pytest.mark.parametrize("shape", SHAPES)
def test_sine_transform_is_that_of_scipy(shape):
    f = noise(3, *shape)

    f_hat = sine_transform(f)

    expected = dstn(f.numpy(), type=1, axes=(-2, -1), norm="ortho")
    np.testing.assert_allclose(f_hat.numpy(), expected, atol=1e-13)


@pytest.mark.parametrize("size", [9, 64, 257])
def test_sine_transform_is_its_own_inverse(size):
    f = noise(size, size + 1)

    again = sine_transform(sine_transform(f))

    torch.testing.assert_close(again, f, atol=1e-12, rtol=0)


def test_sine_eigenvalues_are_those_of_the_five_point_stencil():
    spacing = (0.2, 0.1)
    mode = torch.zeros(4, 9, dtype=torch.float64)
    mode[1, 2] = 1
    u = torch.nn.functional.pad(sine_transform(mode), (1, 1, 1, 1))

    stretched = laplacian(u, spacing)

    value = sine_eigenvalues((4, 9), spacing)[1, 2]
    torch.testing.assert_close(stretched, value * interior(u))


@pytest.mark.parametrize("shift", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_dirichlet_solve_inverts_the_five_point_stencil(shape, shift):
    spacing = (1 / (shape[0] + 1), 1 / (shape[1] + 1))
    f = noise(2, *shape)

    u = solve_dirichlet(f, spacing, shift)

    padded = torch.nn.functional.pad(u, (1, 1, 1, 1))
    again = laplacian(padded, spacing) + shift * u
    torch.testing.assert_close(again, f, atol=1e-10, rtol=0)


def test_a_resonant_shift_is_refused():
    spacing = (0.1, 0.1)
    shift = -sine_eigenvalues((9, 9), spacing)[0, 0].item()

    with pytest.raises(NumericsError, match="eigenvalue"):
        solve_dirichlet(noise(9, 9), spacing, shift)


@pytest.mark.parametrize("shape", [*SHAPES, (6, 16)])
def test_shells_add_up_to_the_mean_square(shape):
    field = noise(3, *shape)

    spectrum = radial_spectrum(field)

    torch.testing.assert_close(spectrum.sum(-1), field.square().mean((-1, -2)))


def test_a_wave_lies_in_the_shell_of_its_mode_number():
    x, y = torus((16, 16))

    spectrum = radial_spectrum(torch.cos(3 * x + 4 * y))

    expected = torch.zeros_like(spectrum)
    expected[5] = 0.5
    torch.testing.assert_close(spectrum, expected)


def test_shells_do_not_depend_on_the_grid():
    coarse, fine = radial_spectrum(wave((8, 8))), radial_spectrum(wave((32, 32)))

    torch.testing.assert_close(fine[: len(coarse)], coarse)
    assert math.isclose(coarse[0].item(), 0.0625)
