"""Whatever dies in a sweep, its records are true, no kernel is left, and it goes on."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tiny import NOTEBOOK

from prisma_lib import clusters, engine, plans, runs
from prisma_lib.sweep import main

WAIT = 60
# A kernel may notice late that its worker has died.
ORPHANS = 5


def until(true, driver=None):
    """Waits for something to become true."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        assert driver is None or driver.poll() is None
        time.sleep(0.1)


def folder(root, path, number):
    cell = plans.cells(path, "smoke")[number]
    return root / "outputs" / cell.plan / cell.name


def records(root, path):
    every = range(len(plans.cells(path, "smoke")))
    return [runs.seen(folder(root, path, number)) for number in every]


def states(root, path):
    return [run and run.status for run in records(root, path)]


def rows(root):
    with (root / "outputs" / "tiny" / "tiny.csv").open() as file:
        return sorted(int(row["n"]) for row in csv.DictReader(file))


def write(root, code):
    """Puts code into the notebook; every kernel leaves its number in `pids`."""
    (root / "pids").mkdir(exist_ok=True)
    note = f"import os, time; open(f'{root}/pids/{{os.getpid()}}', 'w').close()\n"
    source = NOTEBOOK.replace("assert not fail, fail\ndouble = 2 * n", note + code)
    (root / "notebooks" / "10_tiny.py").write_text(source + "\n")


def alive(root):
    """Lists the kernels that live."""
    found = []
    for path in (root / "pids").iterdir():
        if psutil.pid_exists(int(path.name)):
            process = psutil.Process(int(path.name))
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def no_kernel_is_left(root):
    end = time.monotonic() + ORPHANS
    while alive(root) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive(root)


def started(root, path, *more):
    """Starts a sweep with workers of its own, in its own process group."""
    command = [sys.executable, "-m", "prisma_lib.sweep", str(path), "--scale", "smoke"]
    return subprocess.Popen(
        [*command, *more],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


ENDS = {
    "raise": ("raise ValueError('asked')", "failed", "ValueError: asked"),
    "assert": ("assert n < 0, 'negative'", "failed", "AssertionError: negative"),
    "kernel": ("os.kill(os.getpid(), 9)", "killed", "DeadKernelError"),
    "hang": ("time.sleep(99)", "timeout", "timed out"),
    "exit": ("import sys; sys.exit(0)", "failed", "before its end"),
    "silent": ("(Path(out) / 'x').mkdir(); out += '/x'", "failed", "metrics.json"),
    "good": ("double = 2", "done", ""),
}


@pytest.mark.notebook
def test_each_end_of_a_notebook_has_its_state_and_stops_no_other(
    plan, root, cluster, monkeypatch
):
    monkeypatch.setattr(engine, "PAUSE", 0.1)
    write(root, "double = 2\nexec(fail)")
    codes = [code for code, _, _ in ENDS.values()]
    limit = "resources: {cell_minutes: 0.06}\n"
    path = plan(f"notebook: 10_tiny\n{limit}grid: {{fail: {json.dumps(codes)}}}\n")

    assert main([str(path), "--scale", "smoke", "--scheduler", cluster]) == 3

    found = dict(zip(ENDS, records(root, path), strict=True))
    for name, (_, status, words) in ENDS.items():
        assert found[name].status == status, (name, found[name])
        assert words in found[name].error
        tries = 1 + engine.RETRIES if status == "killed" else 1
        assert found[name].tries == tries
    assert len(rows(root)) == 1
    assert no_kernel_is_left(root)


@pytest.mark.notebook
def test_run_whose_worker_dies_is_tried_again(plan, root, cluster, monkeypatch):
    monkeypatch.setattr(engine, "PAUSE", 0.1)
    first = f"mark = {str(root / 'mark')!r}\nif n == 2 and not os.path.exists(mark):\n"
    first += "    open(mark, 'w').close(); os.kill(os.getppid(), 9); time.sleep(60)\n"
    write(root, first + "double = n")
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2, 3]}\n")

    assert main([str(path), "--scale", "smoke", "--scheduler", cluster]) == 0

    assert rows(root) == [1, 2, 3]
    assert sorted(run.tries for run in records(root, path)) == [1, 1, 2]
    assert no_kernel_is_left(root)


