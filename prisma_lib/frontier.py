"""Error against seconds: which answers nothing beats in both.

In a cell of a table, one answer beats another that is neither faster nor nearer to the
truth and is behind in at least one. What is left is the frontier, once of everything
and once of what was learned: where the solver that made the truth applies, only what is
faster stands beside it. An answer is one draw; seconds compare on one device only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from prisma_lib import results
from prisma_lib.tables import LEARNED, Entry, Grid, Paper, Who, grid_of

ALL, AMONG_LEARNED = "of all", "of learned"


@dataclass(frozen=True)
class Answer:
    """What a method gives and takes in one cell.

    Args:
        entry: Its entry, with an error.
        seconds: Seconds per sample.
    """

    entry: Entry
    seconds: float

    @property
    def error(self) -> float:
        """The error in percent, 0 for one that is rounding."""
        return 0.0 if self.entry.rounding else self.entry.value or 0.0

    @property
    def learned(self) -> bool:
        """Whether the method learned from examples, or fits a network."""
        return self.entry.method in LEARNED

    def beats(self, other: "Answer") -> bool:
        """Whether it is behind in nothing, and ahead in error or in seconds."""
        mine, theirs = (self.seconds, self.error), (other.seconds, other.error)
        return mine != theirs and all(
            here <= there for here, there in zip(mine, theirs, strict=True)
        )


def answers(every: Iterable[Entry]) -> list[Answer]:
    """Picks the entries that have one draw, an error and seconds."""
    timed = (
        (entry, results.number(entry.row, "seconds_per_sample"))
        for entry in every
        if entry.usual and entry.value is not None
    )
    return [Answer(entry, seconds) for entry, seconds in timed if seconds is not None]


def unbeaten(members: Sequence[Answer]) -> list[Answer]:
    """Returns the answers of one cell that no other beats, the fastest first."""
    left = [a for a in members if not any(other.beats(a) for other in members)]
    return sorted(left, key=lambda answer: answer.seconds)


def frontiers(every: Iterable[Entry]) -> list[dict[str, object]]:
    """Says of every answer whether it is on the frontier of its cell.

    Args:
        every: Entries of all tables.

    Returns:
        A row for each answer: its error and seconds, the frontiers it is on, and the
        learned method with the smallest error that beats it.
    """
    cells: dict[tuple[object, ...], list[Answer]] = {}
    for answer in answers(every):
        entry = answer.entry
        key = (*grid_of(entry), entry.row["device"], entry.regime, entry.column)
        cells.setdefault(key, []).append(answer)
    return [row(answer, members) for members in cells.values() for answer in members]


def row(answer: Answer, members: Sequence[Answer]) -> dict[str, object]:
    """Judges one answer among all of its cell."""
    entry = answer.entry
    better = [other for other in members if other.beats(answer)]
    learned = [other for other in better if other.learned]
    best = min(learned, key=lambda other: other.error, default=None)
    on = [] if better else [ALL]
    on += [AMONG_LEARNED] if answer.learned and not learned else []
    return {
        **{"scale": entry.scale, "size": entry.size, "regime": entry.regime},
        **{"pde": entry.pde, "direction": entry.direction},
        **{"method": entry.method, "steps": entry.steps, "value": entry.value},
        **{"seconds_per_sample": answer.seconds, "frontier": ", ".join(on)},
        "beaten_by": best.entry.method if best else "",
        **{"n": entry.row["n"], "device": entry.row["device"]},
    }


def standing(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Counts the cells in which a learned method has an answer on the frontier.

    Args:
        rows: What `frontiers` returned.

    Returns:
        A row for each grid, device and learned method; the most cells first.
    """
    found: dict[tuple[Grid, str, str], dict[tuple[str, ...], list[bool]]] = {}
    for each in rows:
        if each["method"] in LEARNED:
            who = (each["scale"], each["size"]), each["device"], each["method"]
            cell = each["regime"], each["pde"], each["direction"]
            on = AMONG_LEARNED in each["frontier"]
            found.setdefault(who, {}).setdefault(cell, []).append(on)
    counted = [
        {
            **{"scale": grid[0], "size": grid[1], "method": method},
            **{"on": sum(map(any, cells.values())), "cells": len(cells)},
            "device": device,
        }
        for (grid, device, method), cells in found.items()
    ]
    return sorted(counted, key=lambda line: (line["scale"], line["size"], -line["on"]))


def latencies(every: Sequence[Entry], paper: Paper) -> list[dict[str, object]]:
    """Lists the seconds per sample of every method, beside the paper's.

    Returns:
        A row for each scale, grid, device, method and number of steps: the median over
        the cells of its tables.
    """
    groups: dict[tuple[str, int, str, Who], list[results.Row]] = {}
    for entry in every:
        if entry.usual and results.number(entry.row, "seconds_per_sample") is not None:
            key = (entry.scale, entry.size, entry.row["device"], entry.who)
            groups.setdefault(key, []).append(entry.row)
    return [
        {
            **{"scale": scale, "size": size, "method": who[0], "steps": who[1]},
            "seconds_per_sample": median(float(r["seconds_per_sample"]) for r in rows),
            **{"paper": paper.seconds.get(who), "calls": rows[-1]["calls"]},
            **{"cells": len(rows), "device": device},
        }
        for (scale, size, device, who), rows in groups.items()
    ]
