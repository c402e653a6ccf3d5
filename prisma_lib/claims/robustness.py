"""Claims about noise, sensors and coefficients (40 to 42)."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from prisma_lib import results
from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
    error,
)
from prisma_lib.claims.sweeps import errors_of, growth, rising, standings, within
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import FAILS, OPEN, ratios

PAPER_GROWTH = 4.3  # times: 0.97 to 4.11 % from a viscosity of 1e-3 to 1e-5
GUIDED = ("FunDPS", "DiffusionPDE")  # whom the paper's figure of noise has


def first(
    sweep: str,
    keep: Callable[[results.Row], bool],
    share: float = 0.0,
    undecided: str = FAILS,
) -> Callable[[Evidence], Finding]:
    """Judges whether PRISMA is first in more of a sweep's cells than behind.

    Args:
        sweep: Name of the sweep.
        keep: Keeps its rows.
        share: The share of the decided cells in which it must be first.
        undecided: The verdict where intervals decide no cell.
    """

    def claim(found: Evidence) -> Finding:
        rows = filter(keep, errors_of(found, sweep))
        places, used = standings(rows, ratios(found.rows))
        tally = Tally.of(places)
        text = tally.says("first", "behind", "cells")
        finding = tally.judge(text, used, share=share)
        nothing = tally.open == tally.count > 0
        return replace(finding, verdict=undecided) if nothing else finding

    return claim


def new_coefficient(
    name: str, trained: float, *others: float
) -> Callable[[Evidence], Finding]:
    """C06: errors grow where a coefficient is new as the paper's do, or less."""

    def claim(found: Evidence) -> Finding:
        rows = [
            row
            for row in errors_of(found, "extrapolation")
            if name in results.settings(row)
        ]
        pairs = [
            pair
            for other in others
            for pair in growth(rows, name, trained, other, trained).values()
        ]
        return within(pairs, PAPER_GROWTH, "errors that grow")

    return claim


def wavenumbers(found: Evidence) -> Finding:
    """E08: errors grow with the wavenumber."""
    rows = errors_of(found, "extrapolation", pde="helmholtz")
    pairs = [
        pair
        for a, b in ((2.0, 3.0), (3.0, 4.0))
        for pair in growth(rows, "k", a, b, 1.0).values()
    ]
    return rising(pairs, "errors that grow with k")


def viscosities(found: Evidence) -> Finding:
    """E07: an error at 1e-5 is about that at 1e-4."""
    rows = errors_of(found, "extrapolation", pde="navier_stokes")
    pairs = [*growth(rows, "viscosity", 1e-4, 1e-5, 1e-3).values()]
    return within(pairs, 1.2, "errors that grow from 1e-4 to 1e-5")


def fractions(found: Evidence) -> Finding:
    """C17: errors grow at most threefold from 10 to 90 % of noisy points."""
    rows = errors_of(found, "noise_levels")
    pairs = [*growth(rows, "fraction", 0.1, 0.9, 1.0).values()]
    return within(pairs, 3.0, "errors that grow")


def partly_noisy(row: results.Row) -> bool:
    """Whether a row is of noise at a share of the points."""
    return "fraction" in results.settings(row)


def helmholtz_levels(row: results.Row) -> bool:
    """Whether a row is of Helmholtz' equation with noise at every point."""
    return row["pde"] == "helmholtz" and not partly_noisy(row)


def noise_levels(found: Evidence) -> list[tuple[results.Row, results.Row]]:
    """Pairs PRISMA's errors of Helmholtz at neighbouring levels of noise."""
    rows = [r for r in errors_of(found, "noise_levels") if helmholtz_levels(r)]
    levels = sorted({float(results.settings(row)["noise_sd"]) for row in rows})
    return [
        pair
        for a, b in pairwise(levels)
        for pair in growth(rows, "noise_sd", a, b, 2.0).values()
    ]


def graceful(found: Evidence) -> Finding:
    """C10: errors grow less than their noise; PRISMA is never behind guided methods.

    Levels that intervals leave open do not count, and where all are open the claim does
    not hold.
    """
    steps = noise_levels(found)
    slow = [error(b) / error(a) < sd_of(b) / sd_of(a) for a, b in steps]
    rows = filter(helmholtz_levels, errors_of(found, "noise_levels"))
    rivals = (row for row in rows if row["method"] in (OURS, *GUIDED))
    places, used = standings(rivals, ratios(found.rows))
    if not slow or not places:
        return Finding(OPEN, NO_ROWS)
    tally = Tally.of(places)
    text = f"the error grows less than the noise in {sum(slow)} of {len(slow)} steps; "
    text += tally.says("first", "behind", "levels")
    holds = all(slow) and tally.good > 0 == tally.bad
    used += [row for step in steps for row in step]
    return decided(holds, text, used, tally.interval)


