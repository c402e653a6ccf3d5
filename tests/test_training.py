"""Training: that it learns, its settings, its data and its guards."""

import itertools
from dataclasses import asdict, replace

import pytest
import torch

from prisma_lib import budgets, checkpoints, data, feeds, journal, pdes, train
from prisma_lib.errors import DataError, NumericsError
from prisma_lib.tasks import TASKS
from prisma_lib.training import TrainConfig, averaged, loop, start

CPU = torch.device("cpu")


@pytest.fixture
def config():
    return TrainConfig(size=16, preset="tiny", images=24 * 8, batch=8, warmup=64)


def test_loss_falls_below_that_of_an_untrained_network():
    config = TrainConfig(size=16, preset="tiny", images=60 * 16, batch=16, warmup=128)
    losses = [state.loss for state in loop(start(config, CPU))]

    assert sum(losses[-20:]) < 0.8 * sum(losses[:20])


def test_the_smallest_grid_can_be_trained_on():
    config = TrainConfig(size=8, preset="tiny", images=16, batch=8)

    assert all(state.loss < 10 for state in loop(start(config, CPU)))


def test_the_average_is_the_moving_average_of_the_weights(config):
    # Half-life: 40 images, at first a twentieth of those seen.
    state = start(replace(config, ema_half_life=40), CPU)
    name = "backbone.lifting.weight"
    wanted = state.model.get_parameter(name).detach().clone()
    for _ in averaged(loop(state)):
        keep = 0.5 ** (8 / min(40, 0.05 * state.images))
        wanted = keep * wanted + (1 - keep) * state.model.get_parameter(name).detach()

    assert not torch.equal(wanted, state.model.get_parameter(name))
    torch.testing.assert_close(state.average.get_parameter(name).data, wanted)


def test_learning_rate_rises_then_falls_to_zero(config):
    rates = [state.learning_rate for state in loop(start(config, CPU))]

    peak = rates.index(max(rates))
    assert rates[0] < rates[peak]
    assert 0 < peak < 12
    assert rates[-1] < 0.02 * config.learning_rate


def test_a_finished_run_is_a_model_that_loads(config, tmp_path):
    state = train.begin(config, tmp_path / "run")
    *_, state = train.run(state, tmp_path / "run")

    folder = train.finish(state, tmp_path / "model")

    model = checkpoints.load(folder, pde="darcy")
    card = checkpoints.read_card(folder)
    assert model.pde.size == 16
    assert card["training"]["images_seen"] == 192
    assert card["provenance"]["commit"]


def test_the_log_sums_up_the_steps(config, tmp_path):
    state = train.begin(config, tmp_path)
    losses, tasks, norms = [], [], []
    for _ in journal.logged(loop(state), tmp_path, 0.0, every=12):
        losses.append(state.loss)
        norms.append(state.gradient_norm)
        tasks += [TASKS[task] for task in state.draws.tasks]

    first, second = journal.read(tmp_path)

    assert [first["step"], second["images"]] == [12, 192]
    assert first["loss"] == pytest.approx(sum(losses[:12]) / 12)
    assert second["gradient_norm"] == pytest.approx(sum(norms[12:]) / 12)
    assert set(first["loss_by_task"]) == set(tasks[:96])
    assert second["learning_rate"] == state.learning_rate
    # Noise levels have mean 1 and a factor of five either way: three decades at least.
    assert {"0.1", "1"} < set(first["loss_by_sigma"])


def poisoned(state, site):
    """Makes one number of a run infinite or NaN."""
    model = state.model
    if site == "weight":
        model.get_parameter("backbone.narrow.0.bias").data[1] = torch.nan
    if site == "activation":
        model.backbone.narrow[0].register_forward_hook(
            lambda _module, _inputs, output: output.index_fill(
                0, torch.tensor([5]), torch.inf
            )
        )
    if site == "gradient":
        model.get_parameter("backbone.narrow.0.bias").register_hook(
            lambda gradient: gradient * torch.nan
        )
    if site == "residual":
        residual = model.residual
        model.residual = lambda *args: residual(*args).index_fill(
            0, torch.tensor([2]), torch.inf
        )


@pytest.mark.parametrize(
    ("site", "named", "image"),
    [
        ("weight", "weight backbone.narrow.0.bias", 24),
        ("activation", r"output of backbone.narrow.0", 29),
        ("residual", "residual", 26),
        ("gradient", "gradient of backbone.narrow.0.bias", None),
    ],
)
def test_a_number_that_is_not_finite_stops_the_step_and_is_named(
    config, tmp_path, site, named, image
):
    state = train.begin(config, tmp_path)
    states = train.run(state, tmp_path, checkpoint_every=0.0)
    for state in states:
        if state.step == 3:
            break
    average = {k: v.clone() for k, v in state.average.state_dict().items()}
    poisoned(state, site)

    match = rf"step 3: {named} is not finite.* image {image or ''}.*task.*sigma"
    with pytest.raises(NumericsError, match=match):
        next(states)

    for key, value in state.average.state_dict().items():
        assert torch.equal(value, average[key])
    again = train.begin(config, tmp_path)
    assert again.step == 3
    assert next(train.run(again, tmp_path)).step == 4


