"""The benchmark of one equation: who answers, in which cells, and how well.

What the benchmark notebooks share: they differ in physics and story. A contest has one
model of PRISMA, the baselines that have weights, and the honest baselines that learn
nothing; all answer the same problems.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prisma_lib import anchors, baselines, checkpoints, pdes, results
from prisma_lib.anchors import CUT
from prisma_lib.answers import MEANS, ROUNDING, Answer
from prisma_lib.baselines import Answers
from prisma_lib.cells import Benchmark, Cell, benchmark, cells
from prisma_lib.claims.evidence import OURS
from prisma_lib.comparison import answers_of, asked_of, title_of
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.judge import answered
from prisma_lib.lifted import PrismaL
from prisma_lib.model import Prisma
from prisma_lib.pdes.base import PDE
from prisma_lib.shelf import Shelf
from prisma_lib.solver import PrismaSolver, Solver
from prisma_lib.tables import EXACT, MEAN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Calls of PRISMA-L: one gives the mean of the posterior, nearly; the others were enough
# for a draw on validation problems; 34_physics_lift asks for any model.
FEWEST = (1, 6)
MOST = max(MEANS)  # draws of the latter, which are cheap
Own = tuple[PrismaSolver, int]  # and its draws


@dataclass(frozen=True)
class Contest:
    """Who answers which problems.

    Args:
        model: The model of PRISMA.
        problems: Test problems.
        rivals: Makers of the solvers of baselines, by name; "prisma" is the one that
            was trained with their budget.
        missing: A line for each baseline that was left out, with the reason.
        steps: Sampler steps of PRISMA; the first of them count in comparisons.
        samples: Draws per problem with these steps; the mean of all is a row.
        scale: Name of the scale, for the rows.
        lifted: The model of PRISMA-L, which answers like PRISMA.
        fewest: Calls of the multistep sampler with which PRISMA-L answers, too; with
            the last of them by `MOST` draws where others give several.
        shelf: Keeps the answers of solvers that learned, until `clear`.
    """

    model: Prisma
    problems: Benchmark
    rivals: Mapping[str, Answers]
    missing: Sequence[str] = ()
    steps: Sequence[int] = (20,)
    samples: int = 1
    scale: str = "cpu"
    lifted: Prisma | None = None
    fewest: Sequence[int] = FEWEST
    shelf: Shelf = field(default_factory=Shelf)

    @property
    def ours(self) -> list[Prisma]:
        """Lists the models that answer with all steps and draws."""
        return [self.model] if self.lifted is None else [self.lifted, self.model]

    def at(self, rate: float) -> "Contest":
        """Returns PRISMA and the honest baselines with another share of sensors."""
        problems = self.problems.hiding(rate=rate)
        return replace(
            self, problems=problems, rivals={}, steps=self.steps[:1], samples=1
        )

    def cells(self, directions: Sequence[str], regimes: Sequence[str]) -> list[Cell]:
        """Lists the cells of the equation's table in some directions and regimes."""
        every = cells(self.problems.pde)
        return [(d, r) for d, r in every if d in directions and r in regimes]

    def answers(self, wanted: Sequence[Cell]) -> list[Answer]:
        """Lets everybody answer all problems of some cells.

        Args:
            wanted: Cells of the equation's table.

        Returns:
            Answers of the honest baselines, then of the rivals in their cells, then of
            PRISMA-L and PRISMA: with all of their steps, PRISMA-L with the fewest
            calls, and on the few problems of each slow rival.
        """
        found = [answer for cell in wanted for answer in self._honest(cell)]
        few: dict[tuple[int, ...], None] = {}
        for name, solver_of in self.rivals.items():
            labels = {"scale": self.scale, "method": title_of(name)}
            every = asked_of(name, self.problems.pde)
            mine = [cell for cell in every if cell in wanted]
            theirs = self.shelf.kept(
                *(name, [solver_of(*cell) for cell in mine], self.problems, mine, 1),
                partial(answers_of, name, solver_of, self.problems, mine, **labels),
            )
            few |= {answer.problems.numbers: None for answer in theirs}
            found += theirs
        few.pop(self.problems.numbers, None)
        ours = [answer for own in self._own() for answer in self._of(own, wanted)]
        places = {number: i for i, number in enumerate(self.problems.numbers)}
        parts = [[places[number] for number in numbers] for numbers in few]
        return [*found, *(answer.part(p) for p in parts for answer in ours), *ours]

    def finish(
        self, folder: Path, rows: Sequence[results.Row], picture: "Figure"
    ) -> None:
        """Keeps rows and the picture of errors in a folder, and no answer longer."""
        folder.mkdir(parents=True, exist_ok=True)
        results.write_metrics(folder / "metrics.json", rows)
        picture.savefig(folder / "errors.png")
        self.shelf.clear()

    def _honest(self, cell: Cell) -> Iterator[Answer]:
        solvers = anchors.of(self.problems.pde, *cell, self.problems.noise_sd(cell[1]))
        for method, solver in solvers.items():
            draws = self.samples if method == EXACT else 1
            more: dict[str, Any] = {"samples": draws, "scale": self.scale}
            yield from answered(solver, self.problems, [cell], method=method, **more)

    def _own(self) -> Iterator[Own]:
        cheap = MOST if self.samples > 1 else 1
        for model in self.ours:
            for steps in self.steps:
                draws = self.samples if steps == self.steps[0] else 1
                yield PrismaSolver(model, Schedule(steps)), draws
            for steps in self.fewest if isinstance(model, PrismaL) else ():
                draws = cheap if steps == self.fewest[-1] else 1
                yield PrismaSolver(model, Schedule(steps), sampler="multistep"), draws

    def _of(self, own: Own, wanted: Sequence[Cell]) -> Iterator[Answer]:
        solver, draws = own
        for cell in wanted:
            title, asked = solver.model.title, (self.problems, [cell])
            more: dict[str, Any] = {"samples": draws, "scale": self.scale}
            (answer,) = self.shelf.kept(
                *(title, [solver], *asked, draws),
                partial(answered, solver, *asked, method=title, **more),
            )
            heun = solver.sampler == "heun"
            yield replace(answer, suffix="" if heun else f";sampler={solver.sampler}")

    def solvers(self, cell: Cell) -> dict[str, Solver]:
        """Returns who answers a cell, by the title of their rows.

        What answers every problem alike is left out, and a lift that was cut short.

        Args:
            cell: A cell of the equation's table.
        """
        pde, noise = self.problems.pde, self.problems.noise_sd(cell[1])
        honest = anchors.of(pde, *cell, noise)
        steps = Schedule(self.steps[0])
        found: dict[str, Solver] = {
            model.title: PrismaSolver(model, steps) for model in reversed(self.ours)
        }
        for name, solver_of in self.rivals.items():
            if cell in asked_of(name, pde):
                found[title_of(name)] = solver_of(*cell)
        return found | {n: s for n, s in honest.items() if n not in (MEAN, *CUT)}


