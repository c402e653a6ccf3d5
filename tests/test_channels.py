"""Fields of several channels, all the way: Navier-Stokes with three frames."""

from dataclasses import replace

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from prisma_lib import checkpoints, data, evaluate, pdes, solve
from prisma_lib.anchors import MeanField, NumericalSolver
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.observe import add_noise, observation, observe
from prisma_lib.pdes.navier_stokes import NavierStokes
from prisma_lib.posterior import gaussian_posterior
from prisma_lib.training import TrainConfig, loop, start

SIZE = 16


def rms(field):
    return field.double().square().mean().sqrt().item()


@pytest.fixture(scope="module")
def pde():
    return pdes.load("navier_stokes", size=SIZE, frames=3)


@pytest.fixture(scope="module")
def pair(pde):
    return data.problems(pde, 3, split="test")


def untrained(pde, **settings):
    """A model whose output layer is not zero."""
    torch.manual_seed(0)
    config = ModelConfig.preset("tiny", **settings)
    model = Prisma(pde, config, data.statistics(pde, num=20)).eval()
    torch.nn.init.normal_(model.backbone.project.weight, std=0.05)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def model(pde):
    return untrained(pde)


def test_a_sensor_measures_every_frame(pair):
    seen = observe("sparse_inverse", *pair, rate=0.2, key=3, index=range(3))

    assert seen.mask_u.shape == pair[1].shape
    assert torch.equal(seen.mask_u, seen.mask_u[:, :1].expand(-1, 3, -1, -1))
    assert not torch.equal(seen.mask_u[0], seen.mask_u[1])
    assert 0 < seen.mask_u.mean() < 0.4
    assert not seen.mask_a.any()
    one = observe("sparse_inverse", pair[0], pair[0], rate=0.2, key=3, index=range(3))
    assert torch.equal(seen.mask_u[:, :1], one.mask_u)


def test_sensor_noise_of_the_frames_is_independent(pair):
    seen = observe("full_inverse", *pair, index=range(3))

    noise = add_noise(seen, 1.0, 0.5, key=0, index=range(3)).u - seen.u

    assert noise.std(dim=(0, 2, 3)) == pytest.approx(0.5, rel=0.1)
    together = torch.corrcoef(noise.transpose(0, 1).flatten(1)) - torch.eye(3)
    assert together.abs().max() < 0.15


def test_frames_may_be_measured_at_different_points(pde, pair):
    u = pair[1].clone()
    u[:, 1] = torch.nan

    seen = observation(pde, u=u)

    assert seen.mask_u.mean(dim=(0, 2, 3)).tolist() == [1, 0, 1]
    assert seen.a.shape == seen.mask_a.shape == (3, 1, SIZE, SIZE)
    assert seen.x.shape == seen.mask.shape == (3, 4, SIZE, SIZE)


@pytest.mark.parametrize("shape", [(SIZE, SIZE), (2, 1, SIZE, SIZE), (3, SIZE, SIZE)])
def test_frames_that_are_missing_are_refused_naming_what_is_needed(pde, shape):
    with pytest.raises(ShapeError, match=r"exactly 3 channels|its batch axis"):
        observation(pde, u=torch.zeros(shape))
    if len(shape) != 3:
        observation(pde, a=torch.zeros(shape))


def test_a_mask_needs_all_frames(pde, pair):
    with pytest.raises(ShapeError, match=r"mask_u.*3 channels"):
        observation(pde, u=pair[1], mask_u=torch.ones(3, 1, SIZE, SIZE))


def test_statistics_and_normalisation_are_those_of_the_field(pde, model):
    a, u = data.problems(pde, 20, split="train")

    found = data.statistics(pde, num=20)

    for number, field in enumerate((a, u)):
        std, mean = torch.std_mean(field.double(), correction=0)
        assert found.std[number] == pytest.approx(std.item())
        assert found.mean[number] == pytest.approx(mean.item(), abs=1e-9)
    x = model.normalise(torch.cat([a, u], dim=1))
    assert x[:, 1:].std(correction=0).item() == pytest.approx(0.5, rel=1e-4)
    later = (u[:, 2] - found.mean[1]) * 0.5 / found.std[1]
    torch.testing.assert_close(x[:, 3], later)


@pytest.mark.parametrize("frame", [0, 1, 2])
@pytest.mark.parametrize("strategy", ["sra", "concat"])
def test_the_residual_of_every_frame_reaches_the_output(
    pde, pair, strategy, frame, monkeypatch
):
    model = untrained(pde, strategy=strategy)
    for block in [b for blocks in model.backbone.down for b in blocks]:
        torch.nn.init.normal_(block.out.weight, std=0.05)
    x = model.normalise(torch.cat(pair, dim=1))
    given = torch.ones(3), torch.zeros_like(x), torch.zeros_like(x)
    residual = NavierStokes.residual

    def shifted(self, a, u):
        # Neither the mean nor the rms changes, which the gates see.
        r = residual(self, a, u).clone()
        r[:, frame] = r[:, frame].roll(4, -1)
        return r

    before = model(x, *given)
    monkeypatch.setattr(NavierStokes, "residual", shifted)

    assert rms(model(x, *given) - before) > 1e-4 * rms(before)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 10.0])
