"""Checks of the fields that an equation is given."""

from collections.abc import Sequence

from torch import Tensor

from prisma_lib.errors import DataError, ShapeError


def check_fields(
    name: str,
    shape: Sequence[int],
    channels: Sequence[int],
    a: Tensor | None,
    u: Tensor | None,
) -> None:
    """Refuses what are not fields `(b, c, x, y)` on a grid; see `PDE.check`."""
    given = zip("au", (a, u), channels, strict=True)
    known = [(letter, field, c) for letter, field, c in given if field is not None]
    for letter, field, c in known:
        # A solution would be cut to whole numbers, silently.
        if not isinstance(field, Tensor) or not field.is_floating_point():
            kind = getattr(field, "dtype", type(field).__name__)
            raise DataError(
                f"{letter} of {name} is of {kind}: give a floating-point tensor, such "
                f"as torch.as_tensor({letter}).float()"
            )
        num = len(field) if field.ndim else 0
        if num < 1 or tuple(field.shape[1:]) != (c, *shape):
            raise ShapeError(
                f"{letter} of shape {tuple(field.shape)} does not fit {name}: "
                f"it needs (b, {c}, {shape[0]}, {shape[1]}) "
                "with b at least 1; build the PDE with the size of the field, or "
                "give the field its channels"
            )
    nums = [len(field) for _, field, _ in known]
    if len(set(nums)) > 1:
        raise ShapeError(
            f"{name} was given fields of {nums} samples: give one a for each u"
        )


def check_finite(name: str, field: Tensor) -> None:
    """Refuses fields with gaps; see `PDE.check_finite`."""
    if not field.isfinite().all():
        where = field.isfinite().logical_not().nonzero()[0].tolist()
        raise DataError(
            f"a field of {name} is not finite at {where} (b, c, x, y): give "
            "numbers; a measured field with gaps needs a solver of inverse problems"
        )
