"""Workers that are jobs of Slurm: what is asked for, and what Slurm says to it."""

import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prisma_lib import clusters, settings, strictyaml
from prisma_lib.checks import check_count, check_names
from prisma_lib.errors import ConfigError, RunDirError

# What a text must look like, and how to say so.
LOOKS = {
    **dict.fromkeys(
        ("queue", "account", "interface", "job_name", "local_directory"),
        (r"\S+", "text without blanks"),
    ),
    "memory": (
        r"(?i)[1-9][0-9]*(\.[0-9]+)? ?[MGTP](i?B)?",
        "a size with its unit, such as memory=8GB",
    ),
    "walltime": (
        r"[0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}",
        "minutes, HH:MM:SS or D-HH:MM:SS, such as walltime=08:00:00",
    ),
    "job_mem": (
        r"(?i)[0-9]+([KMGT]B?)?",
        "megabytes, or a size with its unit, such as job_mem=8G",
    ),
}


@dataclass(frozen=True)
class Request:
    """How a job is asked for: keys of dask-jobqueue, and `gpus`.

    What is `None` or empty is decided by the Dask configuration or by Slurm.

    Args:
        queue: Partition.
        account: Who pays.
        cores: CPU cores of a job.
        memory: Its memory, such as 8GB.
        walltime: How long it may last, as Slurm writes times.
        interface: Network on which jobs and sweep reach each other, such as ib0.
        job_name: Its name in the queue.
        job_cpu: CPUs to ask Slurm for, when not `cores`.
        job_mem: Memory to ask Slurm for, when not `memory`.
        job_extra_directives: More options of `sbatch`.
        job_script_prologue: Commands before the worker starts.
        job_directives_skip: Directives with one of these texts are left out.
        local_directory: Where the worker puts its own files.
        gpus: GPUs of a job.

    Raises:
        ConfigError: When a value has no meaning.
    """

    queue: str | None = None
    account: str | None = None
    cores: int = 1
    memory: str = "8GB"
    walltime: str | int | None = None
    interface: str | None = None
    job_name: str = "prisma"
    job_cpu: int | None = None
    job_mem: str | int | None = None
    job_extra_directives: tuple[str, ...] = ()
    job_script_prologue: tuple[str, ...] = ()
    job_directives_skip: tuple[str, ...] = ()
    local_directory: str | None = None
    gpus: int = 0

    def __post_init__(self) -> None:
        for name, (pattern, allowed) in LOOKS.items():
            value = getattr(self, name)
            if value is not None and not re.fullmatch(pattern, str(value)):
                raise ConfigError(f"{name}={value!r}: give {allowed}")
        check_count("cores", self.cores, 1, 8)
        check_count("gpus", self.gpus, 0, 1)
        check_count("job_cpu", 1 if self.job_cpu is None else self.job_cpu, 1, 8)

    def options(self) -> dict[str, Any]:
        """Returns what dask-jobqueue is told."""
        given = asdict(self)
        if gpus := given.pop("gpus"):
            given["job_extra_directives"] += (f"--gres=gpu:{gpus}",)
        return {key: value for key, value in given.items() if value not in (None, ())}


def read(path: Path) -> Request:
    """Reads how to ask for a job.

    Args:
        path: YAML file with fields of `Request`.

    Raises:
        ConfigError: When a key is unknown or its value bad; names file and key.
    """
    content = strictyaml.read(path).content
    try:
        request = settings.built(Request, "key", content)
        if request.interface is not None:
            check_names("interface", [request.interface], interfaces())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return request


def interfaces() -> list[str]:
    """Lists the network interfaces of this machine that have an address."""
    import psutil

    found = psutil.net_if_addrs().items()
    return sorted(n for n, all_ in found if socket.AF_INET in [a.family for a in all_])


@dataclass
class Answers:
    """What Slurm said to the jobs that it was asked for.

    Args:
        open: Jobs that it is being asked for or has taken, until they are closed.
        refused: Its words to those that it did not take, since one was closed.
        told: Whether the sweep has been told of them.
    """

    open: set[Any] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    told: bool = False

    def check(self) -> None:
        """Says what was refused, once, if other jobs go on.

        Raises:
            ConfigError: When no job is left that could become a worker (exit code 4).
        """
        words = "\n".join(dict.fromkeys(self.refused))
        if words and not self.open:
            raise ConfigError(
                f"Slurm takes no job: {words}\nchange what the file of --slurm asks "
                "for (--dry-run prints the script), then the same command goes on",
                exit_code=4,
            )
        if words and not self.told:
            self.told = True
            print(f"note: Slurm refuses jobs, others go on: {words}", flush=True)


