"""Judges a solver in cells of a table: it answers, rows say how well.

Several cells can be answered in one go, which is what slow methods need: a batch costs
them little more than one problem.
"""

import resource
import time
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import devices, provenance, results
from prisma_lib.answers import Answer, errors
from prisma_lib.cells import Benchmark, Cell, observations_of
from prisma_lib.checks import check_count
from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import PDE
from prisma_lib.solve import Solver


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
        samples: Draws per problem; with more than one further rows judge their mean.
        **labels: Further columns, such as `scale`, `steps` or `run`.

    Returns:
        For each cell one row for a single draw, and if there are more for the mean of
        all, and of 8 and 16 of them. Seconds are those of the whole batch, shared
        equally.

    Raises:
        ConfigError: When the equation has no such cell, the solver is for another one,
            or `samples` is no number of draws.
        DataError: When the metric cannot judge the truth, such as misjudged points of a
            continuous field.
    """
    told = {"method": method, "samples": samples, **labels}
    found = answered(solver, problems, asked, **told)
    return [row for answer in found for row in answer.rows()]


def answered(
    solver: Solver,
    problems: Benchmark,
    asked: Sequence[Cell],
    *,
    method: str,
    samples: int = 1,
    **labels: Any,
) -> list[Answer]:
    """Lets a solver answer all problems of several cells at once; see `judge`."""
    _check(solver, problems.pde)
    check_count("samples", samples, 1, 16)
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
        Answer(problems, cell, a_cell, u_cell, common)
        for cell, a_cell, u_cell in zip(asked, *draws, strict=True)
    ]


def _check(solver: Solver, pde: PDE) -> None:
    if not hasattr(solver, "solve"):
        raise ConfigError(
            f"a {type(solver).__name__} does not answer by itself: give a solver, such "
            "as PrismaSolver(model)"
        )
    own = getattr(solver, "pde", pde)
    if (own.name, own.channels) != (pde.name, pde.channels):
        raise ConfigError(
            f"trained for {own.name} with channels {own.channels}, asked for "
            f"{pde.name} with {pde.channels}"
        )


def diverged(solver: Solver, problems: Benchmark, cell: Cell, **labels: Any) -> Answer:
    """Makes the answer of a solver that could not give one: its row has no value."""
    about = {**_about(solver, problems, problems.a.device), **labels}
    return Answer(problems, cell, None, None, about)


def row_of(
    solver: Solver,
    problems: Benchmark,
    cell: Cell,
    values: Float[Tensor, " b"],
    **labels: Any,
) -> results.Row:
    """Makes a row of something else than the error that was measured in a cell.

    Args:
        solver: The method.
        problems: Test problems.
        cell: What was asked.
        values: What was measured, for each problem.
        **labels: Further columns, `metric` and `method` among them.
    """
    about = {**_about(solver, problems, problems.a.device), **labels}
    answer = Answer(problems, cell, None, None, about)
    return answer.measured("", str(labels["metric"]), values)


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


def steps_of(solver: Solver) -> int | None:
    """Returns the sampler steps of a solver, if it has a sampler."""
    steps: int | None = getattr(getattr(solver, "schedule", solver), "steps", None)
    return steps


def _peak_mb(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
