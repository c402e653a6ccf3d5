import math

import numpy as np
import pytest
import torch
from scipy.fft import idctn

from prisma_lib.errors import ConfigError, NumericsError, ShapeError
from prisma_lib.fields import (
    GRFNoise,
    cosine_field,
    fourier_field,
    keyed_normal,
    keyed_uniform,
)
from prisma_lib.grids import Grid

WRAPS = [(False, False), (True, True), (False, True), (True, False)]


def distances(grid):
    """Distances of all pairs of points with each axis of length 1."""
    lengths = torch.tensor(grid.lengths, dtype=torch.float64)[:, None, None]
    points = (grid.coordinates(torch.float64) / lengths).flatten(1)
    gaps = (points[:, :, None] - points[:, None]).abs()
    for gap, wraps in zip(gaps, grid.periodic, strict=True):
        if wraps:
            gap.copy_(torch.minimum(gap, 1 - gap))
    return gaps.square().sum(0).sqrt()


@pytest.mark.parametrize("draw", [keyed_normal, keyed_uniform])
def test_a_sample_does_not_depend_on_its_batch(draw):
    alone = draw(7, [5], (3, 4))

    together = draw(7, [2, 5, 1 << 41], (3, 4))

    assert torch.equal(together[1:2], alone)


@pytest.mark.parametrize(
    "other", [(8, [5], "a"), (7, [6], "a"), (7, [5], "b"), (7, [5], 0)]
)
def test_keys_numbers_and_purposes_give_different_draws(other):
    key, index, purpose = other
    reference = keyed_normal(7, [5], (32,), purpose="a")

    assert (keyed_normal(key, index, (32,), purpose=purpose) != reference).all()


def test_keyed_draws_are_those_of_a_philox_generator_built_afresh():
    random = np.random.Generator(np.random.Philox(key=[7, 5], counter=[0, 0, 0, 3]))

    drawn = keyed_normal(7, [4, 5], (6,), purpose=3)

    expected = random.standard_normal(6, dtype=np.float32)
    assert drawn[1].tolist() == expected.tolist()


def test_keyed_normal_has_normal_moments():
    x = keyed_normal(0, range(1000), (100,)).double()

    assert abs(x.mean()) < 4e5**-0.5 * 4
    assert x.var().item() == pytest.approx(1, abs=0.02)
    assert x.pow(4).mean().item() == pytest.approx(3, abs=0.1)


def test_keyed_uniform_fills_the_unit_interval():
    x = keyed_uniform(0, range(1000), (100,)).double()

    assert 0 <= x.min() < 1e-3
    assert 1 - 1e-3 < x.max() < 1
    assert x.mean().item() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(
    ("key", "index"), [(-1, [0]), (0, [-1]), (0, [1 << 64]), (1 << 64, [0])]
)
def test_a_key_or_number_outside_64_bits_is_refused(key, index):
    with pytest.raises(ConfigError, match="2\\^64"):
        keyed_normal(key, index, (2,))


@pytest.mark.parametrize("shape", [(8, 8), (6, 9)])
def test_cosine_field_is_the_inverse_cosine_transform_of_scipy(shape):
    noise = keyed_normal(0, [0], shape).double()
    k1, k2 = np.ogrid[: shape[0], : shape[1]]
    weight = 3.0 * (np.pi**2 * (k1**2 + k2**2) + 9.0) ** -1
    weight[0, 0] = 0

    field = cosine_field(noise, alpha=2.0, tau=3.0)

    modes = math.sqrt(shape[0] * shape[1]) * weight * noise[0].numpy()
    expected = torch.from_numpy(idctn(modes, norm="ortho"))
    torch.testing.assert_close(field[0], expected, atol=1e-12, rtol=0)


def power(colour, n):
    """Mean power at a point, exactly: the sum of squares of a linear map."""
    size = n * n
    unit = torch.eye(size, dtype=torch.float64).view(size, n, n)
    return (colour(unit).square().sum() / size).item()


@pytest.mark.parametrize(
    ("colour", "tolerance"), [(cosine_field, 0.04), (fourier_field, 0.02)]
)
def test_the_size_of_a_field_hardly_depends_on_the_grid(colour, tolerance):
    coarse, fine = power(colour, 16) ** 0.5, power(colour, 32) ** 0.5

    assert coarse == pytest.approx(fine, rel=tolerance)


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("colour", [cosine_field, fourier_field])
def test_fields_have_the_declared_variance_at_every_grid(colour, size):
    num = 400
    fields = colour(keyed_normal(1, range(num), (size, size)).double())
    k = torch.arange(size, dtype=torch.float64)
    if colour is fourier_field:
        k = torch.fft.fftfreq(size, 1 / size, dtype=torch.float64)
        weight = 2 * 7.0**3 * (4 * torch.pi**2 * (k[:, None] ** 2 + k**2) + 49) ** -2.5
    else:
        weight = 9.0 * (torch.pi**2 * (k[:, None] ** 2 + k**2) + 9) ** -2
    weight[0, 0] = 0

    energy = fields.square().mean((1, 2))

    spread = energy.std() / num**0.5
    assert abs(energy.mean() - weight.sum()) < 3 * spread


