"""What the paper's benchmark tables and figures show (E01 to E06, E22, E23).

A table is judged by the order of its methods, cell by cell, since its numbers belong to
another grid.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from prisma_lib import results
from prisma_lib.answers import IOU
from prisma_lib.claims.equal import on_equal_terms
from prisma_lib.claims.evidence import (
    OURS,
    Claim,
    Evidence,
    Finding,
    judged,
    mostly,
)
from prisma_lib.claims.tables import (
    SENSORS,
    operators_fall_further,
    paired,
    same_order,
)
from prisma_lib.frontier import answers
from prisma_lib.ranks import HOLDS, OPEN
from prisma_lib.tables import METHODS, Entry

Judge = Callable[[Evidence], Finding]

BENCHMARKS = "20_darcy to 26_burgers"


def table_order(regime: str) -> Judge:
    """E02, E03, E04: in most of a table's columns methods stand in the paper's order.

    Columns whose intervals overlap too much say nothing.
    """

    def claim(found: Evidence) -> Finding:
        here = [order for order in found.orders if order.regime == regime]
        known = [order.verdict for order in here if order.verdict != OPEN]
        what = f"columns in the paper's order, {len(here) - len(known)} undecided"
        rows = [e.row for e in found.entries if e.regime == regime]
        holds = known.count(HOLDS)
        ranks = [
            f"{row['method']} {row['steps'] or ''} {row['rank']:.2g}".replace("  ", " ")
            for row in found.ranks
            if row["regime"] == regime
        ]
        said = f"; average ranks: {', '.join(ranks)}" if ranks else ""
        return mostly(holds, len(known), what + said, rows)

    return claim


def darcy_errors(found: Evidence) -> Finding:
    """E01: the order of methods on Darcy flow, forward, with errors and seconds."""
    order = same_order("darcy", "forward", "full")(found)
    if order.verdict == OPEN:
        return order
    said = [f"{name(entry)} {entry.value:.3g} %{cost(entry)}" for entry in darcy(found)]
    return replace(order, evidence=f"{order.evidence}: {', '.join(said)}")


def darcy(found: Evidence) -> list[Entry]:
    """Lists the methods of the paper that have an error on Darcy flow, forward."""
    return [
        entry
        for entry in found.entries
        if (entry.regime, entry.column) == ("full", ("darcy", "forward"))
        and entry.method in METHODS
        and entry.value is not None
    ]


def name(entry: Entry) -> str:
    """Names a method with its steps."""
    return f"{entry.method} {entry.steps}" if entry.steps else entry.method


def cost(entry: Entry) -> str:
    """Says how long a sample takes, where that is known."""
    seconds = results.number(entry.row, "seconds_per_sample")
    return "" if seconds is None else f" in {seconds:.2g} s"


def on_the_front(found: Evidence) -> Finding:
    """E05: no method is both faster and more accurate than PRISMA, on one device."""
    cases, rows = [], []
    every = answers(darcy(found))
    for mine, other in product(every, every):
        one, two = mine.entry, other.entry
        here = one.row["device"] == two.row["device"]
        if one.method == OURS != two.method and here:
            cases.append(not other.beats(mine))
            rows += [one.row, two.row]
    what = "pairs in which the other is slower or less accurate"
    return judged(sum(cases), len(cases), what, rows=rows)


def eikonal(found: Evidence) -> Finding:
    """E22: the order of methods on distances, with the overlap of the shapes."""
    order = on_equal_terms(same_order("eikonal", "forward", "full"))(found)
    every = found.select(metric=IOU, pde="eikonal", direction="forward", regime="full")
    every.sort(key=lambda row: int(row["n"] or 0))
    # Of each method and number of steps that of most problems.
    rows = [*{(row["method"], row["steps"]): row for row in every}.values()]
    parts = [(row["method"], row["steps"], results.spoken(row)) for row in rows]
    texts = dict.fromkeys(" ".join(filter(None, part)) for part in parts)
    if order.verdict == OPEN or not texts:
        return order
    evidence = f"{order.evidence}; overlap {', '.join(texts)}"
    return replace(order, evidence=evidence, rows=[*order.rows, *rows])


def burgers(found: Evidence) -> Finding:
    """E23: PRISMA reconstructs a history from five sensors better than DiffusionPDE.

    Errors of different problems are told, and compared only on the same ones.
    """
    order = paired(same_order(*SENSORS), SENSORS, "DiffusionPDE")(found)
    here = [
        entry
        for entry in found.entries
        if (*entry.column, entry.regime) == SENSORS and entry.value is not None
    ]
    texts = [
        f"{name(entry)} {results.spoken(entry.row)} (n = {entry.row['n']})"
        for entry in here
    ]
    if not order.rows:
        return order
    return replace(order, evidence=f"{order.evidence}; {', '.join(texts)}")


CLAIMS = {
    "E01": Claim(
        "Darcy forward: errors and seconds of the paradigms",
        "20_darcy",
        "PRISMA 1.1 % in 0.18 s; FNO 5.3 % in 0.1 s; DiffusionPDE 2.9 % in 213 s",
        darcy_errors,
    ),
    "E02": Claim(
        "noisy table: the order of methods",
        BENCHMARKS,
        "PRISMA best in most columns, average rank 1.1 at 50 steps",
        table_order("noisy"),
    ),
    "E03": Claim(
        "full table: the order of methods",
        BENCHMARKS,
        "average rank of PRISMA 2.4 at 50 steps",
        table_order("full"),
    ),
    "E04": Claim(
        "sparse table: the order of methods",
        BENCHMARKS,
        "average rank of PRISMA 1.58 at 50 steps",
        table_order("sparse"),
    ),
    "E05": Claim(
        "time against error: none is faster and more accurate than PRISMA",
        "90_report",
        "1.1 % in 0.18 s; FNO is faster, with 5.3 %",
        on_the_front,
    ),
    "E06": Claim(
        "bars, full against sparse: operators' errors grow most",
        "90_report",
        "Darcy forward: FNO 5.3 to 28.2 %, PRISMA 1.1 to 3.0 %",
        operators_fall_further,
    ),
    "E22": Claim(
        "eikonal table: PRISMA, then FunDPS, then DiffusionPDE",
        "25_eikonal",
        "6.87 and 6.97, 7.77, 35.8 %",
        eikonal,
    ),
    "E23": Claim(
        "Burgers from five sensors: PRISMA before DiffusionPDE",
        "26_burgers",
        "9.33 against 10.39 %",
        burgers,
    ),
}
