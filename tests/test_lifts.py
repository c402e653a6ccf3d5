"""Classical estimates of both fields: what holds for every equation."""

import math

import pytest
import torch
from small import VARIANTS

from prisma_lib import cells, data, pdes
from prisma_lib.errors import ConfigError, NumericsError, ShapeError
from prisma_lib.lifts import kriging, priors
from prisma_lib.observe import Observation, add_noise, observe
from prisma_lib.observed import Lift

ROUNDING = 1e-5  # in units of a field's standard deviation


@pytest.fixture(autouse=True)
def few_training_problems(monkeypatch):
    monkeypatch.setattr(priors, "PROBLEMS", 64)


@pytest.fixture(scope="module")
def poisson():
    return pdes.load("poisson", size=16)


def observed(pde, task="sparse_forward", num=4, rate=0.2, share=False):
    """What a task shows of test problems; `share`: all have the mask of the first."""
    a, u = pde.pair(0, range(2 << 40, (2 << 40) + num))
    seen = observe(task, a, u, rate=rate, index=range(num))
    if not share:
        return seen
    mask_a, mask_u = (m[:1].expand_as(m) for m in (seen.mask_a, seen.mask_u))
    return Observation(mask_a * a, mask_u * u, mask_a, mask_u)


def problem(seen, chosen):
    return Observation(*(part[chosen] for part in vars(seen).values()))


