"""Runs go where they are sent: threads and GPUs of a machine, or other clusters."""

import os

import pytest

from prisma_lib import clusters
from prisma_lib.errors import ConfigError
from prisma_lib.sweep import main


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--jobs 0", "--jobs=0"),
        ("--jobs 2 --gpus 0", "drop --jobs"),
        ("--gpus 0 --scheduler tcp://127.0.0.1:1", "exclude each other"),
        ("--gpus 0,99", "GPUs that are visible"),
        ("--slurm none.yaml", "none.yaml"),
    ],
)
def test_place_that_makes_no_sense_is_refused(plan, root, capsys, options, words):
    path = plan("notebook: 10_tiny\n")

    assert main([str(path), "--scale", "smoke", *options.split()]) in (2, 4)

    assert words in capsys.readouterr().err
    assert not list((root / "outputs").glob("tiny/*/"))


@pytest.mark.parametrize(
    ("where", "threads", "gpus", "expected"),
    [
        (clusters.Where(), 0, 0, [None] * 4),
        (clusters.Where(), 4, 0, [None] * 2),
        (clusters.Where(), 16, 0, [None]),
        (clusters.Where(jobs=3), 0, 1, [None] * 3),
        (clusters.Where(), 0, 1, ["4", "GPU-x", "6"]),
        (clusters.Where(gpus=(0, 2)), 0, 0, ["4", "6"]),
        (clusters.Where(gpus=(2, 1, 0)), 0, 2, ["6,GPU-x"]),
    ],
)
def test_machine_is_shared_out(monkeypatch, where, threads, gpus, expected):
    monkeypatch.setattr(clusters, "cpu_threads", lambda: 8)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-x,6")

    assert clusters.places(where, 9, threads, gpus) == expected


def test_run_that_needs_more_gpus_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="needs 2 GPUs and 1 are given"):
        clusters.pinned([0], ["0"], 2)


def test_workers_share_the_threads_of_the_machine(monkeypatch):
    monkeypatch.setattr(clusters, "cpu_threads", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [clusters.share(n) for n in (1, 3, 20)] == [8, 2, 1]

    monkeypatch.setenv("OMP_NUM_THREADS", "4")

    assert [clusters.share(n) for n in (1, 3)] == [4, 2]


@pytest.mark.notebook
def test_workers_of_this_machine_are_pinned_and_closed_to_others():
    clusters.configure()
    from distributed import Client

    with clusters.local(["4", "6"]) as made, Client(made) as client:
        seen = client.run(os.getenv, "CUDA_VISIBLE_DEVICES")
        assert sorted(seen.values()) == ["4", "6"]
        assert {address.rpartition(":")[0] for address in seen} == {"tls://127.0.0.1"}
        assert client.dashboard_link.startswith("http://127.0.0.1:")
        plain = made.scheduler_address.replace("tls", "tcp")
        with pytest.raises(OSError, match=r"Timed out|reset|closed"):
            Client(plain, timeout=1)