def job_class(answers: Answers) -> Any:
    """Makes the class of a job that notes what Slurm answers.

    Dask itself only logs that a job was refused, and waits for its worker for ever.
    """
    from dask_jobqueue.slurm import SLURMJob
    from distributed.core import Status

    class Job(SLURMJob):
        async def start(self) -> None:
            answers.open.add(self)
            try:
                await super().start()  # type: ignore[no-untyped-call]
            except (OSError, RuntimeError, ValueError) as error:
                # The end of what dask-jobqueue says about a command that failed.
                words = str(error).partition("stderr:\n")[2].strip()
                answers.refused.append(words or str(error).strip())
                answers.open.discard(self)
                # What has not started Dask would ask for again and again.
                self.status = Status.running

        async def close(self) -> None:
            if self in answers.open:
                # Another is asked for in its place, and the answer to that counts.
                answers.open.discard(self)
                answers.refused.clear()
                answers.told = False
            await super().close()  # type: ignore[no-untyped-call]
            self.status = Status.closed

    return Job


def keys(folder: Path) -> Any:
    """Makes what sweep and jobs know each other by, and writes the jobs' share."""
    from distributed.security import Security

    made = Security.temporary()
    for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
        path = folder / name
        path.write_text(getattr(made, name))
        setattr(made, name, str(path))
    return made


@contextmanager
def prepared(request: Request, answers: Answers) -> Iterator[Any]:
    """Prepares a cluster whose workers are jobs of Slurm; it has none yet.

    Args:
        request: How to ask for a job.
        answers: Takes what Slurm says.

    Yields:
        The cluster; `job_script()` is what Slurm gets, `scale(jobs=n)` asks for jobs.

    Raises:
        ConfigError: When dask-jobqueue is missing (exit code 4).
        RunDirError: When the folder of keys and logs cannot be written.
    """
    try:
        from dask import config
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError as error:
        raise ConfigError(
            "--slurm needs dask-jobqueue: pip install 'prisma-lib[slurm]'", exit_code=4
        ) from error
    # Pages of a worker are open to its whole network unless they are told not to be.
    closed = ["--no-dashboard", "--dashboard-address", f"{clusters.LOOPBACK}:0"]
    more = config.get("jobqueue.slurm.worker-extra-args") or []
    # Where jobs, which start here, can read and write; a whole path may have blanks.
    shared = Path("outputs", "slurm")
    with ExitStack() as stack:
        try:
            shared.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = stack.enter_context(TemporaryDirectory(prefix="keys-", dir=shared))
            security = keys(Path(folder))
        except OSError as error:
            raise RunDirError(f"{shared} cannot be written: {error}") from error
        cluster = SLURMCluster(
            **request.options(),
            job_cls=job_class(answers),
            processes=1,
            security=security,
            log_directory=str(shared),
            python=config.get("jobqueue.slurm.python") or shlex.quote(sys.executable),
            worker_extra_args=[*more, *closed],
            scheduler_options={"dashboard_address": f"{clusters.LOOPBACK}:0"},
        )
        stack.callback(cluster.close)
        yield cluster


@contextmanager
def started(path: Path, jobs: int) -> Iterator[tuple[Any, Answers]]:
    """Asks Slurm for jobs, and takes them back at the end.

    Args:
        path: YAML file that says how; see `Request`.
        jobs: How many.

    Yields:
        The cluster, and what Slurm says.

    Raises:
        ConfigError: When the file is wrong, or no job can start or reach this machine.
    """
    request, answers = read(path), Answers()
    if shutil.which("sbatch") is None:
        raise ConfigError(
            "--slurm asks for jobs by `sbatch`, which is not on the PATH here: start "
            "the sweep on a machine of the cluster that has it, or leave --slurm out",
            exit_code=4,
        )
    with prepared(request, answers) as cluster:
        address = cluster.scheduler_address
        if request.interface is None and is_loopback(address):
            raise ConfigError(
                f"{path}: jobs on other machines cannot reach {address}: give "
                f"interface, one of {', '.join(interfaces())}",
                exit_code=4,
            )
        cluster.scale(jobs=jobs)
        yield cluster, answers


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address such as tls://127.0.0.1:8786."""
    return address.partition("://")[2].startswith(("127.", "[::1]"))


def link(cluster: Any) -> str:
    """Returns where to watch the workers: here, not at the address for the jobs."""
    from distributed.utils import format_dashboard_link

    port = cluster.scheduler_info["services"].get("dashboard")
    return format_dashboard_link(clusters.LOOPBACK, port) if port else ""


def job_script(path: Path) -> str:
    """Returns what Slurm would get, without asking it for anything."""
    clusters.configure()
    with prepared(read(path), Answers()) as cluster:
        return str(cluster.job_script())
