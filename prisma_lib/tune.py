"""Chooses guidance weights on validation problems, with a budget that is recorded.

    python -m prisma_lib.tune outputs/train/priors/fundps --steps 200 --tries 9

Published weights belong to 500 observed points of 128 x 128. At another scale each cell
of a table gets its own: from the solver's starting weights on, a pattern search
multiplies the weights of observations by one factor and that of the equation by
another, and keeps what makes the mean error of a few validation problems smallest; with
our residual, and with the published one where there is one that pulls. The better of
both answers. Weights that are hopeless on the first of these problems are not tried on
the others. Weights belong to a number of steps: tune with the one that is judged.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from prisma_lib import checkpoints, data, evaluate, results
from prisma_lib.baselines.guidance import Weights
from prisma_lib.baselines.guided import OURS, PUBLISHED, RESIDUALS, GuidedSolver
from prisma_lib.baselines.paper import PAPER
from prisma_lib.baselines.prior import Prior
from prisma_lib.cells import Benchmark, Cell, benchmark, cells, observation_of
from prisma_lib.checks import check_count, check_names
from prisma_lib.errors import CheckpointError, ConfigError, NumericsError, exit_status
from prisma_lib.search import Point, search

PROBLEMS, TRIES = 16, 9
FIRST, HOPELESS = 4, 1.5  # problems at first; error there, in units of the best one

Record = dict[str, Any]


def validation(network: Prior, num: int = PROBLEMS) -> Benchmark:
    """Draws and solves validation problems; no test problem is among them.

    Args:
        network: The prior; noise of sensors is scaled by its statistics.
        num: Number of problems.
    """
    a, u = data.problems(network.pde, num, split="validation", seed=0)
    # Masks and noise of the seed 0 are those of the test.
    return Benchmark(network.pde, a, u, network.statistics, seed=1)


def tune(
    network: Prior,
    problems: Benchmark,
    wanted: Sequence[Cell],
    tries: int = TRIES,
    **settings: Any,
) -> Iterator[Record]:
    """Chooses the weights of cells, one after the other.

    Args:
        network: The prior.
        problems: Validation problems.
        wanted: Directions and regimes.
        tries: Number of weights to try in each cell, the starting ones among them.
        **settings: Settings of its solver but the weights, such as `steps`.

    Yields:
        What was found for each cell: the weights and their error in percent, and every
        try with its factors, error and number of problems; `None` for draws that were
        not finite.

    Raises:
        ConfigError: When a setting has no meaning or the equation has no such cell.
    """
    check_count("tries", tries, 1, TRIES)
    for cell in wanted:
        yield _tuned(network, problems, cell, tries, settings)


def _tuned(
    network: Prior, problems: Benchmark, cell: Cell, tries: int, settings: Record
) -> Record:
    began = time.perf_counter()
    trials = _Trials(network, problems, cell, settings)
    found = search(trials, 2 if trials.starting.pde else 1, tries)
    best = min(found, key=lambda point: found[point])
    return {
        "direction": cell[0],
        "regime": cell[1],
        "weights": asdict(_moved(trials.starting, best)),
        "error": _number(found[best]),
        "starting_weights": asdict(trials.starting),
        "tries": [
            [[10**x for x in point], _number(value), trials.tried[point]]
            for point, value in found.items()
        ],
        "split": "validation",
        "n": problems.n,
        "seed": problems.seed,
        "settings": {**settings, **trials.used},
        "seconds": round(time.perf_counter() - began, 1),
    }


class _Trials:
    """Errors of weights in a cell, at first on a few problems.

    Args:
        network: The prior.
        problems: Validation problems.
        cell: Direction and regime.
        settings: Settings of the solver but the weights.
    """

    def __init__(
        self, network: Prior, problems: Benchmark, cell: Cell, settings: Record
    ) -> None:
        solver = _solver(network, settings, {})
        self.used = {"steps": solver.steps, "residual": solver.residual}
        self.starting = solver.starting_weights(cell[0] != "forward")
        self.network, self.cell, self.settings = network, cell, settings
        parts = range(problems.n)[:FIRST], range(problems.n)[FIRST:]
        self.parts = [problems.part(part) for part in parts if part]
        self.tried: dict[Point, int] = {}
        self.best = self.best_at_first = math.inf

    def __call__(self, point: Point) -> float:
        """Returns the mean error in percent; infinity where a draw was not finite.

        That of hopeless weights is what it would be if all problems were like the
        first.
        """
        weights = asdict(_moved(self.starting, point))
        solver = _solver(self.network, self.settings, weights)
        first, *rest = self.parts
        self.tried[point] = first.n
        at_first = _error(solver, first, self.cell)
        if math.isinf(at_first):
            return math.inf
        if at_first > HOPELESS * self.best_at_first:
            return self.best * at_first / self.best_at_first
        each = [first.n * at_first, *(p.n * _error(solver, p, self.cell) for p in rest)]
        self.tried[point] = sum(part.n for part in self.parts)
        error = sum(each) / self.tried[point]
        if error < self.best:
            self.best, self.best_at_first = error, at_first
        return error


def judge(
    network: Prior, records: Sequence[Record], problems: Benchmark, **labels: Any
) -> list[results.Row]:
    """Evaluates tuned weights.

    Args:
        network: The prior.
        records: What `tune` found.
        problems: Test problems.
        **labels: Further columns of every row.

    Returns:
        One row for each record.
    """
    rows = []
    for record in records:
        settings = record["settings"]
        solver = _solver(network, settings, record["weights"])
        cell = problems, record["direction"], record["regime"]
        common = {"method": network.title, "steps": settings["steps"], **labels}
        rows += evaluate.evaluate(solver, *cell, **common)
    return rows


def _moved(weights: Weights, point: Point) -> Weights:
    observed, equation = 10 ** point[0], 10 ** point[-1]
    return Weights(weights.a * observed, weights.u * observed, weights.pde * equation)


def _solver(
    network: Prior, settings: Record, weights: dict[str, float]
) -> GuidedSolver:
    solver = network.solver(**settings, weights=weights)
    assert isinstance(solver, GuidedSolver)
    return solver


def _error(solver: GuidedSolver, problems: Benchmark, cell: Cell) -> float:
    """Returns the mean error in percent; infinity where a draw was not finite."""
    seen = observation_of(problems, *cell)
    generator = torch.Generator().manual_seed(problems.seed)
    try:
        a, u = solver.solve(seen, samples=1, generator=generator)
    except NumericsError:
        return math.inf
    return evaluate.errors(problems, cell[0], a[0].cpu(), u[0].cpu()).mean().item()


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _run(options: argparse.Namespace) -> int:
    """Tunes cells that the card has no weights for, and judges them."""
    results.check(options.results)
    network = checkpoints.load_any(options.model, device=options.device)
    if not isinstance(network, Prior):
        raise CheckpointError(
            f"{options.model}: {network.method} takes no guidance; "
            "give diffusionpde or fundps"
        )
    asked = {"/".join(cell): cell for cell in cells(network.pde)}
    check_names(f"cell of {network.pde.name}", options.cells or (), asked)
    tabled = PAPER[network.method].get(network.pde.name) or asked.values()
    usual = [name for name, cell in asked.items() if cell in tabled]
    wanted = [asked[name] for name in options.cells or usual]
    for residual in options.residual or known_residuals(network):
        settings = {"steps": options.steps, "residual": residual}
        records = _records(options, network, wanted, settings)
        if options.n and records:
            _judge(options, network, records)
    return 0


def known_residuals(network: Prior) -> list[str]:
    """Lists the residuals that its equation has: ours, and maybe a published one."""
    solver = _solver(network, {"residual": OURS}, {})
    try:
        solver.published_residual(network.pde)
    except ConfigError:
        return [OURS]
    return [OURS, PUBLISHED]


def _records(
    options: argparse.Namespace,
    network: Prior,
    wanted: Sequence[Cell],
    settings: Record,
) -> list[Record]:
    """Tunes what the card has no weights for, and returns all of its settings."""
    folder = checkpoints.find(options.model)
    card = checkpoints.read_card(folder)
    records = [r for r in card.get("guidance", []) if r["settings"] == settings]
    done = [(r["direction"], r["regime"]) for r in records]
    left = [cell for cell in wanted if cell not in done]
    if settings["residual"] != OURS:  # which one it is matters where one pulls
        pull = _solver(network, settings, {}).starting_weights
        left = [cell for cell in left if pull(cell[0] != "forward").pde]
    about = "{steps} steps, residual: {residual}".format(**settings)
    if not left:
        print(f"{folder}, {about}: nothing is left to tune")
        return records
    problems = validation(network, options.problems)
    for record in tune(network, problems, left, options.tries, **settings):
        records.append(record)
        kept = [r for r in card.get("guidance", []) if r["settings"] != settings]
        checkpoints.write_card(folder, card | {"guidance": kept + records})
        cell = f"{record['direction']} {record['regime']}, {about}"
        print(f"{cell}: {record['error']} % with {record['weights']}", flush=True)
    return records


def _judge(options: argparse.Namespace, network: Prior, records: list[Record]) -> None:
    if not records:
        return
    name, residual = (
        checkpoints.label(options.model),
        records[0]["settings"]["residual"],
    )
    run = f"{name}-{options.steps}-{residual}-{options.n}"
    labels = {"sweep": "tune", "run": run, "scale": options.scale}
    rows = judge(network, records, benchmark(network.pde, options.n), **labels)
    print(evaluate.show(rows))
    if options.results:
        results.append(options.results, rows)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.tune")
    add = parser.add_argument
    add("model", help="folder of a trained prior; its card takes the weights")
    add("--cells", nargs="+", help="such as forward/full (those of the tables)")
    add("--steps", type=int, default=200, help="sampler steps")
    add("--tries", type=int, default=TRIES, help="weights to try in each cell")
    add("--problems", type=int, default=PROBLEMS, help="validation problems")
    add("--residual", nargs="+", choices=RESIDUALS, help="of the equation (all it has)")
    add("--n", type=int, default=0, help="judge the weights on so many test problems")
    add("--results", help="CSV file that takes the rows")
    add("--scale", default="cpu")
    add("--device", default="auto")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options), "interrupted: the same command continues")


if __name__ == "__main__":
    sys.exit(main())
