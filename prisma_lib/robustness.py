"""Methods side by side outside of the protocol: other noise, sensors, coefficients.

Nothing is tuned anew: a guided method takes the weights of the same direction and
regime, found at the nearest number of steps. It is slow, so that it answers the first
few problems; PRISMA answers those again, which gives both a row on the same problems.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from prisma_lib import (
    anchors,
    baselines,
    cells,
    checkpoints,
    comparison,
    data,
    methods,
    results,
)
from prisma_lib.answers import Answer
from prisma_lib.baselines import Answers
from prisma_lib.baselines.prior import Prior
from prisma_lib.cells import Benchmark, Cell
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.judge import judge
from prisma_lib.lifted import PrismaL
from prisma_lib.model import Prisma
from prisma_lib.pdes.base import PDE, Direction, Field, Statistics
from prisma_lib.solver import PrismaSolver, Solver
from prisma_lib.units import Normalised

# Problems that a guided method has time for in a sweep: eight would add more than 20
# minutes of one core to the 50 that 40_noise_levels and 42_extrapolation take.
FEW = 4


@dataclass(frozen=True)
class Contestant:
    """A method with its weights.

    Args:
        name: "prisma", "prisma-l", or the name of a baseline.
        answers: Makes its solver of a cell.
        few: Number of problems that it has time for; `None`: all.
        told: The coefficients that it believes in.
    """

    name: str
    answers: Answers
    few: int | None = None
    told: str = ""

    @property
    def title(self) -> str:
        """Its name in tables."""
        return methods.title(self.name)

    def applies(self, pde: PDE, cell: Cell) -> bool:
        """Says whether the paper has numbers of it for such a cell."""
        ours = self.name in methods.OURS
        return ours or baselines.applies(self.name, pde.name, *cell)


def available(names: Sequence[str]) -> tuple[list[Prisma], list[str]]:
    """Loads the models that are there.

    Args:
        names: Names of shipped models, or folders.

    Returns:
        The models, and why others were left out.
    """
    found, missing = [], []
    for name in names:
        try:
            found.append(checkpoints.load(name))
        except CheckpointError as error:
            missing.append(str(error))
    return found, missing


def contestants(
    model: Prisma,
    names: Sequence[str],
    *,
    steps: int = 20,
    guided_steps: int = 100,
    few: int = FEW,
    folder: Path | str = baselines.WEIGHTS,
) -> tuple[list[Contestant], list[str]]:
    """Collects PRISMA and the baselines that have weights for its equation.

    Args:
        model: PRISMA. Where it knows other coefficients than those it was trained with,
            the residuals of guided methods know them, too.
        names: Names of baselines that are trained; "prisma-l" asks for PRISMA-L.
        steps: Sampler steps of PRISMA and PRISMA-L.
        guided_steps: Sampler steps of guided methods.
        few: Number of problems that guided methods answer.
        folder: Holds the baselines NAME-PDE-SIZE.

    Returns:
        The methods, PRISMA first, and why others were left out.
    """
    own = PrismaSolver(model, Schedule(steps))
    found, missing = [Contestant("prisma", lambda *_: own)], []
    for name in names:
        try:
            network = trained(name, model.pde, folder)
        except CheckpointError as error:
            missing.append(str(error))
            continue
        if isinstance(network, Prisma):
            lifted = PrismaSolver(network, Schedule(steps))
            found.append(Contestant(name, lambda *_, solver=lifted: solver))
            continue
        if not isinstance(network, Prior):
            found.append(Contestant(name, partial(baselines.of_cell, network)))
            continue
        place = baselines.folder_name(name, model.pde.name, model.pde.size)
        tuned = checkpoints.read_card(Path(folder) / place).get("guidance", ())
        answers = partial(guided, network, tuned, guided_steps)
        found.append(Contestant(name, answers, few))
    return [replace(each, told=str(model.pde.options)) for each in found], missing


def trained(name: str, pde: PDE, folder: Path | str) -> Normalised:
    """Loads a baseline, or the PRISMA-L that ships, and tells it the coefficients.

    Args:
        name: Name of a baseline that is trained, or "prisma-l".
        pde: The equation with its coefficients.
        folder: Holds the baselines NAME-PDE-SIZE.

    Raises:
        CheckpointError: When there is none.
    """
    if name == PrismaL.method:
        found: Normalised = checkpoints.load(f"{pde.name}-{pde.size}L")
    else:
        found = baselines.load(name, pde.name, pde.size, folder=folder)
    return found.with_equation(pde)


def guided(
    network: Prior,
    tuned: Sequence[dict[str, Any]],
    steps: int,
    direction: Direction,
    regime: str,
) -> Solver:
    """Makes the solver of a guided method.

    Args:
        network: Its prior.
        tuned: What `prisma_lib.tune` found, for any numbers of steps.
        steps: Sampler steps.
        direction: What is asked.
        regime: How it was observed.
    """
    mine = [r for r in tuned if (r["direction"], r["regime"]) == (direction, regime)]
    if mine:
        nearest = min(mine, key=lambda r: abs(math.log(r["settings"]["steps"] / steps)))
        known = nearest["settings"]["steps"]
        tuned = [
            r | {"settings": r["settings"] | {"steps": steps}}
            for r in mine
            if r["settings"]["steps"] == known
        ]
    return baselines.of_cell(network, direction, regime, tuned=tuned, steps=steps)


def compete(
    everyone: Sequence[Contestant],
    problems: Benchmark,
    asked: Sequence[Cell],
    *,
    keep: Callable[..., Sequence[Answer]] | None = None,
    **labels: Any,
) -> Iterator[results.Row]:
    """Judges all methods in the cells that apply to them.

    Args:
        everyone: The methods.
        problems: Test problems, with what is hidden of them.
        asked: Directions and regimes.
        keep: `Shelf.kept`, so that a run that is cut goes on; by default none is kept.
        **labels: Further columns of every row.

    Yields:
        A row for each method and cell; PRISMA has a second one on the few problems that
        slow methods answer. Where guidance diverges a row has no value. Then the rows
        of `comparison.ratios`.
    """
    short = {each.few for each in everyone if each.few}
    found: list[Answer] = []
    for each in everyone:
        nums = {each.few or problems.n} | (short if each.name == "prisma" else set())
        for cell in filter(partial(each.applies, problems.pde), asked):
            solver = each.answers(*cell)
            for n in sorted({min(n, problems.n) for n in nums}, reverse=True):
                common = {"method": each.title, **labels}
                mine = problems.first(n)
                make = partial(comparison.guarded, solver, mine, [cell], **common)
                # Weights say nothing of the coefficients that a residual believes in.
                who = f"{each.title}, told {each.told}"
                about = who, [solver], mine, [cell], 1
                for answer in keep(*about, make) if keep else make():
                    yield from answer.rows()
                    found.append(answer)
    yield from comparison.ratios(found)


def draw(solver: Solver, problems: Benchmark, cell: Cell) -> tuple[Field, Field]:
    """Draws the field that a cell asks for, once for each problem.

    Args:
        solver: The method.
        problems: Test problems, with what is hidden of them.
        cell: Direction and regime.

    Returns:
        The answer, on the values that inputs can have, and the truth.

    Raises:
        NumericsError: When a draw is not finite.
    """
    seen = cells.observation_of(problems, *cell)
    generator = torch.Generator().manual_seed(problems.seed)
    a, u = solver.solve(seen, samples=1, generator=generator)
    if cell[0] == "inverse":
        return problems.pde.snap(a[0].cpu()), problems.a
    return u[0].cpu(), problems.u


def beside(
    problems: Benchmark, asked: Sequence[Cell], *, exact: bool = True, **labels: Any
) -> Iterator[results.Row]:
    """Judges what learns nothing in the same cells; see `anchors.of`.

    What is noisy at unknown points has no exact posterior in closed form.

    Args:
        problems: Test problems, with what is hidden of them.
        asked: Directions and regimes.
        exact: Whether the exact posterior and the lift are among it: they take long
            where each problem has a mask of its own with many sensors.
        **labels: Further columns of every row.
    """
    for direction, regime in asked:
        noise_sd = problems.noise_sd(regime)
        found = anchors.of(problems.pde, direction, regime, noise_sd)
        if not exact or (regime == "noisy" and problems.hidden.fraction < 1):
            found.pop("exact posterior", None)
        if not exact:
            found.pop("lift")
        for name, solver in found.items():
            cell = [(direction, regime)]
            yield from judge(solver, problems, cell, method=name, **labels)


def independent(pde: PDE, n: int, statistics: Statistics, seed: int = 0) -> Benchmark:
    """Draws test problems of which no two belong to one trajectory.

    Args:
        pde: The equation; where numbers of a split are the times of trajectories, each
            problem is from its own, at times that alternate.
        n: Number of problems.
        statistics: Those whose standard deviations scale sensor noise.
        seed: Seed of the data.

    Returns:
        The problems with their numbers, from which masks, noise and origins follow.
    """
    times = getattr(pde, "times", 1)
    a, u = data.problems(pde, n * times, split="test", seed=seed)
    picked = [times * i + 3 * i % times for i in range(n)]
    index = tuple(picked)
    return Benchmark(pde, a[picked], u[picked], statistics, seed, index=index)
