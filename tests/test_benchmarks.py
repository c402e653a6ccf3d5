"""A contest asks everybody the same; its words are those of its rows."""

import dataclasses
import json

import matplotlib.pyplot as plt
import pytest
import torch
from rivals import nine, untrained

from prisma_lib import (
    benchmarks,
    cells,
    checkpoints,
    galleries,
    judge,
    tables,
    verdicts,
)
from prisma_lib.answers import RATIO, SPECTRAL
from prisma_lib.comparison import EQUAL
from prisma_lib.errors import ConfigError
from prisma_lib.results import number, settings
from prisma_lib.shelf import Shelf


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds tiny networks of noise."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture
def contest(quick, folder):
    """PRISMA against the guided FunDPS and PRISMA of its budget, on nine problems."""
    problems = nine(quick, "poisson")
    untrained("fundps", problems.pde, folder)
    model = untrained("prisma", problems.pde, folder)
    rivals, missing = benchmarks.found(
        ["prisma", "fundps", "deeponet"],
        problems.pde,
        {"fundps": {"steps": 2}, "prisma": {"steps": 2}},
        folder,
    )
    assert len(missing) == 1
    assert "DeepONet was left out: there is no deeponet-poisson-16" in missing[0]
    return benchmarks.Contest(model, problems, rivals, missing, (2, 3), 2, "test")


def test_everybody_answers_the_same_problems_and_prisma_those_of_the_slow(contest):
    wanted = contest.cells(["forward"], ["full", "sparse"])

    answers = contest.answers(wanted)

    assert wanted == [("forward", "full"), ("forward", "sparse")]
    found = {(x.method, x.cell[1], x.about["steps"], x.problems.n) for x in answers}
    expected = {("numerical solver", "full", "", 9), ("FunDPS", "full", 2, 8)}
    for regime in ("full", "sparse"):
        honest = ("mean field", "lift", "exact posterior")
        expected |= {(name, regime, "", 9) for name in honest}
        expected |= {(EQUAL, regime, 2, 9)}
        expected |= {("PRISMA", regime, s, k) for s in (2, 3) for k in (8, 9)}
    assert found == expected
    whole, few = (
        next(x for x in answers if (x.method, x.problems.n) == ("PRISMA", n))
        for n in (9, 8)
    )
    assert torch.equal(whole.errors()[:8], few.errors())
    cell = ("forward", "full")
    solver = contest.solvers(cell)["PRISMA"]
    (alone,) = judge.judge(solver, contest.problems.first(8), [cell], method="PRISMA")
    assert few.rows()[0]["value"] == alone["value"]


def test_a_finished_contest_leaves_its_rows_and_no_answer(contest, tmp_path):
    kept = contest.at(0.5)
    kept = dataclasses.replace(kept, shelf=Shelf(tmp_path / "answers"))
    rows = benchmarks.rows_of(kept.answers([("forward", "sparse")]))
    assert list((tmp_path / "answers").iterdir())

    kept.finish(tmp_path / "run", rows, plt.figure())

    written = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert [row["method"] for row in written] == [row["method"] for row in rows]
    assert (tmp_path / "run" / "errors.png").stat().st_size > 0
    assert not (tmp_path / "answers").exists()
    unusual = verdicts.recorded(rows)  # half of the points, not 3 %
    assert verdicts.errors(unusual, "PRISMA", 2) == {}


def test_rows_compare_prisma_with_all_others_but_rounding(contest):
    answers = contest.answers([("forward", "full")])
    rows = benchmarks.rows_of(answers, [SPECTRAL])

    ratios = {row["setting"]: row for row in rows if row["metric"] == RATIO}
    assert {*ratios} == {
        f"size=16;over={name}" for name in ("mean field", "FunDPS", EQUAL)
    }
    by = {
        (row["method"], row["n"]): row
        for row in reversed(rows)
        if row["metric"] == "relative_l2" and "mean_of" not in row["setting"]
    }
    found = ratios["size=16;over=FunDPS"]
    assert found["n"] == 8
    expected = number(by["PRISMA", 8]) / number(by["FunDPS", 8])
    assert number(found) == pytest.approx(expected, rel=1e-3)
    low, high = number(found, "low"), number(found, "high")
    assert low < number(found) < high
    measured = [row for row in rows if row["metric"] == SPECTRAL]
    assert not [row for row in measured if "mean_of" in row["setting"]]
    assert {row["method"] for row in measured} == {row["method"] for row in rows}


