"""What TensorBoard shows of a training, read with its own reader."""

import sys

import pytest

from prisma_lib import boards, journal, train
from prisma_lib.errors import ConfigError
from prisma_lib.training import TrainConfig

CONFIG = TrainConfig(size=16, preset="tiny", images=12 * 8, batch=8, warmup=24)


def curves(folder):
    """Name -> steps and values, as TensorBoard reads them."""
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = reader.EventAccumulator(str(folder)).Reload()
    found = {name: events.Scalars(name) for name in events.Tags()["scalars"]}
    return {n: ([e.step for e in e_], [e.value for e in e_]) for n, e_ in found.items()}


def test_curves_are_those_of_the_log_also_after_a_cut(tmp_path):
    pytest.importorskip("tensorboard")
    for stop in (8, None):  # saved last after step 7: the eighth is done again
        state = train.begin(CONFIG, tmp_path)
        before = state.seconds
        every = 0.0 if stop is None else 1e9
        states = train.run(state, tmp_path, checkpoint_every=every, log_every=4)
        for _ in boards.written(states, tmp_path / boards.FOLDER, before, every=4):
            if state.step == stop:
                break

    rows, found = journal.read(tmp_path), curves(tmp_path / boards.FOLDER)

    assert set(found) == set(boards.SHOWN)
    for name in boards.SHOWN:
        steps, values = found[name]
        assert steps == [4, 8, 12] == [row["step"] for row in rows]
        assert values == pytest.approx([row[name] for row in rows], rel=1e-3)


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)

    with pytest.raises(ConfigError, match=r"prisma-lib\[tensorboard\]") as bad:
        next(boards.written(iter([]), tmp_path))

    assert bad.value.exit_code == 4


def test_the_command_writes_them_when_asked(plan, root):
    pytest.importorskip("tensorboard")
    (root / "params" / "scales" / "smoke.yaml").write_text("size: 16\n")
    path = plan("base: {size: 16, preset: tiny, images: 32, batch: 8}\n")
    words = [str(path), "--scale", "smoke", "--device", "cpu", "--out", "run"]

    assert train.main([*words, "--tensorboard"]) == 0

    assert curves(root / "run" / boards.FOLDER)["loss"][0] == [4]
