"""What the claims about sweeps have in common: cells, rivals and growth.

In a cell, methods are compared on the same problems: those that the slower one had time
for.
"""

import math
from collections.abc import Iterable, Sequence

from prisma_lib import results
from prisma_lib.claims.evidence import NO_ROWS, OURS, Evidence, Finding, error, judged
from prisma_lib.claims.tallies import ahead_of_all, compared
from prisma_lib.ranks import OPEN, Ratios
from prisma_lib.tables import ERRORS, METHODS

# What a setting says beside what is hidden of a problem.
ASIDE = ("weights", "residual", "diverged")

Cell = tuple[str, ...]


def errors_of(found: Evidence, sweep: str, **wanted: str) -> list[results.Row]:
    """Lists the rows of a sweep that have an error, without deliberately wrong ones."""
    return [
        row
        for row in found.select(sweep=sweep, **wanted)
        if row["metric"] in ERRORS and not math.isnan(error(row))
        if "told" not in results.settings(row)
    ]


def cell_of(row: results.Row, *but: str) -> Cell:
    """Returns where a row stands: equation, direction, regime and what is hidden."""
    hidden = results.settings(row).items()
    kept = sorted(f"{k}={v}" for k, v in hidden if k not in (*ASIDE, *but))
    return (row["pde"], row["direction"], row["regime"], *kept)


def standings(
    rows: Iterable[results.Row], known: Ratios | None = None
) -> tuple[list[str], list[results.Row]]:
    """Says in each cell how PRISMA stands among the other published methods.

    Args:
        rows: Rows with errors.
        known: Intervals of ratios of errors on the same problems, `ranks.ratios`.

    Returns:
        For each cell with a rival on the same problems `BETTER` where PRISMA is ahead
        of all, `WORSE` where it is behind any, else `UNDECIDED`; and their rows.
    """
    cells: dict[Cell, list[results.Row]] = {}
    for row in rows:
        if row["method"] in METHODS:
            cells.setdefault(cell_of(row), []).append(row)
    places, used = [], []
    for mine in cells.values():
        ours = {row["n"]: row for row in mine if row["method"] == OURS}
        pairs = [
            (ours[row["n"]], row)
            for row in mine
            if row["method"] != OURS and row["n"] in ours
        ]
        if pairs:
            places.append(ahead_of_all(compared(*pair, known) for pair in pairs))
            used += [row for pair in pairs for row in pair]
    return places, used


def growth(
    rows: Iterable[results.Row], key: str, start: float, end: float, usual: float
) -> dict[Cell, tuple[results.Row, results.Row]]:
    """Pairs PRISMA's rows at both ends of what is varied, on the most problems.

    Args:
        rows: Rows with errors.
        key: Part of the setting that is varied.
        start: Its value at one end.
        end: Its value at the other.
        usual: Its value where the setting does not have it.
    """
    ends: dict[float, dict[Cell, results.Row]] = {start: {}, end: {}}
    for row in rows:
        value = float(results.settings(row).get(key, usual))
        if row["method"] != OURS or value not in ends:
            continue
        place = ends[value]
        cell = cell_of(row, key)
        if cell not in place or int(row["n"]) >= int(place[cell]["n"]):
            place[cell] = row
    return {
        cell: (row, ends[end][cell])
        for cell, row in ends[start].items()
        if cell in ends[end]
    }


def within(
    pairs: Sequence[tuple[results.Row, results.Row]], factor: float, what: str
) -> Finding:
    """Judges whether errors grow by no more than a factor; names the worst."""
    if not pairs:
        return Finding(OPEN, NO_ROWS)
    ratios = [error(b) / error(a) for a, b in pairs]
    worst = max(range(len(pairs)), key=ratios.__getitem__)
    a, b = pairs[worst]
    said = f"{what} by at most {factor:g} times; most in {b['pde']}, {b['direction']}, "
    said += f"{b['regime']}: {results.spoken(a)} to {results.spoken(b)}, n = {b['n']}"
    good = sum(ratio <= factor for ratio in ratios)
    return judged(good, len(pairs), said, rows=[row for pair in pairs for row in pair])


def rising(pairs: Sequence[tuple[results.Row, results.Row]], what: str) -> Finding:
    """Judges whether the second of each pair is the larger error."""
    good = sum(error(a) < error(b) for a, b in pairs)
    rows = [row for pair in pairs for row in pair]
    if pairs:
        a, b = max(pairs, key=lambda pair: error(pair[1]))
        what += f"; {b['pde']}, {b['direction']}, {b['regime']}: {results.spoken(a)} "
        what += f"to {results.spoken(b)}, n = {b['n']}"
    return judged(good, len(pairs), what, rows=rows)
