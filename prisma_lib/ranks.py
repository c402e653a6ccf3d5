"""Ranks of methods, and whether their order is the paper's.

The paper averages ranks over the columns of a table. Of methods that tie, each gets the
lowest rank in its full and noisy tables and the mean of the ranks in its sparse table;
a method without a number in a column is ranked over fewer columns. All of its average
ranks come out of its errors by these rules, and so do ours.

Ranks compare means, and those of slow methods are of few problems: one with fewer than
`FEWEST` is not ranked, and `n` stands beside every rank.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean

from prisma_lib import results
from prisma_lib.answers import RATIO
from prisma_lib.cells import REGIMES
from prisma_lib.tables import METHODS, Column, Entry, Grid, Paper, Who, grid_of

TIES = {"full": "lowest", "sparse": "mean", "noisy": "lowest"}
FEWEST = 8  # problems of an answer that is ranked
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be said at this scale"

# What a row with a ratio and that of the error above its line share.
PLACE = (
    *("sweep", "run", "pde", "direction", "regime", "setting", "method", "steps"),
    "n",  # of the other error, which has no more problems
)

Scores = Mapping[Column, Mapping[Who, float]]
Ratios = Mapping[tuple[str, ...], tuple[float, float]]


def average_ranks(scores: Scores, ties: str) -> dict[Who, tuple[float, int]]:
    """Averages the ranks of methods over columns; see `column_ranks`.

    Returns:
        The average rank of each method and the number of its columns.
    """
    found = column_ranks(scores, ties)
    return {who: (mean(ranks), len(ranks)) for who, ranks in found.items()}


def column_ranks(scores: Scores, ties: str) -> dict[Who, list[float]]:
    """Ranks methods in every column; 1 is the best.

    Args:
        scores: Errors of the methods in each column.
        ties: "lowest" or "mean": the rank of methods with the same error.

    Returns:
        The ranks of each method, one for each column that it has a number in.
    """
    found: dict[Who, list[float]] = {}
    for column in scores.values():
        for who, error in column.items():
            better = sum(other < error for other in column.values())
            equal = sum(other == error for other in column.values())
            shift = 1.0 if ties == "lowest" else (equal + 1) / 2
            found.setdefault(who, []).append(better + shift)
    return found


def scores_of(every: Iterable[Entry], paper: Paper) -> dict[tuple[Grid, str], Scores]:
    """Collects our errors in the columns of the paper's tables.

    Args:
        every: Entries of all tables.
        paper: The paper's numbers; columns that it ranks are those of five equations.

    Returns:
        Errors of the paper's methods, of enough problems, by grid and regime.
    """
    found: dict[tuple[Grid, str], dict[Column, dict[Who, float]]] = {}
    for entry in ranked(every, paper):
        table = found.setdefault((grid_of(entry), entry.regime), {})
        table.setdefault(entry.column, {})[entry.who] = entry.value or 0.0
    return dict(found)


def ranked(every: Iterable[Entry], paper: Paper) -> list[Entry]:
    """Picks the entries that are ranked; see `scores_of`."""
    return [
        entry
        for entry in every
        if entry.usual and entry.method in METHODS and entry.value is not None
        if (entry.regime, entry.column) in paper.ranked
        if int(entry.row["n"]) >= FEWEST
    ]


def problems(entries: Iterable[Entry]) -> dict[Who, int]:
    """Returns the smallest number of problems that each method answered."""
    found: dict[Who, int] = {}
    for entry in entries:
        n = int(entry.row["n"])
        found[entry.who] = min(n, found.get(entry.who, n))
    return found


def ranks(every: Iterable[Entry], paper: Paper) -> list[dict[str, object]]:
    """Ranks the methods in each regime.

    Args:
        every: Entries of all tables.
        paper: The paper's numbers.

    Returns:
        A row for each grid, regime and method: its average rank among the methods that
        have numbers of enough problems, the smallest number of problems in its columns,
        the paper's rank among the same methods in the same columns, and the average
        rank that the paper prints. A column with one method ranks nothing.
    """
    rows, known = [], ranked(every, paper)
    for (grid, regime), table in scores_of(known, paper).items():
        here = [e for e in known if (grid_of(e), e.regime) == (grid, regime)]
        scores = {column: found for column, found in table.items() if len(found) > 1}
        theirs = average_ranks(
            {
                column: same
                for column, found in scores.items()
                if (same := counterpart(found, paper.errors[regime, column]))
            },
            TIES[regime],
        )
        for who, (rank, count) in average_ranks(scores, TIES[regime]).items():
            there = nearest(
                who, {w: r for (t, w), r in paper.ranks.items() if t == regime}
            )
            rows.append(
                {
                    **{"scale": grid[0], "size": grid[1], "regime": regime},
                    **{"method": who[0], "steps": who[1], "rank": rank},
                    **{"columns": count, "n": problems(here)[who]},
                    "ties": TIES[regime],
                    "paper_in_these_columns": theirs.get(who, (None, 0))[0],
                    "paper": paper.ranks[regime, there] if there else None,
                    "paper_steps": there[1] if there else None,
                }
            )
    return sorted(rows, key=lambda r: (r["scale"], r["size"], r["regime"], r["rank"]))


def nearest(who: Who, known: Mapping[Who, float]) -> Who | None:
    """Finds a method in the paper: with the same steps, or the nearest number of them.

    Args:
        who: Method and steps.
        known: Numbers of one column of the paper.

    Returns:
        Its name there, `None` when the paper has no such method.
    """
    method, steps = who
    same = [other for other in known if other[0] == method]

    def distance(other: Who) -> float:
        return abs(math.log((other[1] or 1) / (steps or 1)))

    return min(same, key=distance, default=None)


def counterpart(ours: Iterable[Who], printed: Mapping[Who, float]) -> dict[Who, float]:
    """Finds the paper's errors of our methods, at the nearest number of steps."""
    there = {who: nearest(who, printed) for who in ours}
    return {who: printed[other] for who, other in there.items() if other is not None}


