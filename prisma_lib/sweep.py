"""Runs a plan: `python -m prisma_lib.sweep params/darcy.yaml --scale cpu`.

Every run has the folder `outputs/PLAN/RUN/`, whose `run.json` says what became of it.
The same command goes on where the last one stopped: a run that is done is not repeated
unless its notebook, parameters, model or data changed, or the library's version; one
whose notebook failed is repeated with `--retry-failed`; a failing run stops no other.
Exit codes: 0 all done, 2 bad plan and nothing started, 3 some runs failed, 4 a folder
cannot be used, the disk is full or Slurm takes no job, 130 interrupted.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prisma_lib import (
    board,
    clusters,
    engine,
    estimates,
    execution,
    locks,
    plans,
    recording,
    runs,
    slurm,
)
from prisma_lib.errors import RunDirError, exit_status
from prisma_lib.progress import bar

SOME_FAILED = 3
HERE = clusters.Where()


def job(cell: plans.Cell, out: Path) -> engine.Job:
    """Returns a run as a worker gets it."""
    minutes = cell.resources.get("cell_minutes")
    threads = cell.resources.get("threads")
    return engine.Job(
        source=cell.notebook.resolve(),
        folder=cell.folder(out).resolve(),
        parameters=cell.parameters,
        timeout=None if minutes is None else 60 * minutes,
        threads=None if threads is None else int(threads),
        gpus=int(cell.resources.get("gpus", 0)),
    )


def sweep(
    cells: Sequence[plans.Cell],
    out: Path,
    where: clusters.Where = HERE,
    *,
    retry: bool = False,
) -> int:
    """Makes all runs that are not done.

    Args:
        cells: What to run.
        out: Folder of all outputs.
        where: Where the runs are made; on this machine by default.
        retry: Whether to repeat runs whose notebook failed.

    Returns:
        How many runs are not done.

    Raises:
        ConfigError: When a notebook cannot run or workers cannot be started.
        RunDirError: When a folder cannot be written or another sweep works in it.
        KeyboardInterrupt: When it was interrupted; the records of its runs say so.
    """
    start = time.monotonic()
    for cell in {cell.notebook: cell for cell in cells}.values():
        given = execution.injected(cell.notebook, out / cell.name, cell.parameters)
        execution.prepare(cell.notebook, given)
    with contextlib.ExitStack() as stack:
        for plan in dict.fromkeys(cell.plan for cell in cells):
            stack.enter_context(locks.locked(out / plan))
        kept = finished(cells, out, retry)
        old = [cell for cell in cells if cell.full_name in kept]
        settled = recording.record([(c, kept[c.full_name]) for c in old], out)
        found = dict(zip((cell.full_name for cell in old), settled, strict=True))
        warn_of_other_code([*kept.values()])
        todo = [cell for cell in cells if cell.full_name not in kept]
        if todo:
            stack.enter_context(execution.terminable())
            found |= make(todo, out, where)
    known = [(cell.full_name, found[cell.full_name]) for cell in cells]
    print(board.summary(known, len(kept), time.monotonic() - start))
    return sum(run.status != "done" for run in found.values())


def finished(
    cells: Sequence[plans.Cell], out: Path, retry: bool
) -> dict[str, runs.Run]:
    """Returns the records of the runs that need not be made."""
    found = {}
    for cell in cells:
        run = runs.load(cell.folder(out))
        if (
            run is not None
            and (run.status == "done" or (run.final and not retry))
            and run.identity == runs.identity(cell.notebook, cell.parameters)
        ):
            found[cell.full_name] = run
    if found:
        print(f"{len(found)} of {len(cells)} runs are there and kept")
    if failed := sum(run.status != "done" for run in found.values()):
        print(f"{failed} of them failed: --retry-failed makes them again")
    return found


def warn_of_other_code(kept: Sequence[runs.Run]) -> None:
    """Says that kept runs were made by another state of the library's source."""
    other = sorted({run.commit for run in kept if run.code != runs.code()})
    if other:
        print(
            f"note: kept runs are of other code, of commit {', '.join(other)}; delete "
            "their folders to make them with the code that is here"
        )


