"""Spline matrices against scipy's splines, exact cubics and bad points."""

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicSpline, make_interp_spline

from prisma_lib.errors import DataError, ShapeError
from prisma_lib.splines import not_a_knot

# A point apart, one on a point, both ends, and beyond them.
TARGETS = torch.tensor([-0.3, 0.0, 0.11, 0.5, 0.77, 1.0, 1.4], dtype=torch.float64)


def uneven(num):
    """Increasing points in [0, 1], both ends included, at uneven distances."""
    steps = torch.rand(num - 1, generator=torch.Generator().manual_seed(num)) + 0.2
    ticks = torch.cat([torch.zeros(1), steps.cumsum(0)]).double()
    return ticks / ticks[-1]


@pytest.mark.parametrize("num", [4, 5, 6, 13, 128])
def test_interpolation_agrees_with_scipy_beyond_the_ends_too(num):
    x = uneven(num)
    values = torch.randn(num, 3, generator=torch.Generator().manual_seed(1)).double()

    found = not_a_knot(x, TARGETS) @ values

    # Values grow beyond the ends as the cube of the distance in spacings.
    size = np.abs(found.numpy()).max()
    given = x.numpy(), values.numpy()
    for spline in (
        CubicSpline(*given, bc_type="not-a-knot"),
        make_interp_spline(*given, k=3),
    ):
        expected = spline(TARGETS.numpy())
        assert np.abs(found.numpy() - expected).max() <= 1e-12 * size


@pytest.mark.parametrize("power", range(4))
def test_cubics_are_exact_everywhere(power):
    x = uneven(9)

    found = not_a_knot(x, TARGETS) @ x**power

    torch.testing.assert_close(found, TARGETS**power, rtol=1e-12, atol=1e-12)


def test_a_fourth_power_is_not_exact():
    x = uneven(9)

    assert (not_a_knot(x, TARGETS) @ x**4 - TARGETS**4).abs().max() > 1e-4


def test_values_at_the_points_are_kept():
    x = uneven(7)

    torch.testing.assert_close(not_a_knot(x, x), torch.eye(7, dtype=torch.float64))


def test_the_error_of_a_smooth_function_falls_at_fourth_order():
    errors = []
    for num in (17, 33):
        x = torch.linspace(0, 1, num, dtype=torch.float64)
        t = torch.linspace(0, 1, 101, dtype=torch.float64)
        errors.append((not_a_knot(x, t) @ (4 * x).sin() - (4 * t).sin()).abs().max())

    assert (errors[0] / errors[1]).log2() == pytest.approx(4, abs=0.4)


def test_fewer_than_four_points_are_refused():
    with pytest.raises(ShapeError, match="at least 4"):
        not_a_knot(torch.arange(3.0), TARGETS)


@pytest.mark.parametrize("points", [[0, 1, 1, 2], [0, 2, 1, 3], [0, 1, np.nan, 3]])
def test_points_that_do_not_increase_are_refused(points):
    with pytest.raises(DataError, match="must increase"):
        not_a_knot(torch.tensor(points, dtype=torch.float64), TARGETS)
