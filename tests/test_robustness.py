"""Sweeps outside of the protocol: who answers what, and what a model is told."""

import pytest
import torch
from rivals import untrained
from small import network

from prisma_lib import cells, checkpoints, data, judge, metrics, pdes, robustness
from prisma_lib.answers import RATIO
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.results import settings
from prisma_lib.shelf import Shelf
from prisma_lib.solve import PrismaSolver

SIZE = 16


@pytest.fixture(scope="module")
def model():
    made = network(pdes.load("helmholtz", size=SIZE))
    for parameter in made.parameters():  # wake the gates, which start at zero
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.5)
    return made


@pytest.fixture(scope="module")
def problems(model):
    pde = model.pde
    a, u = data.problems(pde, 6, split="test")
    return cells.Benchmark(pde, a, u, model.statistics, 0)


@pytest.fixture
def folder(tmp_path, model):
    for name in ("fundps", "fno"):
        untrained(name, model.pde, tmp_path)
    return tmp_path


def draw(model, problems, cell):
    return robustness.draw(PrismaSolver(model, Schedule(2)), problems, cell)[0]


def test_a_model_is_told_of_other_coefficients_by_the_residual_alone(model, problems):
    other = pdes.load("helmholtz", size=SIZE, k=4.0)

    told = model.with_equation(other)

    x = model.normalise(torch.cat([problems.a, problems.u], 1))
    nothing = torch.zeros_like(x)
    old, new = (m.residual(x, nothing, nothing)[0] for m in (model, told))
    shift = (16 - 1) * problems.u[0, 0, 1:-1, 1:-1]
    torch.testing.assert_close((new - old)[0, 1:-1, 1:-1], shift, rtol=1e-3, atol=1e-4)
    assert (model.pde.k, told.pde.k) == (1.0, 4.0)
    moved = draw(told, problems, ("forward", "full"))
    assert not torch.equal(moved, draw(model, problems, ("forward", "full")))
    again = told.with_equation(model.pde)
    assert torch.equal(
        *(draw(m, problems, ("forward", "full")) for m in (model, again))
    )


@pytest.mark.parametrize(
    "other",
    [pdes.load("poisson", size=SIZE), pdes.load("helmholtz", size=32)],
    ids=["equation", "grid"],
)
def test_another_equation_or_grid_is_refused(model, other):
    with pytest.raises(ConfigError, match="only coefficients may differ"):
        model.with_equation(other)


def test_those_without_weights_are_left_out_with_the_reason(model, folder):
    everyone, missing = robustness.contestants(
        model, ["fno", "pino", "prisma-l", "fundps"], folder=folder
    )

    assert [each.title for each in everyone] == ["PRISMA", "FNO", "FunDPS"]
    assert [each.few for each in everyone] == [None, None, robustness.FEW]
    assert len(missing) == 2
    assert "pino-helmholtz-16" in missing[0]
    assert "helmholtz-16L" in missing[1]


def test_prisma_l_answers_with_the_steps_of_prisma():
    model = checkpoints.load("darcy-32")

    everyone, missing = robustness.contestants(model, ["prisma-l"], steps=3)

    assert not missing
    assert [each.title for each in everyone] == ["PRISMA", "PRISMA-L"]
    assert all(each.applies(model.pde, ("inverse", "noisy")) for each in everyone)
    first, second = (each.answers("inverse", "noisy") for each in everyone)
    assert first.calls == second.calls == 5
    assert (first.model.method, second.model.method) == ("prisma", "prisma-l")


def test_models_that_are_not_there_are_left_out_with_the_reason(tmp_path, model):
    checkpoints.save(tmp_path / "mine", model)

    found, missing = robustness.available([str(tmp_path / "mine"), "no-such"])

    assert [each.pde.name for each in found] == ["helmholtz"]
    assert "no-such" in missing[0]


def test_guidance_takes_the_weights_of_the_nearest_number_of_steps(model, folder):
    place = folder / "fundps-helmholtz-16"
    tuned = [
        {
            "direction": "inverse",
            "regime": "noisy",
            "weights": {"a": 0.0, "u": float(steps), "pde": 0.0},
            "settings": {"steps": steps, "residual": "ours"},
            "error": 50.0,
        }
        for steps in (20, 200)
    ]
    card = checkpoints.read_card(place)
    checkpoints.write_card(place, card | {"guidance": tuned})
    told = model.with_equation(pdes.load("helmholtz", size=SIZE, k=2.0))

    everyone, _ = robustness.contestants(
        told, ["fundps"], guided_steps=100, folder=folder
    )
    solver = everyone[1].answers("inverse", "noisy")
    untuned = everyone[1].answers("forward", "full")

    assert (solver.steps, solver.weights["u"], solver.residual) == (100, 200.0, "ours")
    assert solver.pde.k == 2.0
    assert (untuned.steps, untuned.weights) == (100, "published")


