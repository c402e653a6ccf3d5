"""One door for every method: errors on test problems, as tidy rows.

    python -m prisma_lib.evaluate darcy-32 --n 128 --steps 20
    python -m prisma_lib.evaluate --methods fno fundps --pde darcy --n 8
    python -m prisma_lib.evaluate --anchors --pde darcy
    python -m prisma_lib.evaluate poisson-32 --data outputs/data/public.h5

What is asked is in `cells.py`, how an answer is judged in `judge.py`, and how methods
are put side by side in `comparison.py`; all can be imported from here too.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prisma_lib import anchors, baselines, checkpoints, data, pdes, results
from prisma_lib.answers import errors
from prisma_lib.baselines.paper import PAPER
from prisma_lib.cells import (
    REGIMES,
    Benchmark,
    Cell,
    benchmark,
    cells,
    named,
    observation_of,
    stored,
)
from prisma_lib.comparison import compare
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, exit_status
from prisma_lib.judge import judge
from prisma_lib.model import Prisma
from prisma_lib.pdes.base import PDE, Direction
from prisma_lib.reading import Problems
from prisma_lib.results import show
from prisma_lib.solve import PrismaSolver, Solver

__all__ = [
    "REGIMES",
    "Benchmark",
    "benchmark",
    "compare",
    "errors",
    "evaluate",
    "judge",
    "main",
    "observation_of",
    "show",
    "stored",
    "table",
]


def evaluate(
    solver: Solver | str,
    problems: Benchmark,
    direction: Direction,
    regime: str,
    *,
    method: str | None = None,
    samples: int = 1,
    settings: Mapping[str, Any] | None = None,
    **labels: Any,
) -> list[results.Row]:
    """Evaluates one cell of a table.

    Args:
        solver: The method, or the name of a baseline with weights, such as "fundps".
        problems: Test problems.
        direction: One of the equation's directions.
        regime: One of `REGIMES`.
        method: Name of the method in the row; that of a baseline is known.
        samples: Draws per problem; with more than one further rows judge their mean.
        settings: For a name: settings of `baselines.solver`.
        **labels: Further columns, such as `scale`, `steps` or `run`.

    Returns:
        A row for a single draw, and if there are more for the mean of all, and of 8 and
        16 of them.

    Raises:
        ConfigError: When the equation has no such cell, a name is unknown, or the cell
            is not applicable to the baseline of that name.
        CheckpointError: When a baseline has no weights.
        DataError: When the metric cannot judge the truth, such as misjudged points of a
            continuous field.
    """
    cell = (direction, regime)
    if isinstance(solver, str):
        _refuse_other_cells(solver, problems.pde, cell)
        method = method or baselines.title(solver)
        solver = baselines.solver(solver, problems.pde, *cell, **(settings or {}))
    elif settings:
        raise ConfigError(
            f"settings={settings!r}: a solver has its own; give them where it is made"
        )
    name = method or type(solver).__name__
    return judge(solver, problems, [cell], method=name, samples=samples, **labels)


def _refuse_other_cells(name: str, pde: PDE, cell: Cell) -> None:
    if not baselines.applies(name, pde.name, *cell):
        known = sorted(map(" ".join, PAPER[name].get(pde.name, ())))
        raise ConfigError(
            f"not applicable: the paper has no number for {baselines.title(name)} in "
            f"{pde.name}, {' '.join(cell)}; it has {', '.join(known) or 'none'} there. "
            "Hand in the solver itself to judge it all the same"
        )


def table(
    model: Prisma,
    n: int,
    steps: int,
    seed: int = 0,
    problems: Benchmark | None = None,
    anchored: bool = True,
    **labels: Any,
) -> list[results.Row]:
    """Evaluates a model, and every anchor, in all cells of its equation.

    Args:
        model: A model of PRISMA or PRISMA-L.
        n: Number of test problems.
        steps: Sampler steps.
        seed: Seed of the test problems.
        problems: Ask these instead, `n` of them; the model is told their coefficients.
        anchored: Ask anchors; on 128 points per axis they take many minutes.
        **labels: Further columns of every row.

    Raises:
        ConfigError: When the problems are of another equation.
    """
    if problems is None:
        problems = benchmark(model.pde, n, seed)
    else:
        problems = problems.few(n)
        model = model.with_equation(problems.pde.resized(model.pde.size))
    prisma = PrismaSolver(model, Schedule(steps))
    rows = []
    for cell in cells(model.pde):
        rows += _anchored(problems, cell, **labels) if anchored else []
        rows += evaluate(
            prisma, problems, *cell, method=model.title, steps=steps, **labels
        )
    return rows


def _anchored(problems: Benchmark, cell: Cell, **labels: Any) -> list[results.Row]:
    """Evaluates every anchor in a cell."""
    found = anchors.of(problems.pde, *cell, problems.noise_sd(cell[1])).items()
    rows = (evaluate(x, problems, *cell, method=name, **labels) for name, x in found)
    return [row for part in rows for row in part]


def _run(options: argparse.Namespace) -> int:
    """Evaluates what was asked for and writes the rows where they are wanted."""
    results.check(options.results)
    if options.anchors:
        rows = _anchors(options)
    else:
        rows = _rivals(options) if options.methods else _own_table(options)
    for row in rows:
        row |= {"sweep": "evaluate", "scale": options.scale}
        if source := results.settings(row).get("data"):
            row["run"] = f"{row['run']}-{source}"
    print(show(rows))
    if options.results:
        results.append(options.results, rows)
    if options.card:
        folder = checkpoints.find(options.model)
        card = checkpoints.read_card(folder)
        checkpoints.write_card(folder, card | {"errors": rows})
    return 0


def _own_table(options: argparse.Namespace) -> list[results.Row]:
    """Evaluates a model and the anchors of its equation."""
    model = checkpoints.load(options.model, device=options.device)
    problems = _asked(options) if options.data else None
    name = checkpoints.label(options.model)
    run = f"{name}-{options.steps}-{options.n}-{options.seed}"
    asked = options.n, options.steps, options.seed, problems
    return table(model, *asked, anchored=not options.alone, run=run)


def _asked(options: argparse.Namespace) -> Benchmark:
    """Reads the problems from the file that was named, or makes some."""
    if not options.data:
        pde = pdes.load(options.pde or "darcy", size=options.size or 32)
        return benchmark(pde, options.n, options.seed)
    found = data.load(options.data)
    problems = named(found, options.data, options.seed)
    _refuse_known(options, problems.pde, found)
    return problems.few(options.n)


def _refuse_known(options: argparse.Namespace, pde: PDE, test: Problems) -> None:
    """Refuses to ask models what they were trained on."""
    where = pde.name, pde.size
    names = (baselines.folder_name(m, *where) for m in options.methods or ())
    folders = [options.weights / name for name in names]
    folders += [checkpoints.find(options.model)] if options.model else []
    for folder in folders:
        if (folder / checkpoints.CARD).is_file():  # PINN has none
            about = checkpoints.read_card(folder).get("training", {})
            data.check_unseen(about, test)


def _anchors(options: argparse.Namespace) -> list[results.Row]:
    """Evaluates the anchors of an equation in all of its cells."""
    problems = _asked(options)
    name, size = problems.pde.name, problems.pde.size
    run = f"anchors-{name}-{size}-{options.n}-{options.seed}"
    rows = (_anchored(problems, cell, run=run) for cell in cells(problems.pde))
    return [row for part in rows for row in part]


def _rivals(options: argparse.Namespace) -> list[results.Row]:
    """Evaluates baselines, and a model of PRISMA beside them if one was named."""
    problems = _asked(options)
    prisma = None
    if options.model:
        pde = problems.pde
        model = checkpoints.load(options.model, pde=pde.name, device=options.device)
        model = model.with_equation(pde.resized(model.pde.size))
        prisma = PrismaSolver(model, Schedule(options.steps))
    settings = {
        name: {} if name == "pinn" else {"folder": options.weights}
        for name in options.methods
    }
    for name in settings.keys() & {"pinn"}:
        settings[name]["iterations"] = options.iterations
    for name in filter(baselines.guided, options.methods):
        settings[name]["steps"] = options.guided_steps
    for name in settings.keys() & {"prisma"}:
        settings[name]["steps"] = options.steps
    rows = compare(options.methods, problems, prisma=prisma, settings=settings)
    for row in rows:
        about = [row[k] for k in ("method", "pde", "steps", "n", "seed")]
        about.append(problems.pde.size)
        if prisma and row["method"] == prisma.model.title:
            about.append(checkpoints.label(options.model))
        row["run"] = "-".join(str(part) for part in about if part)
    return rows


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prisma_lib.evaluate")
    add = parser.add_argument
    add("model", nargs="?", help="name of a shipped PRISMA model, or a folder")
    add("--methods", nargs="+", help=f"of {', '.join(baselines.names())}, prisma")
    add("--anchors", action="store_true", help="the baselines that learn nothing")
    add("--pde", help="equation of --methods and --anchors (darcy)")
    add("--size", type=int, help="points per axis for them (32)")
    add("--data", type=Path, help="ask the problems of this file or folder instead")
    add("--weights", type=Path, default=baselines.WEIGHTS, help="folder of --methods")
    add("--guided-steps", type=int, default=baselines.GUIDED_STEPS)
    add("--iterations", type=int, default=2000, help="of PINN")
    add("--alone", action="store_true", help="a model without --anchors beside it")
    add("--n", type=int, default=128, help="test problems; slow methods get fewer")
    add("--steps", type=int, default=20, help="sampler steps of PRISMA")
    add("--seed", type=int, default=0)
    add("--device", default="auto")
    add("--scale", default="cpu", choices=results.SCALES)
    add("--results", help="CSV file that takes the rows")
    add("--card", action="store_true", help="write the rows into the model's card")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = _arguments()
    options = parser.parse_args(arguments)
    if options.anchors and (options.model or options.methods):
        parser.error("--anchors takes no model and no --methods")
    if not (options.model or options.methods or options.anchors):
        parser.error("name a model, or baselines with --methods or --anchors")
    if options.card and (options.methods or not options.model):
        parser.error("--card takes the table of a model, without --methods")
    if options.data and options.pde:
        parser.error("--data says of which equation it is: leave out --pde")
    alone = options.model and not options.methods
    if alone and (options.pde or options.size):
        parser.error("a model has its equation and grid: leave out --pde and --size")
    if options.card and options.data:
        parser.error("--card takes the problems of the protocol, without --data")
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
