import inspect
import math

import numpy as np
import pytest
import torch
from scipy import stats

from prisma_lib import intervals, metrics
from prisma_lib.errors import DataError, ShapeError


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def truth(generator):
    return 3 + torch.randn(4, 1, 12, 10, generator=generator)


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.0, 3.0])
def test_a_scaled_truth_is_wrong_by_its_factor(truth, factor):
    error = metrics.relative_l2(factor * truth, truth)

    torch.testing.assert_close(error, torch.full((4,), abs(factor - 1)).double())


def test_relative_errors_agree_with_numpy(truth, generator):
    prediction = truth + torch.randn(truth.shape, generator=generator)

    error = metrics.relative_l2(prediction, truth)

    pairs = zip(prediction.numpy(), truth.numpy(), strict=True)
    expected = [np.linalg.norm(p - t) / np.linalg.norm(t) for p, t in pairs]
    np.testing.assert_allclose(error, expected, rtol=1e-5)


def test_the_error_of_a_zero_truth_is_absolute(truth):
    zero = torch.zeros_like(truth)

    error = metrics.relative_l2(zero + 0.5, zero)

    torch.testing.assert_close(error, torch.full((4,), 0.5).double())


@pytest.mark.parametrize("metric", [metrics.relative_l2, metrics.spectrum_error])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_constant_truth_has_a_finite_error(truth, metric, value):
    error = metric(truth, torch.full_like(truth, value))

    assert error.isfinite().all()
    assert (error > 0).all()


@pytest.mark.parametrize("metric", [metrics.relative_l2, metrics.spectrum_error])
@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e6])
def test_the_unit_of_a_field_does_not_matter(truth, generator, scale, metric):
    prediction = truth + torch.randn(truth.shape, generator=generator)

    scaled = metric(scale * prediction, scale * truth)

    torch.testing.assert_close(scaled, metric(prediction, truth), rtol=1e-4, atol=0)


@pytest.mark.parametrize("eps", [0, 1e-8, 1e-6])
def test_a_small_constant_in_the_denominator_would_not_matter(truth, generator, eps):
    truth = 1e-2 * truth  # the size of a Poisson solution
    prediction = truth + 1e-3 * torch.randn(truth.shape, generator=generator)

    with_eps = (prediction - truth).flatten(1).norm(dim=1) / (
        truth.flatten(1).norm(dim=1) + eps
    )

    error = metrics.relative_l2(prediction, truth)
    torch.testing.assert_close(with_eps.double(), error, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("metric", "extra"),
    [
        (metrics.relative_l2, ()),
        (metrics.spectrum_error, ()),
        (metrics.error_rate, (torch.round,)),
        (metrics.iou, ()),
    ],
)
def test_shapes_are_never_broadcast(truth, metric, extra):
    metric = inspect.unwrap(metric)  # the type hook of the tests refuses them earlier

    with pytest.raises(ShapeError, match="prediction has shape"):
        metric(truth[:1], truth, *extra)


def two_levels(a):
    return torch.where(a < 7.5, 3.0, 12.0)


def test_the_error_rate_counts_points_on_the_wrong_level():
    truth = torch.full((2, 1, 10, 10), 3.0)
    prediction = truth + 1.0
    prediction[0, 0, 0, :7] = 9.0

    rate = metrics.error_rate(prediction, truth, two_levels)

    torch.testing.assert_close(rate, torch.tensor([0.07, 0]).double())


def test_a_prediction_that_is_not_a_number_is_wrong_everywhere():
    truth = torch.full((1, 1, 4, 4), 3.0)

    assert metrics.error_rate(truth * math.nan, truth, two_levels).item() == 1


def test_the_error_rate_needs_a_truth_on_the_levels(truth):
    with pytest.raises(DataError, match="levels"):
        metrics.error_rate(truth, truth, two_levels)


def test_a_wave_has_its_power_in_its_shell():
    x = torch.arange(16.0) / 16
    wave = 2 + 3 * torch.cos(2 * math.pi * 4 * x)[None, None, :, None].expand(
        1, 1, 16, 12
    )

    power = metrics.radial_power(wave)[0, 0]

    # Two modes of amplitude 3/2 among the modes with 3.5 <= |k| < 4.5.
    k1 = np.fft.fftfreq(16, 1 / 16)[:, None]
    k2 = np.fft.fftfreq(12, 1 / 12)
    count = (np.hypot(k1, k2).round() == 4).sum()
    expected = torch.zeros(7).double()
    expected[0], expected[4] = 4, 2 * 1.5**2 / count
    torch.testing.assert_close(power, expected, atol=1e-10, rtol=1e-6)