@dataclass(frozen=True)
class Order:
    """Whether methods stand in the paper's order in one cell.

    Args:
        scale: Name of the scale.
        size: Points along an axis.
        regime: Regime of the cell.
        pde: Equation of the cell.
        direction: Direction of the cell.
        methods: Number of methods that both have.
        same: Pairs in the paper's order, with intervals apart.
        reversed: Pairs in the opposite order, with intervals apart.
        open: Pairs whose intervals overlap.
    """

    scale: str
    size: int
    regime: str
    pde: str
    direction: str
    methods: int
    same: int = 0
    reversed: int = 0
    open: int = 0

    @property
    def verdict(self) -> str:
        """What the pairs say together: one that is reversed decides."""
        if self.reversed:
            return FAILS
        return HOLDS if self.same > self.open else OPEN


def orders(
    every: Iterable[Entry], paper: Paper, rows: Iterable[results.Row] = ()
) -> list[Order]:
    """Compares the order of methods with the paper's in every cell that has numbers.

    Two methods are apart when their 95 % intervals are, or that of the ratio of their
    errors on the same problems, where a row has one, is apart from 1. Pairs that tie in
    the paper say nothing.

    Args:
        every: Entries of all tables.
        paper: The paper's numbers.
        rows: Result rows with ratios among them.
    """
    known_ratios = ratios(rows)
    cells: dict[tuple[Grid, str, Column], list[Entry]] = {}
    for entry in every:
        if entry.usual and entry.method in METHODS and entry.low is not None:
            key = grid_of(entry), entry.regime, entry.column
            cells.setdefault(key, []).append(entry)
    found = []
    for (grid, regime, column), members in cells.items():
        printed = paper.errors.get((regime, column), {})
        theirs = counterpart([entry.who for entry in members], printed)
        known = [entry for entry in members if entry.who in theirs]
        if len(known) < 2:  # the paper has no order here
            continue
        counts = pairs(known, theirs, known_ratios)
        found.append(Order(*grid, regime, *column, len(known), *counts))
    return sorted(found, key=lambda o: (o.scale, o.size, REGIMES.index(o.regime)))


def pairs(
    members: Sequence[Entry], theirs: Mapping[Who, float], known: Ratios
) -> tuple[int, int, int]:
    """Counts the pairs in the paper's order, in the opposite one, and open ones."""
    counts = [0, 0, 0]
    for one, other in combinations(members, 2):
        if theirs[one.who] == theirs[other.who]:
            continue
        better, worse = sorted((one, other), key=lambda entry: theirs[entry.who])
        said = apart(better, worse, known), apart(worse, better, known)
        counts[said.index(True) if any(said) else 2] += 1
    return counts[0], counts[1], counts[2]


def apart(better: Entry, worse: Entry, known: Ratios) -> bool:
    """Whether an error is smaller than another, as `orders` has it."""
    if better.high is None or worse.low is None:
        return False
    above, below = known.get(asked(worse, better)), known.get(asked(better, worse))
    if above or below:
        return bool(above and above[0] > 1) or bool(below and below[1] < 1)
    return better.high < worse.low


def ratios(rows: Iterable[results.Row]) -> Ratios:
    """Collects the intervals of ratios of errors on the same problems; see `asked`."""
    return {
        tuple(str(row[key]) for key in PLACE): (float(row["low"]), float(row["high"]))
        for row in rows
        if row["metric"] == RATIO and row["low"] and row["high"]
    }


def asked(one: Entry, other: Entry) -> tuple[str, ...]:
    """Names the ratio of an error to another of the same run."""
    about = one.row | {"setting": f"{one.row['setting']};over={other.method}"}
    about |= {"n": other.row["n"]}
    if any(one.row[key] != other.row[key] for key in ("sweep", "run")):
        return ()
    return tuple(str(about[key]) for key in PLACE)
