"""What the paper's benchmark tables and figures show (E01 to E06, E09, E10, E22, E23).

A table is judged by the order of its methods, cell by cell, since its numbers belong to
another grid.
"""

from collections.abc import Callable, Sequence
from itertools import product

from prisma_lib import results
from prisma_lib.answers import IOU
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    judged,
    mostly,
    value,
)
from prisma_lib.claims.tables import (
    operators_fall_further,
    same_order,
    spectral_pairs,
)
from prisma_lib.comparison import EQUAL
from prisma_lib.frontier import answers
from prisma_lib.ranks import FAILS, HOLDS, OPEN
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
    return Finding(order.verdict, f"{order.evidence}: {', '.join(said)}", order.rows)


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


def spectra(directions: Sequence[str]) -> Judge:
    """E09 and E10: the error of the spectrum under noise is the smallest in each cell.

    Args:
        directions: Directions of the cells.
    """

    def claim(found: Evidence) -> Finding:
        pairs: dict[str, list[tuple[results.Row, results.Row]]] = {}
        for mine, other in spectral_pairs(found):
            if other["direction"] in directions:
                cell = f"{other['pde']} {other['direction']}"
                pairs.setdefault(cell, []).append((mine, other))
        better, said = 0, []
        for cell, here in pairs.items():
            better += all(value(mine) < value(other) for mine, other in here)
            mine, best = min(here, key=lambda pair: value(pair[1]))
            said.append(
                f"{cell} {value(mine):.3g} % against {value(best):.3g} % of "
                f"{best['method']} (n = {best['n']})"
            )
        finding = judged(better, len(pairs), "cells with PRISMA nearest")
        evidence = f"{finding.evidence}; the best of others: {'; '.join(said)}"
        rows = [row for here in pairs.values() for pair in here for row in pair]
        return Finding(finding.verdict, evidence if said else NO_ROWS, rows)

    return claim


def eikonal(found: Evidence) -> Finding:
    """E22: the order of methods on distances, with the overlap of the shapes."""
    order = same_order("eikonal", "forward", "full")(found)
    every = found.select(metric=IOU, pde="eikonal", direction="forward", regime="full")
    every.sort(key=lambda row: int(row["n"] or 0))
    # Of each method and number of steps that of most problems.
    rows = [*{(row["method"], row["steps"]): row for row in every}.values()]
    said = [" ".join((r["method"], r["steps"], r["value"], "%")) for r in rows]
    if order.verdict == OPEN or not said:
        return order
    evidence = f"{order.evidence}; overlap {', '.join(dict.fromkeys(said))}"
    return Finding(order.verdict, evidence, [*order.rows, *rows])


def burgers(found: Evidence) -> Finding:
    """E23: PRISMA reconstructs a history from five sensors better than DiffusionPDE."""
    cell = ("sparse", ("burgers", "reconstruct"))
    here = [e for e in found.entries if (e.regime, e.column) == cell]
    found_here = [(e.method, name(e), e.value) for e in here if e.value is not None]
    values = {who: value for _, who, value in found_here}
    ours = [value for method, _, value in found_here if method in (OURS, EQUAL)]
    theirs = [v for method, _, v in found_here if method == "DiffusionPDE"]
    if not ours or not theirs:
        return Finding(OPEN, NO_ROWS)
    said = ", ".join(f"{who} {value:.3g} %" for who, value in values.items())
    verdict = HOLDS if min(ours) < min(theirs) else FAILS
    return Finding(verdict, said, [e.row for e in here])


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
    "E09": Claim(
        "spectral power error under noise: PRISMA's is the smallest",
        "20_darcy, 21_poisson, 22_helmholtz",
        "in all six cells, 10.0 to 34.7 %",
        spectra(("forward", "inverse")),
    ),
    "E10": Claim(
        "power spectra of noisy inverse problems: PRISMA's is the nearest",
        "20_darcy, 21_poisson, 22_helmholtz",
        "nearest in all three",
        spectra(("inverse",)),
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
