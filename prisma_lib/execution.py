"""One run of a notebook: a folder, an execution by papermill, a verdict."""

import math
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import prisma_lib
from prisma_lib import locks, pairing, provenance, runs, values
from prisma_lib.errors import ConfigError
from prisma_lib.files import write_json
from prisma_lib.runs import Run

LONGEST_ERROR = 4000


def injected(
    source: Path, folder: Path, given: Mapping[str, object]
) -> dict[str, object]:
    """Returns all values that a run injects into its notebook.

    Args:
        source: The notebook's `.py`.
        folder: Where the run lives.
        given: Values of the plan.
    """
    root = source.resolve().parents[1]
    return {**given, "out": shown(folder, root), "interactive": False}


def shown(path: Path, root: Path) -> str:
    """Returns a path as a notebook may show it: relative to `root`, if below it."""
    path, root = path.resolve(), root.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def prepare(source: Path, parameters: Mapping[str, object]) -> pairing.Book:
    """Converts a notebook and checks it and the values for its parameters.

    Args:
        source: The notebook's `.py`.
        parameters: All values to inject.

    Returns:
        The notebook.

    Raises:
        ConfigError: When the notebook or a parameter does not exist, a value has the
            wrong type, or the notebook would end its kernel.
    """
    book = pairing.read(source)
    values.check(parameters, pairing.parameters(book, source.name))
    if "kernelspec" not in book["metadata"]:
        raise ConfigError(
            f"{source} has no kernelspec in its header, which papermill needs: copy "
            "the header of another notebook"
        )
    for position, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "code" and pairing.LEAVES.search(pairing.text(cell)):
            raise ConfigError(
                f"{source}, cell {position}: exit() and quit() hide a failure; raise "
                "an error instead"
            )
    return book


def begun(source: Path, parameters: Mapping[str, object], status: str) -> Run:
    """Makes the record of a run that this process queues or starts."""
    return Run(
        status=status,
        notebook=source.stem,
        identity=runs.identity(source, parameters),
        source=pairing.read(source)["metadata"]["prisma"]["cells"],
        version=prisma_lib.__version__,
        code=runs.code(),
        commit=provenance.commit(),
        pid=os.getpid(),
        host=socket.gethostname(),
        start=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def execute(
    source: Path,
    folder: Path,
    parameters: Mapping[str, object],
    *,
    timeout: float | None = None,
    threads: int | None = None,
    tries: int = 1,
    keep: bool = False,
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
        threads: CPU threads of the kernel; by default it decides itself.
        tries: Which try of the run this is.
        keep: Wait for a process that makes the same run, and keep a run that is done.

    Returns:
        The verdict. A failing notebook is a verdict, not an exception.

    Raises:
        ConfigError: When the parameters do not fit the notebook; nothing was started.
        RunDirError: When the folder cannot be written or another process works in it.
        KeyboardInterrupt: When the run was interrupted; its verdict says so.
    """
    given = injected(source, folder, parameters)
    book = prepare(source, given)
    with locks.locked(folder, wait=keep):
        run = replace(begun(source, parameters, "running"), tries=tries)
        old = runs.load(folder)
        if keep and old and (old.status, old.identity) == ("done", run.identity):
            return old
        with writable(folder):
            claim(folder, run, parameters)
            start = time.monotonic()
            with terminable():
                root = source.resolve().parents[1]
                status, error = attempt(book, folder, given, root, timeout, threads)
            seconds = round(time.monotonic() - start, 2)
            run = replace(run, seconds=seconds).ended(status, error).save(folder)
    if status == "interrupted":
        raise KeyboardInterrupt
    return run


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turns the errors of a disk into those of the library."""
    try:
        yield
    except OSError as error:
        raise locks.unwritable(folder, error) from error


@contextmanager
def terminable() -> Iterator[None]:
    """Lets a request to terminate end the work as Ctrl-C does, with its verdict.

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
    for stale in [folder / "metrics.json", *folder.glob(".*.part")]:
        stale.unlink(missing_ok=True)
    write_json(folder / "params.json", dict(parameters))
    run.save(folder)


def attempt(
    book: pairing.Book,
    folder: Path,
    parameters: Mapping[str, object],
    root: Path,
    timeout: float | None,
    threads: int | None,
) -> tuple[str, str]:
    """Executes a notebook.

    Args:
        book: The notebook.
        folder: Where `notebook.ipynb` goes.
        parameters: All values to inject.
        root: Working folder of the kernel.
        timeout: Seconds that one cell may take.
        threads: CPU threads of the kernel.

    Returns:
        Status and error text.
    """
    import papermill
    from nbclient.exceptions import CellTimeoutError

    from prisma_lib.kernels import manager

    target = folder / "notebook.ipynb"
    path = str(target).replace("{", "{{").replace("}", "}}")
    try:
        target.write_bytes(pairing.render(book))
        ended = papermill.execute_notebook(
            path,
            path,
            parameters=dict(parameters),
            progress_bar=False,
            execution_timeout=None if timeout is None else max(1, math.ceil(timeout)),
            kernel_manager_class=manager(root, threads),
        )
    except KeyboardInterrupt:
        return "interrupted", "interrupted"
    except RuntimeError as error:  # also of a kernel that died while it started
        return "killed", f"{type(error).__name__}: {error}"
    except CellTimeoutError as error:
        return "timeout", last(str(error))
    except Exception as error:
        return "failed", last("".join(traceback.format_exception_only(error)))
    # Papermill takes `sys.exit(0)` for a good end, whatever cells come after it.
    if any(cell.metadata.papermill.status != "completed" for cell in ended.cells):
        return "failed", "a cell ended the notebook before its end, as sys.exit() does"
    if not (folder / "metrics.json").is_file():
        return "failed", "the notebook ended without writing metrics.json into `out`"
    return "done", ""


def last(text: str) -> str:
    """Keeps the end of a long text, where a traceback says what happened."""
    return text.strip()[-LONGEST_ERROR:]
