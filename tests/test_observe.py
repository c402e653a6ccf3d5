import dataclasses
import math

import pytest
import torch

from prisma_lib import pdes
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.observe import Observation, add_noise, mix, observation, observe

SIZE = 8
NAN = float("nan")


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


def test_repeat_puts_draw_s_of_problem_j_at_s_times_batch_plus_j(pde, field, mask):
    seen = observation(pde, a=field, u=field, mask_u=mask)

    tiled = seen.repeat(2)

    assert tiled.batch == 6
    assert torch.equal(tiled.u[1 * 3 + 2], seen.u[2])
    assert torch.equal(tiled.mask_u.view(2, 3, 1, SIZE, SIZE)[1], seen.mask_u)


@pytest.mark.parametrize(
    ("task", "share_a", "share_u"),
    [
        ("uncond", 0, 0),
        ("full_forward", 1, 0),
        ("full_inverse", 0, 1),
        ("sparse_forward", 0.3, 0),
        ("sparse_inverse", 0, 0.3),
    ],
)
def test_a_task_observes_the_share_of_points_that_it_says(task, share_a, share_u):
    a, u = torch.ones(2, 20, 1, 16, 16)
    shares = torch.tensor([share_a, share_u])

    seen = observe(task, a, u, rate=0.3, index=range(20))

    # Four standard errors of a mean over 5120 points; exact for 0 and 1.
    tolerance = 4 * (shares * (1 - shares) / 5120).sqrt()
    found = seen.mask.mean(dim=(0, 2, 3))
    assert ((found - shares).abs() <= tolerance).all()
    assert torch.equal(seen.x, seen.mask)


def test_masks_and_noise_do_not_depend_on_the_batch(field):
    def seen(rows):
        rows = list(rows)
        clean = observe(
            "sparse_inverse", field[rows], field[rows], rate=0.5, index=rows
        )
        return add_noise(clean, 1.0, 2.0, key=3, index=rows).x

    together = seen(range(3))

    assert torch.equal(seen([1]), together[1:2])
    assert torch.equal(seen([2, 0]), together[[2, 0]])


@pytest.mark.parametrize("task", ["sparse_forward", "sparse_inverse"])
@pytest.mark.parametrize("columns", [1, 3, SIZE])
def test_columns_are_seen_whole_and_exactly_so_many(field, task, columns):
    seen = observe(task, field, field, columns=columns, index=range(3))

    mask, other = seen.mask_a, seen.mask_u
    if task == "sparse_inverse":
        mask, other = other, mask
    assert torch.equal(mask, mask[..., :1, :].expand_as(mask))
    assert mask[:, 0, 0].sum(-1).tolist() == [columns] * 3
    assert not other.any()
    assert torch.equal(seen.a, field * seen.mask_a)
    assert torch.equal(seen.u, field * seen.mask_u)


def test_columns_belong_to_the_problem_and_the_key():
    fields = torch.zeros(200, 1, 16, 16)

    def columns(rows, key=0):
        clean = fields[: len(rows)]
        seen = observe("sparse_inverse", clean, clean, columns=5, key=key, index=rows)
        return seen.mask_u[:, 0, 0]

    every = columns(range(200))

    assert torch.equal(columns([7]), every[7:8])
    assert torch.equal(columns([9, 2]), every[[9, 2]])
    assert not torch.equal(columns(range(200), key=1), every)
    # Four standard errors of a share of 5 of 16 columns in 200 problems.
    assert (every.mean(0) - 5 / 16).abs().max() < 4 * (5 / 16 * 11 / 16 / 200) ** 0.5


@pytest.mark.parametrize(
    ("task", "seen"),
    [("full_forward", [1, 0]), ("full_inverse", [0, 1]), ("uncond", [0, 0])],
)
def test_only_sparse_tasks_are_told_about_columns(field, task, seen):
    mask = observe(task, field, field, columns=2, index=range(3)).mask

    assert mask.mean((0, 2, 3)).tolist() == seen


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("columns", [0, -1, SIZE + 1, 2.0, True, "5"])
def test_an_impossible_number_of_columns_is_refused(field, columns):
    with pytest.raises(ConfigError, match=r"columns=.* from 1 to 8"):
        observe("sparse_inverse", field, field, columns=columns, index=range(3))


def test_other_keys_give_other_masks(field):
    first, second = (
        observe("sparse_forward", field, field, rate=0.5, key=key, index=range(3))
        for key in (0, 1)
    )

    assert not torch.equal(first.mask_a, second.mask_a)


def test_a_mask_is_independent_of_the_field_drawn_with_the_same_key():
    pde = pdes.load("poisson", size=32)
    a = pde.draw(0, range(64))

    seen = observe("sparse_forward", a, a, rate=0.5, key=0, index=range(64))

    both = torch.stack([a.flatten(), seen.mask_a.flatten()])
    assert abs(torch.corrcoef(both)[0, 1]) < 0.02


def test_nothing_hidden_leaks_into_the_observation(field):
    seen = observe("sparse_forward", field, field * NAN, rate=0.2, index=range(3))

    assert seen.x.isfinite().all()
    assert torch.equal(seen.a, field * seen.mask_a)


def test_noise_stands_on_observed_points_only_and_has_its_size():
    zero = torch.zeros(40, 1, 16, 16)
    clean = observe("sparse_forward", zero, zero, rate=0.5, index=range(40))

    noisy = add_noise(clean, 3.0, 5.0, key=0, index=range(40))

    values = noisy.a[clean.mask_a.bool()]
    assert values.std().item() == pytest.approx(3.0, rel=0.05)
    assert values.mean().item() == pytest.approx(0, abs=0.15)
    assert not noisy.a[~clean.mask_a.bool()].any()
    assert not noisy.u.any()
    assert torch.equal(noisy.mask, clean.mask)


@pytest.mark.parametrize("sd", [-1.0, NAN, math.inf])
def test_noise_without_a_size_is_refused(field, sd):
    clean = observe("full_forward", field, field, index=range(3))

    with pytest.raises(ConfigError, match="sd_u"):
        add_noise(clean, 1.0, sd, key=0, index=range(3))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, NAN])
def test_impossible_rates_are_refused(field, rate):
    with pytest.raises(ConfigError, match="rate="):
        observe("sparse_forward", field, field, rate=rate, index=range(3))


def test_an_unknown_task_is_refused_with_the_nearest_one(field):
    with pytest.raises(ConfigError, match="did you mean 'sparse_forward'"):
        observe("sparse_forwards", field, field, index=range(3))


def test_an_index_of_another_length_is_refused(field):
    with pytest.raises(ShapeError, match=r"4 problems .* 3"):
        observe("uncond", field, field, index=range(4))


def test_mixing_keeps_observed_values_and_ignores_the_rest(field, mask):
    x_obs = torch.where(mask.bool(), field, NAN)
    x = torch.zeros_like(field)

    assert torch.equal(mix(mask, x_obs, x), field * mask)


def test_an_observation_cannot_be_changed(field):
    seen = observe("full_forward", field, field, index=range(3))

    assert isinstance(seen, Observation)
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.a = field
