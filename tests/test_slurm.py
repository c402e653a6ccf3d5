"""What Slurm is asked for, and what becomes of a sweep when it says no."""

import asyncio
import csv
import os
import signal
import socket
import time
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import psutil
import pytest

from prisma_lib import clusters, slurm
from prisma_lib.errors import ConfigError
from prisma_lib.sweep import main

WAIT = 120
ADDRESSES = {
    name: hosts[0]
    for name, found in psutil.net_if_addrs().items()
    if (hosts := [one.address for one in found if one.family == socket.AF_INET])
}
KNOWN = ", ".join(sorted(ADDRESSES))
LOOPBACK = next(name for name, host in ADDRESSES.items() if host == "127.0.0.1")
# A machine without any network has only its loopback.
INTERFACE = next((name for name in ADDRESSES if name != LOOPBACK), LOOPBACK)

REFUSES = """
echo "sbatch: error: invalid partition specified: gpux" >&2
echo "sbatch: error: Batch job submission failed" >&2
exit 1
"""
# Starts the first job on this machine, and has no place for more.
TAKES_ONE = """
if ! mkdir taken 2> mkdir.log; then
  echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2
  exit 1
fi
cp "$1" job.sh
setsid sh job.sh > job.log 2>&1 < /dev/null &
echo "Submitted batch job $!"
"""
CANCELS = 'echo "$1" >> cancelled; kill -s KILL -- "-$1"\n'

FILE = f"""
interface: {INTERFACE}
queue: gpu
cores: 8
memory: 32GB
walltime: 08:00:00
gpus: 2
job_extra_directives: ["--constraint=a100"]
job_script_prologue: ["module load cuda"]
"""


@pytest.fixture(autouse=True)
def patience():
    """Ends a test whose sweep waits for ever."""

    def give_up(number, frame):
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WAIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture
def command(root, monkeypatch):
    """Puts commands on the PATH, in the place of Slurm's own if it has any."""
    folders = os.environ["PATH"].split(os.pathsep)
    kept = [path for path in folders if not (Path(path) / "sbatch").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([str(root / "bin"), *kept]))
    (root / "bin").mkdir()

    def write(name, text):
        path = root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    return write


@pytest.fixture
def go(plan, root):
    """Sweeps a plan of one run by jobs of Slurm."""
    path = plan("notebook: 10_tiny\n")

    def call(text, *more):
        (root / "slurm.yaml").write_text(text)
        command = [str(path), "--scale", "smoke", "--slurm", "slurm.yaml"]
        return main([*command, *more])

    return call


def test_job_has_one_worker_and_its_gpus(go, root, capsys, monkeypatch):
    monkeypatch.setattr("sys.executable", "/my env/bin/python")
    assert go(FILE, "--dry-run") == 0

    script = capsys.readouterr().out
    for line in (
        *("-J prisma", "-p gpu", "-n 1", "--cpus-per-task=8", "-t 08:00:00"),
        *("--constraint=a100", "--gres=gpu:2"),
    ):
        assert f"\n#SBATCH {line}\n" in script
    assert "\nmodule load cuda\n'/my env/bin/python' -m distributed" in script
    # Whoever can read the key can run code: it is encrypted traffic with a private key.
    assert f" tls://{ADDRESSES[INTERFACE]}:" in script
    assert "--tls-key outputs/slurm/" in script
    assert "--no-dashboard --dashboard-address 127.0.0.1:0 " in script
    assert (root / "outputs" / "slurm").stat().st_mode & 0o777 == 0o700
    assert not (root / "outputs" / "tiny").exists()


def test_interpreter_of_the_dask_configuration_counts(go, capsys):
    clusters.configure()
    import dask

    with dask.config.set({"jobqueue.slurm.python": "/theirs/python3"}):
        assert go(FILE, "--dry-run") == 0

    assert "\n/theirs/python3 -m distributed" in capsys.readouterr().out


def test_wrong_file_ends_with_the_status_of_bad_input(go, root, capsys):
    assert go("cores: x\n") == 2

    assert capsys.readouterr().err.startswith("error: slurm.yaml: cores='x': give")
    assert not list((root / "outputs").glob("tiny/*/"))


def test_sweep_without_sbatch_starts_nothing(go, root, command, capsys):
    assert go(FILE) == 4

    assert "`sbatch`, which is not on the PATH here" in capsys.readouterr().err
    assert not list((root / "outputs").glob("tiny/*/"))


