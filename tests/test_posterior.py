"""Posteriors in closed form, against what the equation and the truth say."""

import math

import pytest
import torch
from small import random_observation

from prisma_lib import data, evaluate, metrics
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.observe import Observation, add_noise, observe
from prisma_lib.pdes import load
from prisma_lib.posterior import ExactPosterior, gaussian_posterior, is_gaussian
from prisma_lib.solve import Solver

TASKS = ("full_forward", "full_inverse", "sparse_forward", "sparse_inverse")
NAMES = ("poisson", "helmholtz")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", TASKS)
def test_draws_solve_the_equation_and_meet_what_was_observed(name, task):
    pde = load(name, size=16)
    a, u = data.problems(pde, 3)
    seen = observe(task, a, u, rate=0.1, index=range(3))

    draws = gaussian_posterior(pde, seen).sample(2, torch.Generator().manual_seed(0))

    drawn_a, drawn_u = (field.flatten(0, 1) for field in draws)
    r = pde.residual(drawn_a, drawn_u)
    assert r.abs().max() < 1e-9
    tiled = seen.repeat(2)
    for drawn, known, mask in (
        (drawn_a, tiled.a, tiled.mask_a),
        (drawn_u, tiled.u, tiled.mask_u),
    ):
        assert (mask * (drawn - known)).abs().max() < 1e-4 * drawn.std()


def test_nothing_observed_leaves_the_prior():
    pde = load("poisson", size=16)
    blank = torch.zeros(1, 1, 16, 16)
    posterior = gaussian_posterior(pde, Observation(blank, blank, blank, blank))
    a, u = data.problems(pde, 3000)

    mean, std = posterior.mean(), posterior.std()

    assert not torch.cat(mean).any()
    for field, expected in zip((a, u), std, strict=True):
        ratio = field.std(0).mean() / expected.mean()
        assert ratio.item() == pytest.approx(1, abs=0.03)


def test_all_of_the_input_leaves_no_doubt():
    pde = load("helmholtz", size=16)
    a, u = data.problems(pde, 2)
    seen = observe("full_forward", a, u, index=range(2))

    mean, std = (
        gaussian_posterior(pde, seen).mean(),
        gaussian_posterior(pde, seen).std(),
    )

    torch.testing.assert_close(mean[1].float(), u, rtol=0, atol=1e-6)
    assert std[1].max() < 1e-5 * u.std()


def test_the_edge_of_the_source_is_what_a_full_poisson_inverse_cannot_see():
    pde = load("poisson", size=16)
    a, u = data.problems(pde, 2)
    seen = observe("full_inverse", a, u, index=range(2))

    std = gaussian_posterior(pde, seen).std()[0]

    assert std[..., 1:-1, 1:-1].max() < 1e-2
    assert std[..., 0, :].min() > 3e-2


def test_more_noise_leaves_more_doubt():
    pde = load("poisson", size=16)
    a, u = data.problems(pde, 2)
    seen = observe("full_inverse", a, u, index=range(2))

    doubts = [
        gaussian_posterior(pde, seen, (0.0, sd)).std()[0].mean()
        for sd in (0.0, 1e-5, 1e-3, 1e3)
    ]

    assert doubts == sorted(doubts)
    assert doubts[-1] == pytest.approx(pde.draw(0, range(500)).std().item(), rel=0.1)


def test_impossible_known_values_do_no_harm():
    """The edge of a Helmholtz source is zero beforehand, whatever a sensor says."""
    pde = load("helmholtz", size=9)
    one, blank = torch.ones(1, 1, 9, 9), torch.zeros(1, 1, 9, 9)
    edge = one.clone()
    edge[..., 1:-1, 1:-1] = 0

    mean, _ = gaussian_posterior(pde, Observation(edge, blank, edge, blank)).mean()

    assert not mean.any()


def test_a_draw_does_not_depend_on_the_batch():
    pde = load("poisson", size=16)
    a, u = data.problems(pde, 3)
    whole = observe("sparse_forward", a, u, rate=0.1, index=range(3))
    first = observe("sparse_forward", a[:1], u[:1], rate=0.1, index=[0])

    both = [
        gaussian_posterior(pde, seen).sample(1, torch.Generator().manual_seed(3))[1]
        for seen in (whole, first)
    ]

    torch.testing.assert_close(both[0][:, :1], both[1])


# One draw from 3 % of 32 x 32 points, in per cent, over 128 problems.
FLOORS = {
    ("poisson", "forward"): 29,
    ("poisson", "inverse"): 38,
    ("helmholtz", "forward"): 31,
    ("helmholtz", "inverse"): 34,
}


