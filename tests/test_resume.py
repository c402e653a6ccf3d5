"""A run that was killed goes on as if nothing had happened, or says why it cannot."""

import hashlib
import json
import multiprocessing
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from prisma_lib import data, generations, journal, manifests, pdes, resume, train
from prisma_lib.errors import CheckpointError
from prisma_lib.training import TrainConfig

STEPS = 20
CONFIG = TrainConfig(size=16, preset="tiny", images=STEPS * 8, batch=8, warmup=64)
# Forks from a process that has loaded the library and does nothing else.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["prisma_lib.train"])


def draws_of(state):
    """What a step saw, in numbers that can be compared."""
    draws = state.draws
    mask = hashlib.sha256(draws.mask.numpy().tobytes()).hexdigest()
    noise = hashlib.sha256(draws.noise.numpy().tobytes()).hexdigest()
    return {
        "step": state.step,
        "problems": list(state.problems),
        "tasks": draws.tasks.tolist(),
        "sigma": draws.sigma.tolist(),
        "mask": mask,
        "noise": noise,
        "losses": list(state.losses),
        "learning_rate": state.learning_rate,
    }


def train_and_tell(config, folder, pipe):
    """Trains until killed, with a checkpoint after every third step."""
    torch.set_num_threads(1)
    begun = train.begin(config, folder)
    for state in train.run(begun, folder, checkpoint_every=1e9):
        if state.step % 3 == 0:
            resume.save(folder, state)
        pipe.send(draws_of(state))
    pipe.send({k: v.numpy() for k, v in resume.tensors(state).items()})
    pipe.close()