def near(lift, other):
    torch.testing.assert_close(lift.mean, other.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(lift.sd, other.sd, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_cell_of_every_equation_has_a_lift(variant, quick):
    name, options = variant
    pde = quick(name, 16, **options)
    a, u = pde.pair(0, range(2 << 40, (2 << 40) + 4))
    problems = cells.Benchmark(pde, a, u, data.statistics(pde, num=32), seed=0)

    for direction, regime in cells.cells(pde):
        seen = cells.observation_of(problems, direction, regime, rate=0.2)
        noise = problems.noise_sd(regime)
        lift = pde.lift(seen, noise)

        assert lift.mean.shape == lift.sd.shape == (4, sum(pde.channels), 16, 16)
        assert lift.mean.dtype == lift.sd.dtype == torch.float32
        assert lift.mean.isfinite().all()
        assert (lift.sd >= 0).all()
        assert lift.a.shape == seen.a.shape
        assert lift.u.shape == seen.u.shape
        if regime == "noisy":
            assert lift.sd.max() > 0
        else:
            known = seen.mask > 0
            assert torch.equal(lift.mean[known], seen.x[known])
            assert not lift.sd[known].any()
        # What stands where nothing was measured is not looked at.
        junk = torch.where(seen.mask > 0, seen.x, torch.nan).split(pde.channels, 1)
        other = pde.lift(Observation(*junk, seen.mask_a, seen.mask_u), noise)
        assert torch.equal(other.mean, lift.mean)
        assert torch.equal(other.sd, lift.sd)


@pytest.mark.parametrize("name", ["poisson", "darcy", "eikonal", "burgers"])
@pytest.mark.parametrize("share", [True, False])
def test_a_problem_does_not_depend_on_the_batch(name, share):
    pde = pdes.load(name, size=16)
    seen = observed(pde, "sparse_inverse", share=share)

    together = pde.lift(seen, 0.01)

    for number in range(4):
        alone = pde.lift(problem(seen, [number]), 0.01)
        near(alone, problem_of(together, number))


def moved(lift, where):
    return Lift(lift.mean.to(where), lift.sd.to(where), lift.channels)


def problem_of(lift, number):
    chosen = slice(number, number + 1)
    return Lift(lift.mean[chosen], lift.sd[chosen], lift.channels)


def test_problems_that_share_a_mask_share_the_factor(poisson, monkeypatch):
    counted = []
    factor = kriging.condition
    monkeypatch.setattr(
        kriging, "condition", lambda *args: counted.append(1) or factor(*args)
    )

    poisson.lift(observed(poisson, num=8, share=True))
    assert len(counted) == 1
    poisson.lift(observed(poisson, num=8))
    assert len(counted) == 9


def test_each_problem_may_have_its_own_noise(poisson):
    seen = observed(poisson, "full_inverse", num=3)
    levels = torch.tensor([[0.0, 1e-3], [0.1, 0.0], [0.1, 1e-4]])

    together = poisson.lift(seen, levels)

    for number, (sd_a, sd_u) in enumerate(levels.tolist()):
        alone = poisson.lift(problem(seen, [number]), (sd_a, sd_u))
        near(alone, problem_of(together, number))


@pytest.mark.parametrize("task", ["full_inverse", "full_forward", "sparse_inverse"])
@pytest.mark.parametrize("name", ["poisson", "darcy", "eikonal", "navier_stokes"])
def test_each_sensor_may_have_its_own_noise(name, task):
    pde = pdes.load(name, size=16)
    seen = observed(pde, task, share=True)
    some = torch.rand(16, 16, generator=torch.Generator().manual_seed(1)) < 0.5
    level = torch.tensor([0.2, 0.1]).expand(4, 2)

    def lift(seen, factor):
        sd = level[..., None, None] * torch.where(some, 1.0, factor)
        return pde.lift(seen, sd)

    near(lift(seen, 1.0), pde.lift(seen, level))
    # Sensors with endless noise are no sensors; those without noise are known.
    kept = Observation(*(part * some for part in vars(seen).values()))
    without, deaf = pde.lift(kept, level), lift(seen, 1e6)
    torch.testing.assert_close(deaf.mean, without.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(deaf.sd, without.sd, rtol=1e-4, atol=1e-4)
    exact, known = lift(seen, 0.0), (seen.mask > 0) & ~some
    assert torch.equal(exact.mean[known], seen.x[known])
    assert not exact.sd[known].any()


def test_both_fields_may_be_seen_in_part():
    for name in ("darcy", "eikonal", "burgers", "navier_stokes"):
        pde = pdes.load(name, size=16)
        a, u = pde.pair(0, range(3))
        random = torch.rand(2, *a.shape, generator=torch.Generator().manual_seed(0))
        masks = (random < 0.3).float()
        seen = Observation(a * masks[0], u * masks[1], *masks)

        lift = pde.lift(seen)
        whole = pde.lift(Observation(a, u, torch.ones_like(a), torch.ones_like(u)))

        truth, known = torch.cat([a, u], 1), seen.mask > 0
        assert torch.equal(lift.mean[known], truth[known])
        assert torch.equal(whole.mean, truth)
        assert not whole.sd.any()


@pytest.mark.parametrize("known", [0, 1], ids=["a", "u"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sensors_beside_a_known_field_take_nothing_away(variant, known, quick):
    name, options = variant
    pde = quick(name, 16, **options)
    fields = pde.pair(0, range(2 << 40, (2 << 40) + 24))
    truth, unit = fields[1 - known], fields[1 - known].std()
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(truth.shape, generator=generator)
    uniform = torch.rand(16, 16, generator=generator)

    def lift(places, level=0.0):
        """Shows one field wholly, the other at some places with a map of the noise."""
        level = level * unit * torch.ones(16, 16)
        shown, masks = list(fields), [torch.ones_like(field) for field in fields]
        masks[1 - known] = places.expand_as(truth).float()
        shown[1 - known] = masks[1 - known] * (truth + level * noise)
        sd = torch.zeros(24, 2, 16, 16)
        sd[:, 1 - known] = level
        found = pde.lift(Observation(*shown, *masks), sd)
        mean, doubt = (part.split(pde.channels, 1) for part in (found.mean, found.sd))
        return (mean[1 - known] - truth).abs() / unit, doubt[1 - known]

    few, every = uniform < 0.02, uniform < 1
    alone = lift(~every)[0].square().mean().sqrt()
    for places, level in (
        (few, 0.0), (few, 0.2), (every, 0.2), (every, 0.2 * (uniform < 0.5)),
    ):  # fmt: skip
        off, sd = lift(places, level)
        assert off.square().mean().sqrt() < 1.1 * alone + ROUNDING
        assert (off[sd == 0] < ROUNDING).all()
    # Of two sources the better one counts, here the measurement itself.
    off, sd = lift(every, 0.01)
    assert off.square().mean().sqrt() < 1.1 * 0.01
    assert (sd <= 1.01 * 0.01 * unit).all()


def test_two_known_fields_are_left_to_no_rule():
    pde = pdes.load("navier_stokes", size=16)
    a = 1e6 * pde.draw(0, [0])  # no solver holds it
    one, blank = torch.ones_like(a), torch.zeros_like(a)

    with pytest.raises(NumericsError):
        pde.lift(Observation(a, blank, one, blank))
    assert torch.equal(pde.lift(Observation(a, a, one, one)).u, a)


def test_nothing_seen_leaves_mean_and_spread_of_the_inputs(monkeypatch):
    monkeypatch.setattr(priors, "PROBLEMS", 256)
    pde = pdes.load("darcy", size=16)
    blank = torch.zeros(1, 1, 16, 16)
    a, u = pde.pair(1, range(1000))

    lift = pde.lift(Observation(blank, blank, blank, blank))

    for field, sd in ((a, lift.sd[:, :1]), (u, lift.sd[:, 1:])):
        ratio = field.std(0)[:, 4:12, 4:12] / sd[0, :, 4:12, 4:12]
        assert ratio.mean().item() == pytest.approx(1, abs=0.05)
    assert lift.a.mean().item() == pytest.approx(a.mean().item(), abs=0.15)


@pytest.mark.parametrize("name", ["darcy", "eikonal", "burgers", "navier_stokes"])
def test_the_stated_error_is_the_error(name, monkeypatch):
    monkeypatch.setattr(priors, "PROBLEMS", 256)
    pde = pdes.load(name, size=16)
    a, u = pde.pair(0, range(2 << 40, (2 << 40) + 60))
    noise = 0.2 * a.std().item(), 0.2 * u.std().item()

    for task in ("sparse_forward", "full_forward", "sparse_inverse", "full_inverse"):
        seen = observe(task, a, u, rate=0.15, index=range(60))
        seen = add_noise(seen, *noise, key=0, index=range(60))
        lift = pde.lift(seen, noise)
        sd_a, sd_u = lift.sd.split(1, dim=1)

        for truth, mean, sd in ((a, lift.a, sd_a), (u, lift.u, sd_u)):
            error = (mean - truth).square().mean().sqrt()
            assert 0.7 < error / sd.square().mean().sqrt() < 1.4


def test_results_keep_dtype_and_float64_input_counts(poisson):
    seen = observed(poisson, "full_inverse")
    double = Observation(*(part.double() for part in vars(seen).values()))

    lift = poisson.lift(double, 1e-4)

    assert lift.mean.dtype == lift.sd.dtype == torch.float64
    near(poisson.lift(seen, 1e-4), moved(lift, torch.float32))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["poisson", "darcy", "eikonal", "burgers"])
def test_a_gpu_gives_the_same(name):
    pde = pdes.load(name, size=16)
    for task in ("sparse_forward", "full_forward", "full_inverse"):
        seen = observed(pde, task)
        for noise in (0.0, 0.05):
            lift = pde.lift(seen.to("cuda"), noise)
            assert lift.mean.is_cuda
            near(moved(lift, "cpu"), pde.lift(seen, noise))


@pytest.mark.parametrize("noise", [-1.0, math.nan, (0.0, math.inf)])
def test_impossible_noise_is_refused(poisson, noise):
    with pytest.raises(ConfigError, match="noise_sd="):
        poisson.lift(observed(poisson), noise)


@pytest.mark.usefixtures("untyped")
def test_what_does_not_fit_is_refused(poisson):
    seen = observed(poisson)

    with pytest.raises(ShapeError, match="each of the 4 problems"):
        poisson.lift(seen, torch.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"or maps of them \(4, 2, 16, 16\)"):
        poisson.lift(seen, torch.zeros(4, 2, 16, 8))
    with pytest.raises(ShapeError, match="does not fit poisson"):
        pdes.load("poisson", size=17).lift(seen)
    with pytest.raises(ConfigError, match="lift of poisson has no settings"):
        poisson.lift(seen, iterations=2)
    darcy = pdes.load("darcy", size=16)
    with pytest.raises(ConfigError, match="has iterations"):
        darcy.lift(observed(darcy), steps=2)
    with pytest.raises(ConfigError, match="iterations=-1"):
        darcy.lift(observed(darcy), iterations=-1)


def test_whole_fields_need_no_covariance():
    pde = pdes.load("darcy", size=40)
    seen = observed(pde, "full_inverse", num=1)
    before = priors.kriging_of.cache_info().misses

    pde.lift(seen)

    assert priors.kriging_of.cache_info().misses == before
