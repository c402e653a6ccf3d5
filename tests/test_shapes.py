"""Geometry of polygons, against shapes whose distance is known."""

import math

import pytest
import torch

from prisma_lib import shapes

CENTRE = torch.tensor([0.47, 0.52], dtype=torch.float64)


def ticks(size):
    x = torch.arange(size, dtype=torch.float64) / (size - 1)
    return x, x


def box(size, low=(0.2, 0.3), high=(0.7, 0.6)):
    """Signed distance to a rectangle."""
    x, y = torch.meshgrid(*ticks(size), indexing="ij")
    over = [
        torch.maximum(lower - t, t - upper)
        for t, lower, upper in zip((x, y), low, high, strict=True)
    ]
    outside = torch.hypot(*(o.clamp(min=0) for o in over))
    return outside + torch.maximum(*over).clamp(max=0)


def polygon(*corners):
    return torch.tensor([corners], dtype=torch.float64)


def rectangle(low, high):
    (x0, y0), (x1, y1) = low, high
    return polygon((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def circle(vertices, radius=0.3):
    angle = torch.arange(vertices, dtype=torch.float64) * (2 * math.pi / vertices)
    ring = CENTRE + radius * torch.stack([angle.cos(), angle.sin()], -1)
    return ring[None]


def test_distance_to_a_rectangle_is_exact():
    ring = rectangle((0.2, 0.3), (0.7, 0.6))

    d = shapes.distance(*ticks(32), shapes.sides(ring))

    torch.testing.assert_close(d[0], box(32).abs(), rtol=0, atol=1e-8)


def test_distance_to_a_circle_is_that_to_many_sides():
    d = shapes.distance(*ticks(32), shapes.sides(circle(2000)))

    x, y = torch.meshgrid(*ticks(32), indexing="ij")
    exact = torch.hypot(x - CENTRE[0], y - CENTRE[1]) - 0.3
    torch.testing.assert_close(d[0], exact.abs(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("flipped", [[], [1]])
def test_filling_a_rectangle_marks_the_nodes_inside(flipped):
    ring = rectangle((0.2, 0.3), (0.7, 0.6)).flip(flipped)

    filled = shapes.fill(*ticks(32), ring)

    assert torch.equal(filled[0], box(32) < 0)


def test_filling_agrees_with_the_test_of_points():
    rings = shapes.random_rings(0, range(20), 64, (0.2, 0.4), 0.05)
    points = torch.cartesian_prod(*ticks(16)).expand(20, -1, -1)

    filled = shapes.fill(*ticks(16), rings)

    assert torch.equal(filled.flatten(1), shapes.inside(points, rings))


@pytest.mark.parametrize(
    ("second", "area"),
    [
        (((0.5, 0.3), (0.9, 0.7)), 0.16 + 0.13),  # overlapping corners
        (((0.7, 0.7), (0.9, 0.9)), 0.16 + 0.04),  # apart
        (((0.3, 0.3), (0.4, 0.4)), 0.16),  # one within the other
        (((0.1, 0.35), (0.9, 0.45)), 0.16 + 0.04),  # a cross
    ],
)
def test_a_union_has_the_boundary_of_its_area(second, area):
    first = rectangle((0.2, 0.2), (0.6, 0.6))
    second = rectangle(*second)

    pieces = shapes.union(first, second)[0]

    # The area within a boundary that runs around it is a sum over its pieces (Green).
    (x0, y0), (x1, y1) = pieces.unique(dim=0).permute(1, 2, 0)
    assert ((x0 * y1 - x1 * y0).sum() / 2).item() == pytest.approx(area, abs=1e-12)


def test_distance_to_a_union_is_the_smaller_one_outside():
    first, second = shapes.random_rings(1, range(40), 96, (0.2, 0.4), 0.05).chunk(2)
    d = [shapes.distance(*ticks(24), shapes.sides(r)) for r in (first, second)]
    within = shapes.fill(*ticks(24), first) | shapes.fill(*ticks(24), second)

    both = shapes.distance(*ticks(24), shapes.union(first, second))

    smaller = torch.minimum(*d)
    torch.testing.assert_close(both[~within], smaller[~within], rtol=0, atol=1e-8)
    # Inside, sides within the other polygon are no boundary: never nearer.
    assert (both >= smaller - 1e-8).all()


def test_polygons_keep_their_distance_from_the_edge_and_are_of_all_kinds():
    rings = shapes.random_rings(0, range(300), 120, (0.2, 0.35), 0.05)

    assert rings.min() >= 0.05 - 1e-12
    assert rings.max() <= 0.95 + 1e-12
    side = rings.roll(-1, 1) - rings
    (x, y), (after_x, after_y) = (f.unbind(-1) for f in (side, side.roll(-1, 1)))
    turn = x * after_y - y * after_x
    straight = (turn.abs() < 1e-12).float().mean(1)
    assert 0.2 < (straight > 0.9).float().mean() < 0.5
    # Curves and gears are smooth: no side is much longer than the others.
    smooth = side.norm(dim=-1)[straight < 0.1]
    assert (smooth.amax(1) < 8 * smooth.mean(1)).all()


def test_marching_squares_joins_every_kind_of_cell():
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 3.0])] * 4)
    level = corners.view(-1, 2, 2).double()
    unit = torch.tensor([0.0, 1.0], dtype=torch.float64)

    segments, kept = shapes.contour(level, unit, unit)

    for case, ends, drawn in zip(level, segments, kept, strict=True):
        changes = sum(
            int(p * q < 0)
            for p, q in (
                (case[0, 0], case[1, 0]),
                (case[1, 0], case[1, 1]),
                (case[1, 1], case[0, 1]),
                (case[0, 1], case[0, 0]),
            )
        )
        assert 2 * int(drawn.sum()) == changes
        # On each end the field, linear along the sides, is zero.
        for x, y in ends[drawn].flatten(0, 1):
            at = (1 - x) * (1 - y) * case[0, 0] + x * (1 - y) * case[1, 0]
            at = at + (1 - x) * y * case[0, 1] + x * y * case[1, 1]
            assert at.item() == pytest.approx(0, abs=1e-12)
