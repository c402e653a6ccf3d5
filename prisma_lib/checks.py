"""Checks of what a user hands in, before anything expensive starts."""

import warnings
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prisma_lib.errors import ConfigError, DataError, ShapeError, unknown_name
from prisma_lib.pdes.base import PDE, Field

Array = Tensor | NDArray[Any]

# In standard deviations of the training data. Gaussian fields reach 7, and noise of
# twice their standard deviation 13; a pressure taken for a permeability varies by 1e-3.
FAR_OUT, NARROW, MANY = 30.0, 0.05, 32


def check_seed(seed: object) -> int:
    """Returns the seed if it is one.

    Args:
        seed: What was given.

    Returns:
        The seed, a whole number in [0, 2^63).

    Raises:
        ConfigError: When it is anything else; `True` and "42" are no seeds.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ConfigError(
            f"seed={seed!r} is a {type(seed).__name__}: give a whole number in "
            "[0, 2^63), such as 0"
        )
    if not 0 <= seed < 2**63:
        raise ConfigError(f"seed={seed}: give a whole number in [0, 2^63), such as 0")
    return int(seed)


def check_number(
    name: str, value: object, low: float, high: float, example: float
) -> float:
    """Returns a coefficient if it is a number in (low, high].

    Args:
        name: What to call it in the message.
        value: What was given.
        low: Lower limit, excluded.
        high: Upper limit, included.
        example: A good value.

    Raises:
        ConfigError: When it is anything else; names it and the range.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low < value <= high:  # type: ignore[operator]
        raise ConfigError(
            f"{name}={value!r}: give a number above {low:g} and at most {high:g}, such "
            f"as {name}={example:g}"
        )
    return float(value)  # type: ignore[arg-type]


def check_count(name: str, value: object, low: int, example: int) -> int:
    """Returns an option if it is a whole number of at least `low`.

    Args:
        name: What to call it in the message.
        value: What was given.
        low: Smallest allowed value.
        example: A good value.

    Raises:
        ConfigError: When it is anything else; names it and the range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ConfigError(
            f"{name}={value!r}: give a whole number of at least {low}, such as "
            f"{name}={example}"
        )
    return value


def check_names(kind: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuses names that are not in a list.

    Args:
        kind: What they stand for, such as "setting".
        given: The names.
        known: The names that exist.

    Raises:
        ConfigError: When one is unknown; points to the nearest that exists.
    """
    for name in given:
        if name not in known:
            raise unknown_name(kind, name, known)


def measured(
    pde: PDE, name: str, values: Array | None, mask: Array | None
) -> tuple[Field, Field] | None:
    """Checks one measured field.

    Args:
        pde: The equation, whose grid the field lives on.
        name: What to call the field in messages.
        values: The field `(b, c, x, y)`, or `(x, y)` if it has one channel; without a
            mask NaN means missing.
        mask: 1 where it was measured; same shape.

    Returns:
        Values, 0 where not measured, and mask, float32; `None` for an unknown field.

    Raises:
        ShapeError: When the shape is not that of the grid and its channels or of the
            mask.
        DataError: When a value or a mask value cannot be used.
    """
    if values is None:
        if mask is not None:
            raise ShapeError(
                f"mask_{name} was given without {name}: give the values of {name} too, "
                f"or leave mask_{name} out"
            )
        return None
    channels = pde.channels["au".index(name)]
    field = _lifted(name, values, channels).to(torch.float32)
    if field.shape[-2:] != pde.grid.shape:
        raise ShapeError(
            f"{name} has {tuple(field.shape[-2:])} points, but {pde.name} has a grid "
            f"of {pde.grid.shape}; build the PDE with size={field.shape[-2]}, or "
            f"resample {name}"
        )
    _refuse(name, "infinite in float32", field.isinf(), "mark missing points with NaN")
    missing = field.isnan()
    if mask is None:
        seen = (~missing).to(torch.float32)
    else:
        seen = _checked_mask(name, mask, field)
        advice = "set the mask to 0 there"
        _refuse(name, "NaN where its mask is 1", missing & seen.bool(), advice)
    return torch.where(seen.bool(), field, 0.0), seen