@pytest.mark.notebook
@pytest.mark.slow
def test_worker_that_dask_gives_up_is_replaced(plan, root, monkeypatch):
    monkeypatch.setattr(clusters, "LOST", "0s")
    first = f"if not os.path.exists({str(root / 'mark')!r}):\n"
    first += (
        f"    open({str(root / 'mark')!r}, 'w').close(); os.kill(os.getppid(), 9)\n"
    )
    write(root, first + "    time.sleep(60)\ndouble = n")
    path = plan("notebook: 10_tiny\n")

    assert main([str(path), "--scale", "smoke", "-j", "1"]) == 0

    assert [run.tries for run in records(root, path)] == [2]


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("number", "status", "code"),
    [
        pytest.param(
            signal.SIGINT,
            ["done", "interrupted", "interrupted"],
            130,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(signal.SIGTERM, ["done", "interrupted", "interrupted"], 130),
            marks=pytest.mark.slow,
        ),
        (signal.SIGKILL, ["done", "killed", "killed"], -9),
    ],
)
def test_sweep_that_is_ended_goes_on(plan, root, cluster, number, status, code):
    waits = root / "waits"
    hold = f"if n == 2 and not os.path.exists({str(waits)!r}):\n"
    hold += f"    open({str(waits)!r}, 'w').close(); time.sleep(60)\n"
    write(root, hold + "double = n")
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2, 3]}\n")
    sweep = started(root, path, "-j", "1")
    until(waits.exists, sweep)
    assert states(root, path) == ["done", "running", "queued"]
    assert main([str(path), "--scale", "smoke"]) == 4

    # Ctrl-C reaches the workers too; other signals are for the sweep alone.
    (os.killpg if number == signal.SIGINT else os.kill)(sweep.pid, number)
    said, _ = sweep.communicate(timeout=WAIT)

    assert sweep.returncode == code
    assert no_kernel_is_left(root)
    assert states(root, path) == status
    assert rows(root) == [1]
    if number != signal.SIGKILL:
        assert "goes on where it stopped" in said
        assert "Traceback" not in said
    first = runs.load(folder(root, path, 0))
    assert main([str(path), "--scale", "smoke", "--scheduler", cluster]) == 0
    assert runs.load(folder(root, path, 0)) == first
    assert rows(root) == [1, 2, 3]


@pytest.mark.notebook
def test_full_disk_stops_the_sweep_which_then_goes_on(plan, root, cluster, capsys):
    full = f"if not os.path.exists({str(root / 'space')!r}):\n"
    full += "    with open('/dev/full', 'w') as file: file.write('x')\ndouble = n"
    write(root, full)
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2, 3, 4, 5]}\n")
    command = [str(path), "--scale", "smoke", "--scheduler", cluster]

    assert main(command) == 4

    assert "the disk is full" in capsys.readouterr().err
    assert "failed" in states(root, path)
    assert states(root, path).count("interrupted") >= 3
    assert no_kernel_is_left(root)
    (root / "space").touch()
    assert main(command) == 0
    assert rows(root) == [1, 2, 3, 4, 5]


ON_A_FULL_DISK = """
import sys
from pathlib import Path
from prisma_lib import errors, execution
source, disk = Path(sys.argv[1]), Path(sys.argv[2])
run = execution.execute(source, disk / "run", {})
print(run.status, run.out_of_space)
try:
    execution.execute(source, disk / "other", {})
except errors.RunDirError as error:
    print(error.exit_code)
"""


@pytest.mark.notebook
def test_verdict_is_written_on_a_full_disk(root):
    disk = root / "disk"
    disk.mkdir()
    fill = "with open(Path(out) / 'fill', 'wb', 0) as file:\n"
    fill += "    while file.write(bytes(4096)) == 4096: pass\ndouble = n"
    write(root, f"try:\n    open(Path(out) / 'x', 'w').close()\nfinally: pass\n{fill}")
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1" || exit 77; shift; "$@"; s=$?; '
    mount += 'cat disk/run/run.json; exit "$s"'
    source = root / "notebooks" / "10_tiny.py"
    call = [sys.executable, "-c", ON_A_FULL_DISK, str(source), str(disk)]
    if subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("no disk can be mounted here")

    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, "sh", str(disk), *call],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["failed True", "4"]
    assert '"status": "failed"' in done.stdout


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.parametrize(("number", "kills"), [(8, 2), (40, 6)])
def test_sweep_survives_random_deaths(plan, root, number, kills):
    write(root, "time.sleep(0.5)\ndouble = n")
    wanted = [*range(1, number + 1)]
    path = plan(f"notebook: 10_tiny\ngrid: {{n: {wanted}}}\n")
    chance = random.Random(0)
    sweep = started(root, path, "-j", "2")
    for _ in range(kills):
        until(lambda: alive(root), sweep)
        kernel = psutil.Process(chance.choice(alive(root)))
        worker = kernel.parent()
        lives = worker is not None and worker.ppid() == sweep.pid
        chance.choice([kernel, worker] if lives else [kernel]).kill()
        time.sleep(chance.uniform(1, 4))
    until(lambda: states(root, path).count("done") >= 2, sweep)
    sweep.kill()
    sweep.communicate()
    assert no_kernel_is_left(root)
    done = [run for run in records(root, path) if run.status == "done"]
    assert len(done) < number

    again = started(root, path, "-j", "2")
    said, _ = again.communicate(timeout=280)

    assert again.returncode == 0, said
    assert rows(root) == wanted
    assert states(root, path) == ["done"] * number
    ended = records(root, path)
    assert all(run in ended for run in done)