def sd_of(row: results.Row) -> float:
    """Returns the noise of a row in standard deviations of the field."""
    return float(results.settings(row)["noise_sd"])


def louder(found: Evidence) -> Finding:
    """E13: the error rises with the noise."""
    return rising(noise_levels(found), "steps of noise to which the error rises")


def sparser(found: Evidence) -> Finding:
    """C18: errors grow at most by a half from 50 to 90 % of hidden points."""
    rows = [row for row in errors_of(found, "sparsity") if at_points(row)]
    pairs = [*growth(rows, "rate", 0.5, 0.1, 0.0).values()]
    return within(pairs, 1.5, "errors that grow")


def at_points(row: results.Row) -> bool:
    """Whether sensors stand at random points."""
    return "layout" not in results.settings(row)


def papers_sparsity(row: results.Row) -> bool:
    """Whether a row is of Darcy with 50, 75 or 90 % hidden at random points."""
    rate = results.settings(row).get("rate")
    return row["pde"] == "darcy" and at_points(row) and rate in ("0.5", "0.25", "0.1")


def first_inverse(found: Evidence) -> Finding:
    """E12: PRISMA is ahead inverse and behind FunDPS forward."""
    rows = [row for row in errors_of(found, "sparsity") if papers_sparsity(row)]
    rows = [row for row in rows if row["method"] in (OURS, "FunDPS")]
    known, said, used, total = ratios(found.rows), [], [], Tally(0, 0, 0)
    for direction in ("inverse", "forward"):
        mine = [row for row in rows if row["direction"] == direction]
        places, more = standings(mine, known)
        tally = Tally.of(places)
        if places:
            said.append(f"{direction} {tally.says('first', 'behind', 'cells')}")
        total += tally if direction == "inverse" else tally.reversed
        used += more
    text = total.says("as the paper has it", "reversed", "cells of Darcy")
    return total.judge(f"{text}; PRISMA {', '.join(said)}", used)


def new(name: str, trained: float) -> Callable[[results.Row], bool]:
    """Keeps rows of other coefficients than the trained one."""

    def keep(row: results.Row) -> bool:
        return float(results.settings(row).get(name, trained)) != trained

    return keep


CLAIMS = {
    "C06": Claim(
        "robust to a viscosity that was never seen",
        "42_extrapolation",
        "1e-3 to 1e-4, forward: full 0.97 to 3.89, sparse 7.1 to 8.4, noisy 37 to 42 %",
        new_coefficient("viscosity", 1e-3, 1e-4, 1e-5),
    ),
    "C07": Claim(
        "best in most settings at wavenumbers that were never seen",
        "42_extrapolation",
        "PRISMA first in 16 of 18 cells",
        first("extrapolation", new("k", 1.0), undecided=OPEN),
    ),
    "C10": Claim(
        "the error grows gracefully with the noise and is the lowest at every level",
        "40_noise_levels",
        "Helmholtz, a figure without numbers",
        graceful,
    ),
    "C17": Claim(
        "robust at every share of noisy points",
        "40_noise_levels",
        "10 to 90 % noisy: errors grow 1.5 to 2.6 times",
        fractions,
    ),
    "C18": Claim(
        "robust to 50 to 90 % of hidden points",
        "41_sparsity",
        "forward 1.84 to 2.24, inverse 2.95 to 3.87 %",
        sparser,
    ),
    "E07": Claim(
        "viscosities: errors at 1e-5 are about those at 1e-4",
        "42_extrapolation",
        "PRISMA, forward, full: 3.89 and 4.11 %; first in 9 of 12 cells",
        viscosities,
    ),
    "E08": Claim(
        "wavenumbers: errors grow with k",
        "42_extrapolation",
        "PRISMA, forward, full, k = 2, 3, 4: 7.4, 14.9, 52 %",
        wavenumbers,
    ),
    "E11": Claim(
        "shares of noisy points: PRISMA first in nearly every cell",
        "40_noise_levels",
        "first in 23 of 24 cells",
        first("noise_levels", partly_noisy, 0.9),
    ),
    "E12": Claim(
        "50, 75 and 90 % hidden: PRISMA first inverse, FunDPS forward",
        "41_sparsity",
        "at 90 %: PRISMA 2.24 and 3.87, FunDPS 1.59 and 6.38 %",
        first_inverse,
    ),
    "E13": Claim(
        "noise levels, Helmholtz: errors rise with the noise",
        "40_noise_levels",
        "a figure without numbers",
        louder,
    ),
}