def test_slow_methods_answer_few_and_prisma_answers_those_again(
    model, problems, folder
):
    everyone, _ = robustness.contestants(
        model, ["fno", "fundps"], steps=2, guided_steps=2, folder=folder
    )
    asked = [("forward", "noisy"), ("inverse", "sparse")]
    hiding = problems.hiding(fraction=0.5, layout="window", rate=0.25)

    rows = [*robustness.compete(everyone, hiding, asked, scale="test")]

    rows, ratios = (
        [row for row in rows if (row["metric"] == RATIO) == paired]
        for paired in (False, True)
    )
    found = [(row["method"], row["regime"], row["n"]) for row in rows]
    # The paper has no number for an operator in the sparse cell.
    assert found == [
        ("PRISMA", "noisy", 6),
        ("PRISMA", "noisy", 4),
        ("PRISMA", "sparse", 6),
        ("PRISMA", "sparse", 4),
        ("FNO", "noisy", 6),
        ("FunDPS", "noisy", 4),
        ("FunDPS", "sparse", 4),
    ]
    assert settings(rows[0])["fraction"] == "0.5"
    assert settings(rows[-1])["layout"] == "window"
    assert "weights" in settings(rows[-1])
    (first,) = judge.judge(
        everyone[0].answers(*asked[0]), hiding.first(4), asked[:1], method="x"
    )
    assert rows[1]["value"] == first["value"]
    compared = [(settings(row)["over"], row["regime"], row["n"]) for row in ratios]
    assert compared == [
        ("FNO", "noisy", 6),
        ("FunDPS", "noisy", 4),
        ("FunDPS", "sparse", 4),
    ]
    assert {row["method"] for row in ratios} == {"PRISMA"}


def test_unknown_noise_has_no_exact_posterior(problems):
    def names(bench, **more):
        asked = [("inverse", "noisy")]
        return [row["method"] for row in robustness.beside(bench, asked, **more)]

    assert names(problems) == ["mean field", "lift", "exact posterior"]
    assert names(problems, exact=False) == ["mean field"]
    assert names(problems.hiding(fraction=0.9)) == ["mean field", "lift"]


def test_independent_problems_share_no_trajectory():
    flow = pdes.load("navier_stokes", size=SIZE)
    statistics = cells.Statistics((0.0, 0.0), (0.3, 0.3), 0.01)

    bench = robustness.independent(flow, 3, statistics)

    a, _ = data.problems(flow, 30, split="test")
    assert torch.equal(bench.a, a[[0, 13, 26]])
    steady = robustness.independent(pdes.load("poisson", size=SIZE), 3, statistics)
    assert torch.equal(steady.a, data.problems(steady.pde, 3, split="test")[0])


def test_independent_problems_count_as_independent():
    flow = pdes.load("navier_stokes", size=SIZE)
    statistics = cells.Statistics((0.0, 0.0), (0.3, 0.3), 0.01)

    bench = robustness.independent(flow, 3, statistics)

    assert bench.numbers == (0, 13, 26)
    assert len({*bench.origins}) == bench.n == 3
    assert len({*bench.first(2).origins}) == 2
    # Masks are those of the same problems in the protocol's benchmark.
    protocol = cells.Benchmark(
        flow, *data.problems(flow, 30, split="test"), statistics, 0
    )
    masks = [
        cells.observation_of(each, "forward", "sparse").mask_a
        for each in (bench, protocol.part(bench.numbers))
    ]
    assert torch.equal(*masks)
    steady = robustness.independent(pdes.load("poisson", size=SIZE), 3, statistics)
    assert steady.numbers == (0, 1, 2)


def test_answers_of_a_run_that_was_cut_are_kept_by_what_was_told(
    model, problems, tmp_path, monkeypatch
):
    asked, shelf = [("forward", "full")], Shelf(tmp_path / "answers")
    guarded, counted = robustness.comparison.guarded, []

    def count(*given, **more):
        counted.append(given)
        return guarded(*given, **more)

    def rows(equation):
        told = model.with_equation(equation)
        everyone, _ = robustness.contestants(told, [], steps=2)
        return [
            *robustness.compete(everyone, problems, asked, keep=shelf.kept, scale="x")
        ]

    monkeypatch.setattr(robustness.comparison, "guarded", count)
    new = pdes.load("helmholtz", size=SIZE, k=4.0)
    first, other, again = (rows(each) for each in (model.pde, new, model.pde))

    assert [solver.model.pde.k for solver, *_ in counted] == [1.0, 4.0]
    assert again == first
    assert len(other) == len(first) == 1


def test_a_row_of_another_measure_has_its_mean_and_interval(model, problems):
    solver = PrismaSolver(model, Schedule(2))
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])

    row = judge.row_of(
        solver, problems, ("inverse", "noisy"), values, method="x", metric="y"
    )

    low, high = metrics.bootstrap_interval(values, key=0)
    assert (float(row["value"]), row["steps"], row["n"]) == (4.0, 2, 6)
    assert (row["low"], row["high"]) == (f"{low:.4g}", f"{high:.4g}")
    assert (row["metric"], row["setting"]) == ("y", "size=16;noise_sd=2")


def test_a_drawn_input_is_on_the_values_that_inputs_can_have():
    model = network(pdes.load("darcy", size=SIZE))
    a, u = data.problems(model.pde, 2, split="test")
    bench = cells.Benchmark(model.pde, a, u, model.statistics, 0)
    solver = PrismaSolver(model, Schedule(2))

    found, truth = robustness.draw(solver, bench, ("inverse", "full"))
    pressure, true_pressure = robustness.draw(solver, bench, ("forward", "full"))

    assert {*found.unique().tolist()} <= {3.0, 12.0}
    assert torch.equal(truth, a)
    assert torch.equal(true_pressure, u)
    assert pressure.shape == u.shape
