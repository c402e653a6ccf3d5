"""Tables of errors as Markdown, for the README and for notebooks.

A dash stands where there is no number; where one was recorded that is none, a line
below the table says which and why.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prisma_lib import pdes, results
from prisma_lib.cells import REGIMES
from prisma_lib.tables import (
    DIRECTIONS,
    HIDDEN,
    Column,
    Entry,
    Paper,
    entries,
    grid_of,
)

NOTHING = "–"

Row = Mapping[str, Any]


def sheet(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 1) -> str:
    """Sets lines as a table.

    Args:
        head: Names of the columns.
        lines: Entries of each line.
        words: Number of columns, from the left, that hold words, not numbers.
    """
    rule = "---|" * words + "---:|" * (len(head) - words)
    rows = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines]
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}", *rows])


def benchmark(rows: Sequence[Row], paper: Paper) -> str:
    """Formats the rows of one equation.

    Args:
        rows: Result rows of one equation, and of the sweep `baselines`.
        paper: The paper's numbers.

    Returns:
        For each grid a table with a line per method and the cells as columns, errors in
        percent with their 95 % intervals; then the paper's line, and what ours were
        measured on.
    """
    every = entries([dict(row) for row in rows], paper)
    grids = dict.fromkeys(map(grid_of, every))
    return "\n\n".join(
        one_grid([entry for entry in every if grid_of(entry) == grid], paper)
        for grid in grids
    )


def one_grid(every: Sequence[Entry], paper: Paper) -> str:
    """Formats one equation on one grid."""
    asked = {(entry.direction, entry.regime) for entry in every}
    cells = [(d, r) for d in DIRECTIONS for r in REGIMES if (d, r) in asked]
    lines = []
    for name in dict.fromkeys(map(label, every)):
        mine = {(e.direction, e.regime): e for e in every if label(e) == name}
        times = [results.number(e.row, "seconds_per_sample") for e in mine.values()]
        known = sorted(time for time in times if time is not None)
        middle = f"{known[len(known) // 2]:.2g}" if known else NOTHING
        last = [*mine.values()][-1].row
        about = [middle, str(last["calls"]), str(last["n"])]
        lines.append([name, *(interval(mine.get(cell)) for cell in cells), *about])
    lines.append(published(paper, every[0].pde, cells))
    head = ["method", *(f"{d}, {r}" for d, r in cells), "s/sample", "calls", "n"]
    row = every[-1].row
    commits, devices = (
        "; ".join(dict.fromkeys(entry.row[key] for entry in every))
        for key in ("commit", "device")
    )
    foot = (
        f"Seed {row['seed']}, scale `{row['scale']}`, "
        f"size={every[0].size}, commit {commits}, on {devices}."
    )
    return "\n\n".join([sheet(head, lines), *reasons(every), foot])


def published(paper: Paper, pde: str, cells: Sequence[tuple[str, str]]) -> list[str]:
    """Formats the paper's row of the same cells: another grid, another size."""
    found = [
        paper.error(regime, (pde, direction), ("PRISMA", 20))
        for direction, regime in cells
    ]
    name = "*paper: PRISMA, 20 steps, 128 × 128, 64 M parameters*"
    return [name, *(number(value, 4) for value in found), *[NOTHING] * 3]


def label(entry: Entry) -> str:
    """Names a method with its steps, how many draws were averaged, and what it saw."""
    parts = [entry.method, counted(entry.steps, "step") if entry.steps else ""]
    parts += [f"mean of {entry.draws}" if entry.draws > 1 else ""]
    parts += ["" if entry.hidden in HIDDEN[entry.regime] else entry.hidden]
    return ", ".join(filter(None, parts))


def counted(count: int, what: str) -> str:
    """Writes a number of things, with an s where there are several."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def interval(entry: Entry | None) -> str:
    """Formats an error with its interval, or a dash where there is none."""
    if entry is None or entry.value is None:
        return NOTHING
    if entry.low is None or entry.high is None:
        return number(entry.value)
    return f"{entry.value:.3g} [{entry.low:.3g}, {entry.high:.3g}]"


def number(value: object, digits: int = 3) -> str:
    """Formats a number with a few digits, or a dash where there is none."""
    if value is None or value == "":
        return NOTHING
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def reasons(every: Iterable[Entry]) -> list[str]:
    """Says in one line which entries have no number, and why."""
    said = [
        f"{label(entry)}, {entry.pde} {entry.direction}, {entry.regime}: {entry.note}"
        for entry in every
        if entry.note
    ]
    return [f"No number: {'; '.join(said)}."] if said else []


def regime(every: Sequence[Entry]) -> str:
    """Formats one of the paper's tables: methods by equations and directions.

    Args:
        every: Entries of one regime, on any grid.

    Returns:
        A table for each grid: our error in percent, the paper's in brackets, and after
        a times sign the ratio to the exact posterior or the best honest baseline.
    """
    parts = []
    for grid in dict.fromkeys(map(grid_of, every)):
        mine = [entry for entry in every if grid_of(entry) == grid]
        columns = sorted({entry.column for entry in mine}, key=place)
        lines = []
        for name in dict.fromkeys(map(label, mine)):
            found = {e.column: e for e in mine if label(e) == name}
            lines.append([name, *(beside(found.get(column)) for column in columns)])
        head = ["method", *(f"{pde}, {direction}" for pde, direction in columns)]
        title = f"Scale `{grid[0]}`, {grid[1]} × {grid[1]}:"
        parts += [title, sheet(head, lines), *reasons(mine)]
    return "\n\n".join(parts)


def place(column: Column) -> tuple[int, int]:
    """Orders columns by equation, as the library lists them, and direction."""
    return pdes.names().index(column[0]), DIRECTIONS.index(column[1])


def beside(entry: Entry | None) -> str:
    """Formats an error with the paper's and the ratio to the anchor."""
    if entry is None or entry.value is None:
        return NOTHING
    paper = "" if entry.paper is None else f" ({entry.paper:.4g})"
    ratio = "" if entry.ratio is None else f" ×{entry.ratio:.2g}"
    return number(entry.value) + paper + ratio
