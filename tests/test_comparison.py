"""Methods side by side: by name, in every cell that applies, several at once."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from rivals import FAST, GUIDED, nine, settings_of, untrained
from small import network

from prisma_lib import (
    baselines,
    checkpoints,
    comparison,
    evaluate,
    judge,
    metrics,
    pdes,
    results,
    tables,
)
from prisma_lib.answers import RATIO, ROUNDING
from prisma_lib.baselines.paper import PAPER
from prisma_lib.cells import cells
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, NumericsError
from prisma_lib.lifted import PrismaL
from prisma_lib.solve import PrismaSolver


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds a tiny network of noise of every baseline for every equation."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture
def problems(quick):
    """Makes nine problems of an equation, once."""
    return partial(nine, quick)


@pytest.mark.parametrize("name", baselines.names())
def test_every_name_has_a_row_in_every_cell_that_applies(name, problems, folder):
    for pde in PAPER[name]:
        asked = problems(pde)
        if name != "pinn":
            untrained(name, asked.pde, folder)
        settings = {name: settings_of(name, folder)}

        rows = evaluate.compare([name], asked, settings=settings, scale="test")

        found = [(row["direction"], row["regime"]) for row in rows]
        assert len(found) == len(set(found))
        assert set(found) == PAPER[name][pde]
        assert {row["method"] for row in rows} == {baselines.title(name)}
        assert {row["n"] for row in rows} == {baselines.limit(name) or 9}
        assert all(float(row["value"]) > 0 for row in rows)


@pytest.mark.parametrize("name", baselines.names())
def test_other_cells_are_refused_by_name(name, problems):
    for pde in pdes.names():
        asked = problems(pde)
        others = {*cells(asked.pde)} - PAPER[name].get(pde, frozenset())
        for cell in others:
            with pytest.raises(ConfigError, match=f"not applicable.*{pde}"):
                evaluate.evaluate(name, asked, *cell)
        if others == {*cells(asked.pde)}:
            with pytest.raises(ConfigError, match="leave it out"):
                evaluate.compare([name], asked)


@pytest.mark.parametrize("name", ["pinn", *GUIDED])
def test_what_stands_first_in_a_batch_is_answered_as_if_alone(name, problems, folder):
    asked = problems("poisson").first(2)
    if name != "pinn":
        untrained(name, asked.pde, folder)
    solver = baselines.solver(
        *(name, asked.pde, "inverse", "full"), **settings_of(name, folder)
    )
    together = [("inverse", "sparse"), ("inverse", "full"), ("inverse", "noisy")]

    for shift in range(3):
        first, *_ = evaluate.judge(solver, asked, together[shift:], method="x")
        (alone,) = evaluate.judge(solver, asked, [together[shift]], method="x")
        assert float(first["value"]) == pytest.approx(float(alone["value"]), rel=1e-3)


def test_guidance_that_diverges_costs_its_own_cells_only(problems, folder):
    asked = problems("darcy").first(2)
    untrained("fundps", asked.pde, folder)
    weights = {"a": 1.0, "u": 1e30, "pde": 0.0}  # forward problems do not see u
    settings = {**settings_of("fundps", folder), "weights": weights}

    rows = evaluate.compare(["fundps"], asked, settings={"fundps": settings})

    assert {(row["direction"], row["value"] == "") for row in rows} == {
        ("forward", False),
        ("inverse", True),
    }
    lost = [row["setting"] for row in rows if row["value"] == ""]
    assert all("diverged;weights=1/1e+30/0" in setting for setting in lost)
    assert "inverse" in evaluate.show(rows)


def test_a_fit_that_fails_is_an_error(problems):
    asked = problems("darcy").first(1)
    broken = replace(asked, a=asked.a * math.inf)
    solver = baselines.solver("pinn", asked.pde, "forward", "full", **FAST)

    with pytest.raises(NumericsError):
        list(comparison.rows_of("pinn", lambda *_: solver, broken))


class Echo:
    """Answers with what was observed, twice."""

    calls = 0

    def __init__(self, pde):
        self.pde = pde

    def solve(self, observation, *, samples, generator):
        seen = observation.a + observation.u
        answers = torch.stack([seen * (1 + s / 10) for s in range(samples)])
        return answers, answers


def test_cells_at_once_are_judged_as_one_by_one(problems):
    asked = problems("darcy")
    every = cells(asked.pde)
    told = {"method": "echo", "samples": 2}
    measured = ("value", "low", "high", "setting", "metric", "n", "regime")

    together = evaluate.judge(Echo(asked.pde), asked, every, **told)
    alone = [
        row
        for cell in every
        for row in evaluate.evaluate(Echo(asked.pde), asked, *cell, **told)
    ]

    assert len({row["value"] for row in together}) > 6
    for one, other in zip(together, alone, strict=True):
        assert [one[key] for key in measured] == [other[key] for key in measured]


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("name", baselines.names())
def test_the_error_in_a_row_is_that_of_the_answer(name, equation, problems, folder):
    asked = problems(equation).first(3)
    if name != "pinn":
        untrained(name, asked.pde, folder)
    settings = settings_of(name, folder)
    solver = baselines.solver(name, asked.pde, "inverse", "full", **settings)
    seen = evaluate.observation_of(asked, "inverse", "full")
    generator = torch.Generator().manual_seed(asked.seed)

    a, _ = solver.solve(seen, samples=1, generator=generator)
    (row,) = evaluate.evaluate(name, asked, "inverse", "full", settings=settings)

    if equation == "darcy":  # permeabilities are 3 and 12
        error = ((a[0] > 7.5) != (asked.a > 7.5)).double().mean()
    else:
        off = (a[0] - asked.a).double().square().sum((1, 2, 3))
        error = (off / asked.a.double().square().sum((1, 2, 3))).sqrt().mean()
    assert float(row["value"]) == pytest.approx(100 * error.item(), rel=1e-3)
    assert row["calls"] == solver.calls


def test_prisma_is_judged_on_the_problems_of_the_slow_too(problems):
    asked = problems("darcy")
    settings = {"pinn": FAST}

    rows = evaluate.compare(["pinn"], asked, prisma=Echo(asked.pde), settings=settings)

    beside = [row["n"] for row in rows if row["method"] == "PRISMA"]
    assert beside == [4] * 6 + [9] * 6
    few = [row for row in rows if row["method"] == "PRISMA" and row["n"] == 4]
    (expected,) = evaluate.evaluate(
        *(Echo(asked.pde), asked.first(4), "forward", "full"), method="PRISMA"
    )
    assert few[0]["value"] == expected["value"]


def test_rows_of_prisma_l_beside_others_are_called_so(problems):
    asked = problems("darcy").first(4)
    ours = Echo(asked.pde)
    ours.model = PrismaL  # all that is read of it is its title

    rows = evaluate.compare(["pinn"], asked, prisma=ours, settings={"pinn": FAST})

    assert {row["method"] for row in rows} == {"PINN", "PRISMA-L"}


def test_prisma_of_the_same_budget_stands_in_the_same_folder(tmp_path, problems):
    asked = problems("poisson").first(2)
    untrained("prisma", asked.pde, tmp_path)

    settings = {"prisma": {"folder": tmp_path, "steps": 2}}

    rows = evaluate.compare(["prisma"], asked, settings=settings)

    assert {row["method"] for row in rows} == {"PRISMA (equal budget)"}
    assert len(rows) == 6


def test_the_command_writes_rows_of_every_method(tmp_path, capsys, quick):
    pde = quick("darcy", 16)
    untrained("fundps", pde, tmp_path)
    model = untrained("prisma", pde, tmp_path)
    checkpoints.save(tmp_path / "own", model)
    path = tmp_path / "rows.csv"
    command = [str(tmp_path / "own"), "--methods", "fundps", "--size", "16"]
    command += ["--guided-steps", "2", "--steps", "2", "--n", "9"]
    command += ["--weights", str(tmp_path), "--results", str(path)]

    assert evaluate.main(command) == 0
    assert evaluate.main(command) == 0  # the rows of the first run are replaced

    rows = results.read(path)
    nums = {(row["method"], row["n"]) for row in rows}
    assert nums == {("FunDPS", "8"), ("PRISMA", "8"), ("PRISMA", "9")}
    assert len(rows) == 18
    assert {row["steps"] for row in rows} == {"2"}
    assert "FunDPS" in capsys.readouterr().out


def test_the_command_wants_a_model_or_methods(capsys):
    for wrong in ([], ["--methods", "pinn", "--card"]):
        with pytest.raises(SystemExit) as stopped:
            evaluate.main(wrong)
        assert stopped.value.code == 2
    assert "name a model, or baselines" in capsys.readouterr().err


def test_ratios_are_paired_on_the_same_problems(problems):
    whole = problems("helmholtz")
    cell, bench = ("inverse", "noisy"), whole.first(4)
    model = network(whole.pde)

    def answer(steps, asked, where, method):
        solver = PrismaSolver(model, Schedule(steps))
        (found,) = judge.answered(solver, asked, [where], method=method)
        return found

    mine, more = (answer(2, asked, cell, "PRISMA") for asked in (bench, whole))
    rival = answer(3, bench, cell, "FunDPS")
    elsewhere = answer(3, bench, ("forward", "noisy"), "FunDPS")
    nothing = replace(rival, a=None, u=None)
    exact = replace(rival, a=bench.a[None], u=bench.u[None])

    # Whoever is asked first, only answers to the same problems in the same cell count.
    (row,) = comparison.ratios([rival, elsewhere, nothing, exact, more, mine])

    low, high = metrics.bootstrap_interval(
        mine.errors(), key=0, over=rival.errors(), origins=bench.origins
    )
    value = (mine.errors().mean() / rival.errors().mean()).item()
    assert (row["value"], row["low"], row["high"]) == tuple(
        f"{number:.4g}" for number in (value, low, high)
    )
    assert low < value < high
    assert (row["method"], row["n"], row["steps"]) == ("PRISMA", 4, 2)
    assert row["metric"] == RATIO
    assert row["setting"] == f"size={bench.pde.size};noise_sd=2;over=FunDPS"
    assert not [*comparison.ratios([rival, elsewhere, more])]


def test_errors_of_rounding_are_those_of_the_tables():
    assert ROUNDING == tables.ROUNDING
