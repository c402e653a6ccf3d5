"""How estimates are put together: the parts that equations share."""

from collections.abc import Callable
from functools import lru_cache, singledispatch

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from prisma_lib.errors import ConfigError
from prisma_lib.lifts.kriging import Estimate
from prisma_lib.lifts.priors import kriging_of, training_pairs
from prisma_lib.lifts.sensors import Problems, Sensors
from prisma_lib.observed import Values
from prisma_lib.pdes.base import PDE

_COARSE = 32  # points on which a smooth variance is computed
# Training problems on which the error of a rule is measured.
MEASURED = 128


@singledispatch
def estimate(pde: PDE, seen: Sensors, **settings: int) -> Estimate:
    """Estimates both fields: the best linear estimate unless the equation has a better.

    Args:
        pde: The equation.
        seen: What was measured.
        **settings: Of the equation's own estimate.

    Returns:
        Estimate and standard deviation of its error, float64. Values that are known
        without noise are put in by `lift`.
    """
    no_settings(pde, settings)
    return kriged(pde, seen)


def kriged(pde: PDE, seen: Sensors, known: Problems | None = None) -> Estimate:
    """Returns best linear estimates.

    Args:
        pde: The equation.
        seen: What was measured.
        known: Problems that need none. Their values are left at those of the sensors,
            0 elsewhere, without doubt: fields that are not whole are left to a rule.
    """
    mean, sd = seen.values.clone(), torch.zeros_like(seen.values)
    rest = torch.ones_like(seen.whole_a) if known is None else ~known
    if rest.any():  # on a fine grid the covariance takes long
        mean[rest], sd[rest] = kriging_of(pde, mean.device)(seen.of(rest))
    return mean, sd


def weighed(mean: Values, sd: Values, seen: Sensors) -> Estimate:
    """Takes in noisy sensors of a field that follows from the other one.

    Errors of the rule and of sensors are taken as independent, point by point.

    Args:
        mean: Estimates by a rule.
        sd: Standard deviation of their error.
        seen: What was measured.
    """
    beside = (seen.whole_a ^ seen.whole_u)[:, None, None, None]
    noisy = seen.seen & (seen.sd > 0) & beside
    noise = torch.where(noisy, seen.sd, torch.inf)
    share = sd.square() / (sd.square() + noise.square())
    return mean + share * (seen.values - mean), sd * (1 - share).sqrt()


def passed_on(pde: PDE, sd: Values, error: float | Float[Tensor, "c x y"]) -> Values:
    """Returns the doubt of solutions that a rule makes of estimated inputs.

    What kriging is in doubt about is what the input leaves open and, besides, what is
    not linear in it. All of the latter is taken off. That is right where the input is
    known, and a rule's own error is all that is left. Of an input that is known in part
    a rule knows only a part of it, and what is returned is too small: on 16 x 16 points
    of which 5 to 50 per cent are seen, the root mean square error is 1.1 to 1.2 times
    as large for Darcy flow, the eikonal equation and Burgers'.

    Args:
        pde: The equation.
        sd: Doubt of kriging about solutions, without sensors of theirs.
        error: Error of the rule for known inputs.
    """
    rest = _nonlinear(pde, sd.device)
    error = torch.as_tensor(error).to(sd)
    return ((sd.square() - rest).clamp(min=0) + error.square()).sqrt()


@lru_cache(maxsize=8)
def _nonlinear(pde: PDE, device: torch.device) -> Float[Tensor, "c x y"]:
    """Returns the variance of solutions that is not linear in the whole input.

    It is smooth: a coarse grid is enough, where a fine one takes too much memory.
    """
    if pde.size > _COARSE:
        coarse = _nonlinear(pde.resized(_COARSE), device)
        fine: Tensor = functional.interpolate(
            coarse[None], pde.grid.shape, mode="bilinear", align_corners=True
        )
        return fine[0]
    split, shape = pde.channels[0], (1, sum(pde.channels), *pde.grid.shape)
    values = torch.zeros(shape, dtype=torch.float64, device=device)
    seen = torch.zeros(shape, dtype=torch.bool, device=device)
    seen[:, :split] = True
    whole = Sensors(values, seen, torch.zeros_like(values), split)
    return kriging_of(pde, device)(whole)[1][0, split:].square()


def no_settings(pde: PDE, settings: dict[str, int], *names: str) -> None:
    """Refuses settings that an equation's estimate does not have."""
    for name in settings:
        if name not in names:
            raise ConfigError(
                f"{name}={settings[name]!r}: the lift of {pde.name} has "
                f"{', '.join(names) or 'no settings'}; leave it out"
            )


@lru_cache(maxsize=32)
def error_of(
    rule: Callable[..., Values], pde: PDE, inverse: bool = False, **settings: int
) -> Float[Tensor, "c x y"]:
    """Measures a rule on training problems.

    Args:
        rule: Takes an equation and whole inputs to solutions.
        pde: The equation.
        inverse: Whether it takes solutions to inputs.
        **settings: Further arguments of the rule.

    Returns:
        Root mean square of its error at every point, float64, on the CPU.
    """
    a, u = training_pairs(pde)[:MEASURED].split(pde.channels, dim=1)
    given, wanted = (u, a) if inverse else (a, u)
    return (rule(pde, given, **settings) - wanted).square().mean(0).sqrt()