def test_sweep_whose_jobs_are_refused_ends_with_the_words_of_slurm(
    go, root, command, capsys
):
    command("sbatch", REFUSES)

    assert go(FILE, "-j", "2") == 4

    said = capsys.readouterr().err
    assert (
        "Slurm takes no job: sbatch: error: invalid partition specified: gpux" in said
    )
    assert said.count("Batch job submission failed") == 1
    assert "Traceback" not in said
    assert not list((root / "outputs" / "slurm").iterdir())


def test_answer_without_a_job_is_a_refusal(go, command, capsys):
    command("sbatch", 'echo "come back on Monday"\n')

    assert go(FILE) == 4

    assert "come back on Monday" in capsys.readouterr().err


def test_words_about_a_job_count_until_another_is_asked_for(root, command, capsys):
    clusters.configure()
    command("sbatch", 'mkdir taken || exit 1\necho "Submitted batch job 7"\n')
    command("scancel", 'echo "$1" > cancelled\n')
    answers = slurm.Answers()
    job_class = slurm.job_class(answers)

    async def asked():
        return await job_class("tls://192.0.2.1:1", "x", cores=1, memory="1GB")

    async def story():
        first = await asked()
        answers.check()
        await asked()
        answers.check()
        answers.check()
        assert capsys.readouterr().out.count("note: Slurm refuses jobs") == 1
        await first.close()
        answers.check()
        await asked()
        with pytest.raises(
            ConfigError, match=r"takes no job: mkdir: .*taken"
        ) as caught:
            answers.check()
        return caught.value.exit_code

    assert asyncio.run(story()) == 4
    assert (root / "cancelled").read_text() == "7\n"


@pytest.mark.notebook
def test_sweep_is_made_by_the_jobs_that_slurm_takes(go, root, command, capsys):
    command("sbatch", TAKES_ONE)
    command("scancel", CANCELS)

    assert go(f"interface: {INTERFACE}\n", "-j", "2") == 0

    said = capsys.readouterr().out
    assert "1 runs, 2 jobs of Slurm, watch them at http://127.0.0.1:" in said
    assert "others go on: sbatch: error: QOSMaxSubmitJobPerUserLimit" in said
    with (root / "outputs" / "tiny" / "tiny.csv").open() as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["8"]
    assert f" tls://{ADDRESSES[INTERFACE]}:" in (root / "job.sh").read_text()
    job = int((root / "cancelled").read_text())
    while psutil.pid_exists(job):
        time.sleep(0.1)


def test_pages_are_seen_here_only_and_the_scheduler_where_jobs_are(root, command):
    command("sbatch", REFUSES)
    (root / "slurm.yaml").write_text(f"interface: {INTERFACE}\n")
    clusters.configure()

    with slurm.started(root / "slurm.yaml", 1) as (cluster, _):
        seen, jobs = urlsplit(slurm.link(cluster)), urlsplit(cluster.scheduler_address)
        page = HTTPConnection(seen.hostname, seen.port, timeout=WAIT)
        page.request("GET", seen.path)
        assert (seen.hostname, page.getresponse().status) == ("127.0.0.1", 200)
        page.close()
        assert (jobs.scheme, jobs.hostname) == ("tls", ADDRESSES[INTERFACE])
        socket.create_connection((jobs.hostname, jobs.port), WAIT).close()
        if INTERFACE != LOOPBACK:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((jobs.hostname, seen.port), WAIT)


@pytest.mark.parametrize(
    ("services", "expected"),
    [({"dashboard": 8787}, "http://127.0.0.1:8787/status"), ({}, "")],
)
def test_link_names_this_machine(services, expected):
    made = SimpleNamespace(scheduler_info={"services": services})

    assert slurm.link(made) == expected


def test_address_that_jobs_cannot_reach_is_refused(go, root, command, capsys):
    command("sbatch", REFUSES)
    clusters.configure()
    import dask

    with dask.config.set({"jobqueue.slurm.interface": LOOPBACK}):
        assert go("cores: 1\n") == 4

    said = capsys.readouterr().err
    assert "slurm.yaml: jobs on other machines cannot reach tls://127.0.0.1:" in said
    assert f"give interface, one of {KNOWN}" in said


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tls://127.0.0.1:8786", True),
        ("tls://127.0.1.1:8786", True),
        ("tls://[::1]:8786", True),
        ("tls://192.0.2.1:8786", False),
        ("tls://node7:8786", False),
    ],
)
def test_loopback_is_known(address, expected):
    assert slurm.is_loopback(address) == expected


def test_folder_that_cannot_be_made_is_named(go, root, capsys):
    (root / "outputs").write_text("")

    assert go(FILE, "--dry-run") == 4

    assert "outputs/slurm cannot be written" in capsys.readouterr().err
