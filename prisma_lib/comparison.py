"""Methods side by side, in every cell that applies, slow ones on a few problems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from prisma_lib import baselines, methods, results
from prisma_lib.answers import ROUNDING, Answer
from prisma_lib.baselines import Answers
from prisma_lib.baselines.guided import PUBLISHED, GuidedSolver
from prisma_lib.cells import Benchmark, Cell, cells
from prisma_lib.errors import ConfigError, NumericsError
from prisma_lib.judge import answered, diverged, steps_of
from prisma_lib.model import Prisma
from prisma_lib.pdes.base import PDE
from prisma_lib.solver import Solver

EQUAL = "PRISMA (equal budget)"


def title_of(name: str) -> str:
    """Returns what tables call a method that was trained with the baselines' budget.

    Args:
        name: One of `methods.OURS`, or the name of a baseline.

    Raises:
        ConfigError: When there is no method of that name.
    """
    return EQUAL if name == Prisma.method else methods.title(name)


def compare(
    names: Sequence[str],
    problems: Benchmark,
    *,
    prisma: Solver | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    **labels: Any,
) -> list[results.Row]:
    """Evaluates baselines in every cell that applies to them.

    A slow method answers a few problems only; see `answers_of`.

    Args:
        names: Names of baselines; "prisma" is the one trained with their budget.
        problems: Test problems.
        prisma: PRISMA, which is judged in all cells, on all problems and on every
            smaller number that a slow method answered.
        settings: By name: settings of `baselines.solvers`.
        **labels: Further columns of every row.

    Raises:
        ConfigError: When a name or a setting is unknown, or a baseline has no cell.
        CheckpointError: When a baseline has no weights.
    """
    given = settings or {}
    answers = {}
    for name in names:
        asked_of(name, problems.pde)
        answers[name] = baselines.solvers(name, problems.pde, **given.get(name, {}))
    rows: list[results.Row] = []
    nums = {problems.n}
    for name, solver_of in answers.items():
        mine = {"method": title_of(name)}
        found = list(rows_of(name, solver_of, problems, **labels, **mine))
        nums |= {row["n"] for row in found}
        rows += found
    if prisma:
        network = getattr(prisma, "model", Prisma)  # another solver has none
        ours = {"method": network.title}
        for n in sorted(nums):
            few = problems.few(n)
            rows += rows_of("prisma", lambda *_: prisma, few, **labels, **ours)
    return rows


def rows_of(
    name: str, solver_of: Answers, problems: Benchmark, **labels: Any
) -> Iterator[results.Row]:
    """Evaluates a method in every cell that applies to it; see `answers_of`.

    Yields:
        A row for each cell; that of a guided method names the weights, and has no
        value where they pull a draw to infinity.
    """
    for answer in answers_of(name, solver_of, problems, **labels):
        yield from answer.rows()


def answers_of(
    name: str,
    solver_of: Answers,
    problems: Benchmark,
    wanted: Sequence[Cell] | None = None,
    **labels: Any,
) -> Iterator[Answer]:
    """Lets a method answer every cell that applies to it.

    Args:
        name: One of `methods.OURS`, or the name of a baseline: a slow one answers a few
            problems only, and cells of one direction with equal solvers in one batch.
        solver_of: Makes the solver of a cell.
        problems: Test problems.
        wanted: Cells; by default all of the equation's table.
        **labels: Further columns of every row.

    Yields:
        An answer for each cell.

    Raises:
        ConfigError: When no cell of the table applies.
    """
    every = asked_of(name, problems.pde)
    mine = [cell for cell in every if wanted is None or cell in wanted]
    solvers = [(solver_of(*cell), cell) for cell in mine]
    few = None
    if name not in methods.OURS and solvers:
        few = baselines.limit(name, steps_of(solvers[0][0]))
    title = methods.title(name)
    asked = problems.few(few) if few else problems
    # Guidance may take other noise levels in another direction.
    alike = groupby(solvers, lambda pair: (pair[0], pair[1][0]))
    for (solver, _), pairs in alike:
        batch = [cell for _, cell in pairs]
        for part in [batch] if few else [[cell] for cell in batch]:
            yield from guarded(solver, asked, part, **{"method": title, **labels})


def guarded(
    solver: Solver, problems: Benchmark, part: Sequence[Cell], **labels: Any
) -> list[Answer]:
    """Answers; where guidance pulls a draw to infinity, there is no answer.

    Args:
        solver: The method.
        problems: Test problems.
        part: Cells that are answered in one batch.
        **labels: Further columns of every row.

    Raises:
        NumericsError: When draws that nothing guides are not finite.
    """
    suffix = guidance(solver)
    try:
        found = answered(solver, problems, part, **labels)
        return [replace(answer, suffix=suffix) for answer in found]
    except NumericsError:
        if not isinstance(solver, GuidedSolver):
            raise
    if len(part) == 1:
        nothing = diverged(solver, problems, part[0], **labels)
        return [replace(nothing, suffix=suffix)]
    alone = (guarded(solver, problems, [cell], **labels) for cell in part)
    return [answer for answers in alone for answer in answers]


def guidance(solver: Solver) -> str:
    """Names the weights of a guided solver, as a part of a row's setting.

    The residual is that of the publication where the weights are, and ours otherwise,
    unless it is said.
    """
    if not isinstance(solver, GuidedSolver):
        return ""
    if isinstance(solver.weights, str):
        return f";weights={solver.weights}"
    residual = ";residual=published" if solver.residual == PUBLISHED else ""
    return (
        ";weights=" + "/".join(f"{v:.3g}" for v in solver.weights.values()) + residual
    )


def asked_of(name: str, pde: PDE) -> list[Cell]:
    """Lists the cells of an equation's table that apply to a method.

    Args:
        name: One of `methods.OURS`, to which all apply, or the name of a baseline.
        pde: The equation.

    Raises:
        ConfigError: When none applies.
    """
    every = cells(pde)
    if name in methods.OURS:
        return every
    found = [cell for cell in every if baselines.applies(name, pde.name, *cell)]
    if not found:
        raise ConfigError(
            f"not applicable: the paper has no number for {baselines.title(name)} in "
            f"{pde.name}; leave it out"
        )
    return found


def ratios(found: Sequence[Answer]) -> Iterator[results.Row]:
    """Compares PRISMA's errors with everybody else's on the same problems.

    Few problems are as hard for one method as for another: the interval of a ratio of
    paired errors leaves that out, and tells more than those of both errors.

    Args:
        found: Answers, of which some are PRISMA's.

    Yields:
        A row of the ratio of PRISMA's mean error to that of another answer to the same
        problems in the same cell, unless that has no answer or its error is rounding.
    """
    ours = {
        (answer.cell, answer.problems.numbers): answer
        for answer in found
        if answer.method == Prisma.title
    }
    for other in found:
        mine = ours.get((other.cell, other.problems.numbers))
        if mine is None or mine.method == other.method or other.a is None:
            continue
        if other.errors().mean() >= ROUNDING:
            yield mine.over(other)
