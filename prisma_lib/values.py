"""Which values a notebook's parameters may take.

Papermill only warns of a name that the notebook lacks and passes any value on. Here a
wrong name or type is an error before a kernel starts: names must be declared in the
parameters cell, and values are plain JSON values of the declared type. One rule for
text that another reader would take for a number or a boolean (`010`, `1_000`, `0x10`,
`no`): only what is declared as text takes it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.pairing import Parameter

PLAIN: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "list": list,
    "dict": dict,
    "None": type(None),
}
NESTED = re.compile(r"list\[(?P<item>.+)\]|dict\[str, (?P<value>.+)\]")
DISGUISED = re.compile(
    r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(e[-+]?\d+)?|[-+]?0[xob][\da-f_]+"
    r"|[-+]?\.?(inf|infinity|nan)|true|false|yes|no|on|off|null",
    re.IGNORECASE,
)


def check(given: Mapping[str, object], declared: Mapping[str, Parameter]) -> None:
    """Refuses parameters that a notebook does not have or that have a wrong type.

    Args:
        given: Values by name.
        declared: The notebook's parameters.

    Raises:
        ConfigError: With all faults at once, each with its key path.
    """
    if found := list(faults(given, declared)):
        raise ConfigError("; ".join(found))


def faults(
    given: Mapping[str, object], declared: Mapping[str, Parameter]
) -> Iterator[str]:
    """Lists what is wrong with values for a notebook's parameters.

    Args:
        given: Values by name.
        declared: The notebook's parameters.
    """
    for name, value in given.items():
        if name not in declared:
            yield str(unknown_name("parameter", name, declared))
        elif bad := list(unplain(name, value)):
            yield from bad
        elif not fits(value, declared[name].annotation):
            yield (
                f"{name}={value!r} is a {type(value).__name__}, but the notebook "
                f"declares `{name}: {declared[name]}`"
            )


def settled(
    given: Mapping[str, Any], declared: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Writes a whole number as a float where one is declared.

    Otherwise `rate: 1` and `rate: 1.0` would be two runs.

    Args:
        given: Values that fit.
        declared: The notebook's parameters.
    """

    def settle(value: Any, kind: str) -> Any:
        if kind == "list[float]":
            return [float(item) for item in value]
        return float(value) if kind == "float" else value

    return {k: settle(value, declared[k].annotation) for k, value in given.items()}


def unplain(path: str, value: object) -> Iterator[str]:
    """Lists the parts of a value that strict JSON cannot hold, with their key path."""
    match value:
        case list():
            for position, item in enumerate(value):
                yield from unplain(f"{path}[{position}]", item)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield f"{path}: the key {key!r} is not text"
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
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        yield f"{path} holds a NUL or half a character: remove it"


def fits(value: object, annotation: str) -> bool:
    """Whether a value has a type; an int fits a float, a bool is no number.

    Args:
        value: The value.
        annotation: The type as the parameters cell writes it.

    Raises:
        ConfigError: When the type is none of those that a plan can fill.
    """
    if "|" in annotation:
        return any(fits(value, option.strip()) for option in annotation.split("|"))
    if found := NESTED.fullmatch(annotation):
        if found["item"]:
            return isinstance(value, list) and all(
                fits(item, found["item"]) for item in value
            )
        return isinstance(value, dict) and all(
            fits(item, found["value"]) for item in value.values()
        )
    if annotation not in PLAIN:
        raise ConfigError(
            f"a parameter is declared as {annotation}: declare {', '.join(PLAIN)}, "
            "list[...], dict[str, ...], or several with | between"
        )
    kind = PLAIN[annotation]
    if kind in (int, float):
        return type(value) is int or type(value) is kind
    return isinstance(value, kind) and (kind is str or not disguised(value))


def disguised(value: object) -> bool:
    """Whether a value holds text that is meant as a number or a boolean."""
    if isinstance(value, dict | list):
        return any(map(disguised, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and DISGUISED.fullmatch(value) is not None
