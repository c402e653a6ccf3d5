"""Intervals of what decides a claim: of a share of cases, or of a row's number."""

import math
from statistics import NormalDist
from typing import NamedTuple

from prisma_lib import results
from prisma_lib.intervals import LEVEL

ENDS = ("low", "high")


class Interval(NamedTuple):
    """The 95 % interval of the number that decides.

    Args:
        of: Names the number, with its unit.
        low: Lower end.
        high: Upper end.
    """

    of: str
    low: float
    high: float


def wilson(good: int, count: int) -> tuple[float, float]:
    """Computes Wilson's 95 % interval of a share.

    Cases are taken as independent. Cells that one network answers are not quite: it is
    rather too narrow than too wide.

    Args:
        good: Cases that count.
        count: All cases; there must be one.

    Returns:
        Both ends as fractions.

    Reference:
        Wilson (1927), doi:10.1080/01621459.1927.10502953.
    """
    z2 = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2
    middle = (good + z2 / 2) / (count + z2)
    half = math.sqrt(z2 * (good * (count - good) / count + z2 / 4)) / (count + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def share_of(good: int, count: int, cases: str = "cases") -> Interval:
    """Returns the interval of a share in percent; see `wilson`."""
    low, high = (100 * end for end in wilson(good, count))
    return Interval(f"share of {count} {cases}, %", low, high)


def interval_of(row: results.Row, what: str) -> Interval | None:
    """Returns the interval of a row's number, if it has one."""
    low, high = (results.number(row, end) for end in ENDS)
    return None if low is None or high is None else Interval(what, low, high)
