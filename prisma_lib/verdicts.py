"""What the rows of one benchmark say, as a table, in a sentence, and in comparisons.

A notebook prints these texts from its rows, so that no number is typed in by hand.
"""

from collections.abc import Sequence
from pathlib import Path

from prisma_lib import markdown, results, screened, tables
from prisma_lib.answers import RATIO
from prisma_lib.cells import RATE
from prisma_lib.claims.evidence import OURS
from prisma_lib.provenance import ROOT
from prisma_lib.tables import Entry, Paper

WINS, LOSES, TIES = "below 1 (PRISMA wins)", "above 1 (it loses)", "open"


def recorded(rows: Sequence[results.Row], folder: Path | None = None) -> list[Entry]:
    """Makes the entries of a table, of new rows and of what is recorded beside them.

    Args:
        rows: Rows of one equation and scale that were just made.
        folder: Holds `results/PDE.csv`, `results/baselines.csv` and
            `results/evaluate.csv` with the second rows of rivals, and
            `tables/paper.csv`; by default the outputs of this project.

    Returns:
        Entries; a new row counts more than a recorded one of the same question.
    """
    folder = folder or ROOT / "outputs"
    pde, scale = rows[0]["pde"], rows[0]["scale"]
    files = (folder / "results" / f"{name}.csv" for name in (pde, *screened.FILES))
    old = (row for file in files for row in results.read(file))
    new = ({**dict.fromkeys(results.COLUMNS, ""), **row, "sweep": pde} for row in rows)
    every = [*(row for row in old if row["scale"] == scale), *new]
    return tables.entries(every, Paper.read(folder / "tables" / "paper.csv"))


def table(every: Sequence[Entry], folder: Path | None = None) -> str:
    """Formats the table of one equation; see `recorded`."""
    paper = Paper.read((folder or ROOT / "outputs") / "tables" / "paper.csv")
    grids = dict.fromkeys(map(tables.grid_of, every))
    return "\n\n".join(
        markdown.one_grid([e for e in every if tables.grid_of(e) == grid], paper)
        for grid in grids
    )


def answer(every: Sequence[Entry], beside: str = "") -> str:
    """Says in a sentence how large PRISMA's errors are, with its fewest steps.

    Args:
        every: Entries of one equation, scale and grid.
        beside: Method whose errors stand in brackets behind PRISMA's, where it has any.
    """
    mine = [entry for entry in every if entry.usual and entry.method == OURS]
    steps = min((entry.steps or 0 for entry in mine), default=0)
    others = {
        (entry.direction, entry.regime): f" ({beside} {entry.value:.3g} %)"
        for entry in every
        if entry.usual and entry.method == beside and entry.value is not None
    }
    said = [
        f"{entry.direction}, {entry.regime}: {entry.value:.3g} %"
        + others.get((entry.direction, entry.regime), "")
        for entry in mine
        if entry.value is not None and entry.steps == steps
    ]
    n = max((int(entry.row["n"]) for entry in mine), default=0)
    errors = "; ".join(said) or "nothing was measured"
    return f"**One draw of {steps} steps errs on {n} unseen problems by: {errors}.**"


def errors(
    every: Sequence[Entry], method: str, steps: int | None = None, draws: int = 1
) -> dict[tuple[str, str], float | None]:
    """Returns the errors of a method in percent, by direction and regime.

    Args:
        every: Entries of one equation, scale and grid.
        method: Its title.
        steps: Its sampler steps, if it has any.
        draws: Number of draws whose mean is judged.
    """
    return {
        (entry.direction, entry.regime): entry.value
        for entry in every
        if (*entry.who, entry.draws) == (method, steps, draws)
        if entry.hidden in tables.HIDDEN[entry.regime]
    }


def compared(rows: Sequence[results.Row]) -> str:
    """Says where PRISMA wins and loses, from the rows of ratios.

    Args:
        rows: Rows of `benchmarks.rows_of`.

    Returns:
        Markdown: counts, and a table of the ratio of PRISMA's error to everybody
        else's in each cell, with its 95 % interval.
    """
    ratios = [row for row in rows if row["metric"] == RATIO]
    names = dict.fromkeys(map(rival, ratios))
    heads = dict.fromkeys(map(cell, ratios))
    found = {(rival(row), cell(row)): row for row in ratios}
    lines = [
        [name, *(ratio(found.get((name, head))) for head in heads)] for name in names
    ]
    said = [verdict(row) for row in ratios]
    counts = ", ".join(f"{said.count(word)} {word}" for word in (WINS, LOSES, TIES))
    return (
        "Error of one draw of PRISMA over that of another method on the same problems, "
        f"of {len(said)} ratios: {counts}.\n\n{markdown.sheet(['over', *heads], lines)}"
    )


def measured(rows: Sequence[results.Row], metric: str) -> str:
    """Formats what was measured beside the error: methods by cells, with intervals.

    Args:
        rows: Rows of `benchmarks.rows_of`.
        metric: One of `answers.FURTHER`.
    """
    mine = [row for row in rows if row["metric"] == metric]
    heads = dict.fromkeys(map(cell, mine))
    found: dict[tuple[str, str], results.Row] = {}
    for row in mine:
        old = found.get((who(row), cell(row)))
        if old is None or int(row["n"]) >= int(old["n"]):
            found[who(row), cell(row)] = row
    lines = []
    for name in dict.fromkeys(map(who, mine)):
        known = {head: found[name, head] for head in heads if (name, head) in found}
        numbers = "; ".join(dict.fromkeys(str(row["n"]) for row in known.values()))
        said = {head: spanned(row) for head, row in known.items()}
        line = [said.get(head, markdown.NOTHING) for head in heads]
        lines.append([name, *line, numbers])
    return markdown.sheet(["method", *heads, "n"], lines)


def who(row: results.Row) -> str:
    """Names a method with its steps."""
    steps = markdown.counted(int(row["steps"]), "step") if row["steps"] else ""
    return ", ".join(filter(None, (row["method"], steps)))


def spanned(row: results.Row) -> str:
    """Formats a value with its interval, where it has one."""
    return (
        f"{row['value']} [{row['low']}, {row['high']}]" if row["low"] else row["value"]
    )


def rival(row: results.Row) -> str:
    """Names the method whose error divides a ratio."""
    return results.settings(row)["over"]


def cell(row: results.Row) -> str:
    """Names the cell of a row, with the share of sensors where it is unusual."""
    rate = results.settings(row).get("rate", f"{RATE:g}")
    unusual = "" if rate == f"{RATE:g}" else f" ({float(rate):.0%} of points)"
    return f"{row['direction']}, {row['regime']}{unusual}"


def verdict(row: results.Row) -> str:
    """Says what the interval of a ratio tells; without one it tells nothing."""
    low, high = results.number(row, "low"), results.number(row, "high")
    if low is None or high is None:
        return TIES
    return WINS if high < 1 else LOSES if low > 1 else TIES


def ratio(row: results.Row | None) -> str:
    """Formats a ratio of errors, in bold where PRISMA loses."""
    if row is None:
        return markdown.NOTHING
    mark = "**" if verdict(row) == LOSES else ""
    return f"{mark}×{spanned(row)}{mark}"
