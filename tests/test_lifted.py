"""PRISMA-L: a denoiser around a classical estimate, and what it adds to it."""

import numpy as np
import pytest
import torch
from small import lifted_network

from prisma_lib import cells, data, evaluate, lifts, pdes, solve
from prisma_lib.edm import SIGMA_DATA, Schedule
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.lifted import LEAST, SURE
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.observe import observation, observe
from prisma_lib.presets import LiftConfig
from prisma_lib.solver import PrismaSolver
from prisma_lib.training import TrainConfig, loop, start

SIZE = 16
RATE = 0.1


@pytest.fixture(scope="module")
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture(scope="module")
def pairs(pde):
    return data.problems(pde, 4)


def noise_like(x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", pdes.names())
def test_every_equation_is_told_its_lift_in_its_own_units(name, quick):
    pde = quick(name, SIZE)
    model = lifted_network(pde)
    a, u = data.problems(pde, 2)
    seen = observe("sparse_inverse", a, u, rate=RATE, index=range(2))
    found = lifts.lift(pde, seen)

    told, mask = model.condition(seen, 0.0)
    values, mean, sd, noise = model._parts(told)

    scale = SIGMA_DATA / model.std
    torch.testing.assert_close(mean, (found.mean - model.mean) * scale)
    torch.testing.assert_close(sd, torch.threshold(found.sd * scale, SURE, 0.0))
    torch.testing.assert_close(model.denormalise(values) * mask, seen.x * mask)
    assert not noise.any()


def test_training_tells_what_solving_tells(pde, pairs):
    model = lifted_network(pde)
    x_0 = model.normalise(torch.cat(pairs, 1))
    seen = observe("sparse_forward", *pairs, rate=RATE, index=range(4))

    told = model.told(x_0, seen.mask)

    torch.testing.assert_close(told, model.condition(seen, 0.0)[0], atol=2e-5, rtol=0)


def test_without_its_network_it_is_the_posterior_mean_of_independent_errors(pde, pairs):
    model = lifted_network(pde, silent=True)
    seen = observe("sparse_forward", *pairs, rate=RATE, index=range(4))
    told, mask = model.condition(seen, 0.0)
    _, mean, sd, _ = model._parts(told)
    sigma = torch.tensor([0.01, 0.1, 1.0, 50.0])
    level = sigma[:, None, None, None]
    x = mean + (sd + level) * noise_like(mean)

    found = model(x, sigma, told, mask)

    doubt = (sd.double() ** 2 + (sd > 0) * LEAST**2).sqrt()
    precision = 1 / doubt**2 + 1 / level.double() ** 2
    expected = (mean.double() / doubt**2 + x.double() / level.double() ** 2) / precision
    expected = torch.where(sd > 0, expected, mean.double())
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 80.0])
def test_what_is_known_is_never_changed(pde, pairs, sigma):
    model = lifted_network(pde)
    seen = observe("sparse_forward", *pairs, rate=RATE, index=range(4))
    told, mask = model.condition(seen, 0.0)
    values = told[:, :2]

    found = model(noise_like(values) * sigma, torch.full((4,), sigma), told, mask)

    assert torch.equal(found[mask > 0], values[mask > 0])
    assert found.isfinite().all()


