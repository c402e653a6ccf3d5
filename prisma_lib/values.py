"""Which values a notebook's parameters may take.

Papermill only warns of a name that the notebook lacks and passes any value on. Here a
wrong name or type is an error before a kernel starts: names must be declared in the
parameters cell, and values are plain JSON values of the declared type.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.pairing import Parameter

PLAIN: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "list": list,
    "dict": dict,
    "None": None,
}


def check(given: Mapping[str, object], declared: Mapping[str, Parameter]) -> None:
    """Refuses parameters that a notebook does not have or that have a wrong type.

    Args:
        given: Values by name.
        declared: The notebook's parameters.

    Raises:
        ConfigError: With all faults at once, each with its key path.
    """
    faults: list[str] = []
    for name, value in given.items():
        if name not in declared:
            faults.append(str(unknown_name("parameter", name, declared)))
            continue
        faults += misfits(name, value, declared[name])
    if faults:
        raise ConfigError("; ".join(faults))


def misfits(name: str, value: object, parameter: Parameter) -> Iterator[str]:
    """Lists what is wrong with one value."""
    bad = list(unplain(name, value))
    yield from bad
    if bad:
        return
    kind = parsed(parameter.annotation)
    if not fits(value, kind):
        yield (
            f"{name}={value!r} is a {type(value).__name__}, but the notebook declares "
            f"`{name}: {parameter}`"
        )


def unplain(path: str, value: object) -> Iterator[str]:
    """Lists the parts of a value that strict JSON cannot hold, with their key path."""
    match value:
        case list():
            for position, item in enumerate(value):
                yield from unplain(f"{path}[{position}]", item)
        case dict():
            yield from (
                f"{path}: the key {key!r} is not text"
                for key in value
                if not isinstance(key, str)
            )
            for key, item in value.items():
                yield from unplain(f"{path}.{key}", item)
        case _:
            yield from unplain_scalar(path, value)


def unplain_scalar(path: str, value: object) -> Iterator[str]:
    """Says why one value is no number, text or boolean that JSON can hold."""
    if value is not None and type(value) not in (bool, int, float, str):
        yield (
            f"{path}={value!r} is a {type(value).__name__}: give true, false, a "
            "number, text, a list or a mapping"
        )
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path}={value!r} is not finite: give a number"
    elif isinstance(value, str) and "\0" in value:
        yield f"{path} holds a NUL character: remove it"


def parsed(annotation: str) -> Any:
    """Turns the text of an annotation into a type; an unknown one allows anything."""
    options = [part.strip() for part in annotation.split("|")]
    if len(options) > 1:
        return tuple(parsed(option) for option in options)
    name, _, item = annotation.removesuffix("]").partition("[")
    if name == "list" and item:
        return list[parsed(item)]  # type: ignore[misc]
    return PLAIN.get(name, object)


def fits(value: object, kind: Any) -> bool:
    """Whether a value has a type; an int fits a float, a bool is no number."""
    if isinstance(kind, tuple):
        return any(fits(value, option) for option in kind)
    if kind is None:
        return value is None
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        return isinstance(value, list) and all(fits(v, item) for v in value)
    if kind is float:
        return type(value) in (int, float)
    if kind is int:
        return type(value) is int
    if kind is list:
        return isinstance(value, list) and not any(map(numeric_text, value))
    return isinstance(value, kind)


def numeric_text(value: object) -> bool:
    """Whether a value is text that was surely meant as a number."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True
