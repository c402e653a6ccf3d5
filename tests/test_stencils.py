"""Facts about the finite differences that every bounded equation shares."""

import math

import pytest
import torch

from prisma_lib.grids import Grid
from prisma_lib.stencils import (
    divergence_flux,
    faces,
    gradient,
    interior,
    laplacian,
)

SHAPE = (17, 24)
LENGTHS = (1.0, 1.7)


def grid(scale=1):
    shape = tuple((n - 1) * scale + 1 for n in SHAPE)
    return Grid(shape, LENGTHS)


def points(where):
    return where.coordinates(torch.float64).unbind()


def smooth(where):
    """An asymmetric pair with gradients and divergence of the flux in closed form."""
    x, y = points(where)
    u = torch.sin(x) * torch.cos(2 * y)
    a = 1 + x + y**2
    u_x, u_y = torch.cos(x) * torch.cos(2 * y), -2 * torch.sin(x) * torch.sin(2 * y)
    return a, u, u_x, u_y, a * (-5 * u) + u_x + 2 * y * u_y


def rms(f):
    return f.square().mean().sqrt().item()


def test_gradient_of_x_plus_two_y_squared_is_one_and_four_y_on_the_right_axes():
    where = grid()
    x, y = points(where)

    along_x, along_y = gradient(x + 2 * y**2, where.spacing)

    torch.testing.assert_close(along_x, torch.ones_like(along_x))
    torch.testing.assert_close(along_y, interior(4 * y))


def test_laplacian_of_a_quadratic_is_exact_on_unequal_spacings():
    where = grid()
    x, y = points(where)

    out = laplacian(3 * x**2 - x * y + 2 * y**2, where.spacing)

    torch.testing.assert_close(out, torch.full_like(out, 10.0), rtol=0, atol=1e-10)


def test_flux_of_a_linear_pressure_is_the_slope_of_the_coefficient():
    where = grid()
    x, y = points(where)

    out = divergence_flux(2 + 3 * x + 5 * y, 7 * x - y, where.spacing)

    torch.testing.assert_close(out, torch.full_like(out, 7 * 3 - 5.0))


def test_a_constant_coefficient_makes_the_flux_form_the_laplacian():
    where = grid()
    _, u, *_ = smooth(where)

    out = divergence_flux(torch.full_like(u, 3.0), u, where.spacing)

    torch.testing.assert_close(out, 3 * laplacian(u, where.spacing))


@pytest.mark.parametrize(
    ("evaluate", "pick"),
    [
        (lambda a, u, h: laplacian(u, h), lambda u, *rest: -5 * u),
        (divergence_flux, lambda u, u_x, u_y, div: div),
        (lambda a, u, h: gradient(u, h)[0], lambda u, u_x, u_y, div: u_x),
        (lambda a, u, h: gradient(u, h)[1], lambda u, u_x, u_y, div: u_y),
    ],
    ids=["laplacian", "divergence_flux", "gradient_x", "gradient_y"],
)
def test_stencils_are_second_order(evaluate, pick):
    errors = []
    for scale in (2, 4):
        where = grid(scale)
        a, u, *exact = smooth(where)
        error = evaluate(a, u, where.spacing) - interior(pick(u, *exact))
        errors.append(rms(error))

    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", ["laplacian", "divergence_flux"])
def test_a_checkerboard_is_seen_with_the_strength_of_the_spacing(name):
    where = grid()
    i, j = torch.meshgrid(*map(torch.arange, where.shape), indexing="ij")
    checker = (1 - 2 * ((i + j) % 2)).double()
    h1, h2 = where.spacing

    if name == "laplacian":
        out = laplacian(checker, where.spacing)
    else:
        out = divergence_flux(torch.ones_like(checker), checker, where.spacing)

    torch.testing.assert_close(out, interior(checker) * -4 * (1 / h1**2 + 1 / h2**2))


def test_divergence_flux_is_the_derivative_of_the_energy():
    # Summation by parts: for fields that vanish on the edge the operator is symmetric
    # and its quadratic form is the energy of the face gradients.
    where = Grid((9, 12))
    (h1, h2), generator = where.spacing, torch.Generator().manual_seed(0)
    a = torch.rand(where.shape, generator=generator, dtype=torch.float64) + 0.1
    u = torch.zeros(2, *where.shape, dtype=torch.float64)
    inner = torch.randn(2, 7, 10, generator=generator, dtype=torch.float64)
    interior(u).copy_(inner)
    across_x, across_y = faces(a)

    left = (inner[0] * divergence_flux(a, u[1], where.spacing)).sum()

    d_x = (u[..., 1:, 1:-1] - u[..., :-1, 1:-1]) / h1
    d_y = (u[..., 1:-1, 1:] - u[..., 1:-1, :-1]) / h2
    right = -(across_x * d_x[0] * d_x[1]).sum() - (across_y * d_y[0] * d_y[1]).sum()
    torch.testing.assert_close(left, right)


def test_transposing_the_fields_transposes_the_flux():
    where = grid()
    a, u, *_ = smooth(where)

    out = divergence_flux(a.T, u.T, where.spacing[::-1])

    torch.testing.assert_close(out, divergence_flux(a, u, where.spacing).T)


def test_flipping_an_axis_flips_the_flux():
    where = grid()
    a, u, *_ = smooth(where)

    out = divergence_flux(a.flip(0), u.flip(0), where.spacing)

    torch.testing.assert_close(out, divergence_flux(a, u, where.spacing).flip(0))


def test_leading_axes_are_a_batch():
    where = grid()
    a, u, *_ = smooth(where)

    batch = divergence_flux(a.expand(2, 3, *SHAPE), u.expand(2, 3, *SHAPE), (0.1, 0.2))

    assert batch.shape == (2, 3, SHAPE[0] - 2, SHAPE[1] - 2)
    torch.testing.assert_close(batch[1, 2], divergence_flux(a, u, (0.1, 0.2)))


def test_single_precision_errs_by_rounding_of_second_differences_only():
    where = grid(8)
    _, u, *_ = smooth(where)
    h1, h2 = where.spacing

    error = laplacian(u.float(), where.spacing).double() - laplacian(u, where.spacing)

    # Rounding each of the five values by half a unit of eps |u|, and three sums.
    bound = 4 * torch.finfo(torch.float32).eps * (1 / h1**2 + 1 / h2**2)
    assert error.abs().max() < bound
    assert error.abs().max() > 1e-4
