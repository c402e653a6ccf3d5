"""Evaluation: the same questions for every method, and rows that say enough."""

import math
from dataclasses import replace

import pytest
import torch

from prisma_lib import checkpoints, data, evaluate, pdes, results
from prisma_lib.anchors import CUT, MeanField, NumericalSolver
from prisma_lib.cells import cells
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.model import ModelConfig, Prisma


@pytest.fixture(scope="module")
def problems():
    return evaluate.benchmark(pdes.load("darcy", size=16), n=6, seed=3)


class Truth:
    """Answers with the truth, changed by a factor."""

    calls = 0

    def __init__(self, problems, factor=1.0):
        self.problems, self.factor, self.pde = problems, factor, problems.pde

    def solve(self, observation, *, samples, generator):
        a = self.problems.a.expand(samples, *self.problems.a.shape)
        u = self.factor * self.problems.u.expand(samples, *self.problems.u.shape)
        return a, u


def test_the_truth_has_no_error_in_any_cell(problems):
    for direction, regime in cells(problems.pde):
        (row,) = evaluate.evaluate(
            Truth(problems), problems, direction, regime, method="truth"
        )
        assert float(row["value"]) == 0


def test_a_field_that_is_ten_per_cent_too_large_has_ten_per_cent_error(problems):
    (row,) = evaluate.evaluate(
        Truth(problems, 1.1), problems, "forward", "full", method="off"
    )

    assert float(row["value"]) == pytest.approx(10, abs=1e-3)
    assert float(row["low"]) <= float(row["value"]) <= float(row["high"])


def test_darcy_inverse_is_judged_by_misjudged_points(problems):
    a = problems.a.clone()
    a[:, :, :4] = 15 - a[:, :, :4]  # swap 3 and 12 in a quarter of the points

    values = evaluate.errors(problems, "inverse", a, problems.u)

    torch.testing.assert_close(values.float(), torch.full((6,), 25.0))


class Unasked(Truth):
    """A solver that must not be asked."""

    def solve(self, observation, *, samples, generator):
        raise AssertionError("the solver was run")


@pytest.mark.parametrize("value", [0.0, -3.0, 5.0, math.nan])
def test_a_truth_on_other_levels_is_refused_before_anything_is_solved(problems, value):
    a = problems.a.clone()
    a[2, 0, 4, 7] = value
    continuous = replace(problems, a=a)

    with pytest.raises(DataError, match="levels"):
        evaluate.evaluate(
            Unasked(continuous), continuous, "inverse", "full", method="none"
        )


def test_a_continuous_truth_can_be_judged_forward(problems):
    continuous = replace(problems, a=problems.a.sqrt())

    (row,) = evaluate.evaluate(
        Truth(continuous), continuous, "forward", "full", method="truth"
    )

    assert float(row["value"]) == 0


def test_the_numerical_solver_refuses_a_permeability_that_is_not_positive(problems):
    a = problems.a.clone()
    a[2, 0, 4, 7] = 0
    solver = NumericalSolver(problems.pde)

    with pytest.raises(DataError, match=r"positive.*\[2, 0, 4, 7\]"):
        evaluate.evaluate(
            solver, replace(problems, a=a), "forward", "full", method="solver"
        )


def test_the_numerical_solver_is_exact_forward(problems):
    (row,) = evaluate.evaluate(
        NumericalSolver(problems.pde), problems, "forward", "full", method="solver"
    )

    assert float(row["value"]) < 1e-4
    assert row["metric"] == "relative_l2"
    assert row["n"] == 6


def test_the_numerical_solver_says_what_it_needs(problems):
    seen = evaluate.observation_of(problems, "forward", "sparse")

    with pytest.raises(ConfigError, match="whole field a"):
        NumericalSolver(problems.pde).solve(
            seen, samples=1, generator=torch.Generator()
        )


def test_the_mean_field_misjudges_about_half_of_the_rock(problems):
    (row,) = evaluate.evaluate(
        MeanField(problems.pde, 256), problems, "inverse", "full", method="mean"
    )

    assert 30 < float(row["value"]) < 70


def test_observations_are_the_same_for_the_first_problems_of_a_larger_set(problems):
    more = evaluate.benchmark(problems.pde, n=9, seed=3)

    for regime in evaluate.REGIMES:
        few = evaluate.observation_of(problems, "inverse", regime)
        many = evaluate.observation_of(more, "inverse", regime)
        torch.testing.assert_close(many.x[:6], few.x, rtol=0, atol=0)
        torch.testing.assert_close(many.mask[:6], few.mask, rtol=0, atol=0)


def test_noise_has_twice_the_standard_deviation_of_the_field():
    problems = evaluate.benchmark(pdes.load("poisson", size=32), n=64)

    seen = evaluate.observation_of(problems, "inverse", "noisy")

    noise = (seen.u - problems.u).std().item()
    assert noise == pytest.approx(2 * problems.statistics.std[1], rel=0.02)


