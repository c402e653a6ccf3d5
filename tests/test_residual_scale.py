"""Residual and score of every equation have the scale that the attention needs."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.sra import record
from prisma_lib.tasks import TASKS, task_masks

SIZE, EACH = 32, 4


@pytest.fixture(scope="module", params=pdes.names())
def setting(request, kept):
    """A fresh model; the same problems under each of the five tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(kept)
        pde = pdes.load(request.param, size=SIZE, **pdes.quick(request.param))
        statistics = data.statistics(pde, num=32)
        a, u = data.problems(pde, EACH, split="test")
    torch.manual_seed(0)
    model = Prisma(pde, ModelConfig.preset("small"), statistics).requires_grad_(False)
    x_0 = model.normalise(torch.cat([a, u], 1)).repeat(len(TASKS), 1, 1, 1)
    tasks = [task for task in TASKS for _ in range(EACH)]
    rates = torch.full((len(tasks),), 0.2)
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(len(tasks), 1, SIZE, SIZE, generator=generator)
    mask = torch.cat(task_masks(tasks, rates, uniform), 1)
    return model, x_0, torch.where(mask > 0, x_0, 0.0), mask


def noisy(x_0, sigma):
    eps = torch.randn(x_0.shape, generator=torch.Generator().manual_seed(1))
    return x_0 + sigma * eps


def rms(r):
    return r.square().mean((1, 2, 3)).sqrt()


@pytest.mark.parametrize("sigma", [0.002, 0.1, 1.0, 10.0, 80.0])
def test_residual_has_unit_scale_wherever_it_exceeds_that_of_the_truth(setting, sigma):
    model, x_0, x_obs, mask = setting
    x_sigma = noisy(x_0, sigma)

    levels, summary = model.residual_levels(x_sigma, x_obs, mask)

    above = rms(model.residual(x_sigma, x_obs, mask)) >= model.residual_floor
    # With nothing observed noise of any size but the smallest outweighs the floor.
    assert above[:EACH].all() or sigma < 0.1
    assert (rms(levels[0])[above] >= 0.7).all()
    assert all((rms(level) <= 1 + 1e-5).all() for level in levels)
    assert summary.isfinite().all()


def test_residual_of_a_wholly_observed_truth_is_finite_and_small(setting):
    model, x_0, _, _ = setting

    levels, summary = model.residual_levels(x_0, x_0, torch.ones_like(x_0))

    assert all((rms(level) <= 1 + 1e-5).all() for level in levels)
    # In units of a factor of ten a quarter: the truth is near its own floor.
    assert (summary[:, 1].abs() < 0.23).all()


def test_attention_acts_at_initial_weights(setting):
    model, x_0, x_obs, mask = setting
    sigma = torch.ones(len(x_0))

    with record(model) as traces:
        model(noisy(x_0, 1.0), sigma, x_obs, mask)

    first = traces["backbone.down.0.0.attention"][0].mask
    assert first.std() >= 0.03
    assert 0.55 < first.quantile(0.95) < 0.99
    assert all(kept[0].mask.std() > 0.01 for kept in traces.values())
