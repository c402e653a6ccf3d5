"""What a solver answered in a cell of a table, and how well: result rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from prisma_lib import metrics, results
from prisma_lib.cells import Benchmark, Cell, setting
from prisma_lib.checks import check_names
from prisma_lib.pdes.base import Direction, Field
from prisma_lib.solve import Draws

PerProblem = Float[Tensor, " b"]

RATIO = "error_ratio"
# An error below this, in percent, is rounding: the solver that made the truth, or a
# posterior that is a point. Nothing is measured by it, and no ratio formed with it.
ROUNDING = 0.01
# A table's usual numbers of draws whose mean is judged: of more draws, these means too.
MEANS = (8, 16)
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
        """Judges one draw and, if there are more, the mean of all and of `MEANS`.

        Args:
            further: What to measure of one draw beside its error, of `FURTHER`.

        Returns:
            Result rows; a single one without a value where there is no answer.

        Raises:
            ConfigError: When there is no such measure.
        """
        direction, error = self.cell[0], self.problems.pde.error(self.cell[0])
        check_names("measure", further, FURTHER)
        if self.a is None or self.u is None:
            empty = dict.fromkeys(("value", "low", "high", "seconds_per_sample"), "")
            return [self._row(";diverged", error) | empty]
        found = [self.measured("", error, self.errors())]
        for name in further:
            values = FURTHER[name](self.problems, direction, *self.draw())
            found.append(self.measured("", name, values))
        draws = len(self.a)
        for count in sorted({*(few for few in MEANS if few < draws), draws} - {1}):
            a, u = self.a[:count].mean(0), self.u[:count].mean(0)
            values = errors(self.problems, direction, a, u)
            found.append(self.measured(f";mean_of={count}", error, values))
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
        return mine.measured(
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

    def measured(
        self,
        suffix: str,
        metric: str,
        values: PerProblem,
        over: PerProblem | None = None,
    ) -> results.Row:
        """Makes the row of a mean; one problem or trajectory alone has no interval.

        Args:
            suffix: What the row adds to the setting of the cell.
            metric: What was measured.
            values: Its value for each problem.
            over: Values of something else: the row has the ratio of both means.
        """
        problems = self.problems
        mean = values.mean() if over is None else values.mean() / over.mean()
        numbers = {"value": f"{mean.item():.4g}", "low": "", "high": ""}
        if len({*problems.origins}) > 1:
            low, high = metrics.bootstrap_interval(
                values, key=problems.seed, over=over, origins=problems.origins
            )
            numbers |= {"low": f"{low:.4g}", "high": f"{high:.4g}"}
        return {**self._row(suffix, metric), **numbers}