def test_the_loss_is_the_squared_error_of_the_networks_own_output(pde, pairs):
    model = lifted_network(pde)
    x_0 = model.normalise(torch.cat(pairs, 1))
    mask = torch.zeros_like(x_0)
    mask[:, :1, ::2] = 1.0
    told = model.told(x_0, mask)
    sigma = torch.tensor([0.05, 0.3, 2.0, 20.0])
    noise = noise_like(x_0)
    x_sigma = x_0 + sigma[:, None, None, None] * noise
    given = []
    hook = model.backbone.register_forward_hook(lambda *args: given.append(args[2]))

    found = model.errors(x_0, sigma, noise, told, mask)
    hook.remove()

    base, out, _ = model.preconditioned(x_sigma, sigma, told)
    target = torch.where(out > 0, (x_0 - base) / out.clamp(min=1e-9), 0.0)
    wanted = torch.where(out > 0, given[0] - target, 0.0).square().mean((1, 2, 3))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_calibrated_lift_gives_the_network_targets_of_unit_variance():
    pde = pdes.load("poisson", size=SIZE)
    model = lifted_network(pde, silent=True)
    x_0 = model.normalise(torch.cat(data.problems(pde, 256, "train"), 1))
    mask = torch.zeros_like(x_0)
    mask[:, :1, ::3, ::3] = 1.0
    sigma = torch.full((256,), 0.5)

    told = model.told(x_0, mask)
    doubtful = (model._parts(told)[2] > 0).float().mean()
    error = model.errors(x_0, sigma, model.noise.draw(0, range(256), 2), told, mask)

    assert 0.7 < error.mean() / doubtful < 1.1


@pytest.mark.parametrize("state", ["mixed", "lifted", "both"])
@pytest.mark.parametrize("strategy", ["sra", "concat", "none"])
def test_the_network_sees_the_residuals_that_it_asks_for(pde, pairs, state, strategy):
    model = lifted_network(pde, residual_state=state, strategy=strategy)
    seen = observe("sparse_forward", *pairs, rate=RATE, index=range(4))
    told, mask = model.condition(seen, 0.0)
    _, mean, sd, _ = model._parts(told)
    x = noise_like(mean)
    known = torch.where(sd == 0, mean, x)
    wanted = {"mixed": [known], "lifted": [mean], "both": [known, mean]}[state]

    found = model.residual(x, told, mask)

    expected = torch.cat([model.residual_of(each) for each in wanted], 1)
    assert torch.equal(found, expected)
    assert model(x, torch.ones(4), told, mask).shape == x.shape
    levels, summary = model.residual_levels(x, told, mask)
    if strategy != "none":
        assert all(r.square().mean((2, 3)).max() <= 1 + 1e-5 for r in levels)
        assert summary.shape == (4, 2 * len(wanted))


def test_each_residual_has_its_own_scale(pde, pairs):
    model = lifted_network(pde, residual_state="both")
    seen = observe("full_forward", *pairs, index=range(4))  # whose lift has none
    told, mask = model.condition(seen, 0.0)

    levels, _ = model.residual_levels(noise_like(told[:, :2]), told, mask)

    rms = levels[0].square().mean((2, 3)).sqrt()
    assert (rms[:, 0] > 0.7).all()
    assert (levels[0][:, 1].square().mean((1, 2)).sqrt() <= 1).all()


def test_noise_is_given_or_estimated(pde):
    model = lifted_network(pde)
    problems = cells.benchmark(pde, 8, split="validation")
    seen = cells.observation_of(problems, "inverse", "noisy")
    sd = problems.noise_sd("noisy")

    given = model.condition(seen, sd)[0]
    guessed = model.condition(seen)[0]

    maps = model._parts(given)[3]
    scale = SIGMA_DATA / model.std[0, :, 0, 0]
    torch.testing.assert_close(maps[:, :, 0, 0], torch.tensor([sd] * 8) * scale)
    found = model._parts(guessed)[3][:, 1, 0, 0]
    assert (found / maps[:, 1, 0, 0] - 1).abs().max() < 0.15
    assert not model._parts(guessed)[3][:, 0].any()  # nothing measured a


def test_solving_takes_the_noise_of_sensors(pde, pairs):
    model = lifted_network(pde)
    u = pairs[1][:1] + 1e-3 * noise_like(pairs[1][:1])
    draws = {
        sd: solve(model, u=u, steps=2, seed=0, noise_sd=sd).a for sd in (1e-3, 1e-1)
    }

    assert not torch.equal(draws[1e-3], draws[1e-1])
    estimated = solve(model, u=u, steps=2, seed=0)
    assert estimated.a.isfinite().all()


