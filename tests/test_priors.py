"""The networks of the guided baselines: size, noise, training, memory."""

import pytest
import torch
from priors import BOTH, covariance_of_noise, exact, network

from prisma_lib import baselines, checkpoints, data, pdes
from prisma_lib.baselines.diffusionpde import DiffusionPDE, UNetConfig
from prisma_lib.baselines.fundps import FunDPS, OperatorConfig
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.embed import LocalConv
from prisma_lib.observe import observation
from prisma_lib.pdes.base import Statistics
from prisma_lib.training import TrainConfig, averaged, loop, start

STATISTICS = Statistics((7.5, 0.006), (4.5, 0.004), 1e-3)


@pytest.fixture(scope="module")
def pde():
    return pdes.load("darcy", size=16)


def size_of(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("preset", "points"), [("small", 32), ("base", 64)])
def test_a_prior_has_the_size_of_prisma_within_a_quarter(kind, preset, points):
    darcy = pdes.load("darcy", size=points)
    prisma = size_of(Prisma(darcy, ModelConfig.preset(preset), STATISTICS))

    prior = size_of(kind(darcy, kind.settings.preset(preset), STATISTICS))

    assert 0.75 * prisma < prior < 1.25 * prisma


@pytest.mark.parametrize("kind", BOTH)
def test_a_prior_does_not_see_the_mask(kind, pde):
    model = network(kind, pde, STATISTICS)
    x, noise = torch.randn(2, 4, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    sigma = torch.tensor([0.01, 0.1, 1.0, 10.0])

    none, every = (
        model.errors(x, sigma, noise, x * mask, mask)
        for mask in (torch.zeros_like(x), torch.ones_like(x))
    )

    assert torch.equal(none, every)
    assert none[0] < none[3]  # hardly any noise leaves hardly any error


def test_the_noise_of_diffusionpde_is_white_and_that_of_fundps_nearly(pde):
    white = covariance_of_noise(network(DiffusionPDE, pde, STATISTICS))
    coloured = covariance_of_noise(network(FunDPS, pde, STATISTICS))

    assert (white - torch.eye(len(white))).abs().max() < 1e-12
    neighbours = coloured[0, 1].item()
    # exp(-d / (2 s^2)) with s = 0.05 and d = 1 / 15
    assert neighbours == pytest.approx(1.6e-6, rel=0.05)


@pytest.mark.parametrize("kind", BOTH)
def test_a_prior_trains_with_the_engine_and_comes_back(kind, tmp_path):
    config = TrainConfig(
        method=kind.method,
        pde="poisson",
        size=8,
        preset="tiny",
        batch=16,
        images=640,
        warmup=0,
    )
    state = start(config, torch.device("cpu"))

    losses = [state.loss for state in averaged(loop(state))]

    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    checkpoints.save(tmp_path, state.average, dtype=torch.float32)
    loaded = checkpoints.load_any(tmp_path)
    assert type(loaded) is kind
    assert baselines.title(loaded.method) == kind.title
    x, sigma = torch.randn(2, 2, 8, 8), torch.tensor([0.3, 3.0])
    assert torch.equal(loaded(x, sigma), state.average(x, sigma))


def test_an_operator_that_is_not_local_has_no_3_x_3_convolution(pde):
    model = network(FunDPS, pde, STATISTICS, local=False)

    assert not [m for m in model.modules() if isinstance(m, LocalConv)]
    assert [
        m for m in network(FunDPS, pde, STATISTICS).modules() if type(m) is LocalConv
    ]


def test_an_operator_that_is_not_local_mixes_points_by_modes_alone(pde):
    config = OperatorConfig.preset("tiny", local=False, modes=(0, 0, 0))
    torch.manual_seed(0)
    model = FunDPS(pde, config, STATISTICS).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.05)
    for level in (model.backbone.narrow[0], model.backbone.attend.out):
        torch.nn.init.zeros_(level.weight)  # neither coarser levels nor skips
    sigma = torch.ones(1)
    x = torch.randn(1, 2, 16, 16)
    moved = x.clone()
    moved[..., 3, 4] += 1

    change = (model(moved, sigma) - model(x, sigma)).abs().amax(1)[0]

    # The group norm's mean and variance reach every point, but only faintly.
    assert change[3, 4] > 30 * change[3, 5]