def test_the_spectrum_error_ignores_where_things_are_but_not_how_rough(truth):
    shifted = truth.roll((3, 5), dims=(2, 3)) + 1

    assert metrics.spectrum_error(shifted, truth) == pytest.approx([0] * 4, abs=1e-5)
    doubled = metrics.spectrum_error(2 * truth, truth)
    assert doubled == pytest.approx([3] * 4, rel=1e-5)


@pytest.mark.parametrize("law", [stats.norm, stats.expon, stats.laplace])
def test_residual_moments_agree_with_scipy(law):
    values = law.rvs(size=(2, 1, 40, 50), random_state=0)

    found = metrics.residual_moments(torch.from_numpy(values))

    flat = values.reshape(2, -1)
    np.testing.assert_allclose(found.rms, np.sqrt((flat**2).mean(1)))
    np.testing.assert_allclose(found.skewness, stats.skew(flat, axis=1))
    np.testing.assert_allclose(found.excess_kurtosis, stats.kurtosis(flat, axis=1))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_residual_has_no_shape(value):
    found = metrics.residual_moments(torch.full((1, 1, 7, 7), value))

    assert found.rms.item() == pytest.approx(value, rel=1e-6)
    assert (found.skewness.item(), found.excess_kurtosis.item()) == (0, 0)


def square(low, high):
    inside = torch.zeros(1, 1, 10, 10, dtype=torch.bool)
    inside[..., low:high, low:high] = True
    return inside


@pytest.mark.parametrize(
    ("prediction", "truth", "expected"),
    [
        (square(0, 4), square(0, 4), 1),
        (square(0, 4), square(4, 8), 0),
        (square(0, 4), square(2, 6), 4 / 28),
        (square(0, 10), square(0, 5), 0.25),
        (square(0, 0), square(0, 0), 1),
        (square(0, 0), square(0, 4), 0),
    ],
)
def test_iou_of_squares_is_known(prediction, truth, expected):
    assert metrics.iou(prediction, truth).item() == pytest.approx(expected)


def test_a_bootstrap_interval_is_that_of_a_normal_mean(generator):
    values = torch.randn(400, generator=generator).double()

    low, high = metrics.bootstrap_interval(values)

    half = 1.96 * values.std().item() / 400**0.5
    assert (low + high) / 2 == pytest.approx(values.mean().item(), abs=0.1 * half)
    assert high - low == pytest.approx(2 * half, rel=0.1)


def test_a_bootstrap_interval_repeats_and_follows_its_key(generator):
    values = torch.rand(20, generator=generator)

    first, again, other = (metrics.bootstrap_interval(values, key=k) for k in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize("n", [4, 8, 20, 128])
def test_percentiles_of_few_problems_are_moved_out_to_students(n):
    low, high = intervals.tails(n)

    wide = stats.t.ppf(0.975, n - 1) * (n / (n - 1)) ** 0.5
    assert -stats.norm.ppf(low) == pytest.approx(wide, rel=0.01)
    assert (low + high).item() == pytest.approx(1)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_intervals_of_few_problems_hold_the_mean_as_often_as_they_say(generator, n):
    # Errors of problems are skewed: log-normal, of the scatter that tables have.
    errors = (0.6 * torch.randn(1000, n, generator=generator)).exp()
    mean = math.exp(0.6**2 / 2)

    ends = [metrics.bootstrap_interval(one) for one in errors]

    held = sum(low <= mean <= high for low, high in ends) / len(ends)
    assert 0.9 < held < 0.97


@pytest.mark.parametrize("n", [2, 3, 4])
def test_of_very_few_differences_the_interval_is_students(generator, n):
    values = torch.randn(n, generator=generator).double()

    low, high = metrics.bootstrap_interval(values)

    half = stats.t.ppf(0.975, n - 1) * values.std().item() / n**0.5
    assert (low + high) / 2 == pytest.approx(values.mean().item(), abs=1e-9)
    assert high - low == pytest.approx(2 * half, rel=0.05)


def test_a_single_value_is_its_own_interval():
    low, high = metrics.bootstrap_interval(torch.tensor([0.25]))

    assert (low, high) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_an_interval_needs_finite_values(values):
    with pytest.raises(DataError, match="finite"):
        metrics.bootstrap_interval(torch.tensor(values))
