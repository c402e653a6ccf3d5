import inspect
import math

import numpy as np
import pytest
import torch
from scipy import stats

from prisma_lib import metrics
from prisma_lib.errors import ConfigError, DataError, ShapeError

PROBLEMS, SIZE = 60, 32
POINTS = PROBLEMS * SIZE**2


def ensemble(m, spread=1.0, bias=0.0):
    """Draws an ensemble and a truth that differ in spread and mean, point by point."""
    generator = torch.Generator().manual_seed(m)
    shape = (PROBLEMS, 1, SIZE, SIZE)
    centre = 5 * torch.randn(shape, generator=generator)
    truth = centre + torch.randn(shape, generator=generator)
    noise = torch.randn(m, *shape, generator=generator)
    return centre + bias + spread * noise, truth


@pytest.mark.parametrize(
    ("m", "level"), [(19, 0.9), (19, 0.5), (99, 0.9), (39, 0.95), (9, 0.8)]
)
def test_intervals_of_a_calibrated_ensemble_hold_the_truth_as_often_as_stated(m, level):
    draws, truth = ensemble(m)

    covered = metrics.coverage(draws, truth, level).mean().item()

    # Four standard errors of a share.
    tolerance = 4 * math.sqrt(level * (1 - level) / POINTS)
    assert covered == pytest.approx(level, abs=tolerance)


@pytest.mark.parametrize(("spread", "sign"), [(0.5, -1), (2.0, 1)])
def test_coverage_tells_overconfident_from_timid_ensembles(spread, sign):
    draws, truth = ensemble(19, spread)

    covered = metrics.coverage(draws, truth, 0.9).mean().item()

    assert sign * (covered - 0.9) > 0.05


def test_only_judged_points_count():
    draws = torch.linspace(0, 1, 19)[:, None, None, None, None].expand(19, 2, 1, 4, 4)
    truth = torch.full((2, 1, 4, 4), 2.0)
    truth[:, :, 0] = 0.5
    judged = torch.ones(truth.shape, dtype=torch.bool)
    judged[1, :, 2:] = False

    covered = metrics.coverage(draws, truth, 0.9, judged)

    assert covered.tolist() == [0.25, 0.5]


def test_a_problem_without_a_point_to_judge_is_refused():
    draws, truth = torch.zeros(19, 2, 1, 4, 4), torch.zeros(2, 1, 4, 4)
    judged = torch.ones(truth.shape, dtype=torch.bool)
    judged[1] = False

    with pytest.raises(DataError, match="no point of problem 1"):
        metrics.coverage(draws, truth, 0.9, judged)


@pytest.mark.parametrize(("m", "level"), [(16, 0.9), (19, 0.95), (19, 0.0), (19, 1.0)])
def test_levels_without_an_interval_are_refused(m, level):
    draws, truth = torch.zeros(m, 1, 1, 4, 4), torch.zeros(1, 1, 4, 4)

    with pytest.raises(ConfigError, match=r"m \+ 1 - 2j"):
        metrics.coverage(draws, truth, level)


def gaussian_crps(mean, sd, truth):
    """Closed form: Gneiting et al. (2005), equation 5."""
    z = (truth - mean) / sd
    density, share = stats.norm.pdf(z), stats.norm.cdf(z)
    return sd * (z * (2 * share - 1) + 2 * density - 1 / math.sqrt(math.pi))


@pytest.mark.parametrize("m", [2, 5, 19])
@pytest.mark.parametrize(
    ("mean", "sd", "truth"), [(0, 1, 0), (1, 2, -0.5), (3, 0.1, 3)]
)
def test_fair_crps_of_gaussian_draws_is_the_closed_form_for_any_size(
    m, mean, sd, truth
):
    generator = torch.Generator().manual_seed(m)
    draws = mean + sd * torch.randn(m, 40, 1, 64, 64, generator=generator)

    score = metrics.crps(draws, torch.full(draws.shape[1:], float(truth)))

    # The standard deviation of one score is below 1.2 sd, so this is five errors.
    tolerance = 6 * sd / math.sqrt(40 * 64 * 64)
    assert score.mean().item() == pytest.approx(
        gaussian_crps(mean, sd, truth), abs=tolerance
    )


def test_crps_agrees_with_the_double_sum():
    generator = np.random.default_rng(0)
    draws, truth = (
        generator.normal(size=(7, 2, 1, 4, 5)),
        generator.normal(size=(2, 20)),
    )
    flat = draws.reshape(7, 2, 20)
    pairs = np.abs(flat[:, None] - flat[None]).sum((0, 1)) / (2 * 7 * 6)

    score = metrics.crps(
        torch.from_numpy(draws), torch.from_numpy(truth.reshape(2, 1, 4, 5))
    )

    expected = (np.abs(flat - truth).mean(0) - pairs).mean(-1)
    np.testing.assert_allclose(score, expected)


def test_crps_is_smallest_for_the_true_distribution():
    others = [ensemble(19, 0.5), ensemble(19, 2.0), ensemble(19, bias=0.7)]

    best = metrics.crps(*ensemble(19)).mean()

    assert all(best < metrics.crps(*other).mean() for other in others)


@pytest.mark.parametrize("m", [2, 4, 19])
def test_a_calibrated_ensemble_spreads_as_far_as_its_mean_errs(m):
    ratio = metrics.spread_skill(*ensemble(m))

    assert ratio.item() == pytest.approx(1, abs=4 / math.sqrt(POINTS))


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_spread_over_error_follows_the_spread(spread):
    m = 19

    ratio = metrics.spread_skill(*ensemble(m, spread)).item()

    # The mean of the draws errs by sqrt(1 + spread^2 / m).
    expected = spread * math.sqrt((m + 1) / m) / math.sqrt(1 + spread**2 / m)
    assert ratio == pytest.approx(expected, rel=0.02)


def test_the_spread_is_pooled_and_does_not_depend_on_the_number_of_draws():
    scales = torch.tensor([1.0, 7.0]).repeat(PROBLEMS * SIZE**2 // 2)
    scales = scales.view(PROBLEMS, 1, SIZE, SIZE)
    for m in (2, 16):
        noise = torch.randn(
            m, *scales.shape, generator=torch.Generator().manual_seed(m)
        )

        spread = metrics.spread(scales * noise).mean().item()

        assert spread == pytest.approx(5, rel=0.02)  # the root of (1 + 49) / 2


def test_an_exact_mean_has_no_ratio():
    with pytest.raises(DataError, match="equals the truth"):
        metrics.spread_skill(torch.zeros(3, 1, 1, 4, 4), torch.zeros(1, 1, 4, 4))


@pytest.mark.parametrize("metric", [metrics.crps, metrics.spread_skill])
def test_one_draw_is_no_ensemble(metric):
    with pytest.raises(ConfigError, match="at least 2"):
        metric(torch.zeros(1, 2, 1, 4, 4), torch.zeros(2, 1, 4, 4))


@pytest.mark.parametrize(
    "metric", [metrics.crps, metrics.spread_skill, metrics.coverage]
)
def test_draws_of_other_problems_are_refused(metric):
    metric = inspect.unwrap(metric)  # the type hook of the tests refuses them earlier

    with pytest.raises(ShapeError, match="draws have shape"):
        metric(torch.zeros(19, 2, 1, 4, 4), torch.zeros(1, 1, 4, 4))
