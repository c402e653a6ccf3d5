"""Numbers in bold where a notebook opens are those of the recorded rows.

A notebook joins with one entry of `OPENINGS`: its name, the file of its rows, and what
the numbers of its bold sentences are, in their order. Each is a function of the rows:
`one` makes that of a single row.
"""

import re

import pytest

from prisma_lib import results
from prisma_lib.answers import RATIO
from prisma_lib.cells import COLUMNS, RATE
from prisma_lib.provenance import ROOT
from prisma_lib.tables import ERRORS

SCALE, SIZE = "cpu", "32"
# A row with one of these in its setting is meant only where it is asked for.
SPECIAL = ("mean_of", "over", "sampler", "diverged", "rate", "columns")
USUAL = ({"rate": f"{RATE:g}"}, {"columns": f"{COLUMNS}"})
# No name such as C20, no part of one such as darcy-32, no formula such as $32^2$.
NUMBER = re.compile(r"(?<![\w^.$-])\d+(?:\.\d+)?(?![\w^])")


def opening(name):
    """Returns the first Markdown cell of a notebook on one line."""
    text = (ROOT / "notebooks" / f"{name}.py").read_text("utf-8")
    cell = text.split("# %% [markdown]\n", 1)[1].split("\n# %%", 1)[0]
    return " ".join(line.removeprefix("#").strip() for line in cell.splitlines())


def numbers(text):
    """Lists the numbers of the sentences in bold."""
    return NUMBER.findall(" ".join(re.findall(r"\*\*(.+?)\*\*", text)))


def fits(row, wanted):
    """Whether a row has what is wanted of it: alternatives, by column or setting."""
    setting = results.settings(row)
    known = {**setting, **row}
    if any(known.get(key) not in those for key, those in wanted.items()):
        return False
    rest = {k: v for k, v in setting.items() if k in SPECIAL and k not in wanted}
    return not rest or rest in USUAL


def one(column="value", **wanted):
    """Makes the number of one row: the last of those on the most problems.

    Args:
        column: Where it stands.
        **wanted: Columns and parts of the setting that single it out; of a tuple one.
    """
    every = {
        key: tuple(f"{v}" for v in (those if isinstance(those, tuple) else (those,)))
        for key, those in wanted.items()
    }

    def number(rows):
        found = [row for row in rows if fits(row, every)]
        assert found, f"no row has {wanted}"
        most = max(int(row["n"] or 0) for row in found)
        found = [row for row in found if int(row["n"] or 0) == most]
        asked = {results.question({**row, "run": "", "device": ""}) for row in found}
        assert len(asked) == 1, f"{wanted} leaves open which of {asked}"
        return float(found[-1][column])

    return number


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


def both(regime, *methods):
    """Makes the errors of methods, each forward and backward."""
    return [error(f"{d} {regime}", m) for m in methods for d in ("forward", "inverse")]


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


BENCHMARKS = [name for name in OPENINGS if name < "30"]


def rows_of(file):
    rows = results.read(ROOT / "outputs" / "results" / f"{file}.csv")
    return [row for row in rows if row["scale"] == SCALE]


def wrong(text, facts, rows):
    """Lists the numbers of a text that are not the rows', to the digits it has."""
    said = numbers(text)
    assert len(said) == len(facts), f"{len(facts)} facts for the numbers {said}"
    found = []
    for word, fact in zip(said, facts, strict=True):
        digits = len(word.partition(".")[2])
        if abs(float(word) - fact(rows)) > 0.501 * 10**-digits:
            found.append((word, fact(rows)))
    return found


@pytest.mark.parametrize("name", OPENINGS)
def test_a_number_in_bold_is_that_of_a_recorded_row(name):
    file, facts = OPENINGS[name]

    assert not wrong(opening(name), facts, rows_of(file))


@pytest.mark.parametrize("name", OPENINGS)
def test_the_small_scale_is_stated_where_the_numbers_are(name):
    sizes = {results.settings(row).get("size") for row in rows_of(OPENINGS[name][0])}

    assert SIZE in sizes
    assert "laptop scale" in opening(name)
    assert f"${SIZE}^2$" in opening(name)


@pytest.mark.parametrize("name", OPENINGS)
def test_an_edit_of_a_text_or_of_a_row_is_noticed(name):
    file, facts = OPENINGS[name]
    text, rows = opening(name), rows_of(file)

    for word in {*numbers(text)}:
        place = rf"(?<![\w^.$-]){re.escape(word)}(?![\w^.]\d|\w)"
        edited = re.sub(place, f"{float(word) + 1:g}", text)
        assert wrong(edited, facts, rows)
    doubled = [{**row, "value": f"{2 * float(row['value'] or 0)}"} for row in rows]
    assert wrong(text, facts, doubled)


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
