"""Layouts of sensors: their shapes and shares, and that they belong to problems."""

import itertools

import pytest
import torch

from prisma_lib import evaluate, pdes
from prisma_lib.errors import ConfigError
from prisma_lib.observe import add_noise, observe
from prisma_lib.sensors import LAYOUTS, PATCH

SIZE = 16


def mask(layout, rate, rows=range(40), key=0, size=SIZE):
    clean = torch.ones(len(rows), 1, size, size)
    seen = observe(
        *("sparse_inverse", clean, clean),
        rate=rate,
        layout=layout,
        key=key,
        index=list(rows),
    )
    assert not seen.mask_a.any()
    return seen.mask_u


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_observes_about_the_share_that_it_is_asked_for(layout):
    found = mask(layout, 0.25, range(400)).mean()

    # Four standard errors of 400 x 16 independent patches.
    assert abs(found - 0.25) < 4 * (0.25 * 0.75 / 6400) ** 0.5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sensors_belong_to_the_problem_and_the_key(layout):
    together = mask(layout, 0.25)

    assert torch.equal(mask(layout, 0.25, [7]), together[7:8])
    assert torch.equal(mask(layout, 0.25, [9, 2]), together[[9, 2]])
    assert not torch.equal(mask(layout, 0.25, key=1), together)
    assert len(together.flatten(1).unique(dim=0)) > 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_larger_share_holds_the_sensors_of_a_smaller_one(layout):
    rates = (0.05, 0.1, 0.3, 0.31, 0.7, 1.0)
    masks = [mask(layout, rate) for rate in rates]

    assert all((a <= b).all() for a, b in itertools.pairwise(masks))
    assert masks[-1].all()


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.25, 0.9])
def test_a_window_is_one_square(rate):
    side = max(1, round(SIZE * rate**0.5))
    found = mask("window", rate)[:, 0]

    for axis in (1, 2):
        seen = found.amax(axis)
        assert seen.sum(1).eq(side).all()
        edges = torch.nn.functional.pad(seen, (1, 1)).diff(dim=1).abs()
        assert edges.sum(1).eq(2).all()  # in one piece
    assert found.sum((1, 2)).eq(side**2).all()


def test_a_window_stands_anywhere_with_equal_chance():
    first = mask("window", (1 / SIZE) ** 2, range(1600))[:, 0].flatten(1).argmax(1)
    rows, columns = first // SIZE, first % SIZE

    for place in (rows, columns):
        counts = torch.bincount(place, minlength=SIZE)
        assert (counts - 100).abs().max() < 4 * 100**0.5
    both = torch.stack([rows, columns]).double()
    assert abs(torch.corrcoef(both)[0, 1]) < 4 / 1600**0.5


def test_patches_are_seen_whole_or_not_at_all():
    tiles = mask("patches", 0.5).unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)

    whole = tiles.flatten(-2).mean(-1)
    assert ((whole == 0) | (whole == 1)).all()
    assert len(whole.unique()) == 2


def test_patches_are_cut_off_where_the_grid_ends():
    found = mask("patches", 0.5, size=10)

    assert found.shape[-2:] == (10, 10)
    assert torch.equal(found[..., 8, :], found[..., 9, :])


@pytest.mark.parametrize(("rate", "count"), [(0.01, 1), (0.25, 4), (0.9, 14)])
def test_a_share_of_columns_is_the_nearest_whole_number_of_them(rate, count):
    found = mask("columns", rate)[:, 0]

    assert torch.equal(found, found[:, :1].expand_as(found))
    assert found[:, 0].sum(1).eq(count).all()


def test_an_unknown_layout_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'window'"):
        mask("windows", 0.5)


def test_a_fraction_of_the_points_is_noisy_and_a_larger_one_has_the_same_and_more():
    zero = torch.zeros(40, 1, SIZE, SIZE)
    clean = observe("full_inverse", zero, zero, index=range(40))

    def noise(fraction, rows=range(40)):
        few = observe("full_inverse", zero[rows], zero[rows], index=rows)
        return add_noise(few, 1.0, 3.0, 5, rows, fraction=fraction).u

    whole = add_noise(clean, 1.0, 3.0, 5, range(40)).u
    third = noise(1 / 3)

    share = third.ne(0).float().mean()
    assert abs(share - 1 / 3) < 4 * (2 / 9 / third.numel()) ** 0.5
    assert torch.equal(third[third != 0], whole[third != 0])
    assert noise(0.5)[third != 0].ne(0).all()
    assert torch.equal(noise(1.0), whole)
    assert not noise(0.0).any()
    assert torch.equal(noise(1 / 3, [3]), third[3:4])


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_that_is_none_is_refused(fraction):
    zero = torch.zeros(1, 1, SIZE, SIZE)
    clean = observe("full_inverse", zero, zero, index=[0])

    with pytest.raises(ConfigError, match="fraction="):
        add_noise(clean, 1.0, 1.0, 0, [0], fraction=fraction)


@pytest.fixture(scope="module")
def problems():
    return evaluate.benchmark(pdes.load("poisson", size=SIZE), n=6, seed=3)


def test_a_benchmark_hides_what_it_is_told_and_its_rows_say_so(problems):
    noisy = problems.hiding(noise=0.5, fraction=0.3)
    sparse = problems.hiding(rate=0.1, layout="window")

    seen = evaluate.observation_of(noisy, "forward", "noisy")
    window = evaluate.observation_of(sparse, "inverse", "sparse")

    off = (seen.a - problems.a).flatten()
    noise = off[off != 0]
    assert noise.numel() / off.numel() == pytest.approx(0.3, abs=0.05)
    sd = 0.5 * problems.statistics.std[0]
    assert noise.std().item() == pytest.approx(sd, rel=0.1)
    assert noisy.noise_sd("noisy") == problems.noise_sd("noisy", 0.5)
    assert window.mask_u.sum((1, 2, 3)).eq(25).all()
    names = [
        evaluate.judge(Nothing(p), p, [("inverse", regime)], method="x")[0]["setting"]
        for p, regime in (
            (problems, "full"),
            (noisy, "noisy"),
            (problems, "noisy"),
            (sparse, "sparse"),
            (problems, "sparse"),
        )
    ]
    assert names == [
        "size=16",
        "size=16;noise_sd=0.5;fraction=0.3",
        "size=16;noise_sd=2",
        "size=16;rate=0.1;layout=window",
        "size=16;rate=0.03",
    ]


class Nothing:
    """Answers zero."""

    calls = 0

    def __init__(self, problems):
        self.pde = problems.pde

    def solve(self, observation, *, samples, generator):
        a, u = torch.zeros_like(observation.a), torch.zeros_like(observation.u)
        return a[None].expand(samples, *a.shape), u[None].expand(samples, *u.shape)
