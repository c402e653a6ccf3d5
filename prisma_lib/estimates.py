"""How long runs will take, judged by what is recorded: no guess without a record.

The best record of a run counts: its own `run.json`, that of other runs of the same
notebook at the same scale, the seconds per sample in the result rows of the same cells,
and at last the milliseconds of a network call in the bench, on the machine where those
were measured. What none of them knows is unknown.
"""

import functools
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from prisma_lib import pairing, results, runs
from prisma_lib.plans import Cell, scale_values


@dataclass(frozen=True)
class Estimate:
    """The time that one run will take.

    Args:
        seconds: Seconds, `None` when nothing is recorded.
        source: What they are judged by.
    """

    seconds: float | None
    source: str

    def __str__(self) -> str:
        """Writes the time as a person says it, with its source."""
        if self.seconds is None:
            return f"unknown: {self.source}"
        return f"{spoken(self.seconds)} by {self.source}"


@dataclass(frozen=True)
class Records:
    """All that is recorded about the time of runs.

    Args:
        runs: Verdicts of finished runs by plan and name of the run.
        rows: Result rows of all sweeps.
    """

    runs: Mapping[tuple[str, str], runs.Run]
    rows: Sequence[results.Row]


def records(out: Path) -> Records:
    """Reads every `run.json` and all result rows below a folder of outputs."""
    found = {}
    for path in sorted(out.glob("*/*/run.json")):
        run = runs.load(path.parent)
        if run is not None and run.status == "done":
            found[path.parent.parent.name, path.parent.name] = run
    tables = sorted((out / "results").glob("*.csv"))
    return Records(found, [row for table in tables for row in results.read(table)])


def estimate(cell: Cell, known: Records) -> Estimate:
    """Judges how long a run will take.

    Args:
        cell: The run.
        known: What is recorded.
    """
    if (cell.plan, cell.name) in known.runs:
        return Estimate(known.runs[cell.plan, cell.name].seconds, "its last run")
    alike = [
        run.seconds
        for (_, name), run in known.runs.items()
        if run.notebook == cell.notebook.stem and name.startswith(f"{cell.scale}-")
    ]
    if alike:
        what = f"the median of earlier runs ({len(alike)})"
        return Estimate(statistics.median(alike), what)
    return by_cells(cell, known.rows)


def by_cells(cell: Cell, rows: Sequence[results.Row]) -> Estimate:
    """Adds up the recorded seconds of the table cells that a run evaluates.

    A cell of a method that has rows in other cells only is one that it does not answer.

    Args:
        cell: A run of a notebook with the parameters `methods`, `directions`,
            `regimes`, `n` and `samples`.
        rows: Result rows.
    """
    asked = asked_for(cell)
    if not {"methods", "directions", "regimes", "n"} <= asked.keys():
        return Estimate(None, "no run of this notebook at this scale is recorded")
    total, sources = 0.0, set()
    mine = [r for r in rows if (r["sweep"], r["scale"]) == (cell.plan, cell.scale)]
    known = {row["method"].lower() for row in mine}
    for wanted in product(asked["methods"], asked["directions"], asked["regimes"]):
        found = recorded(asked, mine, *wanted)
        if found.seconds is None and wanted[0] == "prisma":
            found = benched(asked, rows)
        elif found.seconds is None and wanted[0] in known:
            continue
        if found.seconds is None:
            return Estimate(None, f"nothing is recorded for {', '.join(wanted)}")
        total += found.seconds
        sources.add(found.source)
    return Estimate(total, " and ".join(sorted(sources)))


def asked_for(cell: Cell) -> dict[str, Any]:
    """Returns all values of a run: the scale's, the notebook's defaults, the plan's."""
    sizes = scale_values(cell.notebook.parents[1] / "params" / "scales", cell.scale)
    return {**sizes, **defaults(cell.notebook), **cell.parameters}


@functools.cache
def defaults(notebook: Path) -> dict[str, object]:
    """Returns the default values of a notebook's parameters."""
    declared = pairing.parameters_of(notebook)
    return {name: parameter.default for name, parameter in declared.items()}


def recorded(
    asked: Mapping[str, Any],
    rows: Sequence[results.Row],
    method: str,
    direction: str,
    regime: str,
) -> Estimate:
    """Reads how long a method took in a table cell, from its last row there.

    Args:
        asked: All values of the run; more steps of PRISMA take longer in proportion,
            and only it draws several samples. Others answer as many problems as they
            did.
        rows: Result rows of the sweep at the same scale.
        method: Name of the method in any case.
        direction: Direction of the cell.
        regime: Regime of the cell.
    """
    for row in reversed(rows):
        seconds = results.number(row, "seconds_per_sample")
        found = row["direction"], row["regime"], row["method"].lower()
        if found == (direction, regime, method.lower()) and seconds is not None:
            if not method.startswith("prisma"):
                few = results.number(row, "n") or asked["n"]
                return Estimate(seconds * min(few, asked["n"]), "result rows")
            steps = results.number(row, "steps")
            longer = asked["steps"] / steps if steps and "steps" in asked else 1.0
            total = seconds * longer * asked["n"] * asked.get("samples", 1)
            return Estimate(total, "result rows")
    return Estimate(None, "no result row")


def benched(asked: Mapping[str, Any], rows: Sequence[results.Row]) -> Estimate:
    """Turns the bench's time of a network call into the seconds of a table cell.

    Args:
        asked: All values of a run, among them the scale's `preset` and `size`.
        rows: Result rows.
    """
    start = f"preset={asked.get('preset')};size={asked.get('size')};batch="
    for row in rows:
        kind = (row["sweep"], row["method"], row["metric"])
        setting = row["setting"]
        if kind != ("bench", "model", "ms") or not setting.endswith(";call"):
            continue
        if setting.startswith(start):
            batch = int(setting.removeprefix(start).removesuffix(";call"))
            calls = 2 * asked["steps"] - 1  # Heun's method: the last step has one
            seconds = float(row["value"]) / 1000 / batch * calls
            seconds *= asked["n"] * asked.get("samples", 1)
            return Estimate(seconds, f"the bench of {row['device']}")
    return Estimate(None, "no bench row")


def listing(cells: Sequence[Cell], out: Path) -> Iterator[str]:
    """Lists runs with their values and times, and at last how many and how long.

    Args:
        cells: The runs.
        out: Folder of all outputs.

    Yields:
        One line a run, then one for all.
    """
    known, total, unknown = records(out), 0.0, 0
    for cell in cells:
        found = estimate(cell, known)
        total += found.seconds or 0.0
        unknown += found.seconds is None
        yield f"{cell.full_name} {json.dumps(cell.parameters)} # {found}"
    number = f"{len(cells)} run{'s' * (len(cells) != 1)}"
    if unknown == len(cells):
        yield f"{number}, time unknown"
    else:
        rest = f", not counting {unknown} of unknown time" if unknown else ""
        yield f"{number}, {spoken(total)} one after the other{rest}"


def spoken(seconds: float) -> str:
    """Writes a time as a person says it."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
