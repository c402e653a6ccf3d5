"""Seconds a sample of every method: same machine, same batch, same run.

New networks take as long as trained ones. Of long samplers some steps are timed, and
the time of all is extrapolated from their median.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import torch

from prisma_lib import baselines, methods, pdes, results
from prisma_lib.baselines.base import Baseline
from prisma_lib.baselines.guided import GuidedSolver
from prisma_lib.baselines.pinn import PINN
from prisma_lib.bench.measure import (
    Network,
    Setup,
    columns,
    optional,
    row,
    timed,
)
from prisma_lib.bench.networks import PDE
from prisma_lib.observe import Observation, observe
from prisma_lib.solver import Solver
from prisma_lib.splits import Moments

BATCH = 8
FAINT = 1e-9
TIMED = 20  # steps that are timed of a long sampler
# Steps of a sampler: what a laptop has time for, and what was published.
STEPS = {"diffusionpde": (200, 2000), "fundps": (200, 500)}
FROM_NEURALOP = ("fno", "pino")


class Timed(NamedTuple):
    """Seconds a batch of every run, and network calls of a draw."""

    seconds: list[float]
    calls: int


def bench_methods(setup: Setup) -> list[results.Row]:
    """Times one draw for each problem of a batch, and compares it with PRISMA's."""
    net = setup.scale.trained[0]
    net = net._replace(batch=min(net.batch, BATCH))
    pde = pdes.load(PDE, size=net.size)
    a, u = pde.pair(0, range(net.batch))
    moments = Moments(pde)
    moments.add(a, u)
    seen = observe("sparse_forward", a, u, index=range(net.batch)).to(setup.device)
    found = {"PRISMA;steps=20": _seconds(setup, _network("prisma", net, moments), seen)}
    for name in baselines.names():
        if name == "pinn":
            found |= _fitted(setup, PINN(pde, moments.statistics()), seen)
        elif name not in FROM_NEURALOP or optional("neuralop"):
            found |= _trained(setup, name, _network(name, net, moments), seen)
    shared = f"preset={net.preset};size={net.size};batch={net.batch}"
    return list(_rows(found, shared, net.batch))


def _network(name: str, net: Network, moments: Moments) -> Any:
    kind = methods.network(name)
    pde = pdes.load(PDE, size=net.size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(pde, kind.settings.preset(net.preset), moments.statistics())
    return model.eval().requires_grad_(False)


def _solve(solver: Solver, seen: Observation) -> None:
    solver.solve(seen, samples=1, generator=torch.Generator().manual_seed(0))


def _seconds(setup: Setup, model: Any, seen: Observation) -> Timed:
    solver = methods.solver(model.to(setup.device))
    works = {"": lambda: _solve(solver, seen)}
    return Timed(setup.runs_in_turn(works)[""], solver.calls)


def _fitted(setup: Setup, pinn: PINN, seen: Observation) -> dict[str, Timed]:
    """Returns the seconds of a batch of fits."""
    few = replace(pinn, iterations=TIMED)
    taken = timed(lambda: _solve(few, seen), setup.device, runs=1, warm_up=1)
    label = f"PINN;iterations={pinn.iterations};extrapolated"
    return {label: Timed([taken * pinn.iterations / TIMED], pinn.calls)}


def _trained(
    setup: Setup, name: str, model: Baseline, seen: Observation
) -> dict[str, Timed]:
    """Returns the seconds of a batch, for each number of steps of a long sampler."""
    if name not in STEPS:
        return {model.title: _seconds(setup, model, seen)}
    marks: list[float] = []

    def mark(_: object) -> None:
        if setup.device.type == "cuda":
            torch.cuda.synchronize(setup.device)
        marks.append(time.perf_counter())

    model.to(setup.device)
    guided = model.solver(steps=TIMED + 2, watch=mark)
    assert isinstance(guided, GuidedSolver)
    # A network of noise must not be pulled anywhere, but what pulls is computed.
    weights = asdict(guided.weighting(inverse=False))
    faint = {name: FAINT * weight for name, weight in weights.items()}
    # The first step warms up, and the last one does less.
    _solve(replace(guided, weights=faint), seen)
    taken = [after - before for before, after in itertools.pairwise(marks)]
    return {
        f"{model.title};steps={n};extrapolated": Timed(
            [n * each for each in taken[:TIMED]], replace(guided, steps=n).calls
        )
        for n in STEPS[name]
    }


def _rows(found: dict[str, Timed], shared: str, batch: int) -> Iterator[results.Row]:
    """Makes two rows of each method: its time, and that over PRISMA's."""
    prisma = statistics.median(next(iter(found.values())).seconds)
    for label, (runs, calls) in found.items():
        setting, seconds = f"{label};{shared}", statistics.median(runs)
        timed_row = row("methods", PDE, setting, "s_per_sample", seconds / batch)
        yield timed_row | columns([each / batch for each in runs]) | {"calls": calls}
        yield row("methods", PDE, setting, "over_prisma", seconds / prisma)
