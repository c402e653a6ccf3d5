"""Two processes train what one would, and none is left behind when one is lost."""

import contextlib
import itertools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from prisma_lib import checkpoints, generations, journal, parallel, train
from prisma_lib.errors import ConfigError, NumericsError, WorkerError
from prisma_lib.teams import team
from prisma_lib.training import TrainConfig, start

ROOT = Path(train.__file__).parents[1]
STEPS = 3
CONFIG = TrainConfig(
    **{"size": 16, "preset": "tiny", "images": STEPS * 8, "batch": 8, "warmup": 24},
    **{"optimiser": "adamw", "learning_rate": 2e-3},
)
RECIPES = {
    "adamw": CONFIG,
    "muon": replace(CONFIG, optimiser="muon"),
    "stored": replace(CONFIG, stored=12),
}
# How the command line of one that trains reads, not of what tracks shared memory.
TRAINS = r"multiprocessing.spawn|prisma_lib.train"
ENDLESS = replace(CONFIG, images=80_000)


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = {*multiprocessing.active_children()}
    yield
    assert {*multiprocessing.active_children()} <= before


def trained(folder):
    """Trains every recipe; this process's draws of all steps go to a file each."""
    for name, config in RECIPES.items():
        seen = {key: [] for key in ("problems", "tasks", "sigma", "mask", "noise")}
        state = train.begin(config, folder / name)
        for _ in train.run(state, folder / name, log_every=2):
            seen["problems"].append(torch.tensor(state.problems))
            for key in ("tasks", "sigma", "mask", "noise"):
                seen[key].append(getattr(state.draws, key))
        arrays = {key: torch.stack(steps).numpy() for key, steps in seen.items()}
        np.savez(folder / name / f"rank{parallel.rank()}.npz", **arrays)
        parallel.told(lambda: None)  # nobody goes on before all files are there


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of the runs of one process and of two."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    trained(one)
    with team(2, trained, two):
        trained(two)
    return one, two


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_move_the_weights_as_one_does(runs, name):
    (_, one), (_, two) = (generations.load(folder / name) for folder in runs)
    origin = start(RECIPES[name], torch.device("cpu")).model.state_dict()

    assert one.keys() == two.keys()
    for part, key in itertools.product(("model", "average"), origin):
        difference = two[f"{part}.{key}"] - one[f"{part}.{key}"]
        assert difference.abs().max() <= 1e-6, key
    far = [(one[f"model.{key}"] - origin[key]).abs().max() for key in origin]
    assert max(far) > 1e-3


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_see_the_halves_of_what_one_sees(runs, name):
    one, two = runs
    whole = np.load(one / name / "rank0.npz")
    halves = [np.load(two / name / f"rank{rank}.npz") for rank in (0, 1)]

    for key in whole:
        assert whole[key].shape[:2] == (STEPS, CONFIG.batch)
        joined = np.concatenate([half[key] for half in halves], 1)
        assert np.array_equal(joined, whole[key]), key


@pytest.mark.parametrize("name", RECIPES)
def test_the_log_of_two_processes_is_about_the_whole_batch(runs, name):
    one, two = (journal.read(folder / name) for folder in runs)

    assert [row["step"] for row in two] == [2, 3]
    for first, second in zip(one, two, strict=True):
        for key in ("seconds", "images_per_second"):
            del first[key], second[key]
        for key in ("loss_by_task", "loss_by_sigma"):
            assert second.pop(key) == pytest.approx(first.pop(key), rel=1e-5)
        assert second == pytest.approx(first, rel=1e-5)


def follow(config, folder, poisoned=False):
    """Is the second process of a run, perhaps with a bad image in step 2."""
    state = train.begin(config, folder)
    for _ in train.run(state, folder):
        if poisoned and state.step == 2:
            spoil(state)


def spoil(state):
    residual = state.model.residual
    state.model.residual = lambda *args: residual(*args).index_fill(
        0, torch.tensor([1]), torch.inf
    )


def test_a_bad_image_of_one_process_stops_all_in_that_step(tmp_path):
    threads = torch.get_num_threads()

    # The sixth image of the third step: the second of the second process.
    match = "step 2: residual is not finite.* image 21 .problem 21, task"
    with (
        pytest.raises(NumericsError, match=match),
        team(2, follow, ENDLESS, tmp_path, True),
    ):
        follow(ENDLESS, tmp_path)
    assert (parallel.size(), torch.get_num_threads()) == (1, threads)
    assert generations.load(tmp_path)[0]["step"] == 0


