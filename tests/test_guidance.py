"""Guided sampling: gradients, exact posteriors, published steps and weights."""

import numpy as np
import pytest
import torch
from priors import BOTH, covariance_of_noise, exact, network, pose, trajectory

from prisma_lib import data, pdes, sample, solve
from prisma_lib.baselines.diffusionpde import DiffusionPDE, DiffusionPDESolver
from prisma_lib.baselines.fundps import FunDPSSolver
from prisma_lib.baselines.guidance import Moment, Target, Weights, guided_heun
from prisma_lib.edm import Schedule
from prisma_lib.errors import NumericsError
from prisma_lib.observe import observation
from prisma_lib.pdes.base import Statistics

STATISTICS = Statistics((0.1, 0.001), (0.3, 0.004), 1e-3)
WEIGHTS = {"a": 0.4, "u": 0.7, "pde": 0.3}


@pytest.mark.parametrize("step", [2, 9])
@pytest.mark.parametrize("kind", BOTH)
def test_a_pull_is_the_gradient_of_the_loss(kind, step):
    poisson = pdes.load("poisson", size=16)
    model = network(kind, poisson, STATISTICS).double()
    solver = model.solver(steps=10, weights=WEIGHTS, residual="ours")
    seen = pose(poisson, "inverse", STATISTICS)
    chance = torch.Generator().manual_seed(1)
    noise, way = torch.randn(2, 2, 2, 16, 16, generator=chance, dtype=torch.float64)
    states = trajectory(solver, seen, noise)
    sigma, after = solver.levels(seen).sigmas()[step - 1 : step + 1].tolist()
    x_obs, mask = solver.condition(seen)
    target = Target(x_obs, mask, poisson, Weights(**WEIGHTS), True)

    def loss(x):
        _, denoised = sample.heun_step(model, x, sigma, after)
        return solver.loss(Moment(step, 10, sigma), denoised, target).sum().item()

    before = states[step - 1]
    free, _ = sample.heun_step(model, before, sigma, after)
    pull = (free - states[step]) / solver.stretch

    h = 1e-5 * before.std()
    slope = (loss(before + h * way) - loss(before - h * way)) / (2 * h)
    assert (pull * way).sum().item() == pytest.approx(slope.item(), rel=1e-5)


def gaussian_toy():
    """Builds a Gaussian vector of four values, two of which are observed with noise."""
    chance = torch.Generator().manual_seed(3)
    root = torch.randn(4, 4, generator=chance, dtype=torch.float64) / 2
    return root @ root.T, torch.eye(4, dtype=torch.float64)[[0, 2]], 0.3


def exactly_guided(steps, y):
    """Returns what four unit impulses and no noise become under exact guidance."""
    prior, observe, sd = gaussian_toy()
    unit = torch.eye(4, dtype=torch.float64)
    schedule = Schedule(steps, 0.002, 80.0)
    sigmas = schedule.sigmas().tolist()

    def denoise(x, sigma):
        total = prior + sigma[0] ** 2 * unit
        return (x.flatten(1) @ torch.linalg.solve(total, prior)).view_as(x)

    def loss(moment, denoised):
        level = sigmas[moment.step] or moment.sigma  # that of the last denoiser call
        total = prior + level**2 * unit
        left = prior - prior @ torch.linalg.solve(total, prior)
        spread = observe @ left @ observe.T + sd**2 * torch.eye(2)
        off = denoised.flatten(1) @ observe.T - y
        likelihood = (off * torch.linalg.solve(spread, off.T).T).sum(1) / 2
        return (moment.sigma - sigmas[moment.step]) * moment.sigma * likelihood

    noise = torch.cat([unit, torch.zeros(1, 4, dtype=torch.float64)])
    for state in guided_heun(denoise, noise.view(5, 1, 2, 2), schedule, loss, 1.0):
        x = state.x.flatten(1)
    return x[4], (x[:4] - x[4])


