"""Pictures of problems and of the answers of all methods to one of them (Q1 to Q9)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from prisma_lib import charts, metrics, plots
from prisma_lib.answers import ROUNDING, Answer, errors
from prisma_lib.benchmarks import Contest
from prisma_lib.cells import Benchmark, Cell, observation_of
from prisma_lib.claims.evidence import OURS
from prisma_lib.errors import NumericsError
from prisma_lib.markdown import counted
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.plots import Panel
from prisma_lib.tables import MEAN

Flat = Float[Tensor, "x y"]

WIDE = 4  # answers side by side
CHEAP = 50  # network calls of a draw: a solver with no more is warmed up


@dataclass(frozen=True)
class Shown:
    """One method's answer to one problem.

    Args:
        a: The input.
        u: The solution.
        wanted: The field that was asked for, as it is judged.
        error: Its error in percent.
        note: What it cost.
    """

    a: Field
    u: Field
    wanted: Flat
    error: float
    note: str


def truths(problems: Benchmark, num: int = 5) -> Figure:
    """Draws true pairs, input above solution.

    Args:
        problems: Test problems.
        num: How many of them.
    """
    few = problems.few(num)
    rows = [
        [
            Panel(x[i, 0], f"{name}, problem {few.numbers[i]}", name)
            for i in range(few.n)
        ]
        for name, x in (("a", few.a), ("u", few.u))
    ]
    return _named(plots.grid(rows), few.pde)


def _named(figure: Figure, pde: PDE) -> Figure:
    """Writes t and x at the axes of fields over time, which are not those of space."""
    across, up = pde.grid.axes
    for axis in figure.axes if "t" in (across, up) else ():
        if axis.images:  # a bar of colours has none
            axis.set(xlabel=across, ylabel=up)
    return figure


def one_answer(contest: Contest, cell: Cell, number: int = 0) -> dict[str, Shown]:
    """Lets everybody answer one problem alone, timed.

    What is cheap answers twice and the second answer counts: the first pays for what is
    set up once, such as factors of a matrix.

    Args:
        contest: Who answers.
        cell: Direction and regime.
        number: Place of the problem among the test problems.

    Returns:
        Answers by the name of the method; those that guidance pulls to infinity are
        left out, and those that are the truth to rounding.
    """
    problem = contest.problems.part([number])
    seen = observation_of(problem, *cell)
    found = {}
    for name, solver in contest.solvers(cell).items():
        try:
            for _ in range(2 if solver.calls <= CHEAP else 1):
                generator = torch.Generator().manual_seed(problem.seed)
                began = time.perf_counter()
                draws = solver.solve(seen, samples=1, generator=generator)
                a, u = (x[0].cpu() for x in draws)
                seconds = time.perf_counter() - began
        except NumericsError:
            continue
        calls = f", {counted(solver.calls, 'call')}" if solver.calls else ""
        wanted = problem.pde.snap(a) if cell[0] == "inverse" else u
        error = errors(problem, cell[0], a, u).item()
        if error >= ROUNDING:
            found[name] = Shown(a, u, wanted[0, -1], error, f"{seconds:.2g} s{calls}")
    return found


def answers(
    contest: Contest, cell: Cell, found: Mapping[str, Shown], number: int = 0
) -> Figure:
    """Draws observation, truth, every answer, and below each its error.

    Colours end half a range beyond those of the truth, so that one bad answer does not
    hide the others.

    Args:
        contest: Who answered.
        cell: Direction and regime.
        found: Answers; see `one_answer`.
        number: Place of the problem among the test problems.
    """
    problem = contest.problems.part([number])
    seen = observation_of(problem, *cell)
    inverse = cell[0] == "inverse"
    names = ("a", "u") if cell[0] == "forward" else ("u", "a" if inverse else "u")
    values, mask = (
        (seen.a, seen.mask_a) if cell[0] == "forward" else (seen.u, seen.mask_u)
    )
    observed = values.masked_fill(mask == 0, float("nan"))[0, 0]
    truth = (problem.a if inverse else problem.u)[0, -1]
    low, high = truth.min().item(), truth.max().item()
    beyond = (high - low) / 2
    fields = {
        name: shown.wanted.clamp(low - beyond, high + beyond)
        for name, shown in found.items()
    }
    every = torch.stack([truth, *fields.values()])
    bounds = every.min().item(), every.max().item()
    first = [
        Panel(observed, f"observed {names[0]}"),
        Panel(truth, f"true {names[1]}", "field", bounds=bounds),
    ]
    unit = "% of points" if problem.pde.error(cell[0]) == "error_rate" else "% rel. L2"
    rows: list[list[Panel | None]] = []
    for start in range(0, len(found), WIDE):
        lead: list[Panel | None] = [None, None] if rows else [*first]
        part = list(found)[start : start + WIDE]
        drawn = [Panel(fields[name], name, "field", bounds=bounds) for name in part]
        below = [
            Panel(
                found[name].wanted - truth,
                f"{found[name].error:.3g} {unit}\n{found[name].note}",
                signed=True,
            )
            for name in part
        ]
        rows += [[*lead, *drawn], [None, None, *below]]
    return _named(plots.grid(rows), problem.pde)


def residual(
    contest: Contest, cell: Cell, found: Mapping[str, Shown], number: int = 0
) -> Figure:
    """Draws the residual of the truth and of PRISMA's answer, and all spectra.

    Args:
        contest: Who answered.
        cell: Direction and regime.
        found: Answers; see `one_answer`.
        number: Place of the problem among the test problems.
    """
    problem = contest.problems.part([number])
    pde, mine = problem.pde, found[OURS]
    pairs = {"truth": (problem.a, problem.u), OURS: (pde.snap(mine.a), mine.u)}
    truth = (problem.a if cell[0] == "inverse" else problem.u)[0, -1]
    spectra = {"truth": truth} | {name: shown.wanted for name, shown in found.items()}
    with plots.style():
        figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), width_ratios=[1, 1, 1.4])
        panels = []
        for name, (a, u) in pairs.items():
            r = pde.residual(a, u)
            rms = metrics.residual_moments(r).rms.item()
            panels.append(
                Panel(r[0, -1], f"residual, {name}\nrms {rms:.2g}", signed=True)
            )
        plots.draw_row(figure, list(axes[:2]), panels)
        plots.spectra(axes[2], spectra)
        charts.one_legend(figure)
    return _named(figure, pde)


def spectra(found: Sequence[Answer], cell: Cell) -> Figure:
    """Draws the mean power spectrum of truth and answers in one cell (E10).

    That of the mean field is left out: far below all others, it would flatten them.

    Args:
        found: Answers; those to the fewest problems decide which are averaged.
        cell: Direction and regime.
    """
    mine = [x for x in found if x.cell == cell and x.a is not None]
    here = [x for x in mine if x.method != MEAN]
    few = min(here, key=lambda x: x.problems.n).problems
    inverse = cell[0] == "inverse"
    shown = {"truth": (few.a if inverse else few.u)[:, -1]}
    for answer in here:
        places = [answer.problems.numbers.index(i) for i in few.numbers]
        a, u = answer.part(places).draw()
        wanted = few.pde.snap(a) if inverse else u
        if answer.errors().mean() >= ROUNDING:
            shown.setdefault(answer.method, wanted[:, -1])
    with plots.style():
        figure, axis = plt.subplots(figsize=(6, 4.2))
        plots.spectra(axis, shown)
        charts.one_legend(figure)
        axis.set_title(f"{', '.join(cell)}, mean of {few.n} problems")
    return figure


def distributions(found: Sequence[Answer]) -> Figure:
    """Draws how the errors of problems are distributed, a panel for each cell.

    Args:
        found: Answers; of each method and cell the one to most problems is drawn, and
            of PRISMA the one with the fewest steps. What errs by rounding is left out.
    """
    best: dict[tuple[Cell, str], Answer] = {}
    for answer in found:
        known = best.get((answer.cell, answer.method))
        more = known is None or answer.problems.n > known.problems.n
        if more and answer.a is not None and answer.errors().mean() >= ROUNDING:
            best[answer.cell, answer.method] = answer
    frame = pd.DataFrame(
        [
            {"cell": ", ".join(cell), "method": method, "error": error}
            for (cell, method), answer in best.items()
            for error in answer.errors().tolist()
        ],
        columns=["cell", "method", "error"],
    )
    cells = list(dict.fromkeys(frame["cell"]))
    wide = min(3, max(1, len(cells)))
    tall = -(-max(1, len(cells)) // wide)
    height = 0.8 + charts.ROW * frame["method"].nunique()
    with plots.style():
        figure, axes = plt.subplots(
            tall, wide, figsize=(3.2 * wide, height * tall), squeeze=False
        )
        for axis in axes.flat[len(cells) :]:
            axis.set_axis_off()
        for axis, cell in zip(axes.flat, cells, strict=False):
            mine = frame[frame["cell"] == cell]
            sns.boxenplot(mine, y="method", x="error", ax=axis, color="C5")
            charts.percent(axis, "x")
            axis.set(title=cell, ylabel="")
    return figure
