"""What FNO, PINO and DeepONet have in common, and FNO itself."""

import sys
from dataclasses import replace

import pytest
import torch
from operators import errors_of, solved, trained, untrained

from prisma_lib import cells, checkpoints, data, evaluate, methods, metrics, pdes, train
from prisma_lib.baselines.fno import FNO
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.observe import observation, observe
from prisma_lib.training import TrainConfig

pytest.importorskip("neuralop")

OPERATORS = ["fno", "pino", "deeponet"]


@pytest.fixture(scope="module")
def problems():
    return cells.benchmark(pdes.load("poisson", size=16), n=4)


@pytest.fixture(scope="module", params=OPERATORS)
def model(request, problems):
    return untrained(request.param, problems.pde)


def test_weights_are_real_and_compute_what_neuralop_computes():
    from neuralop.models import FNO

    pde = pdes.load("darcy", size=16)
    ours = untrained("fno", pde).forward_operator
    reference = FNO(
        *((6, 6), 3, 1, 10),
        positional_embedding=None,
        domain_padding=[0.0625, 0.0625],
    ).eval()
    weights = {
        name.replace("pairs", "tensor"): torch.view_as_complex(value)
        if name.endswith("pairs")
        else value
        for name, value in ours.network.state_dict().items()
        if name != "_metadata"
    }
    reference.load_state_dict(weights)
    a, place = torch.randn(2, 1, 16, 16), pde.grid.coordinates() - 0.5

    found = ours(a, place)

    assert not any(p.is_complex() for p in ours.parameters())
    together = torch.cat([a, place.expand(2, -1, -1, -1)], 1)
    torch.testing.assert_close(found, reference(together))


def test_small_has_the_size_of_prisma():
    pde = pdes.load("darcy", size=32)
    statistics = data.statistics(pde, num=64)
    sizes = []
    for name in ["prisma", *OPERATORS]:
        network = methods.network(name)
        model = network(pde, network.settings.preset("small"), statistics)
        sizes.append(sum(p.numel() for p in model.parameters()))

    assert all(0.75 < size / sizes[0] < 1.25 for size in sizes)


@pytest.mark.parametrize("method", OPERATORS)
def test_weights_come_back_bitwise(method, problems, tmp_path):
    model = untrained(method, problems.pde)

    checkpoints.save(tmp_path, model, dtype=torch.float32)
    loaded = checkpoints.load_any(tmp_path)

    assert type(loaded) is type(model)
    assert loaded.config == model.config
    weights = loaded.state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())