def test_test_problems_are_none_of_the_training_problems(problems):
    a, _ = data.problems(problems.pde, 64, split="train", seed=3)

    distance = (problems.a[:, None] - a[None]).abs().flatten(2).sum(-1)

    assert distance.min() > 0


def test_several_draws_add_a_row_for_their_mean(problems):
    rows = evaluate.evaluate(
        Truth(problems), problems, "forward", "full", method="truth", samples=4
    )

    assert [row["setting"] for row in rows] == ["size=16", "size=16;mean_of=4"]


class Watched(type(pdes.load("poisson"))):
    """A cheap equation that is seen at columns, and whose solution may be wanted."""

    directions = ("forward", "inverse", "reconstruct")
    sensors = "columns"


@pytest.fixture(scope="module")
def watched():
    return evaluate.benchmark(Watched(size=16), n=6, seed=3)


def test_columns_are_what_is_seen_where_they_are_watched_and_rows_say_so(watched):
    seen = evaluate.observation_of(watched, "reconstruct", "sparse")
    fewer = evaluate.observation_of(watched, "forward", "sparse", columns=2)
    (row,) = evaluate.evaluate(
        Truth(watched), watched, "reconstruct", "sparse", method="truth"
    )

    assert seen.mask_u[:, 0].all(1).sum(-1).tolist() == [5] * 6
    assert seen.mask_u.sum() == 6 * 5 * 16
    assert not seen.mask_a.any()
    assert fewer.mask_a.sum() == 6 * 2 * 16
    assert row["setting"] == "size=16;columns=5"
    assert row["metric"] == "relative_l2"


def test_points_are_what_is_seen_elsewhere_and_rows_say_so(problems):
    (row,) = evaluate.evaluate(
        Truth(problems), problems, "inverse", "sparse", method="truth"
    )

    assert row["setting"] == "size=16;rate=0.03"


def test_a_reconstruction_is_judged_by_the_solution(watched):
    (row,) = evaluate.evaluate(
        Truth(watched, 1.2), watched, "reconstruct", "noisy", method="off"
    )

    assert float(row["value"]) == pytest.approx(20, abs=1e-3)


def test_reconstruction_sees_what_inversion_sees(watched):
    for regime in ("sparse", "noisy"):
        one, other = (
            evaluate.observation_of(watched, direction, regime)
            for direction in ("reconstruct", "inverse")
        )
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.mask, other.mask)


def test_reconstruction_of_what_is_known_is_refused(watched):
    with pytest.raises(ConfigError, match=r"nothing is left .*'sparse', 'noisy'"):
        evaluate.observation_of(watched, "reconstruct", "full")


def test_reconstruction_is_for_equations_that_declare_it(problems):
    with pytest.raises(ConfigError, match="unknown direction of darcy 'reconstruct'"):
        evaluate.observation_of(problems, "reconstruct", "sparse")


def test_a_table_has_a_row_for_every_method_in_every_cell(watched):
    torch.manual_seed(0)
    config = ModelConfig.preset("tiny")
    model = Prisma(watched.pde, config, data.statistics(watched.pde, num=64))

    rows = evaluate.table(model, n=2, steps=2, scale="test")

    methods = {cell: [] for cell in cells(watched.pde)}
    for row in rows:
        methods[row["direction"], row["regime"]].append(row["method"])
    always = ["mean field", "lift", "exact posterior", "PRISMA"]
    assert len(methods) == 8
    assert methods.pop(("forward", "full")) == ["numerical solver", *always]
    assert methods.pop(("inverse", "full")) == ["stencil", *always]
    assert all(found == always for found in methods.values())
    assert {row["scale"] for row in rows} == {"test"}


def test_an_unknown_regime_is_refused_with_the_nearest(problems):
    with pytest.raises(ConfigError, match="did you mean 'sparse'"):
        evaluate.observation_of(problems, "forward", "sparce")


@pytest.fixture
def folder(tmp_path, problems):
    torch.manual_seed(0)
    model = Prisma(
        problems.pde, ModelConfig.preset("tiny"), data.statistics(problems.pde, num=64)
    )
    checkpoints.save(tmp_path / "tiny", model)
    return tmp_path / "tiny"


def test_the_command_writes_rows_and_the_card(folder, tmp_path, capsys):
    path = tmp_path / "results.csv"
    command = [str(folder), "--n", "2", "--steps", "2", "--results", str(path)]

    assert evaluate.main([*command, "--card"]) == 0
    assert evaluate.main(command) == 0

    rows = results.read(path)
    assert len(rows) == 22  # the second run replaced the rows of the first
    assert {row["method"] for row in rows} == {
        "numerical solver",
        "stencil",
        "mean field",
        "lift",
        *CUT,
        "PRISMA",
    }
    assert len(checkpoints.read_card(folder)["errors"]) == 22
    assert "numerical solver" in capsys.readouterr().out


def test_the_command_refuses_what_is_not_there(capsys):
    assert evaluate.main(["no-such-model"]) == 2
    assert "no model 'no-such-model'" in capsys.readouterr().err
