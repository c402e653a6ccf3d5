"""Numbers in bold where a notebook opens are those of the recorded rows.

A notebook joins with one entry of `OPENINGS`: its name, the file of its rows, and what
the numbers of its bold sentences are, in their order. Each is a function of the rows:
`one` makes that of a single row. Those of notebooks from 30 on are in `studies` and
`uses`.
"""

import re
from functools import cache

import pytest
import studies
import uses
from facts import both, error, one, ratio, share

from prisma_lib import results
from prisma_lib.cells import RATE
from prisma_lib.provenance import ROOT
from prisma_lib.tables import ERRORS

SCALE, SIZE = "cpu", "32"
# No name such as C20, no part of one such as darcy-32, no formula such as $32^2$.
NUMBER = re.compile(r"(?<![\w^.$-])−?\d+(?:\.\d+)?(?![\w^])")


def opening(name):
    """Returns the first Markdown cell of a notebook on one line."""
    text = (ROOT / "notebooks" / f"{name}.py").read_text("utf-8")
    cell = text.split("# %% [markdown]\n", 1)[1].split("\n# %%", 1)[0]
    return " ".join(line.removeprefix("#").strip() for line in cell.splitlines())


def bold(text):
    """Lists the numbers of the sentences in bold."""
    return NUMBER.findall(" ".join(re.findall(r"\*\*(.+?)\*\*", text)))


def plain(start):
    """Makes what lists the numbers from some words on, to where a sentence pauses."""

    def numbers(text):
        (said,) = re.findall(rf"{re.escape(start)}.*?[.:;](?=\s)", text)
        return NUMBER.findall(said)

    return numbers


def parse(word):
    return float(word.replace("−", "-"))


N, STEPS = (error("forward full", column=column) for column in ("n", "steps"))
FEW, DENSE, EXACT = share(RATE), share(0.1), "exact posterior"
FLOOR = [
    *(FEW, N, STEPS, ratio("forward sparse", EXACT)),
    *(DENSE, ratio("forward sparse", EXACT, rate=0.1)),
    *(FEW, ratio("inverse sparse", EXACT)),
    *(error("inverse noisy"), error("inverse noisy", "mean field")),
    *both("full", "FNO", "PRISMA"),
]
BURGERS = "reconstruct sparse", "DiffusionPDE"

OPENINGS = {
    "20_darcy": (
        "darcy",
        [N, STEPS, *both("full", "PRISMA"), FEW, *both("sparse", "PRISMA")],
    ),
    "21_poisson": ("poisson", [*FLOOR, error("inverse full", "stencil")]),
    "22_helmholtz": ("helmholtz", FLOOR),
    "23_navier_stokes": (
        "navier_stokes",
        [
            *(N, STEPS, *both("full", "PRISMA"), error("forward full", "persistence")),
            *(*both("full", "FNO", "PINO"), ratio("forward noisy", "FunDPS", "n")),
            *(ratio(f"{d} noisy", "FunDPS") for d in ("forward", "inverse")),
            *(FEW, *both("sparse", "PRISMA")),
            *(ratio(f"{d} sparse", "FunDPS") for d in ("forward", "inverse")),
        ],
    ),
    "24_kolmogorov": (
        "kolmogorov",
        [
            *(N, STEPS, *both("full", "PRISMA"), error("forward full", "persistence")),
            *(*both("full", "FNO"), error("forward full", "numerical solver")),
            ratio("forward full", "DiffusionPDE", "n"),
            *(ratio(f"{d} full", "DiffusionPDE") for d in ("forward", "inverse")),
            *(FEW, error("forward sparse"), *both("noisy", "PRISMA")),
            *(error("forward sparse", "mean field"), *both("noisy", "PRISMA-L")),
        ],
    ),
    "25_eikonal": (
        "eikonal",
        [
            *(N, STEPS, error("forward full"), error("forward full", "lift")),
            ratio("forward full", "FunDPS", "n"),
            *(ratio("forward full", m) for m in ("FunDPS", "DiffusionPDE")),
            *(FEW, error("forward sparse"), error("forward sparse", "lift")),
            *(error("forward noisy"), error("forward noisy", "mean field")),
        ],
    ),
    "26_burgers": (
        "burgers",
        [
            *(STEPS, error("reconstruct sparse"), N, ratio(*BURGERS, "n")),
            *(error("reconstruct sparse", n=8), error(*BURGERS)),
            *(ratio(*BURGERS, column) for column in ("value", "low", "high")),
            *(error("reconstruct sparse", who) for who in ("lift", "PRISMA-L")),
        ],
    ),
}