def test_a_time_budget_is_agreed_on_and_an_early_stop_ends_the_others(tmp_path):
    config = replace(CONFIG, minutes=0.5)

    with train.team(config, tmp_path, "cpu", 2):
        state = train.begin(config, tmp_path)
        for _ in train.run(state, tmp_path, checkpoint_every=0.0):
            if state.step == 5:
                break
    again = train.begin(config, tmp_path)
    assert again.step == 5
    assert again.config.images == state.config.images
    assert 40 < again.config.images < 1_000_000


def failing(_folder):
    raise ConfigError("no such thing")


def test_a_process_that_fails_is_quoted(tmp_path):
    match = r"process 1 failed: .*ConfigError: no such thing; the last checkpoint"
    with pytest.raises(WorkerError, match=match), team(2, failing, tmp_path):
        parallel.told(lambda: None)


@pytest.mark.parametrize(
    ("batch", "processes", "message"),
    [
        (9, 2, "batch=9 cannot .* 2 processes: give batch=8 or 10"),
        (2, 3, "give batch=3"),
        (8, 0, "processes=0: give a whole number of at least 1"),
    ],
)
def test_a_batch_that_cannot_be_shared_is_refused(tmp_path, batch, processes, message):
    config = replace(CONFIG, batch=batch)
    with pytest.raises(ConfigError, match=message):
        train.team(config, tmp_path, "cpu", processes)


@pytest.fixture
def command(plan, root):
    """Starts the training of a plan in a process, with words before and after it."""
    (root / "params" / "scales" / "smoke.yaml").write_text("size: 16\n")
    started = []

    def begin(*before, after=(), images=80000):
        path = plan(f"base: {{size: 16, preset: tiny, images: {images}, batch: 8}}\n")
        words = [*before, "-m", "prisma_lib.train", str(path), "--scale", "smoke"]
        words += ["--device", "cpu", "--out", "run", *after]
        library = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        environment = {**os.environ, **library}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(words, env=environment, **pipes))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def workers(process):
    """Numbers of the processes below one that train."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            words = (entry / "cmdline").read_text()
            if int(parent) == process.pid and re.search(TRAINS, words):
                found.append(int(entry.name))
    return found


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds processes in /proc"
)


@needs_proc
def test_the_loss_of_a_process_ends_the_run_with_its_last_step_saved(command, root):
    run = command(sys.executable, after=["--processes", "2"])
    wait_until(lambda: journal.read(root / "run") or run.poll())
    assert run.poll() is None, run.communicate()
    (worker,) = workers(run)

    os.kill(worker, signal.SIGKILL)
    _, said = run.communicate(timeout=60)

    assert run.returncode == 4
    assert re.search("^error: process 1 ended with SIGKILL.* go on from it$", said)
    assert not Path(f"/proc/{worker}").exists()
    config = train.read_plan(root / "params" / "tiny.yaml", "smoke")
    state = train.begin(config, root / "run")
    step = state.step
    assert step >= journal.EVERY
    assert next(train.run(state, root / "run")).step == step + 1


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_others_end_with_the_first_process(command, root, number, status):
    run = command(sys.executable, after=["--processes", "2"])
    wait_until(lambda: journal.read(root / "run") or run.poll(), 120)
    (worker,) = workers(run)

    if number == signal.SIGINT:  # as Ctrl-C does: to both
        os.kill(worker, number)
    os.kill(run.pid, number)
    _, said = run.communicate(timeout=60)

    assert run.returncode == status
    assert said == ("interrupted: the same command continues\n" if status > 0 else "")
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher", [TORCHRUN, ACCELERATE], ids=["torch", "accelerate"]
)
def test_a_launcher_starts_the_same_training(command, root, launcher):
    if launcher is ACCELERATE:
        pytest.importorskip("accelerate")
    out, said = command(sys.executable, *launcher, images=400).communicate(timeout=200)

    assert out.count("0 of 50 steps done") == 1, said
    (row,) = journal.read(root / "run")
    assert (row["step"], row["images"]) == (50, 400)
    assert sum(map(len, row["loss_by_task"])) > 0
    assert checkpoints.read_card(root / "run" / "model")["training"]["batch"] == 8


@pytest.mark.slow
@needs_proc
def test_a_launcher_ends_the_run_when_a_process_is_lost(command, root):
    run = command(sys.executable, *TORCHRUN)
    wait_until(lambda: journal.read(root / "run") or run.poll(), 120)
    first, second = workers(run)

    os.kill(second, signal.SIGKILL)
    _, said = run.communicate(timeout=100)

    assert run.returncode != 0
    assert "SIGKILL" in said or "Signal 9" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second))
    assert generations.load(root / "run")