def enter(
    model_name: str,
    pde: str,
    methods: Sequence[str],
    *,
    n: int,
    steps: Sequence[int] = (20,),
    samples: int = 1,
    seed: int = 0,
    scale: str = "cpu",
    guided_steps: int = baselines.GUIDED_STEPS,
    iterations: int = 2000,
    folder: Path | str = baselines.WEIGHTS,
    kept: Path | str | None = None,
) -> Contest:
    """Loads the model, draws the problems, and finds which baselines have weights.

    At smoke scale problems are of a variant of the equation that is cheap to draw,
    where there is one.

    Args:
        model_name: Name of a shipped model, or its folder.
        pde: Name of the equation.
        methods: Names of baselines; "prisma" asks for the one of their budget,
            "prisma-l" for the model that is named like this one with an L behind it.
            The model itself is always there.
        n: Number of test problems.
        steps: Sampler steps of PRISMA; the first of them count in comparisons.
        samples: Draws per problem with these steps.
        seed: Seed of problems, masks, noise and draws.
        scale: Name of the scale.
        guided_steps: Sampler steps of guided baselines.
        iterations: Iterations of PINN.
        folder: Holds the weights of the baselines.
        kept: Folder that keeps answers while a run is not done; by default none are.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When a name, a number or a setting is impossible.
    """
    model = checkpoints.load(model_name, pde=pde)
    named = [name for name in methods if name != PrismaL.method]
    settings: dict[str, dict[str, Any]] = {
        name: {"steps": guided_steps} for name in named if baselines.guided(name)
    }
    settings |= {"pinn": {"iterations": iterations}, "prisma": {"steps": steps[0]}}
    rivals, missing = found(named, model.pde, settings, folder)
    lifted = None
    if PrismaL.method in methods:
        try:
            lifted = checkpoints.load(f"{model_name}L", pde=pde)
        except CheckpointError as error:
            missing.append(f"{PrismaL.title} was left out: {error}")
    problems = benchmark(of_scale(model.pde, scale), n, seed)
    shown = missing, tuple(steps), samples, scale, lifted
    shelf = Shelf(None if kept is None else Path(kept))
    return Contest(model, problems, rivals, *shown, shelf=shelf)