def test_the_ratio_to_oneself_is_one(contest):
    answers = contest.answers([("inverse", "noisy")])
    mine = next(x for x in answers if x.method == "PRISMA" and x.problems.n == 9)

    row = mine.over(mine)

    assert [number(row, name) for name in ("value", "low", "high")] == [1, 1, 1]


def test_another_share_of_sensors_is_another_row_of_the_same_problems(contest):
    cell = ("inverse", "sparse")
    (few, many) = (
        cells.observation_of(x.problems, *cell) for x in (contest, contest.at(0.5))
    )

    rows = benchmarks.rows_of(contest.at(0.5).answers([cell]))

    assert few.mask_u.mean() < 0.06
    assert 0.4 < many.mask_u.mean() < 0.6
    settings = {row["setting"].split(";")[1] for row in rows}
    assert settings == {"rate=0.5"}
    assert {row["method"] for row in rows} == {
        *("mean field", "lift", "exact posterior", "PRISMA"),
    }


def test_words_are_those_of_the_rows(contest, tmp_path):
    rows = benchmarks.rows_of(contest.answers([("inverse", "sparse")]))
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "paper.csv").write_text("method,steps,table,metric\n")

    entries = verdicts.recorded(rows, tmp_path)
    said, beside = verdicts.answer(entries), verdicts.answer(entries, "mean field")
    table = verdicts.table(entries, tmp_path)

    mine = next(e for e in entries if e.who == ("PRISMA", 2) and e.draws == 1)
    assert mine.row["n"] == 9
    assert (
        f"2 steps errs on 9 unseen problems by: inverse, sparse: {mine.value:.3g}"
        in said
    )
    assert verdicts.errors(entries, "PRISMA", 2) == {("inverse", "sparse"): mine.value}
    assert verdicts.errors(entries, "PRISMA", 2, draws=2) != {}
    mean = next(e for e in entries if e.method == "mean field")
    assert f"{mine.value:.3g} % (mean field {mean.value:.3g} %)" in beside
    for name in ("exact posterior, mean of 2", EQUAL, "PRISMA, 3 steps"):
        assert f"| {name}" in table


@pytest.mark.parametrize(
    ("low", "high", "word", "mark"),
    [
        ("0.4", "0.9", verdicts.WINS, "| ×0.5 [0.4, 0.9] |"),
        ("1.1", "2", verdicts.LOSES, "| **×0.5 [1.1, 2]** |"),
        ("0.9", "1.1", verdicts.TIES, "| ×0.5 [0.9, 1.1] |"),
        ("", "", verdicts.TIES, "| ×0.5 |"),
    ],
)
def test_an_interval_decides_who_wins(low, high, word, mark):
    row = {
        "metric": RATIO,
        "setting": "size=32;rate=0.1;over=FNO",
        "value": "0.5",
    }
    row |= {"direction": "inverse", "regime": "sparse", "low": low, "high": high}

    text = verdicts.compared([row])

    assert f"1 {word}" in text
    assert mark in text
    assert "inverse, sparse (10% of points)" in text


def test_pictures_show_every_answer_and_its_error(contest):
    cell = ("inverse", "noisy")

    found = galleries.one_answer(contest, cell)
    figure = galleries.answers(contest, cell, found)

    assert {*found} == {"PRISMA", EQUAL, "FunDPS", "lift", "exact posterior"}
    titles = [axis.get_title() for axis in figure.axes]
    for name, shown in found.items():
        assert name in titles
        assert any(f"{shown.error:.3g} % rel. L2" in title for title in titles)
    residual = galleries.residual(contest, cell, found).axes
    assert [line.get_label() for line in residual[2].lines] == ["truth", *found]
    assert len(galleries.truths(contest.problems, 3).axes) == 2 * 3 + 2


