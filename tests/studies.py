"""The numbers that the openings of notebooks 30 to 44 state, as facts of their rows.

`STUDIES` has for a notebook the file of its rows and the numbers of its sentences in
bold, in their order; `PLAIN` those of other sentences, each by how it starts.
"""

import operator
from statistics import fmean

from facts import (
    both,
    claim,
    error,
    first,
    fixed,
    of,
    on,
    one,
    part,
    scaled,
)

from prisma_lib.cells import REGIMES
from prisma_lib.claims.moments import MOMENTS, NEAR_ZERO

DARCY, POISSON, HELMHOLTZ = ({"pde": p} for p in ("darcy", "poisson", "helmholtz"))
KURTOSIS = MOMENTS[1]
MOMENT = {"metric": KURTOSIS, "of": "estimate", "regime": "full"}
QUOTIENT = operator.truediv


def designs(cell):
    """Makes the errors without a residual, with one as a channel, through attention."""
    pde, cell = cell.split(maxsplit=1)
    return [error(cell, pde=pde, variant=v) for v in ("none", "concat", "sra")]


def ends(cell, **more):
    """Makes the least and the largest value of PRISMA's rows."""
    direction, regime = cell.split()
    about = {"method": "PRISMA", "direction": direction, "regime": regime, **more}
    return [of(reduce, **about) for reduce in (min, max)]


def gain(start, end):
    """Makes the largest gain, which must be that of one cell."""
    about = {"metric": "gain", "from": start, "steps": end}
    return first(max, one(**about, **LARGEST), **about)


def along(pde, regime, steps, metric="pearson_r", who="estimate", column="value"):
    """Makes what was recorded along the draws of one kind."""
    about = {"pde": pde, "regime": regime, "steps": steps, "metric": metric, "of": who}
    return one(column, **about)


def extreme(reduce, metric, who, *cell):
    """Makes the least or the largest of all draws, which must be that of one kind."""
    return first(reduce, along(*cell, metric, who), metric=metric, of=who)


def noisy(method, pde):
    return both("noisy", method, **pde, **AT_2)


def grows(way, pde):
    """Makes PRISMA's error under the least and the most noise."""
    return [error(f"{way} noisy", noise_sd=sd, n=64, **pde) for sd in ("0.1", "2")]


def unaware(reduce):
    """Makes an extreme of PRISMA's errors over PRISMA-L's, where they are larger."""
    cells = ("forward", DARCY), ("inverse", DARCY), ("inverse", HELMHOLTZ)
    pairs = [
        [error(f"{way} noisy", m, **pde, **AT_2) for m in ("PRISMA", "PRISMA-L")]
        for way, pde in cells
    ]
    return on(lambda *those: reduce(those), *(on(QUOTIENT, *pair) for pair in pairs))


def sensors(rate, **more):
    return both("sparse", "PRISMA", rate=rate, n=64, **DARCY, **more)


def source(rate):
    """Makes the error of Helmholtz' source from sensors at random points."""
    return error("inverse sparse", rate=rate, n=64, **HELMHOLTZ)


NEW = [
    *({"pde": "helmholtz", "k": k} for k in (2, 3, 4)),
    *({"pde": "navier_stokes", "viscosity": v} for v in ("0.0001", "1e-05")),
]
OLD = {"helmholtz": 1, "navier_stokes": 0.001}


def new(method, told=False):
    """Makes the errors at new coefficients, or of those who are told the old one."""
    old = [{"told": OLD[at["pde"]]} if told else {} for at in NEW]
    pairs = zip(NEW, old, strict=True)
    return [error("forward full", method, **at, **more) for at, more in pairs]


def farthest(facts, others):
    """Makes the largest difference of two lists of facts."""
    apart = [on(operator.sub, *pair) for pair in zip(facts, others, strict=True)]
    return on(lambda *those: max(map(abs, those)), *apart)


def spectra(method, *pdes):
    about = {"metric": "spectral_power_error", "n": 8}
    return [fact for pde in pdes for fact in both("noisy", method, **about, **pde)]


def kurtosis(direction, method="PRISMA"):
    """Makes the size of the estimate's excess kurtosis, averaged over the steps."""
    n = 64 if method == "PRISMA" else 4
    return of(fmean, method=method, direction=direction, n=n, **MOMENT)


def of_eight(reduce, other, **more):
    """Makes an extreme, over cells, of the mean of eight of PRISMA-L over another."""
    cells = [f"{way} {regime}" for way in ("forward", "inverse") for regime in REGIMES]
    pairs = [(error(c, "PRISMA-L", mean_of=8), error(c, other, **more)) for c in cells]
    return on(lambda *those: reduce(those), *(on(QUOTIENT, *pair) for pair in pairs))


LARGEST = {"direction": "inverse", "regime": "full", **HELMHOLTZ}
FEWEST = {"n": 8, "steps": 20, **DARCY}
AT_2 = {"noise_sd": 2, "n": 64}
AVERAGE = r"phase helps: [^;]* on average "