def test_draws_are_about_the_lift_where_the_network_is_silent(pde, pairs):
    model = lifted_network(pde, silent=True)
    seen = observe("sparse_forward", pairs[0][:1], pairs[1][:1], rate=RATE, index=[0])
    found = lifts.lift(pde, seen)
    solver = PrismaSolver(model, Schedule(50), noise_sd=0.0)
    generator = torch.Generator().manual_seed(0)

    a, _ = solver.solve(seen, samples=100, generator=generator)

    doubt = found.sd[:, :1]
    where = doubt > 0
    z = (a.mean(0) - found.a)[where] / doubt[where]
    assert z.abs().max() < 5 / 100**0.5
    ratio = a.std(0)[where] / doubt[where]
    assert (ratio.mean() - 1).abs() < 0.03


def test_it_runs_on_other_grids_and_refuses_those_it_cannot_pool(pde):
    model = lifted_network(pde)
    finer = pde.resized(2 * SIZE)
    found = solve(model, data.problems(finer, 1)[0], steps=2, seed=0)

    assert found.u.shape[-1] == 2 * SIZE
    with pytest.raises(ShapeError, match="16 or 20"):
        solve(model, torch.zeros(1, 1, 18, 18), steps=2)


def test_it_trains_around_its_lift(tmp_path):
    config = TrainConfig(
        method="prisma-l", pde="poisson", size=SIZE, preset="tiny", images=320,
        batch=16, group=4, noise_max=2.0, both=0.3, warmup=32, ema_half_life=100,
        layouts=("points", "patches", "columns", "window"),
    )  # fmt: skip
    seen = [state.loss for state in loop(start(config, torch.device("cpu")))]

    assert seen[0] < 1.2  # the lift is calibrated
    assert sum(seen[-5:]) < sum(seen[:5])


def test_prisma_is_told_of_no_noise(pde, pairs):
    model = Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=64))

    with pytest.raises(ConfigError, match="prisma was trained without noisy sensors"):
        solve(model, pairs[0], steps=2, noise_sd=0.1)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("sd", [-1.0, float("nan"), (0.1, -0.1), "much", {}])
def test_impossible_noise_is_refused(pde, pairs, sd):
    with pytest.raises(ConfigError, match="noise_sd="):
        solve(lifted_network(pde), pairs[0], steps=2, noise_sd=sd)


@pytest.mark.usefixtures("untyped")
def test_noise_of_another_shape_is_refused(pde, pairs):
    for sd in ((0.1, 0.2, 0.3), np.zeros((16, 16)), torch.zeros(8, 1)):
        with pytest.raises(ShapeError, match=r"or maps of them \(4, 2, 16, 16\)"):
            solve(lifted_network(pde), pairs[0], steps=2, noise_sd=sd)


def test_a_map_of_the_noise_may_be_an_array(pde, pairs):
    model, u, even = lifted_network(pde), pairs[1][:1], np.full((1, 2, 16, 16), 0.1)
    uneven = even * np.linspace(0.1, 1.9, 16)

    number, array, other = (
        solve(model, u=u, steps=2, seed=0, noise_sd=sd).a for sd in (0.1, even, uneven)
    )

    assert torch.equal(number, array)
    assert not torch.allclose(number, other, rtol=0.1)


def test_its_rows_have_its_own_name(pde):
    rows = evaluate.table(lifted_network(pde), n=2, steps=1)

    assert {"PRISMA-L", "lift"} < {row["method"] for row in rows}
    assert "PRISMA" not in {row["method"] for row in rows}


def test_an_unknown_residual_state_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'lifted'"):
        LiftConfig(residual_state="lifte")


def test_a_question_without_an_observation_is_drawn_from_the_prior(pde):
    model = lifted_network(pde, silent=True)
    nothing = observation(pde, allow_nothing=True)
    solver = PrismaSolver(model, Schedule(20))

    a, u = solver.solve(nothing, samples=64, generator=torch.Generator().manual_seed(0))

    truth = data.problems(pde, 64)[0]
    assert 0.5 < a.std() / truth.std() < 1.5
    assert u.isfinite().all()