@pytest.mark.parametrize("kind", BOTH)
def test_a_guided_step_keeps_less_than_the_estimate(kind):
    darcy = pdes.load("darcy", size=32)
    model = kind(darcy, kind.settings.preset("small"), STATISTICS)
    model.requires_grad_(False)
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    x = torch.randn(2, 2, 32, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        denoised = model(model(x, torch.ones(2)) + x, torch.ones(2))
    per_draw = sum(t.untyped_storage().nbytes() for t in kept.values()) / 2

    assert denoised.requires_grad
    assert 0.5 * model.per_draw((32, 32)) < per_draw < model.per_draw((32, 32))


@pytest.mark.parametrize("kind", BOTH)
def test_a_prior_runs_on_grids_that_can_be_pooled(kind, pde):
    model = network(kind, pde, STATISTICS)

    assert model(torch.randn(1, 2, 24, 24), torch.ones(1)).shape == (1, 2, 24, 24)
    with pytest.raises(ShapeError, match="18 x 18"):
        model(torch.randn(1, 2, 18, 18), torch.ones(1))
    with pytest.raises(ShapeError, match="16 x 24"):
        model(torch.randn(1, 2, 16, 24), torch.ones(1))


def test_frames_and_periodic_axes_are_channels_and_wrapping(quick):
    flow = quick("navier_stokes", 16, frames=3)
    model = network(DiffusionPDE, flow, Statistics((0.0, 0.0), (0.3, 0.3), 1e-3))
    x, sigma = torch.randn(1, 4, 16, 16), torch.ones(1)

    rolled = model(x.roll((4, 8), (2, 3)), sigma)

    # Shifts of whole coarsest cells: nothing knows where the grid begins.
    assert torch.allclose(rolled, model(x, sigma).roll((4, 8), (2, 3)), atol=1e-5)


@pytest.mark.parametrize("kind", BOTH)
def test_swapped_fields_are_warned_of(kind, pde):
    model = network(kind, pde, STATISTICS)
    _, u = data.problems(pde, 1)

    with pytest.warns(UserWarning, match="observed values of a"):
        model.condition(observation(pde, a=1e6 * u))


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (UNetConfig, {"widths": (40, 64)}, "one value per level"),
        (UNetConfig, {"widths": (40, 60, 80)}, "multiples of 8"),
        (UNetConfig, {"dropout": 1.0}, "dropout"),
        (OperatorConfig, {"modes": (8, 6)}, "one value per level"),
        (OperatorConfig, {"groups": 5}, "groups=5 does not divide"),
        (OperatorConfig, {"dropout": -0.1}, "dropout"),
    ],
)
def test_settings_that_make_no_network_are_refused(config, settings, message):
    with pytest.raises(ConfigError, match=message):
        config(**settings)


@pytest.mark.parametrize("kind", BOTH)
def test_the_exact_prior_of_these_tests_is_the_best_denoiser(kind):
    poisson = pdes.load("poisson", size=8)
    model, covariance = exact(kind, poisson)
    chance = torch.Generator().manual_seed(0)
    factor = torch.linalg.eigh(covariance)
    root = factor.eigenvectors * factor.eigenvalues.clamp(min=0).sqrt()
    x = (torch.randn(512, 128, generator=chance, dtype=torch.float64) @ root.T).float()
    noise = model.noise.sample(512, 2, chance)
    sigma = torch.full((512,), 0.5)

    nothing = torch.zeros(512, 2, 8, 8)
    error = model.errors(x.view(-1, 2, 8, 8), sigma, noise, nothing, nothing)

    total = covariance + 0.25 * covariance_of_noise(model)
    left = covariance - covariance @ torch.linalg.solve(total, covariance)
    assert error.mean().item() == pytest.approx(left.trace().item() / 128, rel=0.05)
