"""The lift of the eikonal equation, against shapes that are known."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.observe import Observation, observe


def test_a_disc_is_its_distance():
    pde = pdes.load("eikonal", size=32)
    x, y = pde.grid.coordinates(torch.float64)
    u = (torch.hypot(x - 0.5, y - 0.45) - 0.3)[None, None].float()
    a = (u < 0).float()

    forth = pde.lift(observe("full_forward", a, u, index=[0]))
    back = pde.lift(observe("full_inverse", a, u, index=[0]))

    assert (forth.u - u).abs().max() < 0.7 / 31
    assert 0 < forth.sd[:, 1].mean() < 0.7 / 31
    assert torch.equal(back.a, a)


def doubted(pde, rate):
    """Squared errors of estimated shapes in units of their doubt, and who has none."""
    a, u = data.problems(pde, 64, split="validation")
    seen = observe("sparse_inverse", a, u, rate=rate, index=range(64))
    lift = pde.lift(seen)
    sure = lift.sd[:, :1] == 0
    assert torch.equal(lift.a[sure], a[sure])
    return ((lift.a - a) / lift.sd[:, :1])[~sure].square(), sure


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_a_shape_is_rarely_what_its_lift_does_not_expect(rate):
    squares, _ = doubted(pdes.load("eikonal", size=32), rate)

    # Errors taken for normal make it more than ten times as large.
    assert squares.mean() < 2


def test_within_a_measured_distance_a_shape_is_known():
    _, sure = doubted(pdes.load("eikonal", size=32), 0.03)

    assert sure.float().mean() > 0.75


def test_shapes_that_no_sensor_met_are_estimated_all_the_same():
    pde = pdes.load("eikonal", size=16)
    one, blank = torch.ones(1, 1, 16, 16), torch.zeros(1, 1, 16, 16)

    lift = pde.lift(Observation(blank, blank, one, blank))

    assert lift.mean.isfinite().all()
    assert lift.u.mean() > 0
