"""Trains every variant of a plan and judges each on the same test problems.

    python -m prisma_lib.screen params/recipes.yaml --scale cpu

The plan's `zip` and `grid` list the variants. A variant that has rows is not trained
again, one that was interrupted goes on: the same command finishes what is left.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prisma_lib import evaluate, methods, plans, provenance, results
from prisma_lib.cells import benchmark, cells
from prisma_lib.errors import exit_status
from prisma_lib.solver import PrismaSolver
from prisma_lib.train import PROCESSES, begin, team, watched
from prisma_lib.training import TrainConfig, TrainState


def judged(state: TrainState, n: int, **labels: object) -> list[results.Row]:
    """Evaluates the averaged weights of a finished training.

    Args:
        state: Its last state.
        n: Number of test problems.
        **labels: Further columns of every row.

    Returns:
        One draw's error in every cell; images and minutes of the training.
    """
    averaged = state.average
    problems = benchmark(averaged.pde, n)
    solver = methods.solver(averaged)
    common: dict[str, Any] = {"method": methods.title(averaged), **labels}
    if isinstance(solver, PrismaSolver):
        common["steps"] = solver.schedule.steps
    rows = []
    for direction, regime in cells(averaged.pde):
        rows += evaluate.evaluate(solver, problems, direction, regime, **common)
    spent = {"images": state.images, "minutes": state.seconds / 60}
    about = {k: rows[0][k] for k in ("commit", "method", "pde", "device", "seed")}
    for metric, value in spent.items():
        rows.append({**about, **labels, "metric": metric, "value": f"{value:.6g}"})
    return rows


def screen(
    path: Path, scale: str, out: Path, device: str, n: int, processes: int = 1
) -> Iterator[tuple[str, list[results.Row]]]:
    """Trains and judges what has no rows yet.

    Args:
        path: The plan.
        scale: Name of the scale.
        out: Results file.
        device: "cpu", "cuda" or "auto".
        n: Number of test problems.
        processes: How many train a variant together.

    Yields:
        Name and rows of each variant, once they are in the file.
    """
    done = {row["run"] for row in results.read(out)}
    for name, settings in plans.read_trainings(path, scale).items():
        if name in done:
            continue
        config = TrainConfig.from_dict(settings)
        folder = provenance.ROOT / "outputs" / "train" / path.stem / name
        with team(config, folder, device, processes):
            state = begin(config, folder, device)
            for _ in watched(state, folder):
                pass
        labels = {"sweep": path.stem, "run": name, "scale": scale}
        rows = judged(state, n, **labels)
        results.append(out, rows)
        yield name, rows


def _run(options: argparse.Namespace) -> int:
    """Works through a plan."""
    out = options.results or Path("outputs", "results", f"{options.plan.stem}.csv")
    sizes = options.n, options.processes
    for name, rows in screen(options.plan, options.scale, out, options.device, *sizes):
        cells = (f"{row['value']} {row['metric']}" for row in rows)
        print(f"{name}: {', '.join(cells)}", flush=True)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.screen", description="Compares.")
    parser.add_argument("plan", type=Path, help="plan whose variants are trained")
    parser.add_argument("--scale", default="cpu", choices=plans.SCALES)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--processes", type=int, default=1, help=PROCESSES)
    parser.add_argument("--n", type=int, default=128, help="test problems")
    parser.add_argument("--results", type=Path, help="CSV file that takes the rows")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options), "interrupted: the same command continues")


if __name__ == "__main__":
    sys.exit(main())
