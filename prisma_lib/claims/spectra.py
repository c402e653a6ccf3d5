"""Claims about power spectra under noise (C16, E09, E10): by the rows of 43_spectra.

Benchmarks have spectral errors of the same cells, too, and two of them are others for
FunDPS: there a guided method answers all cells of a direction that have its weights in
one batch, each place of which starts from its own noise, and a batch that holds another
cell first gives the noisy one other places. 43_spectra answers each cell alone.
"""

from collections.abc import Callable, Sequence

from prisma_lib import results
from prisma_lib.claims.evidence import NO_ROWS, OURS, Claim, Evidence, Finding, said
from prisma_lib.claims.tables import DIFFUSION, SPECTRAL, place_of
from prisma_lib.claims.tallies import Tally, ahead_of_all, compared
from prisma_lib.ranks import OPEN

NOTEBOOK = "43_spectra"
Pair = tuple[results.Row, results.Row]


def spectral_pairs(found: Evidence) -> list[Pair]:
    """Pairs PRISMA's spectra under noise with a baseline's, on the same problems.

    Of PRISMA's rows that with the fewest steps stands for it.
    """
    rows = noisy_spectra(found)
    found_pairs = []
    for other in rows:
        same = [
            row
            for row in rows
            if (*place_of(row), row["n"]) == (*place_of(other), other["n"])
            if row["method"] == OURS
        ]
        if other["method"] in DIFFUSION and same:
            found_pairs.append((min(same, key=lambda row: int(row["steps"])), other))
    return found_pairs


def noisy_spectra(found: Evidence) -> list[results.Row]:
    """Lists errors of spectra under noise; of rows of one question the last counts."""
    question = ("method", "pde", "direction", "steps", "n")
    rows = {
        tuple(str(row[key]) for key in question): row
        for row in found.select(sweep="spectra", metric=SPECTRAL, regime="noisy")
        if results.number(row) is not None
    }
    return [*rows.values()]


def sharp_spectra(found: Evidence) -> Finding:
    """C16: a smaller error of the power spectrum than each baseline's, under noise."""
    pairs = spectral_pairs(found)
    tally = Tally.of([compared(*pair) for pair in pairs])
    text = tally.says("nearer", "farther", "spectra than a baseline's")
    return tally.judge(text, [row for pair in pairs for row in pair])


def spectra(directions: Sequence[str]) -> Callable[[Evidence], Finding]:
    """E09 and E10: the error of the spectrum under noise is the smallest in each cell.

    Args:
        directions: Directions of the cells.
    """

    def claim(found: Evidence) -> Finding:
        cells: dict[str, list[Pair]] = {}
        for pair in spectral_pairs(found):
            if pair[1]["direction"] in directions:
                cell = f"{pair[1]['pde']} {pair[1]['direction']}"
                cells.setdefault(cell, []).append(pair)
        if not cells:
            return Finding(OPEN, NO_ROWS)
        each = [ahead_of_all(compared(*p) for p in here) for here in cells.values()]
        tally = Tally.of(each)
        text = tally.says("nearest", "behind", "cells")
        text += f"; against the best of others: {'; '.join(map(best, cells.items()))}"
        rows = [row for here in cells.values() for pair in here for row in pair]
        return tally.judge(text, rows)

    return claim


def best(cell: tuple[str, Sequence[Pair]]) -> str:
    """Writes PRISMA's error in a cell and the smallest of the others."""
    name, here = cell
    mine, other = min(here, key=lambda pair: float(pair[1]["value"]))
    return f"{name} {said(mine)} against {said(other)} % of {other['method']}"


CLAIMS = {
    "C16": Claim(
        "smaller spectral error than the baselines under noise",
        NOTEBOOK,
        "in all six cells",
        sharp_spectra,
    ),
    "E09": Claim(
        "spectral power error under noise: PRISMA's is the smallest",
        NOTEBOOK,
        "in all six cells, 10.0 to 34.7 %",
        spectra(("forward", "inverse")),
    ),
    "E10": Claim(
        "power spectra of noisy inverse problems: PRISMA's is the nearest",
        NOTEBOOK,
        "nearest in all three",
        spectra(("inverse",)),
    ),
}
