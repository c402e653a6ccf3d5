"""Plans: YAML files that turn a notebook into a set of runs.

A plan has the keys `notebook, base, grid, zip, exclude, scales, resources`, or only
`include`, a list of other plans; one for training alone needs no notebook. The values
of a run are merged in the order base < `scales/S.yaml` beside the plan < the plan's own
`scales.S` < zip and grid. Of a scale file only the keys that the notebook declares are
taken; the plan's own keys must all be declared. Everything is checked before a run.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from prisma_lib import pairing, runs, strictyaml, values
from prisma_lib.errors import ConfigError, unknown_name

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
RESOURCES = ("cell_minutes", "cpus", "gpus")
SET_BY_THE_SWEEP = ("out", "scale", "interactive")
MOST_RUNS = 1000
SCALES = ("smoke", "cpu", "gpu", "paper")
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")

Values = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One run that a plan asks for.

    Args:
        plan: Name of the plan.
        name: Name of the run, unique in the plan.
        notebook: The notebook's `.py`.
        scale: Name of the scale.
        parameters: Values to inject, the scale among them.
        resources: What the run needs: `cell_minutes`, `cpus`, `gpus`.
    """

    plan: str
    name: str
    notebook: Path
    scale: str
    parameters: Values
    resources: Values = field(default_factory=dict)


def cells(path: Path, scale: str) -> list[Cell]:
    """Lists the runs of a plan at a scale.

    Args:
        path: The plan.
        scale: Name of a file in `scales/` beside the plan.

    Returns:
        The runs in grid order; those of included plans one after the other.

    Raises:
        ConfigError: When the plan, the scale or a value in them cannot be used.
    """
    plan = read(path)
    if "include" in plan:
        return [run for part in included(path, plan) for run in cells(part, scale)]
    found = list(merged(path, plan, scale))
    if not 1 <= len(found) <= MOST_RUNS:
        raise ConfigError(
            f"{path} asks for {len(found)} runs: 1 to {MOST_RUNS} can run"
        )
    if len({cell.name for cell in found}) < len(found):
        raise ConfigError(f"{path} asks for the same run twice: drop repeated values")
    return found


def read(path: Path) -> Values:
    """Reads a plan and refuses unknown keys and values of a wrong kind."""
    plan = strictyaml.read(path)
    if not SLUG.fullmatch(path.stem):
        raise ConfigError(f"{path.name}: name a plan with letters, digits and _ only")
    for key, value in plan.items():
        if key not in KEYS:
            raise unknown_name(f"key ({place(path, key)})", key, KEYS)
        if not isinstance(value, KEYS[key]):
            raise ConfigError(
                f"{place(path, key)}: {key} is a {type(value).__name__}, a "
                f"{KEYS[key].__name__} is needed"
            )
    if "include" in plan and len(plan) > 1:
        raise ConfigError(f"{path}: beside `include` there can be no other key")
    return plan


def with_notebooks(folder: Path) -> list[Path]:
    """Lists the plans of a folder that run notebooks; others only train."""
    every = sorted(folder.glob("*.yaml"))
    return [path for path in every if {"notebook", "include"} & read(path).keys()]


def read_base(path: Path | str, scale: str, known: Collection[str]) -> Values:
    """Merges what a plan says at a scale, without its grid.

    Args:
        path: The plan.
        scale: Name of the scale.
        known: Names that the reader knows: others are left out of the scale file.

    Returns:
        Values of base < the scale file < the plan's own values for the scale.

    Raises:
        ConfigError: When the plan or the scale cannot be used.
    """
    path = Path(path)
    plan = read(path)
    sizes = scale_values(path.parent / "scales", scale)
    fitting = {key: value for key, value in sizes.items() if key in known}
    return {**plan.get("base", {}), **fitting, **plan.get("scales", {}).get(scale, {})}


def read_training(path: Path | str, scale: str) -> Values:
    """Returns the training settings of a plan at a scale; see `read_base`."""
    from prisma_lib.training import TrainConfig

    return read_base(path, scale, [entry.name for entry in fields(TrainConfig)])


def read_trainings(path: Path | str, scale: str) -> dict[str, Values]:
    """Returns the settings of every training of a plan, by name.

    Args:
        path: The plan; `zip` and `grid` make several trainings of it.
        scale: Name of the scale.

    Raises:
        ConfigError: When the plan or the scale cannot be used.
    """
    path = Path(path)
    common = read_training(path, scale)
    own = common.get("name", path.stem)
    return {
        varied.get("name") or "-".join(label(varied)) or own: {**common, **varied}
        for varied in variations(path, read(path))
    }