STUDIES = {
    "30_residual_strategies": (
        "residual_strategies",
        [
            *designs("helmholtz inverse full"),
            *designs("kolmogorov forward full"),
            *designs("kolmogorov inverse full"),
        ],
    ),
    "31_sra_variants": (
        "sra_variants",
        [
            *(*ends("forward full"), *ends("inverse full")),
            *(*ends("forward noisy"), *ends("inverse noisy")),
            *(error("forward full", variant=v) for v in ("multiplicative", "sra")),
        ],
    ),
    "32_steps": (
        "steps",
        [
            part("from", **{"from": 20}),
            one("steps", **{"from": 20, "steps": 500}, **LARGEST),
            gain(20, 500),
            *(part("from", **{"from": 50}), gain(50, 500)),
            error("forward full", **FEWEST),
            *(error("forward full", m, **FEWEST) for m in ("FunDPS", "DiffusionPDE")),
            one("n", method="FunDPS", direction="forward", regime="full", **FEWEST),
            *(error("inverse noisy", m, **FEWEST) for m in ("FunDPS", "PRISMA")),
        ],
    ),
    "33_trajectories": (
        "trajectories",
        [
            extreme(min, "pearson_r", "state", "kolmogorov", "full", 100),
            along("kolmogorov", "full", 20),
            along("helmholtz", "full", 20),
            along("helmholtz", "full", 20, column="steps"),
            along("helmholtz", "sparse", 20),
            extreme(max, "fall", "estimate", "kolmogorov", "full", 100),
            scaled(-1, extreme(min, "fall", "estimate", "kolmogorov", "noisy", 20)),
        ],
    ),
    "34_physics_lift": (
        "darcy",
        [
            *both("full", "PRISMA-L"),
            *(of_eight(reduce, "lift") for reduce in (min, max)),
            *(of_eight(reduce, "PRISMA", mean_of=8) for reduce in (min, max)),
        ],
    ),
    "40_noise_levels": (
        "noise_levels",
        [
            *(part("noise_sd", noise_sd=sd) for sd in ("0.1", "2")),
            *(*grows("forward", DARCY), *grows("forward", HELMHOLTZ)),
            *(*grows("inverse", DARCY), *grows("inverse", HELMHOLTZ)),
            error("inverse noisy", "mean field", **HELMHOLTZ, **AT_2),
            part("noise_sd", noise_sd=2),
            *(*noisy("PRISMA-L", DARCY), *noisy("PRISMA-L", HELMHOLTZ)),
            *noisy("exact posterior", HELMHOLTZ),
            *(unaware(min), unaware(max)),
        ],
    ),
    "41_sparsity": (
        "sparsity",
        [
            *(*sensors("0.5"), *sensors("0.1")),
            *(scaled(100, part("rate", rate="0.03")), *sensors("0.03")),
            *sensors("0.1", layout="patches"),
            *(*sensors("0.1", layout="columns"), *sensors("0.1", layout="window")),
        ],
    ),
    "42_extrapolation": (
        "extrapolation",
        [
            *(*new("PRISMA")[:3], *(part("k", k=k) for k in (2, 3, 4))),
            *(*new("PRISMA")[3:], farthest(new("PRISMA"), new("PRISMA", told=True))),
            *new("lift", told=True),
        ],
    ),
    "43_spectra": (
        "spectra",
        [
            *spectra("PRISMA", DARCY, POISSON, HELMHOLTZ),
            *spectra("FunDPS", DARCY, POISSON, HELMHOLTZ),
            *spectra("exact posterior", POISSON, HELMHOLTZ),
            *(of(r, regime="full", method="PRISMA", n=8) for r in (min, max)),
        ],
    ),
    "44_residual_moments": (
        "residual_moments",
        [
            *(kurtosis("inverse"), kurtosis("forward")),
            one("n", **MOMENT, method="PRISMA", direction="forward", step=1),
            fixed(NEAR_ZERO[KURTOSIS]),
        ],
    ),
}

PLAIN = {
    "40_noise_levels": {
        "nor C17 on Darcy forward: from": [
            *(scaled(100, part("fraction", fraction=f)) for f in ("0.1", "0.9")),
            error("forward noisy", fraction=0.1, **DARCY, **AT_2),
            error("forward noisy", fraction=0.9, **DARCY, **AT_2),
        ],
    },
    "41_sparsity": {
        "half of the points leave": [
            *(source("0.5"), source("0.1")),
            *(scaled(100, part("rate", rate="0.99")), source("0.99")),
        ],
    },
    "44_residual_moments": {
        "DiffusionPDE has": [
            *(kurtosis(way, "DiffusionPDE") for way in ("inverse", "forward")),
            *(kurtosis(way, "FunDPS") for way in ("inverse", "forward")),
            one("n", **MOMENT, method="FunDPS", direction="forward", step=1),
        ],
    },
}

# These stand in a table that is made of the rows of trainings.
CLAIMED = {
    "31_sra_variants": {
        "with phase the error is": [
            claim(rf"{AVERAGE}([\d.]+) \[", "C09"),
            claim(rf"{AVERAGE}[\d.]+ \[([\d.]+),", "C09"),
            claim(rf"{AVERAGE}[\d.]+ \[[\d.]+, ([\d.]+)\]", "C09"),
            claim(rf"{AVERAGE}[^;]*, in the paper ([\d.]+)", "C09"),
        ],
    },
}
