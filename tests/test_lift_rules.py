"""The rules behind lifts, against exact solutions and independent implementations."""

import math

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, cg

from prisma_lib import data, flux_form, lifts, metrics, pdes
from prisma_lib.lifts import burgers, darcy, estimates, flows, kriging, priors
from prisma_lib.lifts.sensors import sensors
from prisma_lib.observe import Observation, add_noise, observe
from prisma_lib.pdes.burgers import cole_hopf
from prisma_lib.posterior import gaussian_posterior
from prisma_lib.spectral import solve_dirichlet

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def few_training_problems(monkeypatch):
    monkeypatch.setattr(priors, "PROBLEMS", 64)


def pairs(pde, num):
    a, u = data.problems(pde, num)
    return a.double(), u.double()


def error(field, truth):
    return 100 * metrics.relative_l2(field, truth).mean().item()


def masked(pde, rates, num=3):
    a, u = data.problems(pde, num)
    random = torch.rand(2, *a.shape, generator=torch.Generator().manual_seed(0))
    masks = [(part < rate).float() for part, rate in zip(random, rates, strict=True)]
    return Observation(a * masks[0], u * masks[1], *masks)


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
@pytest.mark.parametrize("rates", [(0.1, 0.0), (0.0, 0.1), (0.3, 0.4), (1, 0), (0, 1)])
@pytest.mark.parametrize("noise", [0.0, (0.1, 1e-4)])
def test_linear_equations_give_the_exact_posterior(name, rates, noise):
    pde = pdes.load(name, size=12)
    seen = masked(pde, rates)
    posterior = gaussian_posterior(pde, seen, noise)

    lift = pde.lift(seen, noise)

    a, u = posterior.mean(), posterior.std()
    for mine, theirs in ((lift.mean, a), (lift.sd, u)):
        for field, exact, scale in zip(
            mine.split(1, 1), theirs, (0.3, 0.005), strict=True
        ):
            assert (field - exact).abs().max() < 2e-4 * scale


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
def test_whole_fields_of_linear_equations_leave_no_error(name):
    pde = pdes.load(name, size=32)
    a, u = data.problems(pde, 8)

    forth = pde.lift(observe("full_forward", a, u, index=range(8)))
    back = pde.lift(observe("full_inverse", a, u, index=range(8)))

    assert error(forth.u, u) < 1e-4
    assert not forth.sd.any()
    inner = back.a[..., 1:-1, 1:-1]
    assert error(inner, a[..., 1:-1, 1:-1]) < 1e-2
    assert not back.sd[..., 1:-1, 1:-1].any()
    # The edge of Poisson's source is unseen, Helmholtz's is known to be zero.
    assert (back.sd[:, 0, 0].min() > 0.01) == (name == "poisson")


@pytest.mark.parametrize("task", ["sparse_inverse", "full_inverse", "sparse_forward"])
def test_intervals_of_linear_equations_cover_what_they_say(task):
    pde = pdes.load("poisson", size=16)
    a, u = data.problems(pde, 200)
    noise = 0.3 * a.std().item(), 0.3 * u.std().item()
    seen = observe(task, a, u, rate=0.1, index=range(200))
    seen = add_noise(seen, *noise, key=0, index=range(200))

    lift = pde.lift(seen, noise)

    z = (lift.mean - torch.cat([a, u], 1)).abs() / lift.sd
    for field in (z[:, 0], z[:, 1, 1:-1, 1:-1]):
        assert (field < 0.6745).float().mean().item() == pytest.approx(0.5, abs=0.02)
        assert (field < 1.645).float().mean().item() == pytest.approx(0.9, abs=0.02)


def test_binary_sources_are_told_apart_from_the_whole_solution():
    pde = pdes.load("poisson", size=16, binary=True)
    a, u = data.problems(pde, 4)

    lift = pde.lift(observe("full_inverse", a, u, index=range(4)))

    assert torch.equal(lift.a[..., 1:-1, 1:-1], a[..., 1:-1, 1:-1])