@pytest.mark.parametrize("shard", [36, 20], ids=["file", "folder"])
def test_data_are_trained_on_in_a_new_order_every_epoch(config, tmp_path, shard):
    pde = pdes.load("darcy", size=16)
    path = data.make(tmp_path / "train", pde, 36, shard=shard, shown=False)
    state = start(replace(config, data=str(path)), CPU)
    found = data.load(path)

    problems = [list(state.problems) for state in loop(state)]

    epochs = [[*itertools.chain(*problems[k : k + 4])] for k in range(0, 24, 4)]
    assert all(len(set(epoch)) == 32 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 6
    assert set().union(*epochs) == set(range(36))
    assert state.model.statistics == found.statistics
    assert len(state.source.sha256) == 64
    pairs = feeds.batches(state.config, state.source, state.model, 7)
    numbers, x = next(pairs)
    wanted = state.model.normalise(torch.cat([found.a, found.u], 1)[numbers])
    torch.testing.assert_close(x, wanted, rtol=0, atol=0)


def test_stored_problems_are_the_first_of_the_stream_each_once_an_epoch(config):
    state = start(replace(config, stored=40), CPU)
    problems = [list(state.problems) for state in loop(state)]

    epochs = [sorted(itertools.chain(*problems[k : k + 5])) for k in range(0, 20, 5)]
    assert epochs == [list(range(40))] * 4
    assert problems[:5] != problems[5:10]
    a, _ = data.problems(state.model.pde, 40, "train", config.seed)
    assert torch.equal(state.source.stored[0], a)


def test_data_that_cannot_be_trained_on_are_refused(config, tmp_path):
    pde = pdes.load("darcy", size=16)
    few = data.make(tmp_path / "few.h5", pde, 7, shown=False)
    test = data.make(tmp_path / "test.h5", pde, 8, split="test", shown=False)
    other = data.make(tmp_path / "o.h5", pdes.load("poisson", size=16), 8, shown=False)

    for path, message in (
        (few, "7 problems, less than one batch of 8"),
        (test, "holds test problems"),
        (other, "poisson"),
        (tmp_path / "none.h5", "there is no file"),
    ):
        with pytest.raises(DataError, match=message):
            start(replace(config, data=str(path)), CPU)


def test_data_of_another_scale_are_refused(config):
    state = start(config, CPU)
    state.model.std *= 1.3

    with pytest.raises(DataError, match=r"standard deviation of 0\.38"):
        next(loop(state))


def test_a_time_budget_fixes_the_number_of_images_once(config, tmp_path):
    config = replace(config, minutes=0.05)

    state = train.begin(config, tmp_path)
    images = state.config.images
    again = train.begin(replace(config, minutes=3.0), tmp_path)

    assert images % config.batch == 0
    assert state.step == 0
    # Three seconds: a budget of an hour would have a thousand times more.
    assert 8 <= images < 100_000
    assert again.config.images == images
    settings = asdict(again.config)
    assert settings["minutes"] == 3.0


def test_measuring_the_speed_leaves_no_trace(config):
    state = start(replace(config, minutes=0.01), CPU)
    before = {k: v.clone() for k, v in state.model.state_dict().items()}

    budgets.fitted(state)

    assert all(torch.equal(v, before[k]) for k, v in state.model.state_dict().items())
    assert not state.optimiser.tensors()
    assert state.config.images == config.images


def test_the_command_trains_a_plan_once(plan, root, capsys):
    path = plan("base: {size: 16, preset: tiny, images: 64, batch: 8, warmup: 8}\n")
    scales = root / "params" / "scales" / "smoke.yaml"
    scales.write_text("size: 16\n")
    arguments = [str(path), "--scale", "smoke", "--device", "cpu", "--out", "run"]

    assert train.main(arguments) == 0
    assert train.main(arguments) == 2

    said = capsys.readouterr()
    assert "0 of 8 steps done" in said.out
    assert "give another --model, or delete it" in said.err
    assert checkpoints.read_card("run/model")["training"]["images_seen"] == 64


def test_a_place_that_takes_no_model_is_noticed_before_the_training(plan, root, capsys):
    path = plan("base: {size: 16, preset: tiny, images: 64, batch: 8, warmup: 8}\n")
    (root / "params" / "scales" / "smoke.yaml").write_text("size: 16\n")
    (root / "taken").write_text("no folder")
    command = [str(path), "--scale", "smoke", "--device", "cpu", "--out", "run"]

    assert train.main([*command, "--model", str(root / "taken")]) == 4

    assert "cannot write" in capsys.readouterr().err
    assert not (root / "run").exists()
