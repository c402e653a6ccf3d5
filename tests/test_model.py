"""The denoiser: what it sees, in which units, and what it must not see."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.spectral import analyse
from prisma_lib.observe import mix
from prisma_lib.pdes.base import Statistics
from prisma_lib.tasks import TASKS, task_masks

NAMES = ("darcy", "poisson")


@pytest.fixture(scope="module", params=NAMES)
def pde(request):
    return pdes.load(request.param, size=16)


@pytest.fixture(scope="module")
def statistics(pde):
    return data.statistics(pde, num=64)


@pytest.fixture
def build(pde, statistics):
    def make(**settings):
        torch.manual_seed(0)
        model = Prisma(pde, ModelConfig.preset("tiny", **settings), statistics).eval()
        for parameter in model.parameters():  # wake the layers that start at zero
            if parameter.abs().max() == 0:
                torch.nn.init.normal_(parameter, std=0.1)
        return model.requires_grad_(False)

    return make


@pytest.fixture
def batch(pde, build):
    """A clean batch with a task each, noise, and the model's view of it."""
    a, u = data.problems(pde, 10, split="test")
    generator = torch.Generator().manual_seed(0)
    tasks = [TASKS[i % 5] for i in range(10)]
    uniform = torch.rand(10, 1, 16, 16, generator=generator)
    mask = torch.cat(task_masks(tasks, torch.full((10,), 0.1), uniform), 1)
    x_0 = build().normalise(torch.cat([a, u], 1))
    eps = torch.randn(x_0.shape, generator=generator)
    return x_0, eps, torch.where(mask > 0, x_0, 0.0), mask


def noisy(batch, sigma):
    x_0, eps, x_obs, mask = batch
    return x_0 + sigma * eps, torch.full((len(x_0),), sigma), x_obs, mask


def test_normalised_fields_have_mean_zero_and_std_one_half(pde, build):
    a, u = data.problems(pde, 64, split="train")

    x = build().normalise(torch.cat([a, u], 1))

    assert x.mean((0, 2, 3)).abs().max() < 1e-5
    torch.testing.assert_close(
        x.std((0, 2, 3)), torch.full((2,), 0.5), rtol=1e-3, atol=0
    )


def test_physical_units_survive_normalising(pde, build):
    a, u = data.problems(pde, 4, split="test")
    x, model = torch.cat([a, u], 1), build()

    again = model.denormalise(model.normalise(x))

    torch.testing.assert_close(again, x, rtol=1e-5, atol=1e-6 * x.std().item())


@pytest.mark.parametrize("sigma", [0.002, 1.0, 80.0])
def test_residual_sees_the_mixed_state_in_physical_units(
    pde, build, batch, sigma, monkeypatch
):
    model, seen = build(), []
    real = type(pde).residual

    def spy(self, a, u):
        seen.append((a, u))
        return real(self, a, u)

    monkeypatch.setattr(type(pde), "residual", spy)
    x_sigma, _, x_obs, mask = noisy(batch, sigma)
    model(x_sigma, torch.full((10,), sigma), x_obs, mask)

    x_mix = model.denormalise(mix(mask, x_obs, x_sigma))
    (a, u) = seen[0]
    assert len(seen) == 1
    torch.testing.assert_close(torch.cat([a, u], 1), x_mix, rtol=0, atol=0)


def test_normalisation_constants_do_not_change_the_physical_residual(pde, build, batch):
    model = build()
    other = Prisma(
        pde, ModelConfig.preset("tiny"), Statistics((1.0, 2.0), (3.0, 0.5), 1e-3)
    )
    x_sigma, _, x_obs, mask = noisy(batch, 1.0)
    physical, observed = model.denormalise(x_sigma), model.denormalise(x_obs)

    r = model.residual(x_sigma, x_obs, mask)
    same = other.residual(other.normalise(physical), other.normalise(observed), mask)

    assert (same - r).norm() < 1e-4 * r.norm()


@pytest.mark.parametrize("sigma", [0.002, 0.1, 1.0, 10.0, 80.0])
def test_residual_has_unit_rms_wherever_it_exceeds_the_floor(build, batch, sigma):
    model = build()
    x_sigma, _, x_obs, mask = noisy(batch, sigma)

    levels, _ = model.residual_levels(x_sigma, x_obs, mask)

    r = model.residual(x_sigma, x_obs, mask)
    above = r.square().mean((1, 2, 3)).sqrt() >= model.residual_floor
    rms = levels[0].square().mean((1, 2, 3)).sqrt()
    assert above.any()
    assert (rms[above] >= 0.7).all()
    assert all((x.square().mean((1, 2, 3)) <= 1 + 1e-5).all() for x in levels)


def test_residual_is_finite_where_everything_is_observed(build, batch):
    x_0, _, _, _ = batch
    model = build()

    levels, summary = model.residual_levels(x_0, x_0, torch.ones_like(x_0))

    assert all(torch.isfinite(x).all() for x in [*levels, summary])


