"""One run of a notebook: a folder, an execution, a verdict.

A papermill notebook cannot tell whether its run succeeded: after a killed kernel or a
timeout every cell says `completed`. So the verdict is `run.json`, rewritten atomically:
`running`, then `done`, `failed`, `timeout`, `killed` or `interrupted`. A run is `done`
only when its notebook also left a `metrics.json`.
"""

import hashlib
import json
import math
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import prisma_lib
from prisma_lib import pairing, provenance, values
from prisma_lib.errors import ConfigError, DataError, RunDirError
from prisma_lib.files import write_json

LONGEST_ERROR = 4000


@dataclass(frozen=True)
class Run:
    """What `run.json` says.

    Args:
        status: running, done, failed, timeout, killed or interrupted.
        notebook: Name of the notebook.
        identity: Hash of source, parameters and library version.
        source: Hash of the notebook's source.
        version: Version of the library.
        commit: Commit of the project.
        pid: Process that runs the notebook.
        host: Machine that runs it.
        start: When it started, UTC.
        seconds: How long it took.
        error: End of the traceback of a run that is not done.
    """

    status: str
    notebook: str
    identity: str
    source: str
    version: str
    commit: str
    pid: int
    host: str
    start: str
    seconds: float = 0.0
    error: str = ""

    def save(self, folder: Path) -> "Run":
        """Writes `run.json`."""
        write_json(folder / "run.json", asdict(self))
        return self

    def failed(self, error: str) -> "Run":
        """Returns the verdict of the same run, failed for a reason."""
        return replace(self, status="failed", error=error)


def load(folder: Path) -> Run | None:
    """Reads the verdict in a folder; `None` without a readable one."""
    try:
        return Run(**json.loads((folder / "run.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def digest(content: object) -> str:
    """Hashes a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def identity(source: Path, parameters: Mapping[str, object]) -> str:
    """Hashes what decides the result of a run: notebook, parameters, library version.

    Args:
        source: The notebook's `.py`.
        parameters: Values that are injected.

    Returns:
        A hash; two runs with the same one need not both be executed.
    """
    text = pairing.fingerprint(pairing.read(source)["cells"])
    return digest([text, dict(parameters), prisma_lib.__version__])


def prepare(source: Path, parameters: Mapping[str, object]) -> pairing.Book:
    """Converts a notebook and checks the values for its parameters.

    Args:
        source: The notebook's `.py`.
        parameters: Values to inject.

    Returns:
        The notebook.

    Raises:
        ConfigError: When the notebook or a parameter does not exist, or a value has the
            wrong type.
    """
    book = pairing.read(source)
    values.check(parameters, pairing.parameters(book, source.name))
    if "kernelspec" not in book["metadata"]:
        raise ConfigError(
            f"{source} has no kernelspec in its header, which papermill needs: copy "
            "the header of another notebook"
        )
    return book


def shown(path: Path, root: Path) -> str:
    """Returns a path as a notebook may show it: relative to `root`, if below it."""
    path, root = path.resolve(), root.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def execute(
    source: Path,
    folder: Path,
    parameters: Mapping[str, object],
    *,
    timeout: float | None = None,
) -> Run:
    """Runs a notebook with papermill, without a screen.

    The folder gets `params.json`, `run.json`, `notebook.ipynb` and whatever the
    notebook writes to its parameter `out`, which is set to the folder; `interactive` is
    set to false. The kernel works in the project's folder, one above the notebooks.

    Args:
        source: The notebook's `.py`; it is not touched.
        folder: Where the run lives; made when it is not there.
        parameters: Values to inject; the rest keeps its defaults.
        timeout: Seconds that one cell may take; no limit by default.

    Returns:
        The verdict. A failing notebook is a verdict, not an exception.

    Raises:
        ConfigError: When the parameters do not fit the notebook; nothing was started.
        RunDirError: When the folder cannot be written.
        KeyboardInterrupt: When the run was interrupted; its verdict says so.
    """
    root = source.resolve().parents[1]
    injected = {**parameters, "out": shown(folder, root), "interactive": False}
    book = prepare(source, injected)
    run = Run(
        status="running",
        notebook=source.stem,
        identity=identity(source, parameters),
        source=book["metadata"]["prisma"]["cells"],
        version=prisma_lib.__version__,
        commit=provenance.commit(),
        pid=os.getpid(),
        host=socket.gethostname(),
        start=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    claim(folder, run, parameters)
    start = time.monotonic()
    with terminable():
        status, error = attempt(book, folder, injected, root, timeout)
    seconds = round(time.monotonic() - start, 2)
    run = replace(run, status=status, error=error, seconds=seconds).save(folder)
    if status == "interrupted":
        raise KeyboardInterrupt
    return run


@contextmanager
def terminable() -> Iterator[None]:
    """Lets a request to terminate end a run as Ctrl-C does, with its verdict.

    Only the main thread can listen to signals; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)


def claim(folder: Path, run: Run, parameters: Mapping[str, object]) -> None:
    """Empties a run folder of old verdicts and writes that the run has begun."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in [folder / "metrics.json", *folder.glob(".*.part")]:
            stale.unlink(missing_ok=True)
        write_json(folder / "params.json", dict(parameters))
        run.save(folder)
    except OSError as error:
        raise RunDirError(
            f"{folder} cannot be written ({error}): choose another folder with --out"
        ) from error


def attempt(
    book: pairing.Book,
    folder: Path,
    parameters: Mapping[str, object],
    root: Path,
    timeout: float | None,
) -> tuple[str, str]:
    """Executes a notebook.

    Args:
        book: The notebook.
        folder: Where `notebook.ipynb` goes.
        parameters: All values to inject.
        root: Working folder of the kernel.
        timeout: Seconds that one cell may take.

    Returns:
        Status and error text.
    """
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    from prisma_lib.kernels import manager

    target = folder / "notebook.ipynb"
    target.write_bytes(pairing.render(book))
    path = str(target).replace("{", "{{").replace("}", "}}")
    try:
        papermill.execute_notebook(
            path,
            path,
            parameters=dict(parameters),
            progress_bar=False,
            execution_timeout=None if timeout is None else max(1, math.ceil(timeout)),
            kernel_manager_class=manager(root),
        )
    except KeyboardInterrupt:
        return "interrupted", "interrupted"
    except DeadKernelError as error:
        return "killed", f"DeadKernelError: {error}"
    except CellTimeoutError as error:
        return "timeout", last(str(error))
    except Exception as error:
        return "failed", last("".join(traceback.format_exception_only(error)))
    if not (folder / "metrics.json").is_file():
        return "failed", "the notebook ended without writing metrics.json into `out`"
    return "done", ""


def last(text: str) -> str:
    """Keeps the end of a long text, where a traceback says what happened."""
    return text.strip()[-LONGEST_ERROR:]


def rows(folder: Path) -> list[dict[str, Any]]:
    """Reads the result rows that a notebook left.

    Args:
        folder: A run's folder.

    Returns:
        The rows of its `metrics.json`; a number that is not finite is `None`.

    Raises:
        DataError: When the file is no list of mappings.
    """
    path = folder / "metrics.json"
    try:
        found = json.loads(path.read_text("utf-8"), parse_constant=lambda _: None)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise DataError(f"{path}: a list of rows is needed, such as [{{'value': 0.1}}]")
    return found
