import pytest
import torch

from prisma_lib.errors import ShapeError
from prisma_lib.grids import Grid


def test_a_bounded_axis_has_a_node_at_both_ends():
    x, _ = Grid((5, 9)).coordinates(torch.float64)

    torch.testing.assert_close(
        x[:, 0], torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=torch.float64)
    )


def test_a_periodic_axis_leaves_its_right_end_out():
    x, _ = Grid((4, 4), periodic=(True, True)).coordinates(torch.float64)

    torch.testing.assert_close(
        x[:, 0], torch.tensor([0, 0.25, 0.5, 0.75], dtype=torch.float64)
    )


def test_spacing_follows_length_and_periodicity_of_its_own_axis():
    grid = Grid((5, 8), lengths=(2.0, 4.0), periodic=(False, True))

    assert grid.spacing == (0.5, 0.5)


def test_the_first_tensor_axis_is_x():
    x, y = Grid((5, 9)).coordinates()

    assert x.shape == y.shape == (5, 9)
    assert (x[1] > x[0]).all()
    assert (y[:, 1] > y[:, 0]).all()


@pytest.mark.parametrize("shape", [(3, 32), (32, 1), (0, 0)])
def test_a_grid_too_small_for_a_stencil_is_refused(shape):
    with pytest.raises(ShapeError, match="at least 4"):
        Grid(shape)


def test_cell_centres_are_half_a_spacing_from_the_edge():
    grid = Grid((4, 5), lengths=(2.0, 1.0), centred=True)

    x, y = grid.coordinates(torch.float64)

    assert grid.spacing == (0.5, 0.2)
    torch.testing.assert_close(
        x[:, 0], torch.tensor([0.25, 0.75, 1.25, 1.75], dtype=torch.float64)
    )
    torch.testing.assert_close(
        y[0], torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9], dtype=torch.float64)
    )


def test_a_periodic_axis_has_no_cells_to_be_in_the_centre_of():
    periodic = (True, False)

    centred = Grid((8, 8), periodic=periodic, centred=True)

    plain = Grid((8, 8), periodic=periodic)
    assert torch.equal(centred.coordinates()[0], plain.coordinates()[0])
    assert centred.spacing == (1 / 8, 1 / 8)
