r"""Lifts of the eikonal equation.

Forward: the distance to the boundary that marching squares draws through the indicator,
or through its best linear estimate at the height 1/2. Backward: a point is inside as
likely as its distance is negative, $\Phi(-\hat u / s)$ for an estimate $\hat u$ with an
error of s.
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
from prisma_lib.lifts.sensors import Problems, Sensors
from prisma_lib.pdes.eikonal import Eikonal

Scalar = Float[Tensor, "b 1 x y"]


@estimate.register
def _eikonal(pde: Eikonal, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings)
    back = seen.whole_u
    # An empty or a full square has no boundary to be far from.
    forth = seen.whole_a & _has_boundary(seen.values[:, :1])
    mean, sd = kriged(pde, seen, forth | back)
    forward, backward = seen.forward & _has_boundary(mean[:, :1]), seen.backward
    if forward.any():
        mean[forward, 1:] = distance(pde, mean[forward, :1])
        error = error_of(distance, pde)
        sd[forward, 1:] = passed_on(pde, sd[forward, 1:], error)
    if backward.any():
        u, doubt = mean[backward, 1:], sd[backward, 1:].clamp(min=1e-12)
        share = torch.special.ndtr(-u / doubt)
        mean[backward, :1], sd[backward, :1] = share, (share * (1 - share)).sqrt()
    return weighed(mean, sd, seen)


def distance(pde: Eikonal, a: Scalar) -> Scalar:
    """Returns the signed distance to the boundary where an indicator passes 1/2."""
    return pde.solve(a)


def _has_boundary(a: Scalar) -> Problems:
    inside = (a >= 0.5).flatten(1)
    return inside.any(1) & ~inside.all(1)
