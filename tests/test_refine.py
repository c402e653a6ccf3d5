"""Fields on other grids, against functions that both grids hold exactly."""

import math

import pytest
import torch

from prisma_lib.errors import ShapeError
from prisma_lib.grids import Grid
from prisma_lib.refine import refine


def on(grid, function):
    return function(*grid.coordinates(torch.float64))[None, None]


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(32, 32), (64, 48), (12, 12)])
def test_cubics_move_exactly_between_bounded_grids(shape, centred):
    def cubic(x, y):
        return (1 - 2 * x + x**3) * (y**2 - 3 * y**3)

    grid, other = (Grid(s, centred=centred) for s in ((16, 16), shape))

    moved = refine(on(grid, cubic), grid, shape)

    torch.testing.assert_close(moved, on(other, cubic), rtol=0, atol=1e-12)


def test_waves_move_exactly_between_periodic_grids():
    def wave(x, y):
        return torch.sin(2 * math.pi * (3 * x - 2 * y))

    grid, other = (Grid((n, n), periodic=(True, True)) for n in (16, 64))

    there = refine(on(grid, wave), grid, other.shape)

    torch.testing.assert_close(there, on(other, wave), rtol=0, atol=1e-12)
    back = refine(there, other, grid.shape)
    torch.testing.assert_close(back, on(grid, wave), rtol=0, atol=1e-12)


def test_axes_of_different_kinds_move_each_in_its_own_way():
    def mixed(x, y):
        return x**3 * torch.cos(2 * math.pi * y)

    grid, other = (Grid((n, n), periodic=(False, True)) for n in (16, 32))

    moved = refine(on(grid, mixed), grid, (32, 32))

    torch.testing.assert_close(moved, on(other, mixed), rtol=0, atol=1e-12)


def test_the_spline_converges_with_its_order():
    def smooth(x, y):
        return torch.exp(x) * torch.sin(3 * y)

    fine = Grid((257, 257))
    errors = []
    for n in (17, 33):
        grid = Grid((n, n))
        moved = refine(on(grid, smooth), grid, fine.shape)
        errors.append((moved - on(fine, smooth)).abs().max().item())

    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.5)


def test_a_field_of_another_grid_is_refused():
    with pytest.raises(ShapeError, match="16 x 16"):
        refine(torch.zeros(1, 1, 8, 8), Grid((16, 16)), (32, 32))
