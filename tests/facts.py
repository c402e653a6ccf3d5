"""What a number of a text is, as a function of recorded rows.

`one` makes the number of a single row, `of` that of several, such as a mean.
"""

import re

from prisma_lib import results
from prisma_lib.answers import RATIO
from prisma_lib.cells import COLUMNS, RATE
from prisma_lib.provenance import ROOT
from prisma_lib.tables import ERRORS

# A row with one of these in its setting is meant only where it is asked for.
SPECIAL = (
    *("mean_of", "over", "sampler", "diverged", "rate", "columns"),
    *("layout", "fraction", "told", "two values"),
)
USUAL = ({"rate": f"{RATE:g}"}, {"columns": f"{COLUMNS}"})


def fits(row, wanted):
    """Whether a row has what is wanted of it: alternatives, by column or setting."""
    setting = results.settings(row)
    known = {**setting, **row}
    if any(known.get(key) not in those for key, those in wanted.items()):
        return False
    rest = {k: v for k, v in setting.items() if k in SPECIAL and k not in wanted}
    return not rest or rest in USUAL


def found(rows, wanted):
    """Lists the rows, one at least, that have what is wanted of them."""
    every = {
        key: tuple(f"{v}" for v in (those if isinstance(those, tuple) else (those,)))
        for key, those in wanted.items()
    }
    those = [row for row in rows if fits(row, every)]
    assert those, f"no row has {wanted}"
    return those


def one(column="value", **wanted):
    """Makes the number of one row: the last of those on the most problems.

    Args:
        column: Where it stands.
        **wanted: Columns and parts of the setting that single it out; of a tuple one.
    """

    def number(rows):
        those = found(rows, wanted)
        most = max(int(row["n"] or 0) for row in those)
        those = [row for row in those if int(row["n"] or 0) == most]
        asked = {results.question({**row, "run": "", "device": ""}) for row in those}
        assert len(asked) == 1, f"{wanted} leaves open which of {asked}"
        return float(those[-1][column])

    return number


def part(name, **wanted):
    """Makes a number that stands in the setting of rows: it must be in all of them."""

    def number(rows):
        (given,) = {results.settings(row)[name] for row in found(rows, wanted)}
        return float(given)

    return number


def of(reduce, **wanted):
    """Makes a number of all rows that have what is wanted: the least, the mean."""
    return lambda rows: reduce([float(row["value"]) for row in found(rows, wanted)])


def on(reduce, *facts):
    """Makes a number of other facts, such as their quotient."""
    return lambda rows: reduce(*(fact(rows) for fact in facts))


def first(reduce, fact, **wanted):
    """Makes the number of a row that must be the first, or last, of several."""

    def number(rows):
        number = fact(rows)
        assert number == of(reduce, **wanted)(rows)
        return number

    return number


def scaled(factor, fact):
    """Makes a fact in another unit."""
    return lambda rows: factor * fact(rows)


def fixed(number):
    """Makes a number that no row holds, such as a limit that the library sets."""
    return lambda rows: number


def error(cell, method="PRISMA", column="value", **more):
    """Makes the error of one draw, of 20 steps where ours is meant."""
    direction, regime = cell.split()
    steps = {"steps": 20} if method.startswith("PRISMA") else {}
    about = {"method": method, "direction": direction, "regime": regime, **steps}
    return one(column, **{"metric": ERRORS, **about, **more})


def ratio(cell, method, column="value", **more):
    """Makes PRISMA's error over that of another method, on the same problems."""
    return error(cell, column=column, over=method, **more, metric=RATIO)


def share(rate):
    """Makes a share of sensors in percent, which some row must have."""
    seen = one(method="PRISMA", steps=20, metric=ERRORS, direction="forward", rate=rate)
    return lambda rows: 100 * rate if seen(rows) else 0


def both(regime, *methods, **more):
    """Makes the errors of methods, each forward and backward."""
    return [
        error(f"{d} {regime}", m, **more)
        for m in methods
        for d in ("forward", "inverse")
    ]


def claim(pattern, name):
    """Makes what the table of claims says in a cell, where a pattern finds it."""
    rows = (ROOT / "outputs" / "tables" / "claims.csv").read_text("utf-8").splitlines()
    (line,) = (line for line in rows if f",{name}," in line)
    return fixed(float(re.search(pattern, line)[1]))