@pytest.mark.parametrize("method", OPERATORS)
def test_a_run_continues_from_a_checkpoint_as_if_it_had_not_stopped(method, tmp_path):
    config = TrainConfig(method, "poisson", 16, preset="tiny", images=48, batch=8)
    config = replace(config, name="cut")
    *_, whole = train.run(train.begin(config, tmp_path / "a"), tmp_path / "a")
    for state in train.run(train.begin(config, tmp_path / "b"), tmp_path / "b", 0.0):
        if state.step == 3:
            break

    *_, rest = train.run(train.begin(config, tmp_path / "b"), tmp_path / "b")

    pairs = zip(whole.average.parameters(), rest.average.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_what_is_asked_is_the_operators_answer(model, problems):
    pde, a, u = problems.pde, problems.a, problems.u
    x = model.normalise(torch.cat([a, u], 1))
    wanted_a, wanted_u = model.guesses(x)

    same_a, guess_u = solved(model, observation(pde, a=a))
    guess_a, same_u = solved(model, observation(pde, u=u))

    torch.testing.assert_close(guess_u[0], wanted_u)
    torch.testing.assert_close(guess_a[0], wanted_a)
    assert torch.equal(same_a[0], a)
    assert torch.equal(same_u[0], u)


def test_training_makes_small_what_is_measured(model, problems):
    x = model.normalise(torch.cat([problems.a, problems.u], 1))

    found = model.loss(*model.fields(x), *model.guesses(x))
    if model.method == "pino":
        found = FNO.loss(model, *model.fields(x), *model.guesses(x))

    guess_a, _ = solved(model, observation(problems.pde, u=problems.u))
    _, guess_u = solved(model, observation(problems.pde, a=problems.a))
    inverse = metrics.relative_l2(guess_a[0], problems.a)
    forward = metrics.relative_l2(guess_u[0], problems.u)
    torch.testing.assert_close(found.double(), (inverse + forward) / 2)
    rows = evaluate.evaluate(model.solver(), problems, "forward", "full", method="x")
    assert float(rows[0]["value"]) == pytest.approx(
        100 * forward.mean().item(), rel=1e-3
    )
    assert rows[0]["calls"] == 1


def test_where_nothing_was_observed_the_mean_goes_in(model, problems):
    pde = problems.pde
    seen = observe("sparse_forward", problems.a, problems.u, rate=0.2, index=range(4))
    filled = torch.where(seen.mask_a > 0, seen.a, model.statistics.mean[0])

    a, u = solved(model, seen)

    assert torch.equal(a[0], filled)
    torch.testing.assert_close(u, solved(model, observation(pde, a=filled))[1])


def test_every_problem_of_a_batch_asks_its_own_question(model, problems):
    pde, (a, u) = problems.pde, (problems.a, problems.u)
    forward = torch.tensor([1, 0, 0, 1]).view(4, 1, 1, 1).expand_as(a)

    mixed = solved(model, observation(pde, a, u, forward, 1 - forward))

    one_by_one = [
        solved(model, observation(pde, a=a[i : i + 1]))
        if forward[i].all()
        else solved(model, observation(pde, u=u[i : i + 1]))
        for i in range(4)
    ]
    for found, wanted in zip(mixed, zip(*one_by_one, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(wanted, 1))


def test_every_draw_is_the_same(model, problems):
    a, u = solved(model, observation(problems.pde, a=problems.a), samples=3)

    assert a.shape == u.shape == (3, 4, 1, 16, 16)
    assert torch.equal(u[0], u[2])


def test_questions_that_operators_do_not_answer_are_refused(model, problems):
    pde, a = problems.pde, problems.a
    nothing = observation(pde, allow_nothing=True)
    with pytest.raises(ConfigError, match="neither a nor u of problem 0"):
        solved(model, nothing)
    with pytest.raises(ConfigError, match=r"both a and u .* points of a to ask for u"):
        solved(model, observation(pde, a=a, u=problems.u))
    with pytest.raises(ConfigError, match=r"steps.* has no settings|unknown .*steps"):
        model.solver(steps=20)


def test_fields_of_other_equations_are_warned_of(model, problems):
    with pytest.warns(UserWarning, match="not swapped"):
        solved(model, observation(problems.pde, a=1e4 * problems.a))


@pytest.mark.parametrize("method", OPERATORS)
def test_fields_have_any_number_of_channels(method):
    pde = pdes.load("navier_stokes", size=16, frames=3)
    model = untrained(method, pde)
    pair = data.problems(pde, 2)
    x = model.normalise(torch.cat(pair, 1))

    _, u = solved(model, observe("full_forward", *pair, index=range(2)))
    a, _ = solved(model, observe("full_inverse", *pair, index=range(2)))

    assert model.errors(x, torch.ones(2), x, x, x).isfinite().all()
    assert u.shape == (1, 2, 3, 16, 16)
    assert a.shape == (1, 2, 1, 16, 16)


def test_only_bounded_axes_are_padded():
    pde = pdes.load("burgers", size=16)

    network = untrained("fno", pde).forward_operator.network

    assert network.domain_padding.domain_padding == [0.0625, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modes": 7}, "even number"),
        ({"width": 0}, "width=0: give a whole number"),
        ({"padding": -0.1}, "padding=-0.1"),
        ({"depth": 3}, "depth"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        methods.network("fno").settings.preset("tiny", **settings)


def test_without_neuralop_the_error_says_what_to_install(problems, monkeypatch):
    monkeypatch.setitem(sys.modules, "neuralop", None)

    with pytest.raises(ConfigError, match=r"pip install 'prisma-lib\[baselines\]'"):
        untrained("fno", problems.pde)


@pytest.fixture(scope="module")
def poisson():
    return trained(
        "fno", "poisson", 16, steps=250, batch=8, learning_rate=2e-2, layers=2
    )


@pytest.mark.slow
def test_fno_learns_a_linear_operator_and_its_inverse(poisson):
    found = errors_of(poisson, 16)

    # The mean field is off by 100 %: both fields have mean zero.
    assert found["forward"] < 15
    assert found["inverse"] < 40


def test_fno_answers_on_a_finer_grid_than_it_was_trained_on(poisson):
    found = errors_of(poisson, 32)

    assert found["forward"] < 25
    assert found["inverse"] < 70


@pytest.mark.slow
def test_fno_reproduces_a_linear_operator():
    model = trained("fno", "poisson", 16, 1500, 8, learning_rate=2e-2, layers=2)

    found = errors_of(model, 16)
    assert found["forward"] < 5
    assert found["inverse"] < 30


def test_grids_that_are_not_square_are_refused(poisson):
    seen = observation(poisson.pde, a=torch.randn(1, 1, 16, 16))
    narrow = replace(seen, **{k: v[..., :12] for k, v in vars(seen).items()})

    with pytest.raises(ShapeError, match="not square"):
        solved(poisson, narrow)
