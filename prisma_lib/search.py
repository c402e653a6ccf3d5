"""A pattern search: a small value, found axis by axis with few evaluations."""

import math
from collections.abc import Callable

Point = tuple[float, ...]

STEP = 1.0  # of the first moves
DULL = 1e-3  # relative change that does not matter


def search(
    error: Callable[[Point], float], axes: int, tries: int
) -> dict[Point, float]:
    """Looks for a small error, axis by axis, from the origin.

    A move that helps is made again; when none does, moves become half as large, or
    twice as large as long as no error is finite. A thousandth less is no help; an axis
    whose moves change a finite error by no more is left alone.

    Args:
        error: What to make small; may be infinite.
        axes: Number of coordinates.
        tries: Number of evaluations.

    Returns:
        The error of every point that was tried, in this order; fewer than `tries` when
        no axis matters.
    """
    best, step = (0.0,) * axes, STEP
    found = {best: error(best)}
    alive = set(range(axes))
    while len(found) < tries and alive:
        before = best
        for axis in sorted(alive):
            start, seen = best, []
            for sign in (-1, 1):  # weights that are too large do the greater harm
                point = (*start[:axis], start[axis] + sign * step, *start[axis + 1 :])
                if point in found or len(found) == tries:
                    continue
                found[point] = error(point)
                seen.append(found[point])
                if found[point] < (1 - DULL) * found[best]:
                    best = point
                    break
            if len(seen) == 2 and all(_same(value, found[start]) for value in seen):
                alive.discard(axis)
        if best == before:
            step *= 0.5 if math.isfinite(found[best]) else 2
    return found


def _same(value: float, other: float) -> bool:
    # Two infinities are no sign of anything: their difference is none.
    return abs(value - other) <= DULL * other < math.inf
