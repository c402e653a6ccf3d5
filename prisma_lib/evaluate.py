"""One door for every method: errors on test problems, as tidy rows.

    python -m prisma_lib.evaluate darcy-32 --n 128 --steps 20

What is asked is in `cells.py` and can be imported from here too.
"""

import argparse
import resource
import sys
import time
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import anchors, checkpoints, devices, metrics, provenance, results
from prisma_lib.cells import (
    REGIMES,
    Benchmark,
    benchmark,
    cells,
    observation_of,
    setting,
)
from prisma_lib.edm import Schedule
from prisma_lib.errors import exit_status
from prisma_lib.model import Prisma
from prisma_lib.pdes.base import Direction, Field
from prisma_lib.solve import PrismaSolver, Solver

__all__ = [
    "REGIMES",
    "Benchmark",
    "benchmark",
    "errors",
    "evaluate",
    "main",
    "observation_of",
    "show",
    "table",
]


def errors(
    problems: Benchmark, direction: Direction, a: Field, u: Field
) -> Float[Tensor, " b"]:
    """Returns the error of each prediction in the direction's metric, in percent."""
    pde = problems.pde
    if direction != "inverse":
        return 100 * metrics.relative_l2(u, problems.u)
    if pde.error(direction) == "error_rate":
        return 100 * metrics.error_rate(a, problems.a, pde.snap)
    return 100 * metrics.relative_l2(a, problems.a)


def evaluate(
    solver: Solver,
    problems: Benchmark,
    direction: Direction,
    regime: str,
    *,
    method: str,
    samples: int = 1,
    **labels: Any,
) -> list[results.Row]:
    """Evaluates one cell of a table.

    Args:
        solver: The method.
        problems: Test problems.
        direction: One of the equation's directions.
        regime: One of `REGIMES`.
        method: Name of the method in the row.
        samples: Draws per problem; with more than one a second row judges their mean.
        **labels: Further columns, such as `scale`, `steps` or `run`.

    Returns:
        One row for a single draw, and one for the mean of the draws if there are more.

    Raises:
        ConfigError: When the equation has no such cell.
        DataError: When the metric cannot judge the truth, such as misjudged points of a
            continuous field.
    """
    seen = observation_of(problems, direction, regime)
    # A truth that cannot be judged is refused before the solver runs for hours.
    errors(problems, direction, problems.a, problems.u)
    generator = torch.Generator().manual_seed(problems.seed)
    began = time.perf_counter()
    a, u = solver.solve(seen, samples=samples, generator=generator)
    device = a.device
    a, u = a.cpu(), u.cpu()  # waits for the device, too
    seconds = (time.perf_counter() - began) / (samples * problems.n)
    common = {
        "commit": provenance.commit(),
        "method": method,
        "pde": problems.pde.name,
        "direction": direction,
        "regime": regime,
        "setting": setting(problems.pde, regime),
        "metric": problems.pde.error(direction),
        "n": problems.n,
        "seconds_per_sample": f"{seconds:.3g}",
        "calls": solver.calls,
        "peak_mb": _peak_mb(device),
        "device": devices.describe(device),
        "seed": problems.seed,
        **labels,
    }
    judged = {"": (a[0], u[0])}
    if samples > 1:
        judged[f";mean_of={samples}"] = (a.mean(0), u.mean(0))
    rows = []
    for suffix, (guess_a, guess_u) in judged.items():
        values = errors(problems, direction, guess_a, guess_u)
        low, high = metrics.bootstrap_interval(values, key=problems.seed)
        numbers = {"value": values.mean().item(), "low": low, "high": high}
        rows.append(
            common
            | {"setting": common["setting"] + suffix}
            | {name: f"{number:.4g}" for name, number in numbers.items()}
        )
    return rows


def table(
    model: Prisma, n: int, steps: int, seed: int = 0, **labels: Any
) -> list[results.Row]:
    """Evaluates a model and every anchor in all cells of its equation.

    Args:
        model: A PRISMA model.
        n: Number of test problems.
        steps: Sampler steps.
        seed: Seed of the test problems.
        **labels: Further columns of every row.
    """
    pde, problems = model.pde, benchmark(model.pde, n, seed)
    prisma = PrismaSolver(model, Schedule(steps))
    rows = []
    for direction, regime in cells(pde):
        cell = problems, direction, regime
        found = anchors.of(pde, direction, regime, problems.noise_sd(regime))
        for method, solver in found.items():
            rows += evaluate(solver, *cell, method=method, **labels)
        rows += evaluate(prisma, *cell, method="PRISMA", steps=steps, **labels)
    return rows


def _peak_mb(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def show(rows: list[results.Row]) -> str:
    """Formats rows as a small text table."""
    head = f"{'method':18} {'direction':9} {'regime':7} {'error %':>8}  95% interval"
    lines = [f"{head}   n  s/sample"]
    lines += [
        f"{row['method']:18} {row['direction']:9} {row['regime']:7} {row['value']:>8}  "
        f"[{row['low']}, {row['high']}]  {row['n']}  {row['seconds_per_sample']}"
        for row in rows
    ]
    return "\n".join(lines)


def _run(options: argparse.Namespace) -> int:
    """Evaluates a model and writes its rows where they are wanted."""
    model = checkpoints.load(options.model, device=options.device)
    folder = checkpoints.find(options.model)
    labels = {
        "sweep": "evaluate",
        "run": f"{folder.name}-{options.steps}-{options.n}-{options.seed}",
        "scale": options.scale,
    }
    rows = table(model, options.n, options.steps, options.seed, **labels)
    print(show(rows))
    if options.results:
        results.append(options.results, rows)
    if options.card:
        card = checkpoints.read_card(folder)
        checkpoints.write_card(folder, card | {"errors": rows})
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.evaluate")
    parser.add_argument("model", help="name of a shipped model, or a folder")
    parser.add_argument("--n", type=int, default=128, help="test problems")
    parser.add_argument("--steps", type=int, default=20, help="sampler steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--results", help="CSV file that takes the rows")
    parser.add_argument(
        "--card", action="store_true", help="write the rows into the model's card"
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
