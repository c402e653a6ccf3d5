"""What was measured of a pair `(a, u)`, and how tasks and sensors hide the rest.

An `Observation`, which is in `observed.py` and can be imported from here too, holds
values in physical units and 0/1 masks; where a mask is 0 the value is 0, never NaN.
`observation` is the door for a user's arrays and checks them;
`observe` hides parts of a clean pair as a task says. Masks and noise of problem `i`
depend on `(key, i)` alone, whatever batch the problem stands in. The tasks themselves,
and their masks in training, are in `tasks.py` and can be imported from here too.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import sensors
from prisma_lib.checks import Array, measured
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.fields import keyed_normal, keyed_uniform
from prisma_lib.observed import Observation
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.tasks import (
    TASK_PROBABILITIES,
    TASKS,
    sample_rates,
    sample_tasks,
    task_masks,
)

__all__ = [
    "TASKS",
    "TASK_PROBABILITIES",
    "Observation",
    "add_noise",
    "mix",
    "observation",
    "observe",
    "sample_rates",
    "sample_tasks",
    "task_masks",
]

# Both fields along the channel axis.
Pair = Float[Tensor, "b c x y"]


def observation(
    pde: PDE,
    a: Array | None = None,
    u: Array | None = None,
    mask_a: Array | None = None,
    mask_u: Array | None = None,
    *,
    allow_nothing: bool = False,
) -> Observation:
    """Makes an observation of a user's arrays, after checking them.

    Numbers of any real type become float32; gradients are dropped; the arrays are left
    as they are. Without a mask NaN means missing; with one, a value outside it is
    ignored. Masks that are 1 everywhere, for both fields too, are fine.

    Args:
        pde: The equation, whose grid the fields live on.
        a: Input field `(b, c, x, y)`, or `(x, y)` if it has one channel; in physical
            units; `None`: unknown.
        u: Solution field, likewise.
        mask_a: 1 or True where `a` was measured; same shape.
        mask_u: Likewise for `u`.
        allow_nothing: Accept an observation of no point at all (unconditional
            sampling). With neither `a` nor `u` it is one problem.

    Returns:
        The observation, on the device of the fields.

    Raises:
        ShapeError: When a shape is not that of the grid, its channels, the other field
            or the mask, a mask has no field, or the batch is empty.
        DataError: When a value is infinite, complex, or NaN where its mask is 1, a mask
            holds anything but 0 and 1, the fields are on different devices, or nothing
            was observed.
    """
    _check_devices(a, u)
    given = measured(pde, "a", a, mask_a), measured(pde, "u", u, mask_u)
    known = [pair for pair in given if pair is not None]
    if len(known) == 2:
        _check_shapes(known[0][0], known[1][0])
    if not allow_nothing and not any(mask.any() for _, mask in known):
        raise DataError(
            "nothing observed: a and u are missing at every point; give at least one "
            "value; for unconditional samples call solve with neither a nor u, or "
            "observation with allow_nothing=True"
        )
    like = known[0][0] if known else torch.zeros(1, 1, *pde.grid.shape)
    (a_obs, seen_a), (u_obs, seen_u) = (
        pair or like.new_zeros(2, len(like), c, *like.shape[2:])
        for pair, c in zip(given, pde.channels, strict=True)
    )
    return Observation(a_obs, u_obs, seen_a, seen_u)


def _check_devices(a: Array | None, u: Array | None) -> None:
    if isinstance(a, Tensor) and isinstance(u, Tensor) and a.device != u.device:
        raise DataError(
            f"a is on {a.device} but u is on {u.device}: move one with .to(...)"
        )


def _check_shapes(a: Tensor, u: Tensor) -> None:
    if len(a) != len(u) or a.shape[2:] != u.shape[2:]:
        raise ShapeError(
            f"a has shape {tuple(a.shape)} but u has {tuple(u.shape)}: both must hold "
            "the same number of problems on one grid, or observe one field only"
        )


def observe(
    task: str,
    a: Field,
    u: Field,
    *,
    rate: float = 0.03,
    columns: int | None = None,
    layout: str = "points",
    key: int = 0,
    index: Sequence[int],
) -> Observation:
    """Hides parts of a clean pair as a task says.

    Args:
        task: One of `TASKS`. "full" tasks observe all of one field, "sparse" ones each
            of its points with probability `rate`, independently, or whole `columns`.
        a: Input field.
        u: Solution field.
        rate: Share of observed points, in (0, 1]; full tasks ignore it.
        columns: Number of columns, positions on the last axis, that a sparse task
            observes instead: exactly so many, drawn without replacement.
        layout: Where the sensors of a sparse task stand, if not at `columns`: "points",
            "patches", "columns" or "window"; see `sensors.places`.
        key: Names the random stream of masks.
        index: Number of each problem in that stream.

    Returns:
        The observation, on the device of `a`; a sensor measures all channels of its
        field. A sparse mask may be empty by chance.

    Raises:
        ConfigError: When the task or the layout is unknown, or the rate or the number
            of columns is impossible.
        ShapeError: When the fields differ in grid or number, or `index` in number.
    """
    if not 0 < rate <= 1:
        raise ConfigError(
            f"rate={rate}: the share of observed points must be in (0, 1]; for none "
            "use the task 'uncond'"
        )
    _check_devices(a, u)
    _check_shapes(a, u)
    _check_index(index, a)
    if columns is None:
        shape = (a.shape[-2], a.shape[-1])
        uniform = sensors.places(layout, key, index, shape, rate)
    else:
        uniform = sensors.columns(key, index, columns, a.shape[-1])
        rate = columns / a.shape[-1]
    masks = task_masks([task] * len(index), torch.full((len(index),), rate), uniform)
    mask_a, mask_u = (
        mask.to(a.device).expand_as(field).contiguous()
        for mask, field in zip(masks, (a, u), strict=True)
    )
    pairs = (mask_a, a), (mask_u, u)
    a_obs, u_obs = (torch.where(mask.bool(), x.float(), 0.0) for mask, x in pairs)
    return Observation(a_obs, u_obs, mask_a, mask_u)


def add_noise(
    observation: Observation,
    sd_a: float,
    sd_u: float,
    key: int,
    index: Sequence[int],
    *,
    fraction: float = 1.0,
) -> Observation:
    """Adds independent Gaussian sensor noise to the observed points.

    Args:
        observation: The clean observation.
        sd_a: Standard deviation of the noise on `a`, physical units, at least 0.
        sd_u: Standard deviation of the noise on `u`, likewise.
        key: Names the random stream of noise.
        index: Number of each problem in that stream.
        fraction: Probability that a point is noisy, in [0, 1]; nobody is told which. A
            larger one makes the same points noisy and more.

    Returns:
        The noisy observation, with the same masks.

    Raises:
        ConfigError: When a standard deviation is negative or not finite, or the
            fraction is no probability.
        ShapeError: When `index` and the observation differ in number.
    """
    for name, sd in (("sd_a", sd_a), ("sd_u", sd_u)):
        if not 0 <= sd < math.inf:
            raise ConfigError(f"{name}={sd}: noise needs a finite value of at least 0")
    if not 0 <= fraction <= 1:
        raise ConfigError(
            f"fraction={fraction}: the share of noisy points must be in [0, 1]"
        )
    a, u, mask = observation.a, observation.u, observation.mask
    _check_index(index, a)
    shape = tuple(mask.shape[1:])
    noise = keyed_normal(key, index, shape, purpose="sensor noise")
    if fraction < 1:
        noise = noise * (keyed_uniform(key, index, shape, purpose="noisy") < fraction)
    noise = noise.to(mask.device) * mask
    noise_a, noise_u = noise.split([a.shape[1], u.shape[1]], dim=1)
    return replace(observation, a=a + sd_a * noise_a, u=u + sd_u * noise_u)


def mix(mask: Pair, x_obs: Pair, x: Pair) -> Pair:
    """Puts observed values into a field; what stands elsewhere in `x_obs` is unseen."""
    return torch.where(mask.bool(), x_obs, x)


def _check_index(index: Sequence[int], field: Field) -> None:
    if len(index) != field.shape[0]:
        raise ShapeError(
            f"index names {len(index)} problems but the fields hold {field.shape[0]}: "
            "give one number for each"
        )
