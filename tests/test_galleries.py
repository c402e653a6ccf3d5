"""Pictures of problems: what stands at their axes."""

import matplotlib.pyplot as plt
import pytest
from rivals import nine, untrained

from prisma_lib import benchmarks, galleries


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("name", "named"), [("burgers", ("t", "x")), ("poisson", ("", ""))]
)
def test_fields_over_time_say_so_at_every_axis(quick, name, named, tmp_path):
    problems = nine(quick, name).first(2)
    cell = ("forward", "full")
    fields = problems.a[:1], problems.u[:1], problems.u[0, 0]
    found = {"PRISMA": galleries.Shown(*fields, 0.0, "")}
    model = untrained("prisma", problems.pde, tmp_path)
    contest = benchmarks.Contest(model, problems, {})

    for figure in (
        galleries.truths(problems, 2),
        galleries.answers(contest, cell, found),
        galleries.residual(contest, cell, found),
    ):
        drawn = [axis for axis in figure.axes if axis.images]
        said = {(axis.get_xlabel(), axis.get_ylabel()) for axis in drawn}
        assert len(drawn) >= 2
        assert said == {named}
