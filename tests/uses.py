"""The numbers that the openings of notebooks 50 to 53 state, as facts of their rows.

`USES` and `PLAIN` are as in `studies`.
"""

import operator

from facts import error, fixed, of, on, one, scaled

from prisma_lib.cells import REGIMES
from prisma_lib.targets import CALIBRATED

DARCY = {"pde": "darcy"}
PLACED, PART = "placed_90", "residual_time_fraction"
QUOTIENT = operator.truediv


def ending(metric, regime):
    """Makes what was recorded of draws of Darcy's rock, where two values end them."""
    about = {"method": "PRISMA", "draws": 19, "two values": "", "n": 64}
    return one(metric=metric, regime=regime, direction="inverse", **DARCY, **about)


def calibrated(reduce, method):
    """Makes a number of cells: of each, whether its draws are within all limits."""

    def number(rows):
        within = {}
        for row in rows:
            if row["method"] == method and row["metric"] in CALIBRATED:
                low, high = CALIBRATED[row["metric"]]
                cell = row["pde"], row["direction"], row["regime"]
                within.setdefault(cell, []).append(low <= float(row["value"]) <= high)
        assert {len(each) for each in within.values()} == {len(CALIBRATED)}
        return reduce([all(each) for each in within.values()])

    return number


def grid(size, method="PRISMA"):
    return error("forward full", method, size=size, trained=32, **DARCY)


def ahead(regime, step, method="PRISMA", entering="once"):
    return error(f"forward {regime}", method, entering=entering, step=step)


def minutes(*methods):
    """Makes the minutes of all rollouts, or of those of some methods, by their ends."""

    def number(rows):
        those = [row for row in rows if ";step=10" in row["setting"]]
        return sum(
            float(row["seconds_per_sample"] or 0) * int(row["n"]) / 60
            for row in those
            if not methods or row["method"] in methods
        )

    return number


def iteration(method):
    return one(method=method, metric="seconds_per_iteration", batch=32, **DARCY)


def thousand(method, steps, unit):
    """Makes what a thousand samples take, in a unit of so many seconds."""
    about = {"method": method, "steps": steps, "batch": 8, **DARCY}
    return scaled(1000 / unit, one(metric="seconds_per_sample", **about))


USES = {
    "50_posterior": (
        "posterior",
        [
            *(ending("spread_skill", r) for r in REGIMES),
            fixed(int(PLACED.removeprefix("placed_"))),
            *(scaled(100, ending(PLACED, r)) for r in REGIMES),
            *(calibrated(sum, "PRISMA-L"), calibrated(len, "PRISMA-L")),
            calibrated(sum, "PRISMA"),
        ],
    ),
    "51_superresolution": (
        "superresolution",
        [
            *(grid(32), grid(256), grid(256, "PRISMA, interpolated")),
            *(grid(32, "PRISMA-L"), grid(256, "PRISMA-L")),
            grid(256, "PRISMA-L, interpolated"),
        ],
    ),
    "52_rollout": (
        "rollout",
        [
            *(ahead("full", 1), ahead("full", 10), ahead("full", 10, "persistence")),
            *(ahead("sparse", 1), ahead("noisy", 1)),
            ahead("sparse", 1, "persistence, clean start"),
            *(ahead("sparse", 10), ahead("noisy", 10)),
            *(ahead(regime, 10, "PRISMA 2D+time") for regime in REGIMES),
            ahead("noisy", 10, "PRISMA 2D+time", "every"),
            ahead("noisy", 10, entering="every"),
        ],
    ),
    "53_compute_cost": (
        "compute_cost",
        [
            *(of(r, metric=PART, preset="paper") for r in (min, max)),
            on(QUOTIENT, iteration("PRISMA"), iteration("FunDPS")),
            on(QUOTIENT, iteration("PRISMA"), iteration("DiffusionPDE")),
            thousand("PRISMA", 20, 60),
            *(thousand("FunDPS", 500, 3600), thousand("DiffusionPDE", 2000, 3600)),
        ],
    ),
}

PLAIN = {
    "52_rollout": {
        "The lift and the solver": [
            *(ahead("noisy", 10, "lift, then solver", e) for e in ("once", "every")),
        ],
        "Its rollouts took": [minutes(), minutes("FunDPS", "DiffusionPDE")],
    },
}
