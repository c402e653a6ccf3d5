"""Lifts of linear equations: the exact posterior where the inputs are Gaussian.

A solution that is known everywhere gives its source at inner nodes away, so that
kriging takes the source there for known, which is well conditioned, instead of the
solution, which is not.
"""

import torch

from prisma_lib.lifts.estimates import estimate, kriged, no_settings
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.sensors import Sensors
from prisma_lib.posterior import LinearGaussian


@estimate.register
def _linear(pde: LinearGaussian, seen: Sensors, **settings: int) -> Estimate:
    no_settings(pde, settings)
    if seen.whole_u.any():
        seen = _with_source(pde, seen)
    known = seen.whole_a
    mean, sd = kriged(pde, seen, known)
    if known.any():
        mean[known, 1:] = pde.propagate(seen.values[known, :1])
    mean = torch.where(seen.exact, seen.values, mean)
    return mean, torch.where(seen.exact, 0.0, sd)


def _with_source(pde: LinearGaussian, seen: Sensors) -> Sensors:
    """Takes the source at inner nodes for known instead of a whole solution."""
    back = seen.whole_u
    source = pde.stencil(seen.values[back, 1:])
    if source is None:
        return seen
    values, inner = torch.zeros_like(seen.values), torch.zeros_like(seen.seen)
    values[back, :1] = source
    inner[:, :1, 1:-1, 1:-1] = back[:, None, None, None]
    return seen.told(values, inner).without(back, slice(1, None))
