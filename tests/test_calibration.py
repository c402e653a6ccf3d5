"""Ensembles with intervals, against scipy, exact posteriors and ensembles by design."""

import math

import pytest
import torch
from scipy import stats

from prisma_lib import calibration, cells, ensembles, metrics, pdes
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.posterior import gaussian_posterior


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def ensemble(m, spread=1.0, problems=60):
    """Draws an ensemble and a truth that differ in spread alone."""
    shape = (problems, 1, 8, 8)
    centre, own = torch.randn(2, *shape, generator=dice(1))
    noise = torch.randn(m, *shape, generator=dice(2))
    return 3 * centre + spread * noise, 3 * centre + own


def test_every_place_is_taken_equally_often_by_a_calibrated_truth():
    draws, truth = ensemble(19)

    counts = ensembles.rank_counts(draws, truth).sum(0)

    assert counts.sum() == truth.numel()
    assert stats.chisquare(counts.numpy()).pvalue > 0.01


def test_intervals_hold_the_truth_where_its_place_is_an_inner_one():
    draws, truth = ensemble(19, spread=0.6)

    counts = ensembles.rank_counts(draws, truth)

    inner = counts[:, 1:-1].sum(1) / counts.sum(1)
    assert torch.equal(inner, metrics.coverage(draws, truth, 0.9))


def test_truths_that_tie_with_draws_take_their_places_at_random():
    fair = torch.randint(2, (20, 400, 1, 4, 4), generator=dice()).float()

    counts = ensembles.rank_counts(fair[1:], fair[0]).sum(0)
    other = ensembles.rank_counts(fair[1:], fair[0], key=1).sum(0)

    assert stats.chisquare(counts.numpy()).pvalue > 0.01
    assert not torch.equal(counts, other)


def test_points_that_are_not_judged_have_no_place():
    draws, truth = ensemble(19)
    judged = torch.zeros_like(truth).bool()
    judged[:, :, 2:5] = True

    counts = ensembles.rank_counts(draws, truth, judged)

    few = ensembles.rank_counts(draws[..., 2:5, :], truth[..., 2:5, :])
    assert torch.equal(counts.sum(1), judged.flatten(1).sum(1).double())
    assert torch.equal(counts, few)


def test_correlation_agrees_with_scipy_and_its_interval_with_fisher():
    x, noise = torch.randn(2, 200, generator=dice(), dtype=torch.float64)
    y = x + noise

    found = calibration.correlation(x, y)

    theirs = stats.pearsonr(x.numpy(), y.numpy())
    assert found.value == pytest.approx(theirs.statistic, rel=1e-9)
    low, high = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)


@pytest.mark.parametrize("same", [torch.ones(3), torch.arange(1.0)])
def test_what_does_not_vary_has_no_correlation(same):
    with pytest.raises(DataError, match="more problems"):
        calibration.correlation(same, same)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="finite"):
        calibration.correlation(torch.tensor([1.0, math.nan]), torch.ones(2))


@pytest.mark.parametrize(("spread", "calibrated"), [(0.5, False), (1.0, True)])
def test_an_ensemble_is_called_calibrated_where_it_is(spread, calibrated):
    draws, truth = ensemble(19, spread)

    found = calibration.measures(draws, truth)

    wanted = {"spread_skill": 1.0, "coverage_50": 0.5, "coverage_90": 0.9}
    held = [found[name].low < goal < found[name].high for name, goal in wanted.items()]
    assert held == [calibrated] * 3
    assert found["ensemble_spread"].value == pytest.approx(spread, rel=0.01)
    assert found["crps"].value == pytest.approx(metrics.crps(draws, truth).mean())
    assert found["spread_skill"].value == pytest.approx(
        metrics.spread_skill(draws, truth).item()
    )


@pytest.mark.parametrize("m", [19, 99])
def test_bins_of_a_calibrated_ensemble_are_even(m):
    draws, truth = ensemble(m)

    bins = calibration.histogram(draws, truth)

    value, low, high = bins.T
    assert value.mean() == pytest.approx(1)
    assert ((low < 1) & (high > 1)).double().mean() > 0.75
    assert (low <= value).all()
    assert (value <= high).all()


def test_places_that_fill_no_bins_are_refused():
    with pytest.raises(ConfigError, match="divisor"):
        calibration.histogram(*ensemble(16))