def test_masks_that_come_again_are_decomposed_to_the_same_effect(monkeypatch):
    pde = pdes.load("poisson", size=16)
    a, u = data.problems(pde, 3)
    seen = add_noise(
        observe("full_inverse", a, u, index=range(3)), 0, 1e-3, key=0, index=range(3)
    )
    known = sensors(seen, (0.0, 1e-3), (1, 1))
    rule = priors.kriging_of(pde, CPU)

    mean, sd = rule(known)
    monkeypatch.setattr(kriging, "_MANY", 10_000)
    other_mean, other_sd = rule(known)

    torch.testing.assert_close(mean, other_mean, rtol=1e-7, atol=1e-10)
    torch.testing.assert_close(sd, other_sd, rtol=1e-5, atol=1e-8)
    assert len(rule._spectra) == 1


@pytest.mark.parametrize("torus", [True, False])
def test_a_stationary_covariance_is_the_mean_over_all_shifts(torus):
    x = torch.randn(3, 2, 4, 5, generator=torch.Generator().manual_seed(0)).double()
    axes = (2, 3) if torus else (3,)
    shifts = [(i, j) for i in range(4 if torus else 1) for j in range(5)]
    centred = (x - x.mean((0, *axes), keepdim=True)).numpy()
    rolled = [np.roll(centred, s, (2, 3)).reshape(3, -1) for s in shifts]
    expected = sum(r.T @ r for r in rolled) / (3 * len(shifts))

    prior = priors._stationary(x, torus)

    rows = prior.rows(torch.arange(40))
    np.testing.assert_allclose(rows.numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(prior.variance.numpy(), expected.diagonal(), atol=1e-12)


def test_declared_symmetries_are_those_of_the_covariance():
    pde = pdes.load("darcy", size=8)
    covariance = priors.prior(pde, CPU).rows(torch.arange(128))
    both = covariance.view(2, 8, 8, 2, 8, 8)

    for turned in (both.flip(2, 5), both.transpose(1, 2).transpose(4, 5)):
        torch.testing.assert_close(turned, both, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(both.flip(2), both)


def test_conjugate_gradients_are_those_of_scipy():
    pde = pdes.load("darcy", size=12)
    a = pairs(pde, 1)[0]
    spacing = pde.grid.spacing
    matrix = flux_form.matrix(a[0, 0], spacing)

    def precondition(r):
        field = torch.from_numpy(r.astype(float)).view(1, 10, 10)
        return -solve_dirichlet(field, spacing).flatten().numpy()

    for iterations in (0, 1, 2, 3):
        mine = flux_form.approximate(a[:, 0], 1.0, spacing, iterations)
        theirs, _ = cg(
            matrix,
            np.ones(100),
            maxiter=1 + iterations,
            rtol=0,
            M=LinearOperator((100, 100), precondition),
        )
        np.testing.assert_allclose(mine.flatten().numpy(), theirs, rtol=1e-10)


def test_darcy_flow_takes_as_many_iterations_as_asked_for():
    pde = pdes.load("darcy", size=32)
    a, u = data.problems(pde, 64)
    seen = observe("full_forward", a, u, index=range(64))

    lifted = [pde.lift(seen, iterations=n) for n in range(4)]

    errors = [error(lift.u, u) for lift in lifted]
    for found, (low, high) in zip(
        errors, [(25, 33), (6, 10), (1.4, 2.5), (0.3, 0.56)], strict=True
    ):
        assert low < found < high
    assert error(pde.lift(seen).u, u) == errors[3]
    for lift in lifted:
        spread = lift.sd[:, 1].square().mean().sqrt()
        found = (lift.u - u).square().mean().sqrt()
        assert found / spread == pytest.approx(1, abs=0.25)


def test_materials_are_known_but_at_interfaces():
    pde = pdes.load("darcy", size=32)
    a, u = data.problems(pde, 64)

    lift = pde.lift(observe("full_inverse", a, u, index=range(64)))

    wrong, sure = lift.a != a, lift.sd[:, :1] < 1
    assert wrong.float().mean() < 0.02
    assert sure.float().mean() > 0.7
    for part in (sure, ~sure):
        found = (lift.a - a)[part].square().mean().sqrt()
        assert found / lift.sd[:, :1][part].mean() == pytest.approx(1, abs=0.3)


def test_whole_permeabilities_of_other_materials_are_taken_as_they_are():
    pde = pdes.load("darcy", size=16)
    a = torch.full((1, 1, 16, 16), 50.0)
    seen = observe("full_forward", a, torch.zeros_like(a), index=[0])

    torch.testing.assert_close(pde.lift(seen).u, pde.solve(a), rtol=1e-5, atol=1e-9)


def test_burgers_by_the_heat_equation_is_the_solution():
    pde = pdes.load("burgers", size=32)
    a, u = pairs(pde, 8)
    exact = cole_hopf(pde.grid, pde.viscosity)[None, None]

    assert error(burgers.history(pde, a), u) < 1e-4
    start = exact[..., :1, :].expand_as(exact)
    torch.testing.assert_close(burgers.history(pde, start), exact, rtol=0, atol=1e-7)
    # With a mean flow.
    moved = pde.solve(a[:2] + 0.3)
    torch.testing.assert_close(
        burgers.history(pde, a[:2] + 0.3), moved, rtol=0, atol=1e-6
    )


def test_burgers_with_thin_fronts_is_left_to_the_solver(monkeypatch):
    pde = pdes.load("burgers", size=16)
    a, _ = pairs(pde, 2)
    monkeypatch.setattr(burgers, "_SPAN", 0.1)

    assert torch.equal(burgers.history(pde, a), pde.solve(a))


@pytest.mark.parametrize("frames", [1, 3])
def test_two_steps_of_a_flow_are_as_good_as_twenty(frames):
    pde = pdes.load("navier_stokes", size=32, frames=frames)
    a, u = pairs(pde, 20)

    assert error(flows.later(pde, a), u) < 1e-3
    assert error(flows.earlier(pde, u), a) < 0.05
    assert error(pde.stencil(u), a) > 0.1


def test_flows_that_are_too_fast_for_two_steps_are_left_to_the_solver():
    pde = pdes.load("navier_stokes", size=16)
    a = pairs(pde, 3)[0] * torch.tensor([1.0, 12.0, 1.0]).view(3, 1, 1, 1)

    u, back = flows.later(pde, a), flows.earlier(pde, a)

    assert torch.equal(u[1:2], pde.solve(a[1:2]))
    assert torch.equal(back[1:2], pde.stencil(a[1:2]))
    torch.testing.assert_close(u[::2], flows.later(pde, a[::2]))


def test_backward_steps_do_not_invent_what_diffusion_took():
    pde = pdes.load("navier_stokes", size=48, viscosity=1e-2)
    noise = 1e-6 * torch.randn(1, 1, 48, 48, generator=torch.Generator().manual_seed(0))
    u = pairs(pde, 1)[1]

    change = flows.earlier(pde, u + noise.double()) - flows.earlier(pde, u)

    assert 5e-6 < change.abs().max() < 5e-4


@pytest.mark.parametrize("name", ["darcy", "eikonal", "burgers", "navier_stokes"])
def test_once_prepared_no_lift_waits_for_what_they_share(name):
    pde = pdes.load(name, size=12)
    rules = estimates.error_of, estimates._nonlinear
    shared = *rules, priors.kriging_of, priors.training_pairs
    for kept in shared:
        kept.cache_clear()

    lifts.prepare(pde)
    made = [kept.cache_info().misses for kept in shared]
    for rates in ((1, 0), (0, 1), (0.1, 0), (0, 0.1)):
        pde.lift(masked(pde, rates, 2))

    assert made[1] > 0
    assert [kept.cache_info().misses for kept in shared] == made


def test_the_door_is_the_method_of_the_equation():
    pde = pdes.load("helmholtz", size=12)
    seen = masked(pde, (0.2, 0.0))

    assert torch.equal(lifts.lift(pde, seen, 0.1).mean, pde.lift(seen, 0.1).mean)
    assert darcy.ITERATIONS == 3
    assert math.isclose(priors.kriging_of(pde, CPU).prior.variance[0], 0)
