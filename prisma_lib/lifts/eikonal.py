r"""Lifts of the eikonal equation.

Forward: the distance to the boundary that marching squares draws through the indicator,
or through its best linear estimate at the height 1/2. Backward: a point is inside as
likely as its distance is negative, $F(-\hat u / s)$ for an estimate $\hat u$ with an
error of s. F is Student's distribution of two degrees of freedom: a distance has kinks
that no linear estimate expects, so that large errors are frequent. And it changes no
faster than one goes: within the distance that a sensor measured all is on its side.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.lifts.estimates import (
    error_of,
    estimate,
    kriged,
    no_settings,
    passed_on,
    weighed,
)
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.priors import training_pairs
from prisma_lib.lifts.sensors import Problems, Sensors
from prisma_lib.pdes.eikonal import Eikonal

Scalar = Float[Tensor, "b 1 x y"]

_TOGETHER = 256  # sensors whose distances to every point are in memory at once


@estimate.register
def _eikonal(pde: Eikonal, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings)
    back = seen.whole_u
    # An empty or a full square has no boundary to be far from.
    forth = seen.whole_a & _has_boundary(seen.values[:, :1])
    known = forth | back
    mean, sd = kriged(pde, seen, known)
    # What no training problem had, turned and mirrored, is rare and not impossible: its
    # chance is that of Laplace's rule of succession.
    rare = 1 / (8 * len(training_pairs(pde)) + 2)
    sd[~known, :1] = (sd[~known, :1].square() + rare).sqrt()
    forward, backward = seen.forward & _has_boundary(mean[:, :1]), seen.backward
    if forward.any():
        mean[forward, 1:] = distance(pde, mean[forward, :1])
        error = error_of(distance, pde)
        sd[forward, 1:] = passed_on(pde, sd[forward, 1:], error)
    if backward.any():
        u, doubt = mean[backward, 1:], sd[backward, 1:].clamp(min=1e-12)
        lower, upper = _bounds(pde, seen.of(backward))
        share = _likely(-u / doubt).where(lower <= 0, 0.0).where(upper >= 0, 1.0)
        mean[backward, :1], sd[backward, :1] = share, (share * (1 - share)).sqrt()
    return weighed(mean, sd, seen)


def distance(pde: Eikonal, a: Scalar) -> Scalar:
    """Returns the signed distance to the boundary where an indicator passes 1/2."""
    return pde.solve(a)


def _likely(score: Scalar) -> Scalar:
    """Returns Student's distribution function of two degrees of freedom."""
    return (1 + score / (2 + score.square()).sqrt()) / 2


def _bounds(pde: Eikonal, seen: Sensors) -> tuple[Scalar, Scalar]:
    """Returns what a distance is at least and at most, by its sensors without noise."""
    u, exact = seen.values[:, 1:], seen.exact[:, 1:]
    place = pde.grid.coordinates(u.dtype, u.device).flatten(1).T
    lower, upper = u.where(exact, -torch.inf), u.where(exact, torch.inf)
    for i in (~seen.whole_u).nonzero()[:, 0].tolist():  # of the others all is said
        where = exact[i].flatten().nonzero()[:, 0]
        for start in range(0, len(where), _TOGETHER):
            part = where[start : start + _TOGETHER]
            away = torch.cdist(place[part], place)
            known = u[i].flatten()[part, None]
            least = (known - away).amax(0).view_as(u[i])
            most = (known + away).amin(0).view_as(u[i])
            lower[i], upper[i] = lower[i].maximum(least), upper[i].minimum(most)
    return lower, upper


def _has_boundary(a: Scalar) -> Problems:
    inside = (a >= 0.5).flatten(1)
    return inside.any(1) & ~inside.all(1)
