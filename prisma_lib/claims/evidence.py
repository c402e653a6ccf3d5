"""What a claim is judged by, and what a judgement says."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prisma_lib import results
from prisma_lib.claims.shares import ENDS, Interval, share_of
from prisma_lib.ranks import FAILS, HOLDS, OPEN, Order
from prisma_lib.tables import Entry, Paper

OURS = "PRISMA"
NO_ROWS = "no rows to compare"
# Why a line has no interval.
TIMED = "no interval: times have no recorded spread"


@dataclass(frozen=True)
class Evidence:
    """All rows at one scale.

    Args:
        entries: Entries of the tables of one grid, one draw each.
        ranks: Average ranks of these entries.
        orders: Orders of the methods in each cell of these entries.
        rows: Result rows of all sweeps at this scale.
        paper: The paper's numbers; without them no effect is measured by its size.
    """

    entries: Sequence[Entry]
    ranks: Sequence[Mapping[str, object]]
    orders: Sequence[Order]
    rows: Sequence[results.Row]
    paper: Paper = field(default_factory=lambda: Paper([]))

    def pairs(self, others: Sequence[str]) -> list[tuple[Entry, Entry]]:
        """Lists PRISMA's entries with another method's in the same cell."""
        return [
            (mine, other)
            for mine in self.entries
            for other in self.entries
            if mine.method == OURS and other.method in others
            if (mine.regime, mine.column) == (other.regime, other.column)
        ]

    def select(self, **wanted: str) -> list[results.Row]:
        """Lists the rows that have these values in these columns."""
        rows = list(self.rows)
        for column, value in wanted.items():
            rows = [row for row in rows if str(row[column]) == value]
        return rows


@dataclass(frozen=True)
class Finding:
    """How a claim was judged.

    Args:
        verdict: `HOLDS`, `FAILS` or `OPEN`.
        evidence: Our numbers, in words.
        rows: The result rows that they stand in.
        interval: The interval of the number that decides; where there is none, the
            evidence says why.
        about: Columns of the line, where no rows have them.
    """

    verdict: str
    evidence: str
    rows: Sequence[results.Row] = ()
    interval: Interval | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def distinct(self, column: str) -> str:
        """Lists what the rows have in a column, each once."""
        found = dict.fromkeys(str(row[column]) for row in self.rows)
        return self.about.get(column) or "; ".join(found)

    def line(self) -> dict[str, object]:
        """Returns what a line of the table of claims says of it."""
        of, low, high = self.interval or ("", None, None)
        return {
            **{"verdict": self.verdict, "evidence": self.evidence},
            **{"interval_of": of, "low": low, "high": high},
            **{name: self.distinct(name) for name in ("n", "device")},
        }


@dataclass(frozen=True)
class Claim:
    """One of the paper's claims.

    Args:
        text: What the paper says, in this project's words.
        notebook: Where ours is measured.
        paper: The paper's own numbers, in words.
        judge: Judges it; it is given all rows at one scale.
    """

    text: str
    notebook: str
    paper: str
    judge: Callable[[Evidence], Finding]


def judged(
    good: int,
    count: int,
    what: str,
    *,
    share: float = 1.0,
    rows: Sequence[results.Row] = (),
) -> Finding:
    """Says that a claim holds when enough of its cases do; without one it is open.

    Args:
        good: Cases that speak for it.
        count: All cases.
        what: Names the cases.
        share: The share of the cases that must speak for it.
        rows: The rows of the cases.
    """
    if not count:
        return Finding(OPEN, NO_ROWS)
    holds, text = good >= share * count, f"{good} of {count} {what}"
    return decided(holds, text, rows, share_of(good, count))


def mostly(
    good: int, count: int, what: str, rows: Sequence[results.Row] = ()
) -> Finding:
    """Says that a claim holds when more than half of its cases do; see `judged`."""
    if not count:
        return Finding(OPEN, NO_ROWS)
    text = f"{good} of {count} {what}"
    return decided(2 * good > count, text, rows, share_of(good, count))


def value(row: results.Row, column: str = "value") -> float:
    """Returns a number of a row; NaN where it has none."""
    found = results.number(row, column)
    return math.nan if found is None else found


def error(row: results.Row) -> float:
    """Returns an error: infinite where a method diverged, NaN where it has none."""
    return math.inf if "diverged" in results.settings(row) else value(row)


def said(row: results.Row) -> str:
    """Writes a number with its interval."""
    ends = (f"{value(row, end):.3g}" for end in ENDS)
    return f"{value(row):.3g} [{', '.join(ends)}]"


def span(values: Iterable[float]) -> str:
    """Writes the smallest and the largest of some numbers."""
    found = sorted(values)
    return f"{found[0]:.3g} to {found[-1]:.3g}"


def decided(
    good: bool,
    text: str,
    rows: Sequence[results.Row],
    interval: Interval | None = None,
) -> Finding:
    """Says that a claim holds or not."""
    return Finding(HOLDS if good else FAILS, text, rows, interval)


def untimed(finding: Finding) -> Finding:
    """Says that times and their ratios have no interval, where there are any."""
    if not finding.rows:
        return finding
    return replace(finding, evidence=f"{finding.evidence}; {TIMED}", interval=None)
