"""Cases of a claim that intervals decide for it or against it, or leave open."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prisma_lib import results
from prisma_lib.ablations import BETTER, UNDECIDED, WORSE, against
from prisma_lib.claims.evidence import NO_ROWS, Finding, decided, error
from prisma_lib.claims.shares import ENDS, Interval, share_of
from prisma_lib.ranks import OPEN, PLACE, Ratios


@dataclass(frozen=True)
class Tally:
    """Cases that are for a claim, against it, or open since intervals overlap.

    Args:
        good: Cases for it.
        bad: Cases against it.
        open: All others.
    """

    good: int
    bad: int
    open: int

    @classmethod
    def of(cls, verdicts: Sequence[str]) -> "Tally":
        """Counts `BETTER`, `WORSE` and `UNDECIDED`."""
        return cls(*map(verdicts.count, (BETTER, WORSE, UNDECIDED)))

    def __add__(self, other: "Tally") -> "Tally":
        """Counts the cases of both."""
        good, bad = self.good + other.good, self.bad + other.bad
        return Tally(good, bad, self.open + other.open)

    @property
    def reversed(self) -> "Tally":
        """The same cases for a claim of the opposite order."""
        return Tally(self.bad, self.good, self.open)

    @property
    def count(self) -> int:
        """All cases."""
        return self.good + self.bad + self.open

    @property
    def interval(self) -> Interval:
        """That of the share of decided cases, or of all where nothing is decided."""
        known = self.good + self.bad
        if known:
            return share_of(self.good, known, "decided cases")
        return share_of(0, self.count, "cases")

    def says(self, good: str, bad: str, cases: str) -> str:
        """Writes all three counts."""
        counts = f"{self.good} {good}, {self.bad} {bad}, {self.open} open"
        return f"{counts} of {self.count} {cases}"

    def judge(
        self, text: str, rows: Sequence[results.Row], *, share: float = 0.0
    ) -> Finding:
        """Says that a claim holds when more decided cases are for it than against it.

        Args:
            text: What the cases say, such as `says` writes it.
            rows: Their rows.
            share: The share of the decided cases that must be for it.
        """
        if not self.count:
            return Finding(OPEN, NO_ROWS)
        enough = self.good >= share * (self.good + self.bad)
        return decided(self.good > self.bad and enough, text, rows, self.interval)


def compared(mine: results.Row, other: results.Row, known: Ratios | None = None) -> str:
    """Says whether an error is smaller than another: `BETTER`, `WORSE`, `UNDECIDED`.

    What diverged is worse than what did not.

    Args:
        mine: A row with an error.
        other: Another method's, in the same cell.
        known: Intervals of ratios of errors on the same problems, `ranks.ratios`; where
            there is one it decides, elsewhere the intervals of both errors do.
    """
    lost = [math.isinf(error(row)) for row in (mine, other)]
    if any(lost):
        return UNDECIDED if all(lost) else WORSE if lost[0] else BETTER
    ends = known.get(ratio_of(mine, other)) if known else None
    if ends:
        return BETTER if ends[1] < 1 else WORSE if ends[0] > 1 else UNDECIDED
    bounds = (results.number(row, end) for row in (mine, other) for end in ENDS)
    return UNDECIDED if None in bounds else against(mine, other)


def ratio_of(mine: results.Row, other: results.Row) -> tuple[str, ...]:
    """Names the ratio of an error to another of the same run, as `ranks.ratios`."""
    if mine["run"] != other["run"]:
        return ()
    about = mine | {"setting": f"{mine['setting']};over={other['method']}"}
    return tuple(str((about | {"n": other["n"]})[key]) for key in PLACE)


def ahead_of_all(verdicts: Iterable[str]) -> str:
    """Says how one stands among several: `BETTER` than all, `WORSE` than any, or open.

    Args:
        verdicts: What `compared` says of each of the others.
    """
    found = {*verdicts}
    if WORSE in found:
        return WORSE
    return UNDECIDED if UNDECIDED in found else BETTER
