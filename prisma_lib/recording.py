"""The rows of finished runs, gathered into one CSV a plan.

Only the sweep itself writes them, as runs end; rows that a killed sweep did not write,
or that belong to an older state of a run, are replaced by the next call.
"""

from collections.abc import Sequence
from pathlib import Path

from prisma_lib import execution, plans, results, runs
from prisma_lib.checks import check_names
from prisma_lib.errors import PrismaError

Line = dict[str, str]


def table(cell: plans.Cell, out: Path) -> Path:
    """Returns the file for the rows of a run.

    Smoke rows mean nothing: they stay beside their runs, out of the record.
    """
    folder = cell.plan if cell.scale == "smoke" else "results"
    return out / folder / f"{cell.plan}.csv"


def record(ended: Sequence[tuple[plans.Cell, runs.Run]], out: Path) -> list[runs.Run]:
    """Writes the rows of runs that are done, unless they are in the file.

    Args:
        ended: Runs and their verdicts.
        out: Folder of all outputs.

    Returns:
        The verdicts; failed for a run whose rows cannot be used.

    Raises:
        RunDirError: When a file cannot be written.
    """
    verdicts = []
    tables: dict[Path, dict[str, list[results.Row]]] = {}
    for cell, run in ended:
        folder = cell.folder(out)
        if run.status == "done":
            try:
                tables.setdefault(table(cell, out), {})[cell.name] = rows(
                    cell, run, out
                )
            except PrismaError as error:
                with execution.writable(folder):
                    run = run.ended("failed", str(error)).save(folder)
        verdicts.append(run)
    for path, of_runs in tables.items():
        with execution.writable(path.parent):
            update(path, of_runs)
    return verdicts


def rows(cell: plans.Cell, run: runs.Run, out: Path) -> list[results.Row]:
    """Returns the rows of a run with their origin.

    Raises:
        ConfigError: When a row has a column that results do not have.
        DataError: When the run left no list of rows.
    """
    origin = {"sweep": cell.plan, "run": cell.name, "scale": cell.scale}
    found = [
        {**row, **origin, "commit": run.commit} for row in runs.rows(cell.folder(out))
    ]
    for row in found:
        check_names("result column", row, results.COLUMNS)
    return found


def update(path: Path, of_runs: dict[str, list[results.Row]]) -> None:
    """Writes the rows of runs into a file that has others for them, or none."""
    there: dict[str, list[Line]] = {}
    for row in results.read(path):
        there.setdefault(row["run"], []).append(as_text(row))
    new = [
        row
        for name, found in of_runs.items()
        if [as_text(row) for row in found] != there.get(name, [])
        for row in found
    ]
    if new:
        results.append(path, new)


def as_text(row: results.Row) -> Line:
    """Returns a row as a file of results holds it."""
    given = {column: row.get(column) for column in results.COLUMNS}
    return {name: "" if value is None else str(value) for name, value in given.items()}
