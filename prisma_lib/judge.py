"""Judges a solver in cells of a table: it answers, rows say how well.

Several cells can be answered in one go, which is what slow methods need: a batch costs
them little more than one problem.
"""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import devices, metrics, provenance, results
from prisma_lib.cells import Benchmark, Cell, observations_of, setting
from prisma_lib.errors import unknown_name
from prisma_lib.pdes.base import Direction, Field
from prisma_lib.solve import Draws, Solver

PerProblem = Float[Tensor, " b"]

RATIO = "error_ratio"
SPECTRAL, IOU = "spectral_power_error", "iou"


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


def spectral_errors(
    problems: Benchmark, direction: Direction, a: Field, u: Field
) -> PerProblem:
    """Returns the error of the power spectrum of the wanted field, in percent."""
    if direction != "inverse":
        return 100 * metrics.spectrum_error(u, problems.u)
    return 100 * metrics.spectrum_error(problems.pde.snap(a), problems.a)


def overlaps(
    problems: Benchmark, direction: Direction, a: Field, u: Field
) -> PerProblem:
    """Returns intersection over union of true and found shape, in percent.

    A shape is where a signed distance `u` is negative, or an indicator `a` is 1.
    """
    if direction != "inverse":
        return 100 * metrics.iou(u < 0, problems.u < 0)
    return 100 * metrics.iou(problems.pde.snap(a) > 0, problems.a > 0)


# What can be measured beside the error.
FURTHER: dict[str, Callable[[Benchmark, Direction, Field, Field], PerProblem]] = {
    SPECTRAL: spectral_errors,
    IOU: overlaps,
}


@dataclass(frozen=True)
class Answer:
    """What a solver answered in one cell.

    Args:
        problems: The problems.
        cell: Direction and regime.
        a: Draws of the input; `None` when the solver could not answer.
        u: Draws of the solution, likewise.
        about: Columns that all its rows share.
        suffix: What rows add to the setting of the cell.
    """

    problems: Benchmark
    cell: Cell
    a: Draws | None
    u: Draws | None
    about: results.Row
    suffix: str = ""

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.about["method"])

    def draw(self) -> tuple[Field, Field]:
        """Returns the first draw of both fields; there must be one."""
        assert self.a is not None
        assert self.u is not None
        return self.a[0], self.u[0]

    def errors(self) -> PerProblem:
        """Returns the error of the first draw of each problem, in percent."""
        return errors(self.problems, self.cell[0], *self.draw())

    def part(self, places: Sequence[int]) -> "Answer":
        """Returns the first draw of some of the problems, as if they had been all.

        Args:
            places: Where they stand here.
        """
        rows = list(places)
        problems = self.problems.part(rows)
        a, u = (x[None, rows] for x in self.draw())
        about = self.about | {"n": problems.n}
        return replace(self, problems=problems, a=a, u=u, about=about)

    def rows(self, further: Sequence[str] = ()) -> list[results.Row]:
        """Judges one draw, and the mean of the draws if there are more.

        Args:
            further: What to measure of one draw beside its error, of `FURTHER`.

        Returns:
            Result rows; a single one without a value where there is no answer.

        Raises:
            ConfigError: When there is no such measure.
        """
        direction, error = self.cell[0], self.problems.pde.error(self.cell[0])
        for name in further:
            if name not in FURTHER:
                raise unknown_name("measure", name, FURTHER)
        if self.a is None or self.u is None:
            empty = dict.fromkeys(("value", "low", "high", "seconds_per_sample"), "")
            return [self._row(";diverged", error) | empty]
        found = [self._measured("", error, self.errors())]
        for name in further:
            values = FURTHER[name](self.problems, direction, *self.draw())
            found.append(self._measured("", name, values))
        if len(self.a) > 1:
            values = errors(self.problems, direction, self.a.mean(0), self.u.mean(0))
            found.append(self._measured(f";mean_of={len(self.a)}", error, values))
        return found

    def over(self, other: "Answer") -> results.Row:
        """Compares the error of one draw with another method's on the same problems.

        Args:
            other: An answer to some of the same problems, in the same cell.

        Returns:
            A row with the ratio of the mean errors and its paired interval.
        """
        numbers = self.problems.numbers
        places = [numbers.index(number) for number in other.problems.numbers]
        mine = self.part(places)
        values = mine.errors()
        return mine._measured(
            f";over={other.method}", RATIO, values, over=other.errors()
        )

    def _row(self, suffix: str, metric: str) -> results.Row:
        direction, regime = self.cell
        return {
            **self.about,
            "direction": direction,
            "regime": regime,
            "setting": setting(self.problems, regime) + suffix + self.suffix,
            "metric": metric,
        }

    def _measured(
        self,
        suffix: str,
        metric: str,
        values: PerProblem,
        over: PerProblem | None = None,
    ) -> results.Row:
        """Makes the row of a mean; one trajectory alone has no interval."""
        problems = self.problems
        mean = values.mean() if over is None else values.mean() / over.mean()
        numbers = {"value": f"{mean.item():.4g}", "low": "", "high": ""}
        if problems.n == 1 or len({*problems.origins}) > 1:
            low, high = metrics.bootstrap_interval(
                values, key=problems.seed, over=over, origins=problems.origins
            )
            numbers |= {"low": f"{low:.4g}", "high": f"{high:.4g}"}
        return {**self._row(suffix, metric), **numbers}


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


def diverged(solver: Solver, problems: Benchmark, cell: Cell, **labels: Any) -> Answer:
    """Makes the answer of a solver that could not give one: its row has no value."""
    about = {**_about(solver, problems, problems.a.device), **labels}
    return Answer(problems, cell, None, None, about)


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