def test_guidance_with_the_exact_likelihood_draws_from_the_posterior():
    prior, observe, sd = gaussian_toy()
    y = torch.tensor([0.8, -0.5], dtype=torch.float64)
    gain = (
        prior
        @ observe.T
        @ torch.linalg.inv(observe @ prior @ observe.T + sd**2 * torch.eye(2))
    )
    mean, covariance = gain @ y, prior - gain @ observe @ prior

    errors = []
    for steps in (200, 400):
        found, impulses = exactly_guided(steps, y)
        spread = impulses.T @ impulses  # draws are affine in the noise
        errors.append(
            [
                ((found - mean).norm() / mean.norm()).item(),
                ((spread - covariance).norm() / covariance.norm()).item(),
            ]
        )

    coarse, fine = np.array(errors)
    assert (fine < 0.02).all()
    assert (coarse / fine > 1.8).all()  # of first order: the pull is a splitting


@pytest.mark.parametrize("kind", BOTH)
def test_without_weights_an_exact_prior_draws_its_own_covariance(kind):
    poisson = pdes.load("poisson", size=8)
    model, covariance = exact(kind, poisson)
    solver = model.solver(steps=60, weights={})
    nothing = observation(poisson, allow_nothing=True)
    impulses = torch.eye(128, dtype=torch.float64).view(128, 2, 8, 8)
    zero = torch.zeros_like(impulses)

    for state in solver.states(impulses, zero, zero, nothing, range(len(zero))):
        drawn = state.x.flatten(1)

    found = drawn.T @ covariance_of_noise(model) @ drawn
    assert (found - covariance).norm() < 0.01 * covariance.norm()


def test_the_equation_pulls_in_the_last_fifth_of_the_steps_only():
    asked = []

    class Asked(DiffusionPDESolver):
        def mismatch(self, x, pde):
            asked.append(len(x))
            return super().mismatch(x, pde)

    poisson = pdes.load("poisson", size=8)
    solver = Asked(network(DiffusionPDE, poisson, STATISTICS), steps=20)
    seen = pose(poisson, "forward", STATISTICS)
    done = []
    start = torch.randn(2, 2, 8, 8)
    for state in solver.states(start, *solver.condition(seen), seen, range(2)):
        done.append((state.step, len(asked)))

    assert done[15] == (16, 0)
    assert [calls for _, calls in done[16:]] == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", BOTH)
def test_a_batch_gives_what_its_draws_give_alone(kind):
    helmholtz = pdes.load("helmholtz", size=16)
    model = network(kind, helmholtz, STATISTICS)
    seen = pose(helmholtz, "inverse", STATISTICS)

    def draws(max_batch):
        solver = model.solver(steps=6, weights=WEIGHTS, max_batch=max_batch)
        chance = torch.Generator().manual_seed(5)
        return torch.cat(solver.solve(seen, samples=2, generator=chance), 2)

    alone, together = draws(1), draws(4)

    assert together.shape == (2, 2, 2, 16, 16)
    assert (alone - together).norm() < 1e-5 * together.norm()
    assert not torch.equal(together[0], together[1])


@pytest.mark.parametrize("kind", BOTH)
def test_guided_solvers_work_where_gradients_are_off(kind):
    poisson = pdes.load("poisson", size=8)
    solver = network(kind, poisson, STATISTICS).solver(steps=3, weights=WEIGHTS)
    a, _ = data.problems(poisson, 1)
    with torch.inference_mode():
        silent = solve(solver, a=a, seed=0)

    loud = solve(solver, a=a, seed=0)

    assert torch.equal(silent.u, loud.u)
    assert solver.calls == 5


@pytest.mark.parametrize("kind", [DiffusionPDESolver, FunDPSSolver])
def test_a_pull_that_explodes_is_an_error(kind):
    poisson = pdes.load("poisson", size=8)
    model = network(BOTH[kind is FunDPSSolver], poisson, STATISTICS)
    solver = kind(model, steps=5, weights={"a": 1e38})
    a, _ = data.problems(poisson, 2)

    with pytest.raises(NumericsError, match="2 of 2 draws became non-finite"):
        solve(solver, a=a, seed=0)
