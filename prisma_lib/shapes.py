"""Random closed polygons, and the geometry that turns boundaries into fields.

A ring is the list of corners of a closed polygon; the last one is joined to the first.
A boundary is a list of segments, each two ends; lists of a batch have one length, and
the shorter ones repeat a segment of theirs, which changes no distance. Ticks are the
coordinates of the nodes of a grid along its first axis, `x`, and its second, `y`.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from prisma_lib.fields import keyed_uniform

Points = Float[Tensor, "b n 2"]
Ticks = Float[Tensor, " n"]
Rings = Float[Tensor, "b p 2"]
Segments = Float[Tensor, "b s 2 2"]
Uniform = Float[Tensor, "b 23"]

_MODES, _CORNERS = 5, 8  # of a Fourier curve, and at most of a polygon
_PAIRS = 2**17  # pairs of a node and a segment that are computed at once


def random_rings(
    key: int,
    index: Sequence[int],
    vertices: int,
    radii: tuple[float, float],
    margin: float,
    purpose: str = "shape",
) -> Rings:
    """Draws polygons that lie in the unit square: curves, gears and plain polygons.

    Each kind has one third of them. All are star-shaped about their centres.

    Args:
        key: Names the random stream.
        index: Numbers of the wanted polygons in it.
        vertices: Number of corners; smooth curves have their corners on them.
        radii: Smallest and largest distance of the farthest corner from the centre.
        margin: Least distance from the edge of the square.
        purpose: Keeps several polygons of one number independent.

    Returns:
        Rings, float64, on the CPU.
    """
    uniform = keyed_uniform(key, index, (7 + 2 * _CORNERS,), purpose).double()
    kind, size, centre_x, centre_y, turn = uniform[:, :5].T[..., None]
    angle = torch.arange(vertices, dtype=torch.float64) * (2 * math.pi / vertices)
    angle = angle + 2 * math.pi * turn
    direction = torch.stack([angle.cos(), angle.sin()], -1)
    radius = torch.where(kind < 1 / 3, _curve(uniform, angle), _gear(uniform, angle))
    polygon = _polygon(uniform, vertices)
    ring = torch.where(kind[..., None] > 2 / 3, polygon, radius[..., None] * direction)
    largest = ring.norm(dim=-1).amax(1, keepdim=True)
    wanted = radii[0] + (radii[1] - radii[0]) * size
    low = margin + wanted
    centre = low + (1 - 2 * low) * torch.cat([centre_x, centre_y], 1)
    return centre[:, None] + ring * (wanted / largest)[..., None]


def _curve(uniform: Uniform, angle: Float[Tensor, "b p"]) -> Float[Tensor, "b p"]:
    """Returns the radius of Fourier curves of modes 2 to 6, between 0.1 and 1.9."""
    mode = torch.arange(2, 2 + _MODES, dtype=torch.float64)
    strength, phase = uniform[:, 7:].split([_MODES, 2 * _CORNERS - _MODES], 1)
    weight = 0.6 * (2 * strength - 1) / mode
    wave = mode[:, None] * angle[:, None] + 2 * math.pi * phase[:, :_MODES, None]
    return 1 + (weight[..., None] * wave.cos()).sum(1)


def _gear(uniform: Uniform, angle: Float[Tensor, "b p"]) -> Float[Tensor, "b p"]:
    """Returns the radius of gears of 5 to 10 teeth."""
    teeth, depth = uniform[:, 5:7].T[..., None]
    wave = (3 * ((5 + 6 * teeth).floor() * angle).sin()).tanh()
    return 1 + (0.1 + 0.15 * depth) * wave


def _polygon(uniform: Uniform, vertices: int) -> Rings:
    """Returns star-shaped polygons of 3 to 8 corners, with vertices along their sides.

    Every corner is a vertex, so that more vertices give the same polygon.
    """
    num = 3 + (uniform[:, 5:6] * (_CORNERS - 2)).long()
    shift, radius = uniform[:, 7:].split(_CORNERS, 1)
    turn = 2 * math.pi * (torch.arange(_CORNERS) + 0.6 * (shift - 0.5)) / num
    corner = (0.6 + 0.4 * radius)[..., None] * torch.stack([turn.cos(), turn.sin()], -1)
    vertex = torch.arange(vertices)
    side = vertex * num // vertices
    first, last = (-(-s * vertices // num) for s in (side, side + 1))
    along = ((vertex - first) / (last - first))[..., None]
    start, end = (
        corner.gather(1, s[..., None].expand(-1, -1, 2))
        for s in (side, (side + 1) % num)
    )
    return start + along * (end - start)


def inside(points: Points, rings: Rings) -> Bool[Tensor, "b n"]:
    """Says which points lie inside rings, by counting crossings (even-odd rule)."""
    x, y = points.unbind(-1)
    to_the_right = _crossings(y, rings) > x[..., None]
    return to_the_right.sum(-1).remainder(2).bool()


def fill(x: Ticks, y: Ticks, rings: Rings) -> Bool[Tensor, "b x y"]:
    """Says which nodes of a grid lie inside rings, as `inside` does."""
    crossings = _crossings(y.expand(len(rings), -1), rings)
    count = [(line > x[:, None, None]).sum(-1) for line in crossings]
    return torch.stack(count).remainder(2).bool()


def _crossings(y: Float[Tensor, "b n"], rings: Rings) -> Float[Tensor, "b n p"]:
    """Returns where sides cross the height y; minus infinity where they do not."""
    (x0, y0), (x1, y1) = (r[:, None].unbind(-1) for r in (rings, rings.roll(-1, 1)))
    y = y[..., None]
    at = x0 + (y - y0) * ((x1 - x0) / (y1 - y0))
    return torch.where((y0 > y) != (y1 > y), at, -torch.inf)


def sides(rings: Rings) -> Segments:
    """Returns the sides of polygons."""
    return torch.stack([rings, rings.roll(-1, 1)], 2)


def union(first: Rings, second: Float[Tensor, "b q 2"]) -> Float[Tensor, "b _ 2 2"]:
    """Returns the boundaries of unions of two polygons.

    Sides are cut where they cross the other polygon; pieces inside it are dropped.
    """
    mine, other = _pieces(first, second), _pieces(second, first)
    pieces, outside = (torch.cat(parts, 1) for parts in zip(mine, other, strict=True))
    return packed(pieces, outside)


def _pieces(
    rings: Rings, other: Float[Tensor, "b q 2"]
) -> tuple[Segments, Bool[Tensor, "b s"]]:
    """Cuts the sides of rings at others, and says which pieces lie outside of these."""
    side, across = rings.roll(-1, 1) - rings, other.roll(-1, 1) - other
    gap = other[:, None] - rings[:, :, None]
    # Parallel sides divide by zero; neither infinity nor NaN lies in [0, 1].
    slope = _cross(side[:, :, None], across[:, None])
    t = _cross(gap, across[:, None]) / slope
    s = _cross(gap, side[:, :, None]) / slope
    hit = (t > 0) & (t < 1) & (s >= 0) & (s <= 1)
    most = int(hit.sum(-1).max())
    cuts = torch.where(hit, t, 1.0).sort(-1).values[..., :most]
    ends = torch.ones_like(t[..., :1])
    cuts = torch.cat([torch.zeros_like(ends), cuts, ends], -1)[..., None]
    corners = rings[:, :, None] + cuts * side[:, :, None]
    pieces = torch.stack([corners[:, :, :-1], corners[:, :, 1:]], 3).flatten(1, 2)
    empty = (cuts[:, :, :-1] == cuts[:, :, 1:]).flatten(1)
    return pieces, ~inside(pieces.mean(2), other) & ~empty


def _cross(v: Float[Tensor, "*#b 2"], w: Float[Tensor, "*#b 2"]) -> Tensor:
    return v[..., 0] * w[..., 1] - v[..., 1] * w[..., 0]


def packed(segments: Segments, kept: Bool[Tensor, "b s"]) -> Float[Tensor, "b _ 2 2"]:
    """Drops segments; each boundary must keep one, which shorter lists repeat."""
    order = kept.long().argsort(dim=1, descending=True, stable=True)
    order = order[:, : int(kept.sum(1).max())]
    order = torch.where(kept.gather(1, order), order, order[:, :1])
    return segments.gather(1, order[..., None, None].expand(-1, -1, 2, 2))


def distance(x: Ticks, y: Ticks, boundary: Segments) -> Float[Tensor, "b x y"]:
    r"""Returns the distance of the nodes of a grid to the nearest segment.

    With $t_0$ the position along a segment of length l and t the same limited to
    [0, 1], the squared distance is that to its first end plus $l^2 t (t - 2 t_0)$. Its
    terms separate into those of x and those of y. In float64 distances are right to
    about 1e-8 on the boundary and to rounding elsewhere.
    """
    out = boundary.new_empty(len(boundary), len(x), len(y))
    # So many lines of the grid at once that they fit into the cache.
    high = max(1, _PAIRS // (len(y) * boundary.shape[1]))
    for row, (start, end) in enumerate(boundary.movedim(2, 1)):
        (x0, y0), (dx, dy) = start.unbind(-1), (end - start).unbind(-1)
        length = (dx.square() + dy.square()).clamp_(min=1e-300)
        along_y = y[:, None] - y0
        for lines in range(0, len(x), high):
            along_x = (x[lines : lines + high, None] - x0)[:, None]
            near = along_x.square() + along_y.square()
            t0 = along_x * dx / length + along_y * dy / length
            t = t0.clamp(0, 1)
            near.addcmul_(t0.mul_(-2).add_(t), t.mul_(length))
            out[row, lines : lines + high] = near.amin(-1).clamp_(min=0).sqrt_()
    return out


# Sides of a cell: 0 below, 1 right, 2 above, 3 left. Its corners that are inside, as
# bits 1 (x, y), 2 (x + 1, y), 4 (x + 1, y + 1), 8 (x, y + 1), say which sides the
# boundary joins, twice at most: 00 is none. Diagonal neighbours count as apart.
_JOINED = (
    "00-00 30-00 01-00 31-00 12-00 30-12 02-00 32-00 "
    "23-00 20-00 01-23 12-00 13-00 01-00 30-00 00-00"
)


def contour(
    level: Float[Tensor, "b x y"], x: Ticks, y: Ticks
) -> tuple[Segments, Bool[Tensor, "b s"]]:
    """Finds where a field, linear between nodes, changes sign (marching squares).

    Returns:
        Two segments for each cell, and whether each belongs to the boundary.

    Reference:
        Lorensen and Cline (1987), Marching cubes, in two dimensions.
    """
    corners = [(0, 0), (1, 0), (1, 1), (0, 1)]
    points = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1)
    m, n = len(x) - 1, len(y) - 1
    value = torch.stack([level[:, i : i + m, j : j + n] for i, j in corners], -1)
    place = torch.stack([points[i : i + m, j : j + n] for i, j in corners], -2)
    after, beyond = value.roll(-1, -1), place.roll(-1, -2)
    positive = value >= 0
    crossed = positive != (after >= 0)
    t = torch.where(crossed, value / torch.where(crossed, value - after, 1), 0.0)
    cut = place + t[..., None] * (beyond - place)
    bits = positive.new_tensor([1, 2, 4, 8], dtype=torch.long)
    case = (positive * bits).sum(-1)
    table = [int(side) for side in _JOINED if side.isdecimal()]
    joined = torch.tensor(table, device=level.device).view(-1, 2, 2)[case].flatten(1, 2)
    kept = (joined[..., 0] != joined[..., 1]).flatten(1)
    chosen = joined.flatten(2)[..., None].expand(-1, -1, -1, 2)
    segments = cut.flatten(1, 2).gather(2, chosen)
    return segments.unflatten(2, (2, 2)).flatten(1, 2), kept
