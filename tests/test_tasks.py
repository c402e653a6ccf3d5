import math

import pytest
import torch

from prisma_lib.errors import ConfigError
from prisma_lib.tasks import (
    TASK_PROBABILITIES,
    TASKS,
    sample_rates,
    sample_tasks,
    task_masks,
)


def dice():
    return torch.Generator().manual_seed(0)


def test_probabilities_of_the_tasks_sum_to_one():
    assert math.fsum(TASK_PROBABILITIES) == pytest.approx(1)
    assert len(TASK_PROBABILITIES) == len(TASKS)


def test_tasks_are_drawn_with_their_probabilities():
    tasks = sample_tasks(torch.rand(20_000, generator=dice()))

    shares = torch.bincount(tasks, minlength=len(TASKS)) / 20_000

    assert (shares - torch.tensor(TASK_PROBABILITIES)).abs().max() < 0.015


@pytest.mark.parametrize("wrong", [(0.5, 0.5), (0.2,) * 4 + (0.3,), (-1, 1, 1, 0, 0)])
def test_probabilities_that_are_none_are_refused_with_their_sum(wrong):
    with pytest.raises(ConfigError, match="sum to"):
        sample_tasks(torch.rand(4), wrong)


def test_a_task_of_no_probability_is_never_drawn():
    ends = torch.tensor([0.0, 1 - 2**-24])

    assert sample_tasks(ends, (0, 0.3, 0.3, 0.4, 0)).tolist() == [1, 3]


@pytest.mark.parametrize(
    # Half of the rates are uniform in [0, 0.1]; E[U^3] = 1/4, so E[1 - U^3] = 3/4.
    ("mixture", "mean"),
    [("paper", (0.05 + 0.75) / 2), ("sparse", (0.05 + 0.25) / 2)],
)
def test_rates_have_the_mean_of_their_mixture(mixture, mean):
    coin, uniform = torch.rand(2, 50_000, generator=dice())

    rates = sample_rates(coin, uniform, 0.01, 0.5, mixture=mixture)

    assert rates.min() >= 0.01
    assert rates.max() <= 0.5
    assert rates.mean().item() == pytest.approx(0.01 + 0.49 * mean, abs=0.005)


@pytest.mark.parametrize(
    "wrong",
    [{"p_min": 0.0}, {"p_max": 1.5}, {"p_min": 0.6}, {"alpha": 0}, {"mixture": "x"}],
)
def test_impossible_mixtures_are_refused(wrong):
    with pytest.raises(ConfigError):
        sample_rates(torch.rand(4), torch.rand(4), **wrong)


def test_training_masks_follow_task_and_rate():
    rates = torch.tensor([0.5, 0.5, 0.5, 0.1, 0.4])

    mask_a, mask_u = task_masks(
        TASKS, rates, torch.rand(5, 1, 64, 64, generator=dice())
    )

    share_a, share_u = (m.mean(dim=(1, 2, 3)) for m in (mask_a, mask_u))
    torch.testing.assert_close(
        share_a, torch.tensor([0, 1, 0, 0.1, 0]), atol=0.03, rtol=0
    )
    torch.testing.assert_close(
        share_u, torch.tensor([0, 0, 1, 0, 0.4]), atol=0.03, rtol=0
    )


def test_names_and_numbers_of_tasks_give_the_same_masks():
    rates = torch.full((5,), 0.3)
    uniform = torch.rand(5, 1, 8, 8, generator=dice())
    named, numbered = (
        task_masks(tasks, rates, uniform) for tasks in (TASKS, torch.arange(5))
    )

    assert torch.equal(torch.stack(named), torch.stack(numbered))


def test_training_masks_of_columns_are_whole_and_have_the_rate():
    rates = torch.full((len(TASKS) * 200,), 0.3)
    tasks = torch.arange(len(TASKS)).repeat(200)
    uniform = torch.rand(1000, 1, 1, 40, generator=dice()).expand(-1, 1, 6, 40)

    masks = task_masks(tasks, rates, uniform)

    for mask in masks:
        assert mask.shape == (1000, 1, 6, 40)
        assert torch.equal(mask, mask[..., :1, :].expand_as(mask))
    share_a, share_u = (mask.view(200, len(TASKS), -1).mean((0, 2)) for mask in masks)
    expected = [0, 1, 0, 0.3, 0], [0, 0, 1, 0, 0.3]
    # Five standard errors of a mean over 8000 columns; exact for 0 and 1.
    torch.testing.assert_close(
        torch.stack([share_a, share_u]), torch.tensor(expected), atol=0.025, rtol=0
    )


def test_training_masks_of_points_use_one_draw_a_point():
    uniform = torch.rand(2, 1, 8, 9, generator=dice())
    tasks = ["sparse_forward", "sparse_inverse"]

    mask_a, mask_u = task_masks(tasks, torch.tensor([0.5, 0.1]), uniform)

    assert torch.equal(mask_a[0], (uniform[0] < 0.5).float())
    assert torch.equal(mask_u[1], (uniform[1] < 0.1).float())