@pytest.mark.parametrize(("calls", "times"), [(0, 2), (50, 2), (51, 1)])
def test_what_is_cheap_is_warmed_up_before_its_answer_is_timed(
    contest, calls, times, monkeypatch
):
    seeds = []

    class Slow:
        def solve(self, seen, *, samples, generator):
            seeds.append(generator.initial_seed())
            return seen.a[None], seen.u[None]

    Slow.calls = calls
    monkeypatch.setattr(benchmarks.Contest, "solvers", lambda *_: {"slow": Slow()})

    assert [*galleries.one_answer(contest, ("inverse", "sparse"))] == ["slow"]

    assert seeds == [contest.problems.seed] * times


def test_distributions_have_a_box_for_each_method(contest):
    answers = contest.answers([("inverse", "full")])

    (axis,) = galleries.distributions(answers).axes
    drawn = galleries.spectra(answers, ("inverse", "full")).axes[0].lines

    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == [
        "stencil",
        "mean field",
        "lift",
        "exact posterior",
        EQUAL,
        "FunDPS",
        "PRISMA",
    ]
    names.remove("mean field")  # its spectrum would flatten all others
    assert [line.get_label() for line in drawn] == ["truth", *names]


def test_a_model_enters_with_the_rivals_that_have_weights(quick, folder):
    model = untrained("prisma", quick("kolmogorov", 16), folder)
    checkpoints.save(folder / "own", model)

    found = benchmarks.enter(
        *(str(folder / "own"), "kolmogorov", ["prisma", "fno"]),
        n=2,
        scale="smoke",
        folder=folder,
    )

    assert {*found.rivals} == {"prisma"}
    assert found.problems.n == 2
    assert found.problems.pde.options == {**model.pde.options}
    with pytest.raises(ConfigError, match="not applicable"):
        benchmarks.enter(
            str(folder / "own"), "kolmogorov", ["pinn"], n=2, folder=folder
        )


def test_prisma_l_answers_like_prisma_where_there_is_one(quick, folder):
    model = untrained("prisma", quick("poisson", 16), folder)
    checkpoints.save(folder / "own", model)
    name, wanted = str(folder / "own"), ["prisma-l"]
    without = benchmarks.enter(name, "poisson", wanted, n=2, scale="smoke")
    lifted = untrained("prisma-l", model.pde, folder)
    checkpoints.save(folder / "ownL", lifted)

    contest = benchmarks.enter(
        *(name, "poisson", wanted), n=2, steps=[2, 3], samples=2, scale="smoke"
    )
    answers = contest.answers([("forward", "sparse")])

    assert without.lifted is None
    assert "PRISMA-L was left out: no model" in without.missing[0]
    assert not contest.missing
    one = dataclasses.replace(contest, samples=1).answers([("forward", "sparse")])
    assert {len(x.a) for x in one if x.method == "PRISMA-L"} == {1}
    counts = {"PRISMA": {2: 3, 3: 5}, "PRISMA-L": {2: 3, 3: 5, 1: 1, 6: 6}}
    for title, calls in counts.items():
        mine = [x for x in answers if x.method == title]
        assert {x.about["steps"]: x.about["calls"] for x in mine} == calls
    rows = benchmarks.rows_of(answers)
    over = [row["setting"] for row in rows if row["metric"] == RATIO]
    assert sum("over=PRISMA-L" in setting for setting in over) == 1
    few = [row for row in rows if row["steps"] == 6 and row["metric"] != RATIO]
    draws = [settings(row).get("mean_of", "1") for row in few]
    assert draws == ["1", "8", "16"]
    assert all("sampler=multistep" in row["setting"] for row in few)
    assert all(tables.entry_of(row).hidden == "rate=0.03" for row in few)
    assert [*contest.solvers(("forward", "sparse"))][:2] == ["PRISMA", "PRISMA-L"]