def warn_of_range(name: str, z: Field, mask: Field, stacklevel: int) -> None:
    """Warns of observed values that do not look like those of the training data.

    Swapped fields, other units and wild values are seen; a field that lies where others
    lie, though it is not theirs, is not.

    Args:
        name: What to call the field in the message.
        z: Observed values, less the mean and over the standard deviation of training.
        mask: 1 where observed.
        stacklevel: Whom the warnings name, counted from here; see `warnings.warn`.

    Warns:
        UserWarning: When a value is far out, or many values differ by next to nothing.
    """
    seen = z[mask > 0]
    if not len(seen):
        return
    largest = seen.abs().max().item()
    advice = "are a and u in physical units, and not swapped?"
    if largest > FAR_OUT:
        warnings.warn(
            f"observed values of {name} lie up to {largest:.3g} standard deviations "
            f"from the mean of the training data, where the model is a guess: {advice}",
            stacklevel=stacklevel,
        )
    # Equal values are fine: a material, or the outside of a shape.
    if len(seen) < MANY or seen.max() == seen.min():
        return
    spread = seen.std().item()
    if spread < NARROW:
        warnings.warn(
            f"observed values of {name} spread over {spread:.3g} standard deviations "
            f"of the training data only, about {seen.mean().item():.3g} from its mean: "
            f"{advice}",
            stacklevel=stacklevel,
        )


def _checked_mask(name: str, mask: Array, field: Field) -> Field:
    lifted = _lifted(f"mask_{name}", mask, field.shape[1])
    if lifted.shape != field.shape:
        raise ShapeError(
            f"mask_{name} has shape {tuple(lifted.shape)} but {name} has "
            f"{tuple(field.shape)}: give one mask value for each value of {name}"
        )
    odd = (lifted != 0) & (lifted != 1)
    if odd.any():
        where = odd.nonzero()[0].tolist()
        raise DataError(
            f"mask_{name} must be 0/1; found {lifted[tuple(where)].item()} at {where} "
            "(b, c, x, y); threshold it first"
        )
    return (lifted == 1).to(field.device, torch.float32)


def _lifted(name: str, value: Array, channels: int) -> Tensor:
    """Returns a detached tensor `(b, c, x, y)` of a user's array, dtype unchanged."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc" or value.dtype.char in "gG":
            raise DataError(
                f"{name} is an array of {value.dtype}: give an array of numbers of at "
                "most 64 bits, such as float32"
            )
        # A copy: torch knows neither negative strides nor foreign byte orders.
        value = torch.from_numpy(value.astype(value.dtype.newbyteorder("="), order="C"))
    if not isinstance(value, Tensor):
        raise DataError(
            f"{name} is a {type(value).__name__}: give a numpy array or a torch tensor"
        )
    if value.is_complex():
        raise DataError(
            f"{name} is complex ({value.dtype}): fields are real; pass the part that "
            "you mean, such as its .real"
        )
    if value.ndim not in (2, 4):
        raise ShapeError(
            f"{name} has shape {tuple(value.shape)}: give one field (x, y) or a batch "
            "(b, c, x, y); a stack (b, x, y) needs its channel axis, [:, None], and "
            "one field (c, x, y) its batch axis, [None]"
        )
    lifted = value.detach() if value.ndim == 4 else value.detach()[None, None]
    if lifted.shape[0] == 0 or lifted.shape[1] != channels:
        raise ShapeError(
            f"{name} has shape {tuple(lifted.shape)} in the order (b, c, x, y): the "
            "batch must hold at least one field, of exactly "
            f"{channels} channel{'s' * (channels > 1)}"
        )
    return lifted


def _refuse(name: str, what: str, bad: Tensor, advice: str) -> None:
    if bad.any():
        raise DataError(
            f"{name} is {what} at {int(bad.sum())} point(s), first at "
            f"{bad.nonzero()[0].tolist()} (b, c, x, y): {advice}"
        )
