"""Runs a plan: `python -m prisma_lib.sweep params/darcy.yaml --scale cpu`.

Every run has the folder `outputs/PLAN/RUN/`. A run that is done is not repeated unless
its notebook, its parameters or the library's version changed; a failing run stops no
other. Exit codes: 0 all done, 2 bad plan and nothing started, 3 some runs failed, 4 a
folder cannot be used, 130 interrupted.
"""

import argparse
import contextlib
import fcntl
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from prisma_lib import estimates, plans, results, runs
from prisma_lib.errors import PrismaError, RunDirError, exit_status, unknown_name

SOME_FAILED = 3


def run_one(cell: plans.Cell, out: Path) -> tuple[runs.Run, bool]:
    """Makes one run, or keeps the one that is there.

    Args:
        cell: What to run.
        out: Folder of all outputs.

    Returns:
        The verdict, and whether it is an old one.
    """
    folder = out / cell.plan / cell.name
    old = runs.load(folder)
    identity = runs.identity(cell.notebook, cell.parameters)
    if old is not None and (old.status, old.identity) == ("done", identity):
        return old, True
    minutes = cell.resources.get("cell_minutes")
    run = runs.execute(
        cell.notebook,
        folder,
        cell.parameters,
        timeout=None if minutes is None else 60 * minutes,
    )
    return run, False


def record(cell: plans.Cell, run: runs.Run, out: Path, kept: bool) -> runs.Run:
    """Adds the rows of a finished run to the plan's results.

    Args:
        cell: What was run.
        run: Its verdict.
        out: Folder of all outputs.
        kept: Whether the run is an old one, whose rows may be there.

    Returns:
        The verdict; failed when the rows cannot be used.
    """
    # Smoke rows mean nothing: they stay beside their runs, out of the record.
    smoke = cell.scale == "smoke"
    table = out / (cell.plan if smoke else "results") / f"{cell.plan}.csv"
    if kept and any(row["run"] == cell.name for row in results.read(table)):
        return run
    origin = {"sweep": cell.plan, "run": cell.name, "scale": cell.scale}
    folder = out / cell.plan / cell.name
    try:
        rows = [{**row, **origin, "commit": run.commit} for row in runs.rows(folder)]
        for name in (name for row in rows for name in row):
            if name not in results.COLUMNS:
                raise unknown_name("result column", name, results.COLUMNS)
    except PrismaError as error:
        return run.failed(str(error)).save(folder)
    if rows:
        results.append(table, rows)
    return run


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keeps a second sweep out of a folder while this one works in it.

    Args:
        folder: Folder of a plan's runs.

    Yields:
        Nothing, once the folder is ours.

    Raises:
        RunDirError: When the folder cannot be written or another sweep holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise RunDirError(f"{folder} cannot be written ({error}): use --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise RunDirError(
                f"another sweep works in {folder}: {lock.read().strip()}; wait for it, "
                "or choose another folder with --out"
            ) from error
        lock.truncate(0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        lock.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
        lock.flush()
        yield


def sweep(cells: Sequence[plans.Cell], out: Path) -> int:
    """Makes all runs, one after the other.

    Args:
        cells: What to run.
        out: Folder of all outputs.

    Returns:
        How many runs are not done.
    """
    bad = 0
    with contextlib.ExitStack() as stack:
        for plan in dict.fromkeys(cell.plan for cell in cells):
            stack.enter_context(claimed(out / plan))
        for number, cell in enumerate(cells, 1):
            run, kept = run_one(cell, out)
            if run.status == "done":
                run = record(cell, run, out, kept)
            bad += run.status != "done"
            note = "kept" if kept else f"{run.seconds:.1f} s"
            line = (
                f"[{number}/{len(cells)}] {run.status} {note} {cell.plan}/{cell.name}"
            )
            print("\n  ".join([line, *run.error.splitlines()[-1:]]), flush=True)
    return bad


def parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    options = argparse.ArgumentParser("python -m prisma_lib.sweep")
    options.add_argument("plan", type=Path, help="such as params/darcy.yaml")
    options.add_argument("--scale", required=True, help="smoke, cpu, gpu or paper")
    options.add_argument("--out", type=Path, default=Path("outputs"))
    options.add_argument("--dry-run", action="store_true", help="list the runs only")
    return options


def _run(given: argparse.Namespace) -> int:
    """Makes the runs of a plan, or lists them."""
    cells = plans.cells(given.plan, given.scale)
    if given.dry_run:
        print("\n".join(estimates.listing(cells, given.out)))
        return 0
    bad = sweep(cells, given.out)
    print(f"{len(cells) - bad} done, {bad} failed")
    return SOME_FAILED if bad else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: Words of the command line; those of the process by default.

    Returns:
        Exit code.
    """
    given = parser().parse_args(arguments)
    return exit_status(
        lambda: _run(given), "interrupted: the same command goes on where it stopped"
    )


if __name__ == "__main__":
    sys.exit(main())
