"""Where sensors stand: at points, in patches, on columns, in one window.

Every layout is said in one way, as a number in [0, 1) for each point: the points whose
number lies below the share of observed ones carry a sensor. Those of problem `i` depend
on `(key, i)` alone.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.fields import keyed_uniform

LAYOUTS = ("points", "patches", "columns", "window")
PATCH = 4  # points along a side of a patch

Places = Float[Tensor, "b 1 _ _"]


def places(
    layout: str, key: int, index: Sequence[int], shape: tuple[int, int], rate: float
) -> Places:
    """Draws a number for each point; sensors stand where it is below the rate.

    - "points": each point by itself.
    - "patches": squares of `PATCH` x `PATCH` points, each by itself.
    - "columns": whole columns, positions on the last axis: the nearest whole number of
      them, at least one, drawn without replacement.
    - "window": one square at a random place, of the side that comes nearest to the
      rate, at least one point.

    Args:
        layout: One of `LAYOUTS`.
        key: Names the random stream of masks.
        index: Number of each problem in that stream.
        shape: Points per axis.
        rate: Share of observed points, in (0, 1].

    Returns:
        Numbers in [0, 1). Those of columns have one row, which stands for all.

    Raises:
        ConfigError: When the layout is unknown.
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout of sensors", layout, LAYOUTS)
    if layout == "points":
        return keyed_uniform(key, index, (1, *shape), purpose="mask")
    if layout == "patches":
        tiles = [-(-n // PATCH) for n in shape]
        draws = keyed_uniform(key, index, (1, *tiles), purpose="patches")
        rows = draws.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)
        return rows[..., : shape[0], : shape[1]]
    if layout == "columns":
        count = max(1, round(rate * shape[1]))
        seen = columns(key, index, count, shape[1]) < count / shape[1]
    else:
        seen = _windows(key, index, shape, rate)
    # Any number below 1 that is not below the rate will do for the others.
    return torch.where(seen, 0.0, rate).to(torch.float32)


def columns(
    key: int, index: Sequence[int], count: int, num: int
) -> Float[Tensor, "b 1 1 y"]:
    """Shuffles columns; the share below `k / num` is that of exactly k of them.

    Args:
        key: Names the random stream of masks.
        index: Number of each problem in that stream.
        count: Number of columns that will be observed.
        num: Number of all columns.

    Raises:
        ConfigError: When there are not so many columns.
    """
    if type(count) is not int or not 1 <= count <= num:
        raise ConfigError(
            f"columns={count!r}: the fields have {num} columns; give a whole number "
            f"from 1 to {num}, such as {min(5, num)}"
        )
    draws = keyed_uniform(key, index, (1, 1, num), purpose="columns")
    ranks = draws.argsort(dim=-1, stable=True).argsort(-1)
    return (ranks + 0.5) / num


def _windows(
    key: int, index: Sequence[int], shape: tuple[int, int], rate: float
) -> Tensor:
    """Marks the points of one window for each problem."""
    draws = keyed_uniform(key, index, (2,), purpose="window")
    inside = []
    for n, draw in zip(shape, draws.T, strict=True):
        side = max(1, round(rate**0.5 * n))
        first = (draw * (n - side + 1)).long()[:, None]
        at = torch.arange(n)
        inside.append((first <= at) & (at < first + side))
    rows, across = inside
    return (rows[:, :, None] & across[:, None, :])[:, None]
