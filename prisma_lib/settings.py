"""Settings as dataclasses of plain values, such as those of a plan or a JSON file."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from prisma_lib.checks import check_names
from prisma_lib.errors import ConfigError

T = TypeVar("T")

# What to call the values of a type, one and several.
KINDS = {
    bool: ("true or false", "true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a finite number", "finite numbers"),
    str: ("text", "texts"),
}


def built(cls: type[T], kind: str, settings: Mapping[str, Any]) -> T:
    """Builds a dataclass from plain values.

    Args:
        cls: The dataclass; its sequences are tuples.
        kind: What to call its fields in the message.
        settings: Values by name; sequences are lists or tuples.

    Raises:
        ConfigError: When a name is unknown, or a value impossible or of another type.
    """
    known = [entry.name for entry in fields(cls)]  # type: ignore[arg-type]
    check_names(kind, settings, known)
    check_types(cls, settings)
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    return cls(**values)


def check_types(cls: type, values: Mapping[str, object]) -> None:
    """Refuses values of another type than a dataclass declares.

    Args:
        cls: The dataclass.
        values: Values of fields of it, by name; for a tuple also a list.

    Raises:
        ConfigError: When one does not fit: an int fits a float, a bool is no number.
    """
    hints, defaults = get_type_hints(cls), {f.name: f.default for f in fields(cls)}
    for name, value in values.items():
        if not fits(value, hints[name]):
            default = defaults[name]
            shown = [*default] if isinstance(default, tuple) else default
            known = default not in (MISSING, None, "")
            example = f", such as {name}={shown!r}" if known else ""
            raise ConfigError(
                f"{name}={value!r}: give {described(hints[name])}{example}"
            )


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type; of types not known here all are."""
    if isinstance(hint, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return isinstance(value, list | tuple) and all(fits(v, item) for v in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)  # type: ignore[arg-type]
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def described(hint: Any) -> str:
    """Says what to give for an annotated type."""
    if isinstance(hint, UnionType):
        options = [o for o in get_args(hint) if o is not type(None)]
        return " or ".join(map(described, options))
    if get_origin(hint) is tuple:
        return f"a list of {KINDS[get_args(hint)[0]][1]}"
    if get_origin(hint) is dict:
        return "a mapping such as {NAME: VALUE}"
    return KINDS[hint][0] if hint in KINDS else f"a {hint.__name__}"
