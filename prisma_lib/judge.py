"""Judges a solver in cells of a table: it answers, rows say how well.

Several cells can be answered in one go, which is what slow methods need: a batch costs
them little more than one problem.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import devices, metrics, provenance, results
from prisma_lib.cells import Benchmark, Cell, observations_of, setting
from prisma_lib.pdes.base import Direction, Field
from prisma_lib.solve import Draws, Solver


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


def judge(
    solver: Solver,
    problems: Benchmark,
    asked: Sequence[Cell],
    *,
    method: str,
    samples: int = 1,
    **labels: Any,
) -> list[results.Row]:
    """Lets a solver answer all problems of several cells at once, and judges it.

    Args:
        solver: The method.
        problems: Test problems.
        asked: Cells of the equation's table, at least one.
        method: Name of the method in the rows.
        samples: Draws per problem; with more than one a second row judges their mean.
        **labels: Further columns, such as `scale`, `steps` or `run`.

    Returns:
        For each cell one row for a single draw, and one for the mean of the draws if
        there are more. Seconds are those of the whole batch, shared equally.

    Raises:
        ConfigError: When the equation has no such cell.
        DataError: When the metric cannot judge the truth, such as misjudged points of a
            continuous field.
    """
    seen = observations_of(problems, asked)
    # A truth that cannot be judged is refused before the solver runs for hours.
    for direction, _ in asked:
        errors(problems, direction, problems.a, problems.u)
    generator = torch.Generator().manual_seed(problems.seed)
    began = time.perf_counter()
    a, u = solver.solve(seen, samples=samples, generator=generator)
    device = a.device
    a, u = a.cpu(), u.cpu()  # waits for the device, too
    seconds = (time.perf_counter() - began) / (samples * seen.batch)
    common = {
        **_about(solver, problems, device),
        "method": method,
        "seconds_per_sample": f"{seconds:.3g}",
        "peak_mb": _peak_mb(device),
        **labels,
    }
    shape = (len(asked), problems.n)
    draws = (x.unflatten(1, shape).unbind(1) for x in (a, u))
    return [
        common | row
        for cell, a_cell, u_cell in zip(asked, *draws, strict=True)
        for row in _judged(problems, cell, a_cell, u_cell)
    ]


def diverged(
    solver: Solver, problems: Benchmark, cell: Cell, **labels: Any
) -> results.Row:
    """Makes the row of a cell that a solver could not answer: it has no value."""
    direction, regime = cell
    return {
        **_about(solver, problems, problems.a.device),
        "direction": direction,
        "regime": regime,
        "setting": setting(problems.pde, regime) + ";diverged",
        "metric": problems.pde.error(direction),
        **dict.fromkeys(("value", "low", "high", "seconds_per_sample"), ""),
        **labels,
    }


def _about(solver: Solver, problems: Benchmark, device: torch.device) -> results.Row:
    return {
        "commit": provenance.commit(),
        "pde": problems.pde.name,
        "n": problems.n,
        "steps": steps_of(solver) or "",
        "calls": solver.calls,
        "device": devices.describe(device),
        "seed": problems.seed,
    }


def _judged(
    problems: Benchmark, cell: Cell, a: Draws, u: Draws
) -> Iterator[results.Row]:
    """Judges one draw, and the mean of the draws if there are more."""
    direction, regime = cell
    judged = {"": (a[0], u[0])}
    if len(a) > 1:
        judged[f";mean_of={len(a)}"] = (a.mean(0), u.mean(0))
    for suffix, (guess_a, guess_u) in judged.items():
        values = errors(problems, direction, guess_a, guess_u)
        low, high = metrics.bootstrap_interval(values, key=problems.seed)
        numbers = {"value": values.mean().item(), "low": low, "high": high}
        yield {
            "direction": direction,
            "regime": regime,
            "setting": setting(problems.pde, regime) + suffix,
            "metric": problems.pde.error(direction),
            **{name: f"{number:.4g}" for name, number in numbers.items()},
        }


def steps_of(solver: Solver) -> int | None:
    """Returns the sampler steps of a solver, if it has a sampler."""
    steps: int | None = getattr(getattr(solver, "schedule", solver), "steps", None)
    return steps


def _peak_mb(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
