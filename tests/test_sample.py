"""The sampler where the answer is known: Gaussian data and a perfect denoiser."""

import itertools
import math

import pytest
import torch

from prisma_lib.edm import Schedule
from prisma_lib.sample import heun


def gaussian_denoiser(mean, std):
    def denoise(x, sigma):
        share = std**2 / (std**2 + sigma[:, None, None, None] ** 2)
        return mean + share * (x - mean)

    return denoise


def last(states):
    *_, state = states
    return state


def std_error(steps, std=0.5):
    """Relative error of the result's std, which one unit of noise shows exactly."""
    noise = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    x = last(heun(gaussian_denoiser(0.0, std), noise, Schedule(steps))).x
    wanted = std * 80 / math.hypot(80, std)
    return abs(x.item() / wanted - 1)


def test_gaussian_data_come_out_with_the_right_std_at_200_steps():
    assert std_error(200) < 5e-3


def test_std_error_falls_at_about_second_order():
    order = math.log2(std_error(100) / std_error(200))

    assert order == pytest.approx(2, abs=0.35)


@pytest.mark.parametrize(("std", "bias"), [(0.5, 1.044), (0.1, 1.071), (0.01, 1.123)])
def test_bias_at_20_steps_is_the_known_one(std, bias):
    noise = torch.ones(1, 1, 1, 1, dtype=torch.float64)

    x = last(heun(gaussian_denoiser(0.0, std), noise, Schedule(20))).x

    assert x.item() / std == pytest.approx(bias, abs=2e-3)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_a_perfect_denoiser_gives_the_truth_at_every_step_count(steps):
    truth = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    noise = torch.randn_like(truth)

    x = last(heun(lambda x, sigma: truth, noise, Schedule(steps))).x

    torch.testing.assert_close(x, truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_steps_call_the_denoiser_twice_less_one(steps):
    calls = []

    def denoise(x, sigma):
        calls.append(sigma)
        return torch.zeros_like(x)

    state = last(heun(denoise, torch.ones(1, 1, 2, 2), Schedule(steps)))

    assert len(calls) == state.calls == 2 * steps - 1
    assert state.step == steps
    assert state.sigma == 0


def test_start_state_is_sigma_max_times_the_noise():
    seen = []
    noise = torch.randn(1, 1, 3, 3)

    def denoise(x, sigma):
        seen.append((x, sigma))
        return torch.zeros_like(x)

    last(heun(denoise, noise, Schedule(3)))

    torch.testing.assert_close(seen[0][0], 80 * noise)
    assert seen[0][1].item() == 80


def test_heun_equals_an_independent_integration_of_the_flow():
    """The explicit trapezoid written as a Runge-Kutta tableau on dx/dsigma."""
    torch.manual_seed(0)
    mixing = torch.randn(9, 9, dtype=torch.float64) / 3

    def denoise(x, sigma):
        inner = x.flatten(1) @ mixing / (1 + sigma[:, None])
        return torch.tanh(inner).view_as(x)

    noise = torch.randn(2, 1, 3, 3, dtype=torch.float64)
    sigmas = Schedule(12).sigmas()
    x = sigmas[0] * noise
    for s, t in itertools.pairwise(sigmas):

        def slope(x, level):
            return (x - denoise(x, level.expand(2))) / level

        k1 = slope(x, s)
        k2 = slope(x + (t - s) * k1, t) if t > 0 else k1
        x = x + (t - s) * (0.5 * k1 + 0.5 * k2)

    state = last(heun(denoise, noise, Schedule(12)))

    torch.testing.assert_close(state.x, x, rtol=1e-12, atol=1e-12)
