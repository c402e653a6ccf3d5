"""Training: exact resume, guards, and that it learns."""

import pytest
import torch

from prisma_lib import checkpoints, data, pdes, train
from prisma_lib.errors import CheckpointError, ConfigError, NumericsError
from prisma_lib.fields import GRFNoise
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.training import TrainConfig, batch_loss, loop, start

CPU = torch.device("cpu")


@pytest.fixture
def config():
    return TrainConfig(size=16, preset="tiny", images=24 * 8, batch=8, warmup=64)


def run_until(config, folder, stop=None):
    state = None
    for state in train.run(config, folder, checkpoint_every=0.0):
        if state.step == stop:
            break
    return state


def test_a_run_that_was_cut_ends_bitwise_as_one_that_was_not(config, tmp_path):
    straight = run_until(config, tmp_path / "straight")
    for stop in (5, 6, 16):
        run_until(config, tmp_path / "cut", stop)
    resumed = run_until(config, tmp_path / "cut")

    assert resumed.step == straight.step == 24
    for part in ("model", "average", "optimiser"):
        one, other = (getattr(s, part).state_dict() for s in (straight, resumed))
        assert_same(one, other)


def assert_same(one, other):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one == other


def test_resume_with_other_settings_is_refused_with_the_difference(config, tmp_path):
    run_until(config, tmp_path, 3)
    changed = TrainConfig(**{**vars(config), "learning_rate": 1e-3})

    with pytest.raises(CheckpointError, match=r"learning_rate: 0.002 -> 0.001"):
        run_until(changed, tmp_path)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04damaged"])
def test_a_damaged_checkpoint_is_refused(config, tmp_path, content):
    (tmp_path / "state.pt").write_bytes(content)

    with pytest.raises(CheckpointError, match="corrupt"):
        run_until(config, tmp_path)


def test_a_non_finite_loss_stops_the_step_and_keeps_the_weights(config):
    state = start(config, CPU)
    torch.nn.init.constant_(state.model.backbone.project.bias, torch.inf)
    before = {k: v.clone() for k, v in state.average.state_dict().items()}

    with pytest.raises(NumericsError, match="step 0"):
        next(loop(config, state))

    assert_same(before, dict(state.average.state_dict()))


def test_loss_falls_below_that_of_an_untrained_network():
    config = TrainConfig(size=16, preset="tiny", images=100 * 16, batch=16)
    losses = [state.loss for state in loop(config, start(config, CPU))]

    assert sum(losses[-20:]) < 0.8 * sum(losses[:20])


def test_the_average_follows_the_weights(config):
    *_, state = loop(config, start(config, CPU))

    pairs = zip(
        state.average.module.parameters(), state.model.parameters(), strict=True
    )
    distance = sum((p - q).square().sum() for p, q in pairs).sqrt()
    size = sum(p.square().sum() for p in state.model.parameters()).sqrt()
    assert 0 < distance < 0.2 * size


def test_learning_rate_rises_then_falls_to_zero(config):
    rates = [state.learning_rate for state in loop(config, start(config, CPU))]

    peak = rates.index(max(rates))
    assert rates[0] < rates[peak]
    assert 0 < peak < 12
    assert rates[-1] < 0.02 * config.learning_rate


def test_a_finished_run_is_a_model_that_loads(config, tmp_path):
    state = run_until(config, tmp_path / "run")

    folder = train.finish(config, state, tmp_path / "model")

    model = checkpoints.load(folder, pde="darcy")
    card = checkpoints.read_card(folder)
    assert model.pde.size == 16
    assert card["training"]["images_seen"] == 192
    assert card["provenance"]["commit"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"imgs": 3}, "did you mean 'images'"),
        ({"images": 0}, "images=0 must be positive"),
        ({"images": 3, "batch": 8}, "less than one batch"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be positive"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(settings)


def test_training_sees_whole_columns_where_sensors_stand_at_columns():
    pde = pdes.load("burgers", size=16)
    model = Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=16))
    config, seen = TrainConfig(pde="burgers", size=16, preset="tiny"), []
    model.register_forward_pre_hook(lambda _, given: seen.append(given[3]))

    for step in range(4):
        batch_loss(config, model, GRFNoise(pde.grid), torch.zeros(32, 2, 16, 16), step)

    mask = torch.cat(seen)
    share = mask.mean((2, 3))
    assert ((share > 0) & (share < 1)).sum() > 20
    assert torch.equal(mask, mask[..., :1, :].expand_as(mask))
