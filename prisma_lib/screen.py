"""Trains every variant of a plan and judges each on the same test problems.

    python -m prisma_lib.screen params/recipes.yaml --scale cpu
    python -m prisma_lib.screen params/baselines.yaml --models outputs/models/baselines

The plan's `zip` and `grid` list the variants, of PRISMA or of any baseline that is
trained; each is judged in the cells that apply to it. A variant that has rows, and its
model where `--models` wants one, is not trained again; one that was interrupted goes
on: the same command finishes what is left, and names what it keeps. A results file has
rows of one split; those of other scales stand beside them.
With `--split validation` the problems are others than those of the tables: for settings
that are chosen by the result.
"""

import argparse
import fnmatch
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from prisma_lib import baselines, checkpoints, pdes, plans, provenance, results
from prisma_lib.cells import benchmark
from prisma_lib.checks import check_count
from prisma_lib.comparison import asked_of, rows_of
from prisma_lib.errors import ConfigError, exit_status
from prisma_lib.files import make_folder
from prisma_lib.train import PROCESSES, begin, finish, team, watched
from prisma_lib.training import TrainConfig, TrainState


def judged(
    state: TrainState, n: int, split: str = "test", **labels: object
) -> list[results.Row]:
    """Evaluates the averaged weights of a finished training.

    Args:
        state: Its last state.
        n: Number of problems; slow methods get fewer.
        split: The split that they are from; rows of others than "test" say so.
        **labels: Further columns of every row.

    Returns:
        One draw's error in every cell; images and minutes of the training.
    """
    averaged = state.average
    problems = benchmark(averaged.pde, n, split=split)
    solver_of = partial(baselines.of_cell, averaged)
    rows = [*rows_of(averaged.method, solver_of, problems, **labels)]
    if split != "test":
        rows = [row | {"setting": f"{row['setting']};split={split}"} for row in rows]
    spent = {"images": state.images, "minutes": state.seconds / 60}
    about = {k: rows[0][k] for k in ("commit", "method", "pde", "device", "seed")}
    for metric, value in spent.items():
        rows.append({**about, **labels, "metric": metric, "value": f"{value:.6g}"})
    return rows


def screen(
    path: Path,
    scale: str,
    out: Path,
    device: str,
    n: int,
    split: str = "test",
    models: Path | None = None,
    processes: int = 1,
    only: str = "*",
    folder: Path | None = None,
) -> Iterator[tuple[str, list[results.Row]]]:
    """Trains and judges what has no rows yet, or lacks the model that is wanted.

    Args:
        path: The plan.
        scale: Name of the scale.
        out: Results file.
        device: "cpu", "cuda" or "auto".
        n: Number of problems that each is judged on.
        split: The split that they are from.
        models: Folder that takes the models as METHOD-PDE-SIZE; without one each stays
            with its training.
        processes: How many train a variant together.
        only: Pattern of the variants' names, such as `*-sra-*`.
        folder: Holds the trainings; outputs/train/PLAN without one.

    Yields:
        Name and rows of each variant, once they are in the file.

    Raises:
        ConfigError: When the plan cannot be used, trains what has no cell, or `out` has
            rows of the other split.
        RunDirError: When `out` or `models` cannot be written.
    """
    check_count("n", n, 1, 128)
    trainings = _chosen(path, scale, only)
    home = folder or provenance.ROOT / "outputs" / "train" / path.stem
    kept = {name: _kept(config) for name, config in trainings.items()}
    if models and len({*kept.values()}) < len(kept):
        raise ConfigError(
            f"{path} trains a method twice for the same equation and size, and one "
            f"model would replace the other in {models}: leave out --models"
        )
    for config in trainings.values():
        asked_of(config.method, pdes.load(config.pde, config.size))
    results.check(out)
    if models:
        make_folder(models)
    done = _judged(out, scale, split)
    for name, config in trainings.items():
        model = models / kept[name] if models else home / name / "model"
        # Rows travel with the project, most models do not: some solver may want one.
        if name in done and (not models or (model / checkpoints.CARD).exists()):
            continue
        with team(config, home / name, device, processes):
            state = begin(config, home / name, device)
            for _ in watched(state, home / name):
                pass
        finish(state, model)
        labels = {"sweep": path.stem, "run": name, "scale": scale}
        rows = judged(state, n, split, **labels)
        results.append(out, rows)
        yield name, rows


def _judged(out: Path, scale: str, split: str) -> set[str]:
    """Returns the variants that have rows at a scale."""
    rows = [row for row in results.read(out) if row["scale"] == scale and row["n"]]
    for row in rows:
        theirs = results.settings(row).get("split", "test")
        if theirs != split:
            raise ConfigError(
                f"{out} has rows of the {theirs} split, such as those of {row['run']}: "
                f"give --results another file for those of the {split} split"
            )
    return {row["run"] for row in rows}


def _chosen(path: Path, scale: str, only: str) -> dict[str, TrainConfig]:
    every = plans.read_trainings(path, scale)
    found = {name: every[name] for name in fnmatch.filter(every, only)}
    if not found:
        raise ConfigError(
            f"--only {only!r} fits none of {len(every)} variants of {path}, such as "
            f"{', '.join([*every][:5])}: give a name, or a pattern in quotes"
        )
    return {name: TrainConfig.from_dict(settings) for name, settings in found.items()}


def _kept(config: TrainConfig) -> str:
    return baselines.folder_name(config.method, config.pde, config.size)


def _run(options: argparse.Namespace) -> int:
    """Works through a plan."""
    out = options.results or Path("outputs", "results", f"{options.plan.stem}.csv")
    judging = options.n, options.split, options.models, options.processes
    kept = dict.fromkeys(_chosen(options.plan, options.scale, options.only))
    for name, rows in screen(
        *(options.plan, options.scale, out, options.device),
        *judging,
        only=options.only,
    ):
        cells = (f"{row['value']} {row['metric']}" for row in rows)
        print(f"{name}: {', '.join(cells)}", flush=True)
        del kept[name]
    if kept:
        print(f"kept, for {out} has their rows: {', '.join(kept)}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.screen", description="Compares.")
    parser.add_argument("plan", type=Path, help="plan whose variants are trained")
    parser.add_argument("--scale", default="cpu", choices=plans.SCALES)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--processes", type=int, default=1, help=PROCESSES)
    parser.add_argument("--only", default="*", help="pattern of variants, in quotes")
    parser.add_argument("--n", type=int, default=128, help="problems to judge on")
    parser.add_argument("--split", default="test", choices=("test", "validation"))
    parser.add_argument("--models", type=Path, help="folder that takes the models")
    parser.add_argument("--results", type=Path, help="CSV file that takes the rows")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options), "interrupted: the same command continues")


if __name__ == "__main__":
    sys.exit(main())