def test_the_residual_of_all_frames_has_unit_rms(model, pair, sigma):
    x = model.normalise(torch.cat(pair, dim=1))
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros_like(x)

    levels, _ = model.residual_levels(x + sigma * noise, nothing, nothing)

    sizes = levels[0].square().mean((1, 2, 3)).sqrt()
    assert ((sizes > 0.7) & (sizes <= 1)).all()


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_a_solution_has_all_frames(model, pair, rate):
    mask = torch.rand(3, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    sensors = torch.where(mask < rate, pair[1], torch.nan)

    inverse = solve(model, u=sensors, steps=2, samples=2, seed=0)

    assert inverse.a.shape == (2, 3, 1, SIZE, SIZE)
    assert inverse.u.shape == (2, 3, 3, SIZE, SIZE)
    assert inverse.u.isfinite().all()
    assert inverse.residual().shape == (6, 3, SIZE, SIZE)
    split = solve(model, u=sensors, steps=2, samples=2, seed=0, max_batch=2)
    torch.testing.assert_close(split.u, inverse.u, rtol=1e-4, atol=1e-5)


def test_unconditional_draws_and_another_grid_have_all_frames(model):
    free = solve(model, steps=1, seed=0)
    finer = solve(model, a=torch.zeros(32, 32), steps=1, seed=0)

    assert free.u.shape == (1, 1, 3, SIZE, SIZE)
    assert finer.u.shape == (1, 1, 3, 32, 32)
    assert finer.pde.coefficients == model.pde.coefficients


def test_a_picture_shows_the_first_and_the_last_frame(model, pair):
    figure = solve(model, a=pair[0], steps=1, samples=2, seed=0).plot()

    labels = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()]
    assert labels == ["a", "u, channel 0", "u, channel 2"]
    plt.close(figure)


def test_training_shows_the_same_sensors_in_every_frame(pde, tmp_path):
    path = data.make(tmp_path / "frames.h5", pde, 24, shown=False)
    config = TrainConfig(
        data=str(path),
        pde="navier_stokes",
        size=SIZE,
        options={"frames": 3},
        preset="tiny",
        batch=8,
        images=24,
    )
    state = start(config, torch.device("cpu"))
    masks = []
    state.model.register_forward_pre_hook(lambda _, given: masks.append(given[3]))

    losses = [after.loss for after in loop(state)]

    assert np.isfinite(losses).all()
    assert len(masks) == 3
    for mask in masks:
        assert torch.equal(mask[:, 1:], mask[:, 1:2].expand(-1, 3, -1, -1))
    assert not torch.equal(masks[0], masks[1])


def test_a_saved_model_gives_the_same_frames(model, pair, tmp_path):
    checkpoints.save(tmp_path, model, dtype=torch.float32)

    loaded = checkpoints.load(tmp_path)

    assert loaded.pde.channels == (1, 3)
    draws = [solve(m, a=pair[0], steps=2, seed=0).u for m in (model, loaded)]
    assert torch.equal(*draws)


def test_a_file_gives_back_the_frames(pde, pair, tmp_path):
    path = data.make(tmp_path / "frames.h5", pde, 3, split="test", shown=False)

    loaded = data.load(path, pde)

    assert torch.equal(loaded.u, pair[1])
    assert data.verify(path).num == 3
    with h5py.File(path) as file:
        assert file["u"].shape == (3, 3, SIZE, SIZE)
        assert file["u"].chunks == (1, 3, SIZE, SIZE)
        assert file.attrs["coefficient.frames"] == 3
        assert file.attrs["channels"].tolist() == [1, 3]
    with pytest.raises(DataError, match=r"channels = \(1, 3\).*channels = \(1, 1\)"):
        data.load(path, pdes.load("navier_stokes", size=SIZE))


def test_a_file_without_its_last_frame_is_refused(pde, tmp_path):
    path = data.make(tmp_path / "frames.h5", pde, 2, shown=False)
    with h5py.File(path, "a") as file:
        u = file["u"][:, :2]
        del file["u"]
        file["u"] = u

    with pytest.raises(DataError, match=r"u \(2, 2, 16, 16\).*\(2, 3, 16, 16\)"):
        data.load(path)


def test_all_frames_are_judged(pde, pair):
    problems = evaluate.Benchmark(pde, *pair, data.statistics(pde, num=20), seed=0)
    solver = NumericalSolver(pde)

    rows = evaluate.evaluate(solver, problems, "forward", "full", method="solver")

    assert float(rows[0]["value"]) < 1e-4
    wrong = replace(problems, u=pair[1] * torch.tensor([1.0, 1.0, 2.0])[:, None, None])
    assert (evaluate.errors(wrong, "forward", *pair) > 20).all()
    seen = evaluate.observation_of(problems, "inverse", "noisy")
    mean = MeanField(pde, num=20).solve(seen, samples=2, generator=torch.Generator())
    assert mean[1].shape == (2, *pair[1].shape)


def test_there_is_no_exact_posterior_of_frames(pde, pair):
    with pytest.raises(ConfigError, match="closed form"):
        gaussian_posterior(pde, observe("full_forward", *pair, index=range(3)))
