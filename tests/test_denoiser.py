"""What every network is told, whatever the problem."""

import pytest
import torch

from prisma_lib import pdes
from prisma_lib.denoiser import place, places


@pytest.mark.parametrize("forcing", [0.1, 0.0])
def test_a_network_is_told_where_points_are_and_what_drives_them(forcing):
    pde = pdes.load("navier_stokes", size=16, forcing=forcing)

    x, y, force = place(pde, torch.float64, torch.device("cpu"))

    assert places(pde) == 3
    assert places(pdes.load("darcy", size=16)) == 2
    torch.testing.assert_close(
        x, (torch.arange(16.0).double() / 16 - 0.5)[:, None] + 0 * y
    )
    torch.testing.assert_close(y, x.T)
    assert force.abs().max() == (1 if forcing else 0)
    torch.testing.assert_close(force * pde.forces().abs().max(), pde.forces()[0])
