"""The sampler where the answer is known: Gaussian data and a perfect denoiser."""

import itertools
import math

import pytest
import torch

from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.fields import GRFNoise
from prisma_lib.grids import Grid
from prisma_lib.sample import SAMPLERS, calls, heun, multistep

NEAR = [("hune", "heun"), ("multi-step", "multistep"), ("Euler ", "euler")]


def gaussian_denoiser(mean, std):
    def denoise(x, sigma):
        share = std**2 / (std**2 + sigma[:, None, None, None] ** 2)
        return mean + share * (x - mean)

    return denoise


def last(states):
    *_, state = states
    return state


def std_error(method, steps, std=0.5):
    """Relative error of the result's std, which one unit of noise shows exactly."""
    noise = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    x = last(SAMPLERS[method](gaussian_denoiser(0.0, std), noise, Schedule(steps))).x
    wanted = std * 80 / math.hypot(80, std)
    return abs(x.item() / wanted - 1)


@pytest.mark.parametrize(
    ("method", "bound"), [("euler", 1.5e-2), ("heun", 5e-4), ("multistep", 5e-4)]
)
def test_gaussian_data_come_out_with_the_right_std_at_200_steps(method, bound):
    assert std_error(method, 200) < bound


@pytest.mark.parametrize(
    ("method", "order"), [("euler", 1), ("heun", 2), ("multistep", 2)]
)
def test_std_error_falls_with_the_order_of_the_method(method, order):
    found = math.log2(std_error(method, 100) / std_error(method, 200))

    assert found == pytest.approx(order, abs=0.1)


def test_multistep_needs_half_the_calls_of_heun_for_the_same_error():
    assert calls("multistep", 50) < 0.51 * calls("heun", 50)
    assert std_error("multistep", 50) < 1.1 * std_error("heun", 50)


@pytest.mark.parametrize(("std", "bias"), [(0.5, 1.044), (0.1, 1.071), (0.01, 1.123)])
def test_bias_at_20_steps_is_the_known_one(std, bias):
    noise = torch.ones(1, 1, 1, 1, dtype=torch.float64)

    x = last(heun(gaussian_denoiser(0.0, std), noise, Schedule(20))).x

    assert x.item() / std == pytest.approx(bias, abs=2e-3)


@pytest.mark.parametrize("method", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_a_perfect_denoiser_gives_the_truth_at_every_step_count(method, steps):
    truth = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    noise = torch.randn_like(truth)

    x = last(SAMPLERS[method](lambda x, sigma: truth, noise, Schedule(steps))).x

    torch.testing.assert_close(x, truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", SAMPLERS)
@pytest.mark.parametrize("steps", [1, 2, 20])
def test_states_count_steps_and_calls(method, steps):
    counted = []

    def denoise(x, sigma):
        counted.append(sigma)
        return torch.zeros_like(x)

    states = []
    for state in SAMPLERS[method](denoise, torch.ones(1, 1, 2, 2), Schedule(steps)):
        assert state.calls == len(counted)
        states.append(state)

    assert len(counted) == calls(method, steps)
    assert [state.step for state in states] == list(range(1, steps + 1))
    assert [state.sigma for state in states] == Schedule(steps).sigmas()[1:].tolist()


@pytest.mark.parametrize("method", SAMPLERS)
def test_start_state_is_sigma_max_times_the_noise(method):
    seen = []
    noise = GRFNoise(Grid((16, 16))).draw(0, range(200), 2)

    def denoise(x, sigma):
        seen.append((x, sigma))
        return torch.zeros_like(x)

    last(SAMPLERS[method](denoise, noise, Schedule(3)))

    torch.testing.assert_close(seen[0][0], 80 * noise, rtol=0, atol=0)
    assert (seen[0][1] == 80).all()
    assert seen[0][0].std().item() == pytest.approx(80, rel=0.02)


def curved(x, sigma):
    """A denoiser that is neither linear nor the same at every level."""
    mixing = torch.randn(9, 9, generator=torch.Generator().manual_seed(0)).double() / 3
    return torch.tanh(x.flatten(1) @ mixing / (1 + sigma[:, None])).view_as(x)


def test_heun_equals_an_independent_integration_of_the_flow():
    """The explicit trapezoid written as a Runge-Kutta tableau on dx/dsigma."""
    noise = torch.randn(2, 1, 3, 3, dtype=torch.float64)
    sigmas = Schedule(12).sigmas()
    x = sigmas[0] * noise
    for s, t in itertools.pairwise(sigmas):

        def slope(x, level):
            return (x - curved(x, level.expand(2))) / level

        k1 = slope(x, s)
        k2 = slope(x + (t - s) * k1, t) if t > 0 else k1
        x = x + (t - s) * (0.5 * k1 + 0.5 * k2)

    state = last(heun(curved, noise, Schedule(12)))

    torch.testing.assert_close(state.x, x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [2, 3, 12])
def test_multistep_equals_algorithm_2_of_the_paper(steps):
    """In the paper's letters: alpha = 1, lambda = -ln sigma, h, r and exp(-h) - 1."""
    noise = torch.randn(2, 1, 3, 3, dtype=torch.float64)
    sigma = Schedule(steps).sigmas()
    lam = -sigma[:-1].log()
    x = [sigma[0] * noise]
    q = []
    for i in range(1, steps):
        q.append(curved(x[i - 1], sigma[i - 1].expand(2)))
        h = lam[i] - lam[i - 1]
        if i == 1:
            d = q[0]
        else:
            r = (lam[i - 1] - lam[i - 2]) / h
            d = (1 + 1 / (2 * r)) * q[i - 1] - 1 / (2 * r) * q[i - 2]
        x.append(sigma[i] / sigma[i - 1] * x[i - 1] - torch.expm1(-h) * d)
    clean = curved(x[-1], sigma[-2].expand(2))  # lower order in the final, endless step

    states = list(multistep(curved, noise, Schedule(steps)))

    torch.testing.assert_close(states[-2].x, x[-1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(states[-1].x, clean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("given", "meant"), NEAR)
def test_an_unknown_sampler_is_an_error_that_names_the_nearest(given, meant):
    with pytest.raises(ConfigError, match=f"unknown sampler .* did you mean '{meant}'"):
        calls(given, 3)
