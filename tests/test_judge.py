"""What is judged: parts of the problems, further measures, whole trajectories."""

import math

import pytest
import torch
from rivals import FAST, nine

from prisma_lib import answers, cells, judge, pdes, results
from prisma_lib.baselines.pinn import PINN
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.metrics import bootstrap_interval
from prisma_lib.pdes.base import Statistics

UNIT = Statistics((0.0, 0.0), (1.0, 1.0), 0.0)


def test_measures_beside_the_error_are_known_by_name(quick):
    problems = nine(quick, "poisson")
    solver = PINN(problems.pde, problems.statistics, **FAST)
    asked = [("inverse", "full")]
    (answer,) = judge.answered(solver, problems.first(1), asked, method="x")

    with pytest.raises(ConfigError, match="did you mean 'iou'"):
        answer.rows(["iuo"])


def test_a_truth_overlaps_with_itself(quick):
    problems = nine(quick, "eikonal")

    for direction in ("forward", "inverse"):
        given = (problems, direction, problems.a, problems.u)
        assert answers.overlaps(*given).tolist() == [100] * 9
        assert answers.spectral_errors(*given).tolist() == [0] * 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("darcy", [0, 1, 2]),  # independent: the first
        ("navier_stokes", [0, 8, 16]),  # trajectories 0 and 1 of ten times each
        ("kolmogorov", [0, 1, 2]),  # neighbours are of different trajectories
    ],
)
def test_few_problems_are_of_many_trajectories(name, expected):
    pde = pdes.load(name, 16)
    zeros = torch.zeros(24, 1, 16, 16)
    problems = cells.Benchmark(pde, zeros, zeros, UNIT, 0)

    few = problems.few(3)

    assert list(few.numbers) == expected
    assert problems.few(24) is problems
    assert few.part([2]).numbers == (expected[2],)
    assert len({*problems.origins}) == {"darcy": 24, "navier_stokes": 3}.get(name, 4)


def test_problems_of_a_part_are_asked_what_they_are_asked_among_all(quick):
    problems = nine(quick, "darcy")
    whole = cells.observation_of(problems, "inverse", "noisy")

    part = cells.observation_of(problems.part([7, 2]), "inverse", "noisy")

    assert torch.equal(part.u, whole.u[[7, 2]])


def test_whole_trajectories_are_resampled():
    # Ten copies of one number tell as much as that number alone.
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(30, generator=generator)
    copies, origins = values.repeat_interleave(10), [i // 10 for i in range(300)]

    together = bootstrap_interval(copies, origins=origins)

    assert together == pytest.approx(bootstrap_interval(values), rel=1e-6)
    low, high = bootstrap_interval(copies)
    assert high - low < 0.5 * (together[1] - together[0])


def test_a_paired_ratio_is_sharper_than_its_parts():
    generator = torch.Generator().manual_seed(0)
    below = torch.rand(50, generator=generator) + 0.1

    low, high = bootstrap_interval(2 * below, over=below)

    assert (low, high) == pytest.approx((2, 2))
    with pytest.raises(ShapeError, match="49 origins for 50 problems"):
        bootstrap_interval(below, origins=range(49))
    with pytest.raises(DataError, match="finite"):
        bootstrap_interval(torch.tensor([math.nan]), over=torch.ones(1))


def test_means_of_eight_and_of_sixteen_draws_are_judged_beside_that_of_all(quick):
    problems = nine(quick, "poisson")
    noise = torch.randn(32, *problems.u.shape, generator=torch.Generator())
    draws = problems.a.expand(32, -1, -1, -1, -1), problems.u + problems.u.std() * noise
    answer = answers.Answer(problems, ("forward", "full"), *draws, {"method": "x"})

    one, *means = answer.rows()

    counts = [int(results.settings(row)["mean_of"]) for row in means]
    assert counts == [8, 16, 32]
    # Independent errors fall with the square root of their number.
    for count, row in zip(counts, means, strict=True):
        expected = float(one["value"]) / count**0.5
        assert float(row["value"]) == pytest.approx(expected, rel=0.05)


def test_one_trajectory_alone_has_no_interval():
    pde = pdes.load("navier_stokes", 16)
    fields = torch.rand(4, 1, 16, 16)
    problems = cells.Benchmark(pde, fields, fields, UNIT, 0)
    answer = answers.Answer(
        problems, ("forward", "full"), fields[None], fields[None], {"method": "x"}
    )

    (row,) = answer.rows()

    assert (row["value"], row["low"], row["high"]) == ("0", "", "")


def test_a_solver_of_another_equation_is_not_judged(quick):
    problems = nine(quick, "poisson").first(1)
    other = nine(quick, "darcy")
    solver = PINN(other.pde, other.statistics, **FAST)

    with pytest.raises(ConfigError, match=r"trained for darcy .* asked for poisson"):
        judge.judge(solver, problems, [("forward", "full")], method="x")


@pytest.mark.usefixtures("untyped")
def test_what_does_not_answer_is_refused(quick):
    problems = nine(quick, "poisson").first(1)
    asked = [("forward", "full")]
    solver = PINN(problems.pde, problems.statistics, **FAST)

    with pytest.raises(ConfigError, match="Linear does not answer by itself"):
        judge.judge(torch.nn.Linear(1, 1), problems, asked, method="x")
    with pytest.raises(ConfigError, match="samples=0"):
        judge.judge(solver, problems, asked, method="x", samples=0)
