"""Preconditioning and schedule against their defining properties."""

import math

import pytest
import torch

from prisma_lib.edm import SIGMA_DATA, Schedule, loss_weight, precondition
from prisma_lib.errors import ConfigError

SIGMA = torch.logspace(-3, 2, 30, dtype=torch.float64)


def test_network_input_has_unit_variance_at_every_noise_level():
    c = precondition(SIGMA)

    variance = c.input.square() * (SIGMA_DATA**2 + SIGMA.square())

    torch.testing.assert_close(variance, torch.ones_like(SIGMA))


def test_network_target_has_unit_variance_at_every_noise_level():
    c = precondition(SIGMA)
    clean, noise = (1 - c.skip) * SIGMA_DATA, c.skip * SIGMA

    variance = (clean.square() + noise.square()) / c.out.square()

    torch.testing.assert_close(variance, torch.ones_like(SIGMA))


def test_loss_weight_undoes_the_output_scale():
    c = precondition(SIGMA)

    weighted = loss_weight(SIGMA) * c.out.square()

    torch.testing.assert_close(weighted, torch.ones_like(SIGMA))


@pytest.mark.parametrize("steps", [1, 2, 20])
def test_schedule_falls_from_the_largest_level_to_zero(steps):
    sigmas = Schedule(steps).sigmas()

    assert len(sigmas) == steps + 1
    assert sigmas[0] == pytest.approx(80)
    assert sigmas[-1] == 0
    assert (sigmas.diff() < 0).all()
    if steps > 1:
        assert sigmas[-2] == pytest.approx(0.002)


def test_schedule_is_straight_in_the_rho_th_root():
    roots = Schedule(20).sigmas()[:-1] ** (1 / 7)

    assert roots.diff().std() < 1e-12


def test_noise_level_zero_keeps_the_state_and_is_finite():
    c = precondition(torch.zeros(2))

    assert (c.skip == 1).all()
    assert (c.out == 0).all()
    assert c.noise.isfinite().all()


@pytest.mark.parametrize("steps", [0, -1, True])
def test_steps_that_are_no_count_are_refused(steps):
    with pytest.raises(ConfigError, match="steps="):
        Schedule(steps)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (0, 80), (-1, 80), (math.nan, 80), (1, math.inf)]
)
def test_levels_that_do_not_fall_are_refused(low, high):
    with pytest.raises(ConfigError, match="sigma_min="):
        Schedule(20, sigma_min=low, sigma_max=high)


@pytest.mark.parametrize("rho", [0, -1, math.nan])
def test_a_rho_that_is_not_positive_is_refused(rho):
    with pytest.raises(ConfigError, match="rho="):
        Schedule(rho=rho)