def test_attention_mask_acts_at_initial_weights(pde, statistics, batch):
    torch.manual_seed(0)
    model = Prisma(pde, ModelConfig.preset("tiny"), statistics)
    x_sigma, sigma, x_obs, mask = noisy(batch, 1.0)
    masks = []
    for block in model.backbone.down[0]:
        plain = block.attention.mask

        def spy(x, r, modes, plain=plain):
            masks.append(plain(x, r, modes))
            return masks[-1]

        block.attention.mask = spy

    model(x_sigma, sigma, x_obs, mask)

    a = masks[0].detach()
    assert a.std() >= 0.03
    assert 0.55 < a.quantile(0.95) < 0.99


def test_values_outside_the_mask_are_never_seen(build, batch):
    model = build()
    x_sigma, sigma, x_obs, mask = noisy(batch, 1.0)
    spoiled = torch.where(mask > 0, x_obs, torch.nan)

    clean = model(x_sigma, sigma, x_obs, mask)
    r = model.residual(x_sigma, spoiled, mask)

    torch.testing.assert_close(r, model.residual(x_sigma, x_obs, mask), rtol=0, atol=0)
    assert torch.isfinite(clean).all()


def test_denoiser_leaves_an_almost_clean_state_as_it_is(build, batch):
    x_sigma, sigma, x_obs, mask = noisy(batch, 1e-4)

    denoised = build()(x_sigma, sigma, x_obs, mask)

    assert (denoised - x_sigma).abs().max() < 1e-3


def test_without_a_residual_the_pde_is_never_evaluated(pde, build, batch, monkeypatch):
    def refuse(self, a, u):
        raise AssertionError("the residual was evaluated")

    monkeypatch.setattr(type(pde), "residual", refuse)

    build(strategy="none")(*noisy(batch, 1.0))


def test_unguided_residual_ignores_the_observations(build, batch):
    model = build(strategy="unguided")
    x_sigma, _, x_obs, mask = noisy(batch, 1.0)

    r = model.residual(x_sigma, x_obs, mask)

    nothing = model.residual(x_sigma, torch.zeros_like(x_obs), torch.zeros_like(mask))
    torch.testing.assert_close(r, nothing, rtol=0, atol=0)


@pytest.mark.parametrize("strategy", ["sra", "concat", "magnitude_only", "phase_blind"])
def test_residual_reaches_the_output(build, batch, strategy, monkeypatch):
    model = build(strategy=strategy)
    inputs = noisy(batch, 1.0)
    before = model(*inputs)

    monkeypatch.setattr(model, "residual", lambda x, *_: x[:, :1].flip(-1).float())

    assert (model(*inputs) - before).abs().max() > 1e-4


def test_paper_gate_reads_the_signed_mean_alone(build, batch):
    model = build(gate_input="paper")
    x_sigma, _, x_obs, mask = noisy(batch, 1.0)

    _, summary = model.residual_levels(x_sigma, x_obs, mask)

    assert summary.shape == (10, 1)


def test_sample_does_not_depend_on_its_batch(build, batch):
    model = build()
    inputs = noisy(batch, 1.0)

    whole = model(*inputs)
    alone = model(*(part[5:6] for part in inputs))

    torch.testing.assert_close(alone, whole[5:6], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("preset", "size", "millions", "tolerance"),
    [
        ("tiny", 16, 0.05, 0.1),
        ("small", 32, 0.8, 0.15),
        ("base", 64, 4, 0.1),
        ("paper", 128, 64, 0.05),
    ],
)
def test_presets_have_the_stated_number_of_parameters(
    preset, size, millions, tolerance
):
    pde = pdes.load("darcy", size=size)
    statistics = Statistics((0.0, 0.0), (1.0, 1.0), 1.0)
    with torch.device("meta"):
        model = Prisma(pde, ModelConfig.preset(preset), statistics)

    count = sum(p.numel() for p in model.parameters()) / 1e6

    assert count == pytest.approx(millions, rel=tolerance)


def test_a_grid_that_cannot_be_halved_is_refused_with_the_nearest_sizes(build):
    statistics = Statistics((0.0, 0.0), (1.0, 1.0), 1.0)
    config = ModelConfig.preset("base")

    with pytest.raises(ShapeError, match="96 or 104"):
        Prisma(pdes.load("darcy", size=100), config, statistics)


@pytest.mark.parametrize("size", [8, 12, 20, 32])
def test_model_runs_on_other_grids_and_keeps_their_size(build, size):
    model = build()
    x = torch.randn(2, 2, size, size)

    denoised = model(x, torch.ones(2), torch.zeros_like(x), torch.zeros_like(x))

    assert denoised.shape == x.shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "sraa"}, "did you mean 'sra'"),
        ({"widths": (8, 16)}, "one value per level"),
        ({"groups": 5}, "does not divide"),
        ({"dropout": 1.0}, r"\[0, 1\)"),
        ({"widht": 3}, "did you mean 'widths'"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ModelConfig.preset("tiny", **settings)


def test_spectrum_of_the_lifted_residual_has_the_blocks_modes(build, batch):
    model = build()
    x_sigma, _, x_obs, mask = noisy(batch, 1.0)
    levels, _ = model.residual_levels(x_sigma, x_obs, mask)

    shapes = [
        lift(r).shape for lift, r in zip(model.backbone.lifts, levels, strict=True)
    ]

    expected = [analyse(torch.zeros(10, w, 8, 8), (k, k)).shape for w, k in ((16, 3),)]
    assert shapes[1] == expected[0]
