"""Where the runs of a sweep are made: workers of Dask, here or on a cluster.

Each worker is a process that makes one run at a time. Dask tells which worker is free
and when one has died; what a run is and whether it is done is said by its folder alone.
The workers of this machine talk over encrypted connections on the loopback interface:
without, whoever has an account here could run code as the person who sweeps.
"""

import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prisma_lib import clusters, runs, slurm
from prisma_lib.errors import ConfigError, PrismaError, RunDirError
from prisma_lib.execution import execute
from prisma_lib.runs import Run

RETRIES = 2
# A kernel whose worker was killed may live for a second more.
PAUSE = 3.0
POLL = 0.1
GRACE = 10.0
RENEW = 5.0
ONE_RUN = threading.Lock()


@dataclass(frozen=True)
class Job:
    """One run, as a worker gets it.

    Args:
        source: The notebook's `.py`.
        folder: Where the run lives.
        parameters: Values to inject.
        timeout: Seconds that one cell may take.
        threads: CPU threads; by default its share of the worker's machine.
        gpus: GPUs that it wants.
        tries: Which try this is.
        pause: Seconds to wait before it.
    """

    source: Path
    folder: Path
    parameters: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    threads: int | None = None
    gpus: int = 0
    tries: int = 1
    pause: float = 0.0


def work(job: Job) -> Run:
    """Makes one run in a worker."""
    with ONE_RUN:
        time.sleep(job.pause)
        return execute(
            job.source,
            job.folder,
            job.parameters,
            timeout=job.timeout,
            threads=job.threads or clusters.cpu_threads(),
            tries=job.tries,
            keep=True,
        )


def dask_setup(worker: Any) -> None:
    """Leaves Ctrl-C to the sweep, which ends its workers itself; Dask calls this."""
    # A function and not SIG_IGN, which kernels would inherit: they must be stoppable.
    signal.signal(signal.SIGINT, lambda number, frame: None)


def end_kernels() -> None:
    """Kills the kernels of a worker; called in it."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


@dataclass
class Pool:
    """Workers that make runs.

    Args:
        client: Connection to them.
        slots: Runs at once; `None` for as many as there are workers now.
        cluster: What was started for them; `None` for a cluster of somebody else.
        wanted: Workers that it was asked for.
        answers: What Slurm said to that, when the workers are jobs of it.
        flying: Runs that were given to them.
        asked: When it was asked for workers.
    """

    client: Any
    slots: int | None = None
    cluster: Any = None
    wanted: int = 0
    answers: slurm.Answers | None = None
    flying: dict[Any, Job] = field(default_factory=dict)
    asked: float = field(default_factory=time.monotonic)

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Run]]:
        """Makes runs, and those whose kernel or worker died up to two times more.

        Workers get no more runs than they can make at once, so that the death of one
        concerns the run it made and no other.

        Args:
            jobs: What to run.

        Yields:
            Each job with its verdict, as they end.

        Raises:
            RunDirError: When a folder cannot be written or the cluster is gone.
            ConfigError: When Slurm takes no job (exit code 4).
        """
        waiting = deque(jobs)
        while waiting or self.flying:
            while waiting and len(self.flying) < self.free():
                job = self.limited(waiting.popleft())
                self.flying[self.client.submit(work, job, pure=False)] = job
            time.sleep(POLL)
            self.renew()
            if self.client.status not in ("running", "connecting"):
                raise RunDirError("the Dask cluster is gone; the same command goes on")
            if self.answers is not None:
                self.answers.check()
            for future in [one for one in self.flying if one.done()]:
                job = self.flying.pop(future)
                run = verdict(future, job)
                if run.status == "killed" and job.tries <= RETRIES:
                    pause = PAUSE * job.tries
                    waiting.append(replace(job, tries=job.tries + 1, pause=pause))
                else:
                    yield job, run

    def renew(self) -> None:
        """Asks for workers in the place of those that Dask has given up."""
        if self.cluster is not None and time.monotonic() > self.asked + RENEW:
            self.asked = time.monotonic()
            if len(self.client.nthreads()) < self.wanted:
                self.cluster.scale(self.wanted)

    def about(self) -> str:
        """Says how many runs go at once, and where to watch them."""
        if self.answers is not None:
            number = f"{self.wanted} job{'s' * (self.wanted > 1)} of Slurm"
            link = slurm.link(self.cluster)
        else:
            number, link = f"{self.free()} at once", self.client.dashboard_link
        return number + (f", watch them at {link}" if link else "")

    def free(self) -> int:
        """Returns how many runs the workers can make at once."""
        return len(self.client.nthreads()) if self.slots is None else self.slots

    def limited(self, job: Job) -> Job:
        """Gives a run its share of the CPU threads of this machine, unless it says."""
        if self.slots is None or job.threads:
            return job
        return replace(job, threads=clusters.share(self.slots))

    def stop(self) -> None:
        """Ends the runs that are being made, and their kernels."""
        ours = {future.key for future in self.flying}
        busy = [
            name for name, keys in self.client.processing().items() if ours & {*keys}
        ]
        if busy:
            self.client.run(end_kernels, workers=busy, on_error="ignore")
        end = time.monotonic() + GRACE
        while time.monotonic() < end and not all(one.done() for one in self.flying):
            time.sleep(POLL)


def verdict(future: Any, job: Job) -> Run:
    """Returns how a run ended whose task has ended, also when its worker died.

    Raises:
        RunDirError: When its folder cannot be written, or has lost its record.
    """
    if future.status == "finished":
        run: Run = future.result()
        if run.identity != runs.identity(job.source, job.parameters):
            why = "its worker has another notebook, library, model or data than here"
            return run.ended("failed", why).save(job.folder)
        return run
    error = None if future.cancelled() else future.exception()
    if isinstance(error, RunDirError):
        raise error
    old = runs.load(job.folder)
    if old is None or old.status == "done":
        if old is None:
            raise RunDirError(f"{job.folder} has lost its run.json: run it again")
        return old
    own = isinstance(error, PrismaError)
    ended = old.ended("failed" if own else "killed", f"its worker ended: {error!r}")
    return replace(ended, tries=job.tries).save(job.folder)


@contextmanager
def started(where: clusters.Where, jobs: Sequence[Job]) -> Iterator[Pool]:
    """Starts workers, or connects to some, and ends them.

    Args:
        where: Where they are.
        jobs: What they will run, which decides how many fit on this machine.

    Yields:
        The workers.

    Raises:
        ConfigError: When Dask or `sbatch` is missing or the place makes no sense.
    """
    clusters.configure()
    from distributed import Client

    cluster, slots, answers, wanted = None, None, None, where.jobs or 1
    with ExitStack() as stack:
        if where.slurm:
            cluster, answers = stack.enter_context(slurm.started(where.slurm, wanted))
        elif not where.scheduler:
            threads = max((job.threads or 0 for job in jobs), default=0)
            gpus = max((job.gpus for job in jobs), default=0)
            places = clusters.places(where, len(jobs), threads, gpus)
            slots = wanted = len(places)
            cluster = clusters.local(places)
            stack.callback(cluster.close)
        try:
            client = Client(cluster or where.scheduler, timeout=GRACE)
        except OSError as error:
            raise ConfigError(
                f"no Dask scheduler answers at {where.scheduler} ({error}): start one "
                "with `dask scheduler`, or leave --scheduler out",
                exit_code=4,
            ) from error
        stack.callback(client.close)
        pool = Pool(client, slots, cluster, wanted, answers)
        try:
            yield pool
        finally:
            if pool.flying:
                with suppress(Exception):
                    pool.stop()
