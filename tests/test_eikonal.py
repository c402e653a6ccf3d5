"""Distances to shapes, against shapes whose distance is known."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt

from prisma_lib.errors import DataError
from prisma_lib.pdes import load

CENTRE = torch.tensor([0.47, 0.52], dtype=torch.float64)


def rms(field):
    return field.square().mean().sqrt().item()


def nodes(size):
    return load("eikonal", size=size).grid.coordinates(torch.float64)


def disc(size, radius=0.3):
    """Signed distance to a circle."""
    x, y = nodes(size)
    return torch.hypot(x - CENTRE[0], y - CENTRE[1]) - radius


def box(size, low=(0.2, 0.3), high=(0.7, 0.6)):
    """Signed distance to a rectangle."""
    x, y = nodes(size)
    over = [
        torch.maximum(lower - t, t - upper)
        for t, lower, upper in zip((x, y), low, high, strict=True)
    ]
    outside = torch.hypot(*(o.clamp(min=0) for o in over))
    return outside + torch.maximum(*over).clamp(max=0)


def test_shapes_enclose_a_visible_share_of_the_square():
    a, u = load("eikonal", size=32).pair(0, range(200))

    share = a.flatten(1).mean(1)

    assert share.min() > 0.02
    assert share.max() < 0.5
    assert torch.equal(a > 0, u < 0)


@pytest.mark.parametrize("size", [16, 48])
def test_pairs_have_slopes_of_at_most_one(size):
    _, u = load("eikonal", size=size).pair(0, range(50))
    h = 1 / (size - 1)

    for axis in (-1, -2):
        assert u.diff(dim=axis).abs().max() <= h + 1e-6


def test_solved_distances_have_slopes_of_at_most_one_where_nothing_changes_sign():
    pde = load("eikonal", size=48)
    u = pde.solve(pde.draw(0, range(20)).double())

    assert u.diff(dim=-1).abs().max() <= pde.grid.spacing[0] + 1e-12


def test_solving_a_smooth_level_set_finds_the_distance_to_second_order():
    errors = []
    for size in (33, 65, 129):
        pde, u = load("eikonal", size=size), disc(size)
        # Any field with this level set will do.
        a = 0.5 - torch.tanh(5 * u)[None, None]
        errors.append(rms(pde.solve(a)[0, 0] - u))

    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert orders == pytest.approx([2, 2], abs=0.3)


def test_solving_an_indicator_errs_by_a_fraction_of_the_spacing():
    pde = load("eikonal", size=64)
    a, u = pde.pair(0, range(50))

    error = (pde.solve(a) - u).abs() / pde.grid.spacing[0]

    assert rms(error) < 0.4
    # More only behind tips that the nodes miss.
    assert (error < 1).float().mean() > 0.99


def test_solving_beats_the_distance_transform_of_pixels():
    pde = load("eikonal", size=32)
    a, u = pde.pair(0, range(40))
    pixels = [
        distance_transform_edt(1 - field) - distance_transform_edt(field)
        for field in a[:, 0].numpy()
    ]

    error = rms(pde.solve(a) - u)

    other = torch.from_numpy(np.stack(pixels))[:, None] * pde.grid.spacing[0]
    assert error < 0.6 * rms(other - u)


@pytest.mark.parametrize("exact", [disc, box])
def test_residual_away_from_the_medial_axis_falls_with_the_square_of_the_spacing(exact):
    residuals = []
    for size in (33, 65, 129):
        pde, u = load("eikonal", size=size), exact(size)[None, None]
        r = pde.residual(u, u)[0, 0]
        x, y = (t[1:-1, 1:-1] for t in nodes(size))
        if exact is disc:
            smooth = torch.hypot(x - CENTRE[0], y - CENTRE[1]) > 0.1
        else:  # outside, but near neither the sides nor the lines that prolong them
            far = [
                ((t - v).abs() > 0.1)
                for t, ends in ((x, (0.2, 0.7)), (y, (0.3, 0.6)))
                for v in ends
            ]
            smooth = torch.stack(far).all(0) & (u[0, 0, 1:-1, 1:-1] > 0)
        residuals.append(rms(r[smooth]))

    orders = [math.log2(a / b) for a, b in itertools.pairwise(residuals)]
    assert orders == pytest.approx([2, 2], abs=0.25)


def test_residual_sees_axes_and_steepness():
    pde = load("eikonal", size=9)
    x, y = pde.grid.coordinates(torch.float64)
    u = (3 * x + 2 * y**2)[None, None]

    r = pde.residual(u, u)

    torch.testing.assert_close(r[0, 0], torch.hypot(0 * x + 3, 4 * y)[1:-1, 1:-1] - 1)


def test_residual_of_a_flat_field_has_finite_gradients():
    pde = load("eikonal", size=9)
    u = torch.zeros(1, 1, 9, 9, requires_grad=True)

    r = pde.residual(u.detach(), u)
    r.square().sum().backward()

    assert (r == -1).all()
    assert not u.grad.any()


@pytest.mark.parametrize("size", [16, 32, 64])
def test_the_floor_is_the_residual_of_exact_pairs(size):
    pde = load("eikonal", size=size)

    found = rms(pde.residual(*pde.pair(0, range(256))))

    assert found == pytest.approx(pde.floor, rel=0.08)


def test_residual_of_pairs_is_small_where_nothing_is_near():
    pde = load("eikonal", size=64)
    _, u = pde.pair(0, range(20))

    r = pde.residual(u, u)

    assert r.abs().median() < 2e-3


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_an_input_without_a_shape_is_refused(value):
    pde = load("eikonal", size=16)
    a = pde.draw(0, range(3))
    a[1] = value

    with pytest.raises(DataError, match="sample 1 of 3 has no boundary"):
        pde.solve(a)


def test_an_input_with_gaps_is_refused():
    pde = load("eikonal", size=16)
    a = pde.draw(0, [0])
    a[0, 0, 2, 3] = math.nan

    with pytest.raises(DataError, match=r"\[0, 0, 2, 3\]"):
        pde.solve(a)


def test_some_shapes_are_unions():
    pde = load("eikonal", size=16)

    united = pde._shapes(0, range(2000))[2]

    assert united.float().mean().item() == pytest.approx(pde.united, abs=0.04)
