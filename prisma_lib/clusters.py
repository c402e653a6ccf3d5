"""Clusters of Dask that make runs: which there are, and those of this machine."""

import importlib.util
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prisma_lib.checks import check_count
from prisma_lib.errors import ConfigError

LOOPBACK = "127.0.0.1"
LOST = "90s"
# Of a run that does not say how many it wants, when workers are counted.
THREADS_A_RUN = 2


@dataclass(frozen=True)
class Where:
    """Where runs are made.

    Args:
        jobs: Runs at once; by default what the machine has threads for.
        gpus: Numbers of the GPUs, one run on each; by default all, when runs want one.
        scheduler: Address of a Dask cluster that runs already.
        slurm: YAML file that says how to ask Slurm for a job.
    """

    jobs: int | None = None
    gpus: tuple[int, ...] = ()
    scheduler: str | None = None
    slurm: Path | None = None


def check(where: Where) -> None:
    """Refuses a place that contradicts itself, before anything is started.

    Raises:
        ConfigError: When a number is impossible, or two options exclude each other.
    """
    if where.jobs is not None:
        check_count("--jobs", where.jobs, 1, 2)
    given = [name for name in ("gpus", "scheduler", "slurm") if getattr(where, name)]
    if len(given) > 1:
        raise ConfigError(f"--{given[0]} and --{given[1]} exclude each other: give one")
    if where.jobs is not None and given not in ([], ["slurm"]):
        raise ConfigError(f"--{given[0]} decides how many runs go at once: drop --jobs")


def cpu_threads() -> int:
    """Returns how many CPU threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def configure() -> None:
    """Imports Dask and sets what sweeps need of it.

    Raises:
        ConfigError: When it is not installed (exit code 4).
    """
    try:
        import dask

        # Before distributed is imported, which sets up its logs.
        dask.config.set({"logging.distributed": "critical"})
        import distributed
    except ImportError as error:
        raise ConfigError(
            "sweeps need Dask: pip install 'prisma-lib[sweep]'", exit_code=4
        ) from error
    del distributed
    dask.config.set(
        {
            # A death is judged here, by what the run's folder says.
            "distributed.scheduler.allowed-failures": 0,
            "distributed.scheduler.work-stealing": False,
            # How long a worker may take to start again before another is asked for;
            # Dask's own 15 s are too short for a machine that is busy.
            "distributed.deploy.lost-worker-timeout": LOST,
            # Dask would set threads and malloc for us.
            "distributed.nanny.pre-spawn-environ": {},
            # Samples of what a worker does: nobody looks, and runs need the cores.
            "distributed.worker.profile.enabled": False,
            "distributed.admin.system-monitor.interval": "10s",
        }
    )


def places(where: Where, runs: int, threads: int, gpus: int) -> list[str | None]:
    """Lists what each worker of this machine may see.

    Args:
        where: Number of runs at once, or the GPUs.
        runs: Number of runs.
        threads: CPU threads of the run that wants most; 0 when none says.
        gpus: GPUs of the run that wants most.

    Returns:
        `CUDA_VISIBLE_DEVICES` of each worker; `None` leaves it as it is.

    Raises:
        ConfigError: When there are not the GPUs that were asked for.
    """
    names = visible()
    if where.gpus or (gpus and names and where.jobs is None):
        return pinned(where.gpus or range(len(names)), names, max(1, gpus))
    fitting = cpu_threads() // (threads or THREADS_A_RUN)
    return [None] * (where.jobs or max(1, min(runs, fitting)))


def share(workers: int) -> int:
    """Returns the CPU threads of each of some workers of this machine.

    A number in `OMP_NUM_THREADS` is the most that each gets.
    """
    most = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    fair = max(1, cpu_threads() // workers)
    return min(fair, int(most)) if most.isdigit() and int(most) else fair


def pinned(numbers: Sequence[int], names: Sequence[str], each: int) -> list[str | None]:
    """Deals GPUs to workers.

    Args:
        numbers: Which of the GPUs to use.
        names: What CUDA calls the GPUs that this process may see.
        each: GPUs of a worker.

    Returns:
        `CUDA_VISIBLE_DEVICES` of each worker.

    Raises:
        ConfigError: When a GPU does not exist, or one worker would need more.
    """
    if len({*numbers}) < len(numbers) or not {*numbers} <= {*range(len(names))}:
        raise ConfigError(
            f"--gpus {','.join(map(str, numbers))}: give different numbers of the "
            f"{len(names)} GPUs that are visible here, counted from 0",
            exit_code=4,
        )
    if len(numbers) < each:
        raise ConfigError(
            f"a run needs {each} GPUs and {len(numbers)} are given: give more with "
            "--gpus, or change `resources` in the plan",
            exit_code=4,
        )
    groups = [numbers[i : i + each] for i in range(0, len(numbers) - each + 1, each)]
    return [",".join(names[number] for number in group) for group in groups]


def visible() -> list[str]:
    """Lists what CUDA calls the GPUs that this process may see."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    if allowed is None:
        return [str(number) for number in range(count)]
    return [name.strip() for name in allowed.split(",")][:count]


def local(pinned: Sequence[str | None]) -> Any:
    """Starts one worker a place on this machine; they end with this process."""
    from distributed import Nanny, Scheduler, SpecCluster
    from distributed.security import Security

    safe: dict[str, Any] = {"host": LOOPBACK, "security": Security.temporary()}
    safe["protocol"] = "tls://"

    def worker(gpus: str | None) -> dict[str, Any]:
        env = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}
        # The kernel is a process of its own, whose memory Dask does not see.
        common = {"nthreads": 1, "memory_limit": None, "preload": ["prisma_lib.engine"]}
        quiet = {"dashboard": False, "silence_logs": logging.CRITICAL}
        return {"cls": Nanny, "options": {**common, **quiet, "env": env, **safe}}

    shown = importlib.util.find_spec("bokeh") is not None
    board = {"dashboard": shown, "dashboard_address": f"{LOOPBACK}:0"}
    return SpecCluster(
        dict(enumerate(map(worker, pinned))),
        scheduler={"cls": Scheduler, "options": {**board, **safe}},
        security=safe["security"],
        silence_logs=logging.CRITICAL,
    )
