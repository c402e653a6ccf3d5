"""`solve` as users call it."""

import numpy as np
import pytest
import torch
from small import network

from prisma_lib import data, pdes, solve
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.solve import PrismaSolver


@pytest.fixture(scope="module")
def pde():
    return pdes.load("darcy", size=16)


@pytest.fixture(scope="module")
def model(pde):
    return network(pde)


@pytest.fixture(scope="module")
def pair(pde):
    return data.problems(pde, 3, split="test")


def test_draws_have_samples_first_and_are_finite(model, pair):
    solution = solve(model, a=pair[0], steps=2, samples=4, seed=0)

    assert solution.a.shape == solution.u.shape == (4, 3, 1, 16, 16)
    assert torch.isfinite(solution.u).all()
    assert solution.mean()[1].shape == (3, 1, 16, 16)
    assert solution.residual().shape == (12, 1, 14, 14)


def test_same_seed_repeats_and_another_seed_does_not(model, pair):
    first, again, other = (
        solve(model, u=pair[1], steps=2, seed=seed).a for seed in (5, 5, 6)
    )

    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first - other).abs().max() > 0.1


def test_an_unset_seed_is_recorded_and_repeats(model, pair):
    solution = solve(model, u=pair[1], steps=2)

    again = solve(model, u=pair[1], steps=2, seed=solution.seed)

    torch.testing.assert_close(again.a, solution.a, rtol=0, atol=0)


def test_a_solver_takes_no_settings_of_the_sampler(model, pair):
    solver = PrismaSolver(model, Schedule(1))

    with pytest.raises(ConfigError, match="sampler: PrismaSolver has its own settings"):
        solve(solver, a=pair[0], sampler="euler")
    with pytest.raises(ConfigError, match="steps: PrismaSolver has its own settings"):
        solve(solver, a=pair[0], steps=5)


def test_noise_of_the_papers_kind_differs_on_another_grid_alone(model, pair):
    a, _ = data.problems(pdes.load("darcy", size=32), 1, split="test")

    def draws(a, noise_grid):
        return solve(model, a=a, steps=2, seed=0, noise_grid=noise_grid).u

    torch.testing.assert_close(draws(pair[0], "train"), draws(pair[0], "paper"))
    assert (draws(a, "train") - draws(a, "paper")).abs().max() > 1e-4


def test_a_single_field_and_a_batch_of_one_agree(model, pair):
    field = pair[0][0, 0]

    single = solve(model, a=field, steps=2, seed=0)
    batch = solve(model, a=field[None, None], steps=2, seed=0)

    torch.testing.assert_close(single.u, batch.u, rtol=0, atol=0)


def test_numpy_and_torch_agree(model, pair):
    a = pair[0]

    arrays = solve(model, a=a.numpy().astype(np.float64), steps=2, seed=0)

    torch.testing.assert_close(arrays.u, solve(model, a=a, steps=2, seed=0).u)


def test_nan_means_missing_and_equals_a_mask(model, pair):
    u = pair[1]
    mask = torch.rand(u.shape, generator=torch.Generator().manual_seed(0)) < 0.1

    marked = solve(model, u=torch.where(mask, u, torch.nan), steps=2, seed=0)
    masked = solve(model, u=u, mask_u=mask, steps=2, seed=0)

    torch.testing.assert_close(marked.a, masked.a, rtol=0, atol=0)


def test_values_under_a_zero_mask_are_never_used(model, pair):
    u = pair[1]
    mask = torch.zeros_like(u)
    mask[..., ::4, ::4] = 1

    clean = solve(model, u=u, mask_u=mask, steps=2, seed=0)
    spoiled = solve(
        model, u=torch.where(mask > 0, u, 1e3), mask_u=mask, steps=2, seed=0
    )

    torch.testing.assert_close(spoiled.a, clean.a, rtol=0, atol=0)


@pytest.mark.parametrize("hide", ["mask", "nan"])
def test_fields_without_a_measured_value_are_refused_but_no_fields_are_not(
    model, pair, hide
):
    u = pair[1]
    nothing = {
        "mask": {"u": u, "mask_u": torch.zeros_like(u)},
        "nan": {"u": u * torch.nan},
    }[hide]

    with pytest.raises(DataError, match=r"nothing observed.*neither a nor u"):
        solve(model, **nothing, steps=1, seed=0)
    assert solve(model, steps=1, seed=0).u.shape == (1, 1, 1, 16, 16)


def test_everything_may_be_observed(model, pair):
    a, u = pair

    solution = solve(model, a=a, u=u, steps=3, seed=0)

    assert solution.observation.mask.all()
    assert torch.isfinite(solution.a).all()
    assert torch.isfinite(solution.u).all()


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_field_has_a_finite_answer(model, value):
    solution = solve(model, a=torch.full((16, 16), value), steps=2, seed=0)

    assert torch.isfinite(solution.u).all()


@pytest.mark.parametrize("shape", [(16, 20), (20, 16)])
def test_fields_that_are_not_square_are_refused(model, shape):
    with pytest.raises(ShapeError, match=rf"{shape[0]} x {shape[1]} .* square"):
        solve(model, a=torch.full(shape, 3.0), steps=1)


def test_fields_on_different_grids_are_refused_naming_both(model, pair):
    with pytest.raises(ShapeError, match=r"u has \(20, 20\) .* \(16, 16\)"):
        solve(model, a=pair[0][:1], u=torch.zeros(20, 20), steps=1)


