"""What may stand in a plan: all faults are found at once, each with its line."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from prisma_lib import values
from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.pairing import Parameter
from prisma_lib.results import SCALES
from prisma_lib.strictyaml import Document

KEYS: dict[str, type] = {
    "notebook": str,
    "base": dict,
    "grid": dict,
    "zip": dict,
    "exclude": list,
    "scales": dict,
    "resources": dict,
    "include": list,
}
KINDS: dict[type, str] = {str: "text", dict: "a mapping", list: "a list"}
SET_BY_THE_SWEEP = ("out", "scale", "interactive")
# The smallest value of each resource that is counted.
COUNTED = {"threads": 1, "gpus": 0}
RESOURCES = (*COUNTED, "cell_minutes")
MOST_RUNS = 1000

Declared = Mapping[str, Parameter]


def refuse(faults: list[str]) -> None:
    """Raises a `ConfigError` that lists all faults, if there are any."""
    if faults:
        raise ConfigError("\n".join(faults))


def check(plan: Document) -> None:
    """Refuses a plan with unknown keys, values of a wrong kind or no runs.

    Args:
        plan: The plan.

    Raises:
        ConfigError: With all faults at once.
    """
    found = list(misplaced(plan))
    refuse(found)
    refuse([*resource_faults(plan), *variation_faults(plan)])


def check_values(plan: Document, declared: Declared) -> None:
    """Refuses values that the plan's notebook cannot take.

    Args:
        plan: A plan that passed `check`.
        declared: Parameters of the notebook.

    Raises:
        ConfigError: With all faults at once.
    """
    refuse(list(value_faults(plan, declared)))


def misplaced(plan: Document) -> Iterator[str]:
    """Lists keys that a plan does not have and values of a wrong kind."""
    content = plan.content
    for key, value in content.items():
        if key not in KEYS:
            yield f"{plan.place(key)}: {unknown_name('key', key, KEYS)}"
        elif not isinstance(value, KEYS[key]):
            yield (f"{plan.place(key)} is {named(value)}, {KINDS[KEYS[key]]} is needed")
    if "include" in content and len(content) > 1:
        yield f"{plan.place('include')}: beside it there can be no other key"
    scales = content.get("scales")
    for name, value in scales.items() if isinstance(scales, dict) else ():
        if name not in SCALES:
            unknown = unknown_name("scale", name, SCALES)
            yield f"{plan.place('scales', name)}: {unknown}"
        elif not isinstance(value, dict):
            yield f"{plan.place('scales', name)} is {named(value)}: give a mapping"


def named(value: object) -> str:
    """Names the kind of a value as a reader of YAML does."""
    if value is None:
        return "empty"
    return KINDS.get(type(value), f"the {type(value).__name__} {value!r}")


def resource_faults(plan: Document) -> Iterator[str]:
    """Lists resources that are unknown or out of range."""
    for name, value in plan.content.get("resources", {}).items():
        place = plan.place("resources", name)
        if name not in RESOURCES:
            yield f"{place}: {unknown_name('resource', name, RESOURCES)}"
        elif name in COUNTED:
            if type(value) is not int or value < COUNTED[name]:
                yield f"{place}={value!r}: give a whole number from {COUNTED[name]} up"
        elif type(value) not in (int, float) or not 0 < value < math.inf:
            yield f"{place}={value!r}: give a number of minutes above 0"


def variation_faults(plan: Document) -> Iterator[str]:
    """Lists what is wrong with grid, zip and exclude."""
    content = plan.content
    grid, together = content.get("grid", {}), content.get("zip", {})
    lists = {("grid", name): options for name, options in grid.items()}
    lists |= {("zip", name): options for name, options in together.items()}
    bad = [keys for keys, value in lists.items() if not isinstance(value, list)]
    bad += [keys for keys, value in lists.items() if value == []]
    if bad:
        yield from (f"{plan.place(*keys)}: give a list of values" for keys in bad)
        return
    yield from (
        f"{plan.place('zip', name)}: it stands in grid, too: drop one"
        for name in together.keys() & grid.keys()
    )
    lengths = {name: len(options) for name, options in together.items()}
    if len(set(lengths.values())) > 1:
        yield f"{plan.place('zip')} needs lists of one length, found {lengths}"
    points = max(lengths.values(), default=1) * math.prod(map(len, grid.values()))
    if points > MOST_RUNS:
        yield f"{plan.path} asks for {points} runs: 1 to {MOST_RUNS} can run"
    yield from excluded_faults(plan, grid | together)


def excluded_faults(plan: Document, varied: Mapping[str, Any]) -> Iterator[str]:
    """Lists items of `exclude` that can never match a run."""
    for position, item in enumerate(plan.content.get("exclude", [])):
        place = plan.place("exclude", position)
        if not isinstance(item, dict) or not item:
            yield f"{place}={item!r}: give a mapping such as {{n: 1}}"
            continue
        for name, value in item.items():
            if name not in varied:
                yield f"{place}: {unknown_name('key of grid or zip', name, varied)}"
            elif value not in varied[name]:
                yield f"{place}: no run has {name}={value!r}, but {varied[name]}"


def value_faults(plan: Document, declared: Declared) -> Iterator[str]:
    """Lists the values that a notebook cannot take, of every section."""
    content = plan.content
    for name, value in content.get("base", {}).items():
        yield from faults_at(plan, ("base", name), value, declared)
    for scale, section in content.get("scales", {}).items():
        for name, value in section.items():
            yield from faults_at(plan, ("scales", scale, name), value, declared)
    for kind in ("grid", "zip"):
        for name, options in content.get(kind, {}).items():
            if name not in declared or name in SET_BY_THE_SWEEP:
                yield from faults_at(plan, (kind, name), options[0], declared)
                continue
            for position, value in enumerate(options):
                yield from faults_at(plan, (kind, name, position), value, declared)


def faults_at(
    plan: Document, keys: tuple[str | int, ...], value: object, declared: Declared
) -> Iterator[str]:
    """Lists what is wrong with one value of a plan."""
    name = next(str(key) for key in reversed(keys) if isinstance(key, str))
    if name in SET_BY_THE_SWEEP:
        yield f"{plan.place(*keys)}: the sweep sets {name}: remove it"
        return
    for fault in values.faults({name: value}, declared):
        yield f"{plan.place(*keys)}: {fault}"