@pytest.mark.parametrize(("name", "direction"), FLOORS)
def test_a_draw_from_sparse_sensors_errs_by_the_stated_floor(name, direction):
    problems = evaluate.benchmark(load(name, size=32), n=128)
    solver = ExactPosterior(problems.pde)

    (row,) = evaluate.evaluate(
        solver, problems, direction, "sparse", method="exact posterior"
    )

    assert float(row["value"]) == pytest.approx(FLOORS[name, direction], rel=0.12)
    assert row["calls"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_spread_is_the_error_of_the_mean(name):
    pde = load(name, size=16)
    a, u = data.problems(pde, 100)
    sd = 0.1 * u.std().item()
    seen = observe("sparse_inverse", a, u, rate=0.1, index=range(100))
    seen = add_noise(seen, 0.0, sd, key=0, index=range(100))
    posterior = gaussian_posterior(pde, seen, (0.0, sd))

    fields = zip((a, u), posterior.mean(), posterior.std(), strict=True)

    for truth, mean, std in fields:
        error = (truth - mean).square().mean().sqrt()
        assert error.item() == pytest.approx(std.square().mean().sqrt().item(), rel=0.1)


def test_the_mean_beats_a_draw_by_the_root_of_two():
    pde = load("poisson", size=16)
    a, u = data.problems(pde, 100)
    seen = observe("sparse_forward", a, u, rate=0.1, index=range(100))
    posterior = gaussian_posterior(pde, seen)

    draws = posterior.sample(4, torch.Generator().manual_seed(0))[1]

    errors = [(f - u).square().mean().sqrt() for f in (draws, posterior.mean()[1])]
    assert (errors[0] / errors[1]).item() == pytest.approx(math.sqrt(2), rel=0.05)


def test_the_solver_keeps_the_contract_of_solvers():
    pde = load("helmholtz", size=16)
    a, u = data.problems(pde, 2)
    solver = ExactPosterior(pde, noise_sd=(0.1, 0.01))
    seen = observe("full_inverse", a, u, index=range(2))

    drawn = solver.solve(seen, samples=3, generator=torch.Generator())

    assert isinstance(solver, Solver)
    assert [tuple(field.shape) for field in drawn] == [(3, 2, 1, 16, 16)] * 2
    assert {field.dtype for field in drawn} == {torch.float32}


def test_full_observations_of_2304_values_are_conditioned_on():
    pde = load("poisson", size=48)
    a, u = data.problems(pde, 4)
    seen = observe("full_inverse", a, u, index=range(4))

    mean, _ = gaussian_posterior(pde, seen).mean()

    assert metrics.relative_l2(mean, a.double()).mean() < 0.02


def test_only_linear_equations_with_gaussian_inputs_have_one():
    a, u = torch.ones(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    seen = Observation(a, u, a, u)

    for pde in (load("darcy", size=8), load("poisson", size=8, binary=True)):
        assert not is_gaussian(pde)
        with pytest.raises(ConfigError, match=f"{pde.name} .* no posterior"):
            gaussian_posterior(pde, seen)
    assert is_gaussian(load("poisson", size=8))


@pytest.mark.parametrize("sd", [-1.0, math.nan, (0.0, math.inf)])
def test_impossible_noise_is_refused(sd):
    pde = load("poisson", size=8)

    with pytest.raises(ConfigError, match="noise_sd="):
        gaussian_posterior(pde, random_observation(pde, 0.5), sd)


def test_an_observation_on_another_grid_is_refused():
    seen = random_observation(load("poisson", size=8), 0.5)

    with pytest.raises(ShapeError, match="poisson"):
        load("poisson", size=9).gaussian_posterior(seen)


def test_no_draws_are_refused():
    pde = load("poisson", size=8)

    with pytest.raises(ConfigError, match="at least one"):
        gaussian_posterior(pde, random_observation(pde, 0.5)).sample(
            0, torch.Generator()
        )


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("noise", ["0.1", None, [0.1, 0.1], (0.1,), torch.ones(2)])
def test_noise_that_is_no_number_is_refused(noise):
    pde = load("poisson", 8)
    blank = torch.zeros(1, 1, 8, 8)

    with pytest.raises(ConfigError, match="noise_sd="):
        gaussian_posterior(pde, Observation(blank, blank, blank, blank), noise)
    with pytest.raises(DataError, match="no observation"):
        gaussian_posterior(pde, blank, 0.0)
