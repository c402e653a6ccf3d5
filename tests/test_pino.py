"""PINO: the residual in training, and tuning to a problem."""

import pytest
import torch
from operators import solved, trained, untrained

from prisma_lib import cells, data, methods, pdes
from prisma_lib.errors import ConfigError
from prisma_lib.observe import observation, observe

pytest.importorskip("neuralop")


@pytest.fixture(scope="module")
def pde():
    return pdes.load("poisson", size=16)


@pytest.fixture(scope="module")
def pair(pde):
    return data.problems(pde, 2)


@pytest.fixture(scope="module")
def model():
    return short(residual_weight=0.3)


def short(**settings):
    settings = {"layers": 2, **settings}
    return trained("pino", "poisson", 16, 120, 8, learning_rate=2e-2, **settings)


def residual(pde, a, u):
    return pde.residual(a, u).square().mean((1, 2, 3)).sqrt()


def relative(guess, truth):
    return (guess - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)


def tuned(model, seen, steps):
    solver = model.solver(tune=steps)
    a, u = solver.solve(seen, samples=1, generator=torch.Generator())
    return a[0], u[0]


@pytest.mark.slow
def test_the_residual_term_makes_residuals_smaller(model):
    plain = short(residual_weight=0.0)
    a, u = data.problems(model.pde, 16)

    found = []
    for each in (plain, model):
        _, guess = each.guesses(each.normalise(torch.cat([a, u], 1)))
        found.append(residual(each.pde, a, guess).mean().item())

    assert found[1] < 0.5 * found[0]


def test_without_its_weight_it_is_an_fno(pde, pair):
    pino = untrained("pino", pde, residual_weight=0.0)
    fno = untrained("fno", pde)
    x = fno.normalise(torch.cat(pair, 1))
    rest = torch.ones(2), x, x, x

    assert torch.equal(pino.errors(x, *rest), fno.errors(x, *rest))


@pytest.mark.parametrize("name", pdes.names())
def test_the_loss_is_that_of_its_formula(name, quick):
    pde = quick(name, 16)
    model = untrained("pino", pde, residual_weight=0.2)
    a, u = data.problems(pde, 2)
    x = model.normalise(torch.cat([a, u], 1))
    guess_a, guess_u = model.guesses(x)
    halved = (u + model.statistics.mean[1]) / 2

    scale = torch.hypot(residual(pde, a, halved), model.residual_floor)
    misfit = relative(guess_a, a) + relative(guess_u, u)
    physics = residual(pde, guess_a, u) + residual(pde, a, guess_u)

    found = model.errors(x, torch.ones(2), x, x, x)
    torch.testing.assert_close(
        found, misfit / 2 + 0.1 * physics / scale, rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_tuning_makes_the_residual_of_each_problem_smaller(pde, pair, model, direction):
    seen = observe(f"full_{direction}", *pair, index=range(2))
    before = [field[0] for field in solved(model, seen)]

    after = tuned(model, seen, 15)

    assert (residual(pde, *after) < 0.8 * residual(pde, *before)).all()


def test_tuning_leaves_the_model_and_other_problems_alone(pde, pair, model):
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    seen = observation(pde, a=pair[0])

    both = tuned(model, seen, 3)
    alone = tuned(model, observation(pde, a=pair[0][1:]), 3)

    assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())
    assert not any(p.requires_grad for p in model.parameters())
    torch.testing.assert_close(both[1][1:], alone[1])


def test_tuning_takes_questions_of_every_regime(pde):
    model = untrained("pino", pde)
    problems = cells.benchmark(pde, n=1)

    for cell in cells.cells(pde):
        a, u = tuned(model, cells.observation_of(problems, *cell), 2)
        assert a.isfinite().all()
        assert u.isfinite().all()


def test_calls_count_both_operators_in_every_step(model):
    assert model.solver().calls == 1
    assert model.solver(tune=7).calls == 15


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tune": -1}, "tune=-1"),
        ({"tune": 1.5}, "tune=1.5"),
        ({"tune": 3, "learning_rate": 0}, "learning_rate=0"),
        ({"steps": 3}, "steps"),
    ],
)
def test_impossible_settings_of_tuning_are_refused(model, settings, message, untyped):
    with pytest.raises(ConfigError, match=message):
        model.solver(**settings)


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError, match="residual_weight=-1"):
        methods.network("pino").settings.preset("tiny", residual_weight=-1.0)