def test_exact_draws_are_as_far_from_their_posterior_as_sampling_makes_them():
    bench = cells.benchmark(pdes.load("poisson", size=16), n=16)
    seen = cells.observation_of(bench, "inverse", "sparse", rate=0.2)
    exact = gaussian_posterior(bench.pde, seen)
    draws, _ = exact.sample(19, dice())
    mean, std = exact.mean()[0], exact.std()[0]

    found = calibration.distances(draws, mean, std)
    half = calibration.distances(mean + (draws - mean) / 2, mean, std)

    assert found["mean_distance"].value == pytest.approx(19**-0.5, rel=0.1)
    assert found["spread_ratio"].value == pytest.approx(1, abs=0.05)
    assert half["spread_ratio"].value == pytest.approx(
        found["spread_ratio"].value / 2, rel=1e-6
    )
    with pytest.raises(ConfigError, match="samples=19"):
        calibration.distances(draws[:1], mean, std)


@pytest.mark.parametrize(("width", "calibrated"), [(1.0, True), (0.8, False)])
def test_known_posteriors_judge_by_every_truth_that_was_possible(width, calibrated):
    bench = cells.benchmark(pdes.load("helmholtz", size=16), n=24)
    seen = cells.observation_of(bench, "forward", "sparse", rate=0.1)
    exact = gaussian_posterior(bench.pde, seen)
    mean, std = exact.mean()[1], exact.std()[1]
    draws = mean + width * (exact.sample(19, dice())[1] - mean)
    possible = exact.sample(300, dice(1))[1]
    inside = torch.zeros_like(mean).bool()
    inside[..., 1:-1, 1:-1] = True

    found = calibration.expected(draws, mean, std, inside)

    for goal in (0.5, 0.9):
        judged = found[f"expected_coverage_{round(100 * goal)}"]
        by_truth = torch.stack(
            [ensembles.coverage(draws, each, goal, inside).mean() for each in possible]
        )
        chance = 3 * (by_truth.std() / len(possible) ** 0.5).item()
        assert judged.value == pytest.approx(by_truth.mean().item(), abs=chance)
        assert (judged.low < goal < judged.high) == calibrated
    skill = found["expected_spread_skill"]
    error = (possible - draws.mean(0)).square().mean()
    assert skill.value == pytest.approx(
        (20 / 19 * draws.var(0).mean() / error).sqrt().item(), rel=0.02
    )
    assert (skill.low < 1 < skill.high) == calibrated


def test_points_without_doubt_are_not_judged_by_their_posterior():
    draws, std = torch.randn(19, 2, 1, 4, 4, generator=dice()), torch.ones(2, 1, 4, 4)
    std[..., 0] = 0

    with pytest.raises(DataError, match="exact_std > 0"):
        calibration.expected(draws, 0 * std, std, torch.ones_like(std).bool())
    calibration.expected(draws, 0 * std, std, std > 0)


@pytest.mark.parametrize(("sharpness", "calibrated"), [(1.0, True), (4.0, False)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_two_valued_draws_are_called_calibrated_where_they_are(
    sharpness, calibrated, level
):
    chance = torch.rand(300, 1, 4, 4, generator=dice(), dtype=torch.float64)
    odds = (chance / (1 - chance)) ** sharpness
    believed = odds / (1 + odds)
    uniform = torch.rand(20, *chance.shape, generator=dice(3), dtype=torch.float64)
    truth, draws = uniform[0] < chance, uniform[1:] < believed

    found = calibration.placed(draws.float(), truth.float(), level)

    assert (found.low < level < found.high) == calibrated


def test_points_without_doubt_are_not_placed():
    draws, truth = torch.zeros(19, 8, 1, 4, 4), torch.zeros(8, 1, 4, 4)
    draws[:9, :, :, 0, 0] = 1
    truth[:4, :, 0, 0] = 1

    found = calibration.placed(draws, truth, 0.9)

    assert found.value * 8 == pytest.approx(round(found.value * 8))
    with pytest.raises(DataError, match="more problems"):
        calibration.placed(torch.zeros_like(draws), torch.zeros_like(truth))
    with pytest.raises(ConfigError, match="19 or 99"):
        calibration.placed(draws[:16], truth)