def place(path: Path, key: str) -> str:
    """Says in which line of a file a key stands."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if re.match(rf"""[\s{{,-]*["']?{re.escape(key)}["']?\s*:""", line):
            return f"{path}, line {number}"
    return str(path)


def scale_values(folder: Path, scale: str) -> Values:
    """Reads the sizes of a scale."""
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    return strictyaml.read(folder / f"{scale}.yaml")


def included(path: Path, plan: Values) -> Iterator[Path]:
    """Yields the plans that a plan includes; an included plan includes no other."""
    for name in plan["include"]:
        stem = str(name).removesuffix(".yaml")
        part = path.parent / f"{stem}.yaml"
        if not SLUG.fullmatch(stem) or "include" in read(part):
            raise ConfigError(
                f"{path}: {name!r} cannot be included; name plans of the same folder "
                "that include no others"
            )
        yield part


def merged(path: Path, plan: Values, scale: str) -> Iterator[Cell]:
    """Yields the runs of a plan without includes, each with all its values."""
    if not SLUG.fullmatch(plan.get("notebook", "")):
        raise ConfigError(
            f"{path}: give `notebook` a name such as 20_darcy, no path; a plan without "
            "one is for python -m prisma_lib.train or prisma_lib.screen"
        )
    notebook = path.parent.parent / "notebooks" / f"{plan['notebook']}.py"
    declared = pairing.parameters(pairing.read(notebook), notebook.name)
    check_sections(path, plan, declared)
    resources = checked_resources(path, plan.get("resources", {}))
    common = read_base(path, scale, declared)
    for varied in variations(path, plan):
        parameters = {**common, **varied, "scale": scale}
        values.check(parameters, declared)
        mark = runs.digest([notebook.stem, parameters])[:8]
        name = "-".join([scale, *label(varied), mark])
        yield Cell(path.stem, name, notebook, scale, parameters, resources)


def check_sections(
    path: Path, plan: Values, declared: Mapping[str, pairing.Parameter]
) -> None:
    """Checks the values of `base` and of every scale in a plan."""
    for name, section in {
        "base": plan.get("base", {}),
        **plan.get("scales", {}),
    }.items():
        if name not in ("base", *SCALES):
            raise unknown_name(f"scale ({place(path, name)})", name, SCALES)
        if not isinstance(section, dict):
            raise ConfigError(f"{place(path, name)}: {name} must be a mapping")
        refuse_fixed(path, section)
        try:
            values.check(section, declared)
        except ConfigError as error:
            raise ConfigError(f"{path}: {name}: {error}") from error


def refuse_fixed(path: Path, names: Mapping[str, object]) -> None:
    """Refuses the parameters that every sweep sets itself."""
    for name in SET_BY_THE_SWEEP:
        if name in names:
            raise ConfigError(f"{place(path, name)}: the sweep sets {name}: remove it")


def checked_resources(path: Path, resources: Values) -> Values:
    """Refuses resources that are unknown or not positive."""
    for name, value in resources.items():
        if name not in RESOURCES:
            raise unknown_name(f"resource ({place(path, name)})", name, RESOURCES)
        if type(value) not in (int, float) or not value >= 0:
            raise ConfigError(f"{place(path, name)}: {name}={value!r}: give a number")
    return resources


def variations(path: Path, plan: Values) -> Iterator[Values]:
    """Yields what differs from run to run: zip times grid, less what is excluded."""
    grid, together = plan.get("grid", {}), plan.get("zip", {})
    excluded = plan.get("exclude", [])
    for name, options in [*grid.items(), *together.items()]:
        if not isinstance(options, list) or not options:
            raise ConfigError(f"{place(path, name)}: give {name} a list of values")
    if (
        len({len(options) for options in together.values()}) > 1
        or grid.keys() & together
    ):
        raise ConfigError(f"{path}: zip needs lists of one length, of keys not in grid")
    refuse_fixed(path, grid | together)
    for item in excluded:
        if not isinstance(item, dict) or not item or item.keys() - (grid | together):
            raise ConfigError(f"{path}: exclude: {item!r}: name keys of grid or zip")
    steps: list[Any] = list(zip(*together.values(), strict=True)) if together else [()]
    for step, *choice in itertools.product(steps, *grid.values()):
        varied = dict(zip([*together, *grid], [*step, *choice], strict=True))
        if not any(item.items() <= varied.items() for item in excluded):
            yield varied


def label(varied: Values) -> Iterator[str]:
    """Yields a readable piece of a run's name from what varies, if anything does."""
    text = "-".join(str(value) for value in varied.values())
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:40]
    if slug:
        yield slug