def trained(config, folder, cut=None):
    """Trains in a process of its own, which is killed after step `cut`."""
    reader, writer = SERVER.Pipe(duplex=False)
    arguments = (config, folder, writer)
    process = SERVER.Process(target=train_and_tell, args=arguments, daemon=True)
    process.start()
    writer.close()
    told = []
    while True:
        try:
            told.append(reader.recv())
        except EOFError:
            break
        if told[-1].get("step") == cut:
            process.kill()
            break
    process.join()
    reader.close()
    return told


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The uninterrupted run of some settings."""
    runs = {}

    def run(config):
        key = json.dumps(vars(config))
        if key not in runs:
            *steps, end = trained(config, tmp_path_factory.mktemp("run") / "straight")
            runs[key] = steps, end
        return runs[key]

    return run


CUTS = [(10, {}), (8, {"dropout": 0.3})]
MORE = [(cut, {}) for cut in random.Random(0).sample(range(1, STEPS), 10)]


@pytest.mark.parametrize(
    ("cut", "model"), [*CUTS, *(pytest.param(*m, marks=pytest.mark.slow) for m in MORE)]
)
def test_a_killed_run_ends_bitwise_as_one_that_was_not(straight, tmp_path, cut, model):
    config = replace(CONFIG, model=model)
    steps, end = straight(config)

    before = trained(config, tmp_path, cut)
    *after, last = trained(config, tmp_path)

    begin = after[0]["step"]
    assert begin <= cut + 1
    assert before[: begin - 1] + after == steps
    assert len(steps) == STEPS
    assert last.keys() == end.keys()
    assert all(np.array_equal(last[name], end[name]) for name in end)
    rows = [row["step"] for row in journal.read(tmp_path)]
    assert rows == [STEPS]


def test_dropout_draws_other_features_in_each_step_and_changes_the_run(straight):
    (plain, _), (dropped, _) = (
        straight(replace(CONFIG, model=m)) for m in ({}, {"dropout": 0.3})
    )

    assert plain[0]["losses"] == dropped[0]["losses"]  # the untrained output is zero
    assert plain[5]["losses"] != dropped[5]["losses"]
    assert plain[5]["mask"] == dropped[5]["mask"]


@pytest.mark.parametrize(
    "changes",
    [{"data": "train.h5"}, {"stored": 24}, {"optimiser": "muon"}],
    ids=["file", "stored", "muon"],
)
def test_cuts_in_and_between_epochs_change_nothing(changes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "data" in changes:
        data.make("train.h5", pdes.load("darcy", size=16), 28, shown=False)
    config = replace(CONFIG, images=40, **changes)

    def finished(name, cuts):
        for stop in [*cuts, None]:
            begun = train.begin(config, tmp_path / name)
            for state in train.run(begun, tmp_path / name, checkpoint_every=0.0):
                if state.step == stop:
                    break
        return resume.tensors(state)

    whole, parts = finished("whole", []), finished("parts", [2, 3])

    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun") / "run"
    begun = train.begin(CONFIG, folder)
    for state in train.run(begun, folder, checkpoint_every=0.0):
        if state.step == 3:
            break
    return folder


@pytest.fixture
def run(three_steps, tmp_path):
    """A run that has done three steps."""
    return shutil.copytree(three_steps, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"learning_rate": 1e-3}, r"learning_rate: 0.004 -> 0.001"),
        ({"batch": 4}, r"batch: 8 -> 4"),
        ({"images": 800}, r"images: 160 -> 800"),
        ({"preset": "small"}, r"model.widths: \[12, 16, 24\] -> \[32, 48, 64\]"),
        ({"model": {"modes": [4, 2, 1]}}, r"model.modes: \[4, 3, 1\] -> \[4, 2, 1\]"),
        ({"pde": "poisson"}, r"pde.equation: "),
        ({"pde": "helmholtz", "options": {"k": 2.0}}, r"pde.k: 'nothing' -> 2.0"),
        ({"seed": 1}, r"data.mean: "),
        ({"stored": 80}, r"stored: 0 -> 80"),
    ],
)
def test_resume_with_other_settings_is_refused_with_the_differences(run, changes, line):
    before = {path.name: path.read_bytes() for path in run.iterdir()}

    match = rf"(?s)other settings:.*{line}.*Only these may change: name, minutes"
    with pytest.raises(CheckpointError, match=match):
        train.begin(replace(CONFIG, **changes), run)

    assert before == {path.name: path.read_bytes() for path in run.iterdir()}


def test_a_run_of_a_version_that_knew_fewer_settings_goes_on(tmp_path, monkeypatch):
    known = resume.settings
    with monkeypatch.context() as older:
        later = ("noise_maps", "layouts", "model.gate_input")
        older.setattr(
            resume,
            "settings",
            lambda state: {k: v for k, v in known(state).items() if k not in later},
        )
        train.begin(CONFIG, tmp_path)

    assert train.begin(CONFIG, tmp_path).step == 0
    with pytest.raises(CheckpointError, match=r"noise_maps: 0.0 -> 0.5"):
        train.begin(replace(CONFIG, noise_max=1.0, noise_maps=0.5), tmp_path)


def test_name_time_budget_and_interval_may_change(run):
    state = train.begin(replace(CONFIG, name="other", minutes=3.0), run)

    assert state.step == 3
    assert state.config.images == CONFIG.images
    assert next(train.run(state, run, checkpoint_every=5.0)).step == 4


def test_resume_with_a_data_file_that_was_made_again_is_refused(tmp_path):
    pde, path = pdes.load("darcy", size=16), tmp_path / "train.h5"
    data.make(path, pde, 24, shown=False)
    config = replace(CONFIG, data=str(path))
    train.begin(config, tmp_path / "run")
    moved = shutil.copy(path, tmp_path / "moved.h5")
    train.begin(replace(config, data=str(moved)), tmp_path / "run")

    data.make(path, pde, 24, start=24, overwrite=True, shown=False)

    with pytest.raises(CheckpointError, match=r"data.sha256: '\w{64}' -> '\w{64}'"):
        train.begin(config, tmp_path / "run")


def test_resume_with_a_part_of_the_data_that_differs_names_the_part(tmp_path):
    pde, path = pdes.load("darcy", size=16), tmp_path / "train"
    data.make(path, pde, 20, shard=10, shown=False)
    config = replace(CONFIG, data=str(path))
    train.begin(config, tmp_path / "run")
    parts = [part.name for part in manifests.read(path)[1]]

    data.make(path, pde, 25, shard=10, overwrite=True, shown=False)
    more = [part.name for part in manifests.read(path)[1]]

    with pytest.raises(CheckpointError) as refused:
        train.begin(config, tmp_path / "run")
    said = str(refused.value)
    assert [name for name in more if f"data.{name}: 'nothing' -> " in said] == more[2:]
    assert not any(f"data.{name}:" in said for name in parts)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("average.backbone.norm.weight", None, r"average: .* missing"),
        ("model.backbone.norm.weight", None, r"model: .* missing"),
        ("model.new", torch.ones(2), r"model: .* unexpected \['new'\]"),
        ("model.backbone.norm.weight", torch.ones(3), r"has shape \(3,\)"),
        ("model.backbone.norm.weight", torch.ones(12).double(), "float64"),
        ("model.backbone.norm.weight", torch.ones(12) + 0j, "complex64"),
        ("optimiser.0.0.exp_avg", None, "optimiser"),
    ],
)
def test_a_checkpoint_that_lacks_or_twists_a_tensor_is_refused(
    run, name, change, message
):
    card, tensors = generations.load(run)
    if change is None:
        del tensors[name]
    else:
        tensors[name] = change
    generations.save(run, 3, tensors, {k: card[k] for k in ("settings", "seconds")})

    with pytest.raises(CheckpointError, match=message):
        train.begin(CONFIG, run)


def test_the_log_forgets_what_is_damaged_and_the_steps_that_are_done_again(run):
    with (run / journal.LOG).open("wb") as log:
        log.write(b'{"step": 1}\n\xff\xfe\n[1, 2]\n{"loss": 1.0}\n{"step": "2"}\n')
        log.writelines(b'{"step": %d}\n' % step for step in (3, 4, 5))
        log.write(b'{"step": 6, "lo')

    train.begin(CONFIG, run)

    assert [row["step"] for row in journal.read(run)] == [1, 3]