@pytest.mark.parametrize("colour", [cosine_field, fourier_field])
def test_fields_have_no_mean(colour):
    fields = colour(keyed_normal(2, range(3), (12, 15)).double())

    assert fields.mean((1, 2)).abs().max() < 1e-14


def test_fourier_field_is_periodic_and_stationary():
    n = 8
    unit = torch.eye(n * n, dtype=torch.float64).view(-1, n, n)
    root = fourier_field(unit).flatten(1)
    covariance = (root.T @ root).view(n, n, n, n)

    shifted = covariance.roll((3, 3), (0, 2)).roll((-2, -2), (1, 3))

    torch.testing.assert_close(shifted, covariance)


@pytest.mark.parametrize("colour", [cosine_field, fourier_field])
@pytest.mark.parametrize(("alpha", "tau"), [(1.0, 3.0), (2.0, 0.0), (math.nan, 3.0)])
def test_a_field_without_finite_variance_is_refused(colour, alpha, tau):
    with pytest.raises(ConfigError, match="alpha"):
        colour(torch.zeros(1, 8, 8), alpha, tau)


@pytest.mark.parametrize("wraps", WRAPS)
@pytest.mark.parametrize("scale", [0.05, 0.3])
def test_noise_has_the_declared_covariance(wraps, scale):
    grid = Grid((7, 10), lengths=(1.0, 5.0), periodic=wraps)
    noise = GRFNoise(grid, scale)
    m1, m2 = noise.white_shape
    unit = torch.eye(m1 * m2, dtype=torch.float64).view(-1, 1, m1, m2)

    root = noise.colour(unit).flatten(1)

    expected = torch.exp(-distances(grid) / (2 * scale**2)) + 1e-4 * torch.eye(70)
    torch.testing.assert_close(root.T @ root, expected, atol=1e-6, rtol=0)


def test_noise_is_a_linear_map():
    noise = GRFNoise(Grid((8, 8)), scale=0.3)
    first, second = torch.randn(2, 3, 2, *noise.white_shape, dtype=torch.float64)

    both = noise.colour(2 * first - second)

    parts = 2 * noise.colour(first) - noise.colour(second)
    torch.testing.assert_close(both, parts)


@pytest.mark.parametrize("wraps", WRAPS)
def test_noise_on_a_finer_grid_is_the_same_draw(wraps):
    grid = Grid((9, 9), periodic=wraps)
    noise = GRFNoise(grid, scale=0.3)
    white = keyed_normal(0, [0], (2, *noise.white_shape)).double()
    finer = tuple(16 if wrap else 17 for wrap in wraps)
    shared = tuple(18 if wrap else 17 for wrap in wraps)

    fine = noise.colour(white, shape=shared)

    torch.testing.assert_close(fine[..., ::2, ::2], noise.colour(white))
    assert noise.colour(white, shape=finer).shape == (1, 2, *finer)


def test_noise_on_cell_centres_has_the_declared_covariance():
    grid = Grid((6, 9), lengths=(2.0, 1.0), centred=True)
    noise = GRFNoise(grid, scale=0.3)
    m1, m2 = noise.white_shape
    unit = torch.eye(m1 * m2, dtype=torch.float64).view(-1, 1, m1, m2)

    root = noise.colour(unit).flatten(1)

    expected = torch.exp(-distances(grid) / 0.18) + 1e-4 * torch.eye(54)
    torch.testing.assert_close(root.T @ root, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("wraps", [(False, False), (True, False)])
def test_noise_on_finer_cells_is_the_same_draw(wraps):
    noise = GRFNoise(Grid((8, 8), periodic=wraps, centred=True), scale=0.3)
    white = keyed_normal(0, [0], (2, *noise.white_shape)).double()

    fine = noise.colour(white, shape=(24, 24))

    # The centre of a cell is that of the middle one of its three parts.
    rows, columns = (slice(0 if wrap else 1, None, 3) for wrap in wraps)
    torch.testing.assert_close(fine[..., rows, columns], noise.colour(white))


def test_numbered_noise_does_not_depend_on_its_batch():
    noise = GRFNoise(Grid((8, 8)))

    together = noise.draw(3, [0, 9], channels=2)

    torch.testing.assert_close(together[1:], noise.draw(3, [9], channels=2))


def test_noise_follows_its_generator():
    noise = GRFNoise(Grid((8, 8)))

    first, again = (
        noise.sample(3, 2, torch.Generator().manual_seed(1)) for _ in range(2)
    )

    assert torch.equal(first, again)
    assert first.shape == (3, 2, 8, 8)
    assert first.dtype == torch.float32


def test_white_noise_of_another_shape_is_refused():
    with pytest.raises(ShapeError, match="white_shape"):
        GRFNoise(Grid((8, 8))).colour(torch.zeros(1, 1, 8, 8))


@pytest.mark.parametrize(("scale", "jitter"), [(0.0, 1e-4), (math.nan, 0), (0.05, -1)])
def test_impossible_noise_is_refused(scale, jitter):
    with pytest.raises(ConfigError, match="scale"):
        GRFNoise(Grid((8, 8)), scale, jitter)


def test_noise_that_the_torus_cannot_hold_is_refused():
    with pytest.raises(NumericsError, match="smaller scale"):
        GRFNoise(Grid((32, 32)), scale=2.0, jitter=0.0)