def test_input_is_left_as_it_was(model, pair):
    u = torch.where(torch.rand(3, 1, 16, 16) < 0.5, pair[1], torch.nan)
    before = u.clone()

    solve(model, u=u, steps=1, seed=0)

    torch.testing.assert_close(u, before, rtol=0, atol=0, equal_nan=True)


def test_one_step_is_a_single_call(model, pair):
    states = []

    solve(model, a=pair[0], steps=1, seed=0, watch=states.append)

    assert [(s.step, s.sigma, s.calls) for s in states] == [(1, 0.0, 1)]


@pytest.mark.parametrize("size", [20, 32])
def test_another_resolution_gives_fields_of_that_resolution(model, size):
    a, _ = data.problems(pdes.load("darcy", size=size), 2, split="test")

    solution = solve(model, a=a, steps=2, seed=0)

    assert solution.u.shape == (1, 2, 1, size, size)
    assert solution.pde.size == size


def test_a_grid_that_is_too_coarse_for_the_kept_modes_warns_and_runs(model):
    a, _ = data.problems(pdes.load("darcy", size=8), 2, split="test")

    with pytest.warns(UserWarning, match=r"resolves 3 of 4 modes .* at least 9 points"):
        solution = solve(model, a=a, steps=2, seed=0)

    assert solution.u.shape == (1, 2, 1, 8, 8)


def test_values_far_outside_the_training_range_warn_with_their_score(model, pair):
    with pytest.warns(UserWarning, match=r"of a lie up to 2\.\d+e\+06 standard dev"):
        solution = solve(model, a=1e6 * pair[0], steps=2, seed=0)

    assert torch.isfinite(solution.u).all()


def test_swapped_fields_warn_where_statistics_can_tell(model, pair):
    with pytest.warns(UserWarning, match="of u lie up to .* not swapped"):
        solve(model, u=pair[0], steps=1, seed=0)
    with pytest.warns(UserWarning, match="of a spread over .* not swapped"):
        solve(model, a=pair[1], steps=1, seed=0)


def test_wild_values_where_the_mask_is_zero_do_not_warn(model, pair):
    mask = torch.ones_like(pair[0])
    mask[..., 3, 4] = 0
    a = torch.where(mask > 0, pair[0], 1e9)

    assert torch.isfinite(solve(model, a=a, mask_a=mask, steps=1, seed=0).u).all()


def test_noise_and_equal_values_do_not_warn(model, pair):
    noise = torch.randn(pair[1].shape, generator=torch.Generator().manual_seed(0))
    noisy = pair[1] + 2 * model.statistics.std[1] * noise
    # Rounding must not make a spread of equal values.
    equal = [torch.full_like(pair[0], value) for value in (0.1, 3.0, 4.7)]

    for known in ({"u": noisy}, *({"a": a} for a in equal)):
        assert torch.isfinite(solve(model, **known, steps=1, seed=0).u).all()


def test_noise_of_another_resolution_is_that_of_the_training_grid(model):
    """At matching nodes: 16 + 15 = 31 nodes hold the 16 training nodes exactly."""
    from prisma_lib.fields import GRFNoise

    noise = GRFNoise(model.pde.grid)

    coarse = noise.draw(3, [0, 1], 2)
    fine = noise.draw(3, [0, 1], 2, shape=(31, 31))

    torch.testing.assert_close(fine[..., ::2, ::2], coarse, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [0, -1])
def test_impossible_step_counts_are_refused(model, pair, steps):
    with pytest.raises(ConfigError, match="steps="):
        solve(model, a=pair[0], steps=steps)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma_min": 3.0, "sigma_max": 2.0}, "noise must fall"),
        ({"sigma_min": 0.0}, "noise must fall"),
        ({"samples": 0}, "samples=0"),
        ({"seed": -1}, "seed"),
        ({"sigma_mx": 3.0}, "did you mean 'sigma_max'"),
        ({"sampler": "hune"}, "did you mean 'heun'"),
        ({"noise_grid": "papper"}, "did you mean 'paper'"),
        ({"precision": "bf-16"}, "did you mean 'bf16'"),
        ({"compile": "inducto"}, "did you mean 'inductor'"),
        ({"max_batch": 0}, "max_batch=0"),
    ],
)
def test_impossible_settings_are_refused(model, pair, settings, message):
    with pytest.raises(ConfigError, match=message):
        solve(model, a=pair[0], **settings)


def test_a_field_without_channel_axis_is_refused(model, pair):
    with pytest.raises(ShapeError, match=r"\(b, c?1?, ?x, y\)|x, y"):
        solve(model, a=pair[0][:, 0], steps=1)


def test_an_empty_batch_is_refused(model, pair):
    with pytest.raises(ShapeError):
        solve(model, a=pair[0][:0], steps=1)


def test_a_size_that_cannot_be_pooled_is_refused_with_valid_ones(model):
    with pytest.raises(ShapeError, match="20 or 24"):
        solve(model, a=torch.full((22, 22), 3.0), steps=1)


def test_infinite_values_are_refused_with_their_place(model, pair):
    a = pair[0].clone()
    a[1, 0, 2, 3] = torch.inf

    with pytest.raises(DataError, match="1, 0, 2, 3"):
        solve(model, a=a, steps=1)


def test_noise_level_zero_gives_back_the_state(model):
    x = torch.randn(2, 2, 16, 16)
    nothing = torch.zeros_like(x)

    denoised = model(x, torch.zeros(2), nothing, nothing)

    torch.testing.assert_close(denoised, x, rtol=0, atol=0)


def test_one_draw_has_no_spread(model, pair):
    with pytest.raises(ConfigError, match="samples=16"):
        solve(model, a=pair[0], steps=1, seed=0).std()