BENCHMARKS = list(OPENINGS)
OPENINGS = {**OPENINGS, **studies.STUDIES, **uses.USES}


def sentences(those):
    """Lists names, what finds the numbers, and what these are."""
    return [
        (name, plain(start), facts)
        for name, starts in those.items()
        for start, facts in starts.items()
    ]


OF_ROWS = [
    *((name, bold, facts) for name, (_, facts) in OPENINGS.items()),
    *sentences({**studies.PLAIN, **uses.PLAIN}),
]
TEXTS = [*OF_ROWS, *sentences(studies.CLAIMED)]


@cache
def rows_of(file):
    rows = results.read(ROOT / "outputs" / "results" / f"{file}.csv")
    return [row for row in rows if row["scale"] == SCALE]


def wrong(said, recorded):
    """Lists the numbers of a text that are not the rows', to the digits it has."""
    assert len(said) == len(recorded), f"{len(recorded)} facts for the numbers {said}"
    found = []
    for word, number in zip(said, recorded, strict=True):
        digits = len(word.partition(".")[2])
        if abs(parse(word) - number) > 0.501 * 10**-digits:
            found.append((word, number))
    return found


@pytest.mark.parametrize(("name", "numbers", "facts"), TEXTS)
def test_a_number_that_is_stated_is_that_of_a_recorded_row(name, numbers, facts):
    rows = rows_of(OPENINGS[name][0])

    assert not wrong(numbers(opening(name)), [fact(rows) for fact in facts])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_small_scale_is_stated_where_the_numbers_are(name):
    sizes = {results.settings(row).get("size") for row in rows_of(OPENINGS[name][0])}

    assert SIZE in sizes
    assert "laptop scale" in opening(name)
    assert f"${SIZE}^2$" in opening(name)


@pytest.mark.parametrize(("name", "numbers", "facts"), TEXTS)
def test_an_edit_of_a_text_is_noticed(name, numbers, facts):
    text, rows = opening(name), rows_of(OPENINGS[name][0])
    recorded = [fact(rows) for fact in facts]

    for word in {*numbers(text)}:
        place = rf"(?<![\w^.$-]){re.escape(word)}(?![\w^.]\d|\w)"
        edited = re.sub(place, f"{parse(word) + 1:g}", text)
        assert wrong(numbers(edited), recorded)


@pytest.mark.parametrize(("name", "numbers", "facts"), OF_ROWS)
def test_an_edit_of_rows_is_noticed(name, numbers, facts):
    edited = ("value", "seconds_per_sample")
    rows = [
        {**row, **{key: f"{2 * float(row[key] or 0)}" for key in edited}}
        for row in rows_of(OPENINGS[name][0])
    ]

    assert wrong(numbers(opening(name)), [fact(rows) for fact in facts])


def minutes(file, pde=""):
    found = [row for row in rows_of(file) if row["metric"] == "minutes"]
    return [float(row["value"]) for row in found if pde in ("", row["pde"])]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_minutes_of_an_equal_budget_are_those_that_were_recorded(name):
    text = (ROOT / "notebooks" / f"{name}.py").read_text("utf-8").replace("\n# ", " ")
    ((low, high),) = re.findall(r"each took, (\d+) to (\d+) minutes of one", text)

    took = minutes("baselines", OPENINGS[name][0])

    assert (round(min(took)), round(max(took))) == (int(low), int(high))


def test_plans_say_what_their_rows_say():
    plans = {}
    for name in ("baselines", "pino", "priors"):
        text = (ROOT / "params" / f"{name}.yaml").read_text("utf-8")
        plans[name] = text = text.replace("\n# ", " ")
        ((low, high),) = re.findall(r"(\d+) to (\d+) minutes of one", text)
        took = minutes(name)
        assert (round(min(took)), round(max(took))) == (int(low), int(high))
    rows = rows_of("pino")
    for way in ("forward", "inverse"):
        errors = [
            one(run=run, metric=ERRORS, direction=way, regime="full")(rows)
            for run in ("w-0", "w-1e-3", "w-1e-2", "w-1e-1", "w-1")
        ]
        assert f"{way} {', '.join(f'{e:.2f}' for e in errors)} %" in plans["pino"]