def of_scale(pde: PDE, scale: str) -> PDE:
    """Returns an equation as a scale draws its problems."""
    quick = pdes.quick(pde.name) if scale == "smoke" else {}
    return pdes.load(pde.name, pde.size, **{**pde.options, **quick})


def found(
    methods: Sequence[str],
    pde: PDE,
    settings: Mapping[str, Mapping[str, Any]],
    folder: Path | str = baselines.WEIGHTS,
) -> tuple[dict[str, Answers], list[str]]:
    """Finds which methods have weights.

    Args:
        methods: Names of baselines; "prisma" asks for the one of their budget.
        pde: The equation.
        settings: By name: settings of `baselines.solvers`.
        folder: Holds the weights.

    Returns:
        Makers of their solvers by name, and a line for each that was left out.

    Raises:
        ConfigError: When a name or a setting is unknown, or a method has no cell in
            the tables of the equation.
    """
    rivals: dict[str, Answers] = {}
    missing: list[str] = []
    for name in methods:
        asked_of(name, pde)
        given = dict(settings.get(name, {}))
        if name != "pinn":
            given.setdefault("folder", folder)
        try:
            rivals[name] = baselines.solvers(name, pde, **given)
        except CheckpointError as error:
            missing.append(f"{title_of(name)} was left out: {error}")
    return rivals, missing


def rows_of(
    answers: Sequence[Answer], further: Sequence[str] = ()
) -> list[results.Row]:
    """Judges answers, and compares PRISMA's with everybody else's.

    Args:
        answers: Answers of a contest.
        further: What to measure beside the error, of `answers.FURTHER`.

    Returns:
        Rows of errors and further measures, then of the ratio of PRISMA's error to that
        of each other method on the same problems, but for rounding and lifts cut short.
    """
    rows = [row for answer in answers for row in answer.rows(further)]
    # Of several answers of a method that on most problems counts, with its first steps.
    leading: dict[tuple[Cell, str], Answer] = {}
    for answer in answers:
        known = leading.get((answer.cell, answer.method))
        if known is None or answer.problems.n > known.problems.n:
            leading[answer.cell, answer.method] = answer
    for (cell, method), answer in leading.items():
        mine = leading.get((cell, OURS))
        rival = method not in (OURS, *CUT) and answer.a is not None
        if mine and rival and answer.errors().mean() >= ROUNDING:
            rows.append(mine.over(answer))
    return rows
