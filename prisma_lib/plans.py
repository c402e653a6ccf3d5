"""Plans: YAML files that turn a notebook into a set of runs.

A plan has the keys `notebook, base, grid, zip, exclude, scales, resources`, or only
`include`, a list of other plans; one for training alone needs no notebook. The values
of a run are merged in the order base < `scales/S.yaml` beside the plan < the plan's own
`scales.S` < zip and grid. Of a scale file only the keys that the notebook declares are
taken; the plan's own keys must all be declared. Everything is checked before a run.
"""

import fnmatch
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from prisma_lib import pairing, runs, schema, strictyaml, values
from prisma_lib.errors import ConfigError, RunDirError, unknown_name
from prisma_lib.results import SCALES as SCALES
from prisma_lib.strictyaml import Document

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
        resources: What the plan says that a run needs: CPU `threads`, `gpus`, and
            `cell_minutes`, the most that one cell may take.
    """

    plan: str
    name: str
    notebook: Path
    scale: str
    parameters: Values
    resources: Values = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """A name that no run of another plan has."""
        return f"{self.plan}/{self.name}"

    def folder(self, out: Path) -> Path:
        """Returns where the run lives.

        Args:
            out: Folder of all outputs.

        Raises:
            RunDirError: When a link leads out of `out`.
        """
        folder = out / self.plan / self.name
        if not folder.resolve().is_relative_to(out.resolve()):
            raise RunDirError(
                f"{folder} leads to {folder.resolve()}, out of {out}: remove the link, "
                "or name the folder with --out"
            )
        return folder


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
    if "include" in plan.content:
        return [run for part in included(plan) for run in cells(part, scale)]
    found = list(merged(plan, scale))
    if not 1 <= len(found) <= schema.MOST_RUNS:
        raise ConfigError(
            f"{path} asks for {len(found)} runs: 1 to {schema.MOST_RUNS} can run"
        )
    if len({runs.digest(cell.parameters) for cell in found}) < len(found):
        raise ConfigError(f"{path} asks for the same run twice: drop repeated values")
    return found


def read(path: Path) -> Document:
    """Reads a plan and refuses unknown keys and values of a wrong kind.

    Raises:
        ConfigError: When it is missing or no such plan, or its name cannot be used.
    """
    if not SLUG.fullmatch(path.stem):
        raise ConfigError(
            f"{path.name!r}: name a plan with at most 60 letters, digits, - and _"
        )
    plan = strictyaml.read(path)
    schema.check(plan)
    return plan


def with_notebooks(folder: Path) -> list[Path]:
    """Lists the plans of a folder that run notebooks; others only train."""
    every = sorted(folder.glob("*.yaml"))
    wanted = {"notebook", "include"}
    return [path for path in every if wanted & read(path).content.keys()]


def chosen(cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """Selects runs by their names.

    Args:
        cells: Runs of a plan.
        patterns: Names, or patterns such as `*sparse*`; all runs when there are none.

    Raises:
        ConfigError: When a pattern fits no run.
    """
    if not patterns:
        return list(cells)
    found: set[str] = set()
    for pattern in patterns:
        fitting = [
            cell
            for cell in cells
            for name in (cell.name, cell.full_name)
            if fnmatch.fnmatchcase(name, pattern)
        ]
        if not fitting:
            names = ", ".join(cell.name for cell in cells[:5])
            raise ConfigError(
                f"--only {pattern!r} fits none of {len(cells)} runs, such as {names}: "
                "give a name or a pattern in quotes, such as '*sparse*'"
            )
        found |= {cell.full_name for cell in fitting}
    return [cell for cell in cells if cell.full_name in found]


def base_of(plan: Document, scale: str, known: Collection[str]) -> Values:
    """Merges what a plan says at a scale, without its grid.

    Args:
        plan: The plan.
        scale: Name of the scale.
        known: Names that the reader knows: others are left out of the scale file.

    Returns:
        Values of base < the scale file < the plan's own values for the scale.

    Raises:
        ConfigError: When the scale cannot be used.
    """
    sizes = scale_values(plan.path.parent / "scales", scale)
    return {
        **plan.content.get("base", {}),
        **{key: value for key, value in sizes.items() if key in known},
        **plan.content.get("scales", {}).get(scale, {}),
    }


def read_training(path: Path | str, scale: str) -> Values:
    """Returns the training settings of a plan at a scale; see `base_of`.

    Raises:
        ConfigError: When the plan or the scale cannot be used.
    """
    return _training(read(Path(path)), scale)


def _training(plan: Document, scale: str) -> Values:
    from prisma_lib.training import TrainConfig

    return base_of(plan, scale, [entry.name for entry in fields(TrainConfig)])


def read_trainings(path: Path | str, scale: str) -> dict[str, Values]:
    """Returns the settings of every training of a plan, by name.

    Args:
        path: The plan; `zip` and `grid` make several trainings of it.
        scale: Name of the scale.

    Raises:
        ConfigError: When the plan or the scale cannot be used.
    """
    plan = read(Path(path))
    common = _training(plan, scale)
    own = common.get("name", plan.path.stem)
    found: dict[str, Values] = {}
    for varied in variations(plan):
        name = str(varied.get("name") or "-".join(label(varied)) or own)
        if not SLUG.fullmatch(name) or name in found:
            raise ConfigError(
                f"{path}: a training cannot be named {name!r}, or two are: give each a "
                "`name` of its own, of at most 60 letters, digits, - and _"
            )
        found[name] = {**common, **varied}
    return found


def scale_values(folder: Path, scale: str) -> Values:
    """Reads the sizes of a scale.

    Raises:
        ConfigError: When there is no such scale, or its file cannot be read.
    """
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    return strictyaml.read(folder / f"{scale}.yaml").content


def included(plan: Document) -> list[Path]:
    """Lists the plans that a plan includes; an included plan includes no other.

    Raises:
        ConfigError: When they are none, named twice, elsewhere, or include others.
    """
    folder, names = plan.path.parent, [str(name) for name in plan.content["include"]]
    parts = [folder / f"{name.removesuffix('.yaml')}.yaml" for name in names]
    if not parts or len({*parts}) < len(parts):
        raise ConfigError(f"{plan.place('include')}: name plans, each of them once")
    for position, part in enumerate(parts):
        if not SLUG.fullmatch(part.stem) or part.parent != folder:
            bad = f"{plan.place('include', position)}={names[position]!r}"
            raise ConfigError(f"{bad}: include plans of the same folder, by name")
        if "include" in read(part).content:
            raise ConfigError(
                f"{plan.place('include', position)}: {part} includes others: name them"
            )
    return parts


def merged(plan: Document, scale: str) -> Iterator[Cell]:
    """Yields the runs of a plan without includes, each with all its values.

    Raises:
        ConfigError: When it names no notebook, or values that this does not take, or
            one that does not take what a sweep sets.
    """
    path, name = plan.path, plan.content.get("notebook", "")
    if not SLUG.fullmatch(name):
        raise ConfigError(
            f"{path}: give `notebook` a name such as 20_darcy, no path; a plan without "
            "one is for python -m prisma_lib.train or prisma_lib.screen"
        )
    notebook = path.parent.parent / "notebooks" / f"{name}.py"
    declared = pairing.parameters_of(notebook)
    schema.check_values(plan, declared)
    if missing := [each for each in schema.SET_BY_THE_SWEEP if each not in declared]:
        raise ConfigError(
            f"{notebook} has no parameter {', '.join(missing)}: a sweep sets it; "
            "declare it as other notebooks do"
        )
    common = base_of(plan, scale, declared)
    values.check(common, declared)
    resources = plan.content.get("resources", {})
    for varied in variations(plan):
        parameters = values.settled({**common, **varied, "scale": scale}, declared)
        mark = runs.digest([notebook.stem, parameters])[:8]
        run = "-".join([scale, *label(varied), mark])
        yield Cell(path.stem, run, notebook, scale, parameters, resources)


def variations(plan: Document) -> Iterator[Values]:
    """Yields what differs from run to run: zip times grid, less what is excluded."""
    grid, together = plan.content.get("grid", {}), plan.content.get("zip", {})
    excluded = plan.content.get("exclude", [])
    steps: list[Any] = list(zip(*together.values(), strict=True)) if together else [()]
    for step, *choice in itertools.product(steps, *grid.values()):
        varied = dict(zip([*together, *grid], [*step, *choice], strict=True))
        if not any(item.items() <= varied.items() for item in excluded):
            yield varied


def label(varied: Mapping[str, object]) -> Iterator[str]:
    """Yields a readable piece of a run's name from what varies, if anything does."""
    text = "-".join(str(value) for value in varied.values())
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:40]
    if slug:
        yield slug