def make(
    cells: Sequence[plans.Cell], out: Path, where: clusters.Where
) -> dict[str, runs.Run]:
    """Makes runs, and writes their rows as they end.

    Args:
        cells: What to run; nobody else works in their plans' folders.
        out: Folder of all outputs.
        where: Where the runs are made.

    Returns:
        Verdict by full name.

    Raises:
        ConfigError: When workers cannot be started, or Slurm takes no job.
        RunDirError: When the disk is full or a folder cannot be written.
    """
    jobs = [job(cell, out) for cell in cells]
    by_folder = dict(zip([one.folder for one in jobs], cells, strict=True))
    found: dict[str, runs.Run] = {}
    try:
        with engine.started(where, jobs) as pool, bar(len(jobs), "run") as shown:
            queue(cells, out)
            print(f"{len(jobs)} runs, {pool.about()}", flush=True)
            start = time.monotonic()
            for one, run in pool.outcomes(jobs):
                cell = by_folder[one.folder]
                if run.status == "done":
                    (run,) = recording.record([(cell, run)], out)
                found[cell.full_name] = run
                passed = time.monotonic() - start
                left = passed / len(found) * (len(jobs) - len(found))
                number = f"{len(found)}/{len(jobs)}"
                shown.write(board.line(number, cell.full_name, run, left))
                sys.stdout.flush()
                shown.update()
                stop_when_full(run)
    finally:
        for cell in cells:
            if cell.full_name not in found:
                abandon(cell.folder(out))
    return found


def queue(cells: Sequence[plans.Cell], out: Path) -> None:
    """Writes that runs wait for their turn."""
    firsts = {
        cell.notebook: execution.begun(cell.notebook, cell.parameters, "queued")
        for cell in {cell.notebook: cell for cell in cells}.values()
    }
    for cell in cells:
        folder = cell.folder(out)
        identity = runs.identity(cell.notebook, cell.parameters)
        with execution.writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace(firsts[cell.notebook], identity=identity).save(folder)


def abandon(folder: Path) -> None:
    """Writes that a run did not end, unless its record says how it did."""
    run = runs.load(folder)
    if run is not None and run.status in ("queued", "running", "killed"):
        with contextlib.suppress(OSError):  # the reason may be a full disk
            run.ended("interrupted", f"interrupted while {run.status}").save(folder)


def stop_when_full(run: runs.Run) -> None:
    """Ends a sweep whose disk is full: all other runs would fail too.

    Raises:
        RunDirError: When it is.
    """
    if run.out_of_space:
        raise RunDirError(
            f"the disk is full ({board.reason(run)}): make space, then the same "
            "command goes on"
        )


def states(cells: Sequence[plans.Cell], out: Path) -> list[tuple[str, runs.Run | None]]:
    """Looks what has become of runs; starts and writes nothing."""
    known = []
    for cell in cells:
        run = runs.seen(cell.folder(out))
        identity = runs.identity(cell.notebook, cell.parameters)
        if run is not None and run.final and run.identity != identity:
            run = replace(run, error="changed since then: it will run again")
        known.append((cell.full_name, run))
    return known


def numbers(text: str) -> tuple[int, ...]:
    """Reads numbers with commas between them."""
    return tuple(int(word) for word in text.split(","))


def parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    options = argparse.ArgumentParser("python -m prisma_lib.sweep")
    add = options.add_argument
    add("plan", type=Path, help="such as params/darcy.yaml")
    add("--scale", required=True, help="smoke, cpu, gpu or paper")
    add("--out", type=Path, default=Path("outputs"))
    add("--only", nargs="+", default=[], metavar="PATTERN", help="such as '*sparse*'")
    does = options.add_mutually_exclusive_group()
    for name, text in {
        "--dry-run": "list the runs only; with --slurm, the job script too",
        "--status": "list the states of the runs only",
        "--resume": "go on where the last call stopped: the default",
        "--retry-failed": "go on, and repeat runs whose notebook failed",
    }.items():
        does.add_argument(name, action="store_true", help=text)
    add("-j", "--jobs", type=int, help="runs at once, or jobs of Slurm")
    add("--gpus", type=numbers, default=(), help="such as 0,1: one run on each")
    add("--scheduler", help="address of a Dask cluster that runs already")
    add("--slurm", type=Path, help="YAML file that says how to ask for a job")
    return options


def _run(given: argparse.Namespace) -> int:
    """Makes the runs of a plan, or lists them."""
    where = clusters.Where(given.jobs, given.gpus, given.scheduler, given.slurm)
    clusters.check(where)
    cells = plans.chosen(plans.cells(given.plan, given.scale), given.only)
    if given.dry_run:
        print("\n".join(estimates.listing(cells, given.out)))
        if given.slurm:
            print(slurm.job_script(given.slurm))
        return 0
    if given.status:
        print(board.states(states(cells, given.out)))
        return 0
    bad = sweep(cells, given.out, where, retry=given.retry_failed)
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
