"""One door for every method: errors on test problems, as tidy rows.

    python -m prisma_lib.evaluate darcy-32 --n 128 --steps 20

Test problems, masks and sensor noise depend on the seed and the problem's number alone,
so that every method answers the same questions.
"""

import argparse
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import checkpoints, data, devices, metrics, provenance, results
from prisma_lib.anchors import MeanField, NumericalSolver
from prisma_lib.edm import Schedule
from prisma_lib.errors import exit_status, unknown_name
from prisma_lib.model import Prisma
from prisma_lib.observe import Observation, add_noise, observe
from prisma_lib.pdes.base import PDE, Direction, Field, Statistics
from prisma_lib.posterior import ExactPosterior, is_gaussian
from prisma_lib.solve import PrismaSolver, Solver

REGIMES = ("full", "sparse", "noisy")
DIRECTIONS: tuple[Direction, ...] = ("forward", "inverse")
NOISE_SD = 2.0  # in units of the field's standard deviation


@dataclass(frozen=True)
class Benchmark:
    """Clean test problems of one PDE, with the statistics that scale sensor noise.

    Args:
        pde: The equation.
        a: Input fields.
        u: Solution fields.
        statistics: Statistics of the training data.
        seed: Seed of problems, masks and noise.
    """

    pde: PDE
    a: Field
    u: Field
    statistics: Statistics
    seed: int

    @property
    def n(self) -> int:
        """Number of problems."""
        return len(self.a)


def benchmark(pde: PDE, n: int = 128, seed: int = 0) -> Benchmark:
    """Draws and solves the first `n` test problems.

    Args:
        pde: The equation.
        n: Number of problems.
        seed: Seed of the data; training uses other sample numbers of the same seed.
    """
    a, u = data.problems(pde, n, split="test", seed=seed)
    return Benchmark(pde, a, u, data.statistics(pde, seed=seed), seed)


def observation_of(
    problems: Benchmark,
    direction: Direction,
    regime: str,
    *,
    rate: float = 0.03,
    noise: float = NOISE_SD,
) -> Observation:
    """Hides what a cell of a table hides.

    Args:
        problems: Test problems.
        direction: "forward" observes `a`, "inverse" observes `u`.
        regime: "full", "sparse" (each point with probability `rate`) or "noisy" (every
            point, with Gaussian noise).
        rate: Share of observed points.
        noise: Standard deviation of the noise in units of the field's.

    Raises:
        ConfigError: When the regime is unknown.
    """
    if regime not in REGIMES:
        raise unknown_name("regime", regime, REGIMES)
    index = range(problems.n)
    density = "sparse" if regime == "sparse" else "full"
    task = f"{density}_{direction}"
    key = problems.seed
    seen = observe(task, problems.a, problems.u, rate=rate, key=key, index=index)
    if regime != "noisy":
        return seen
    sd_a, sd_u = (noise * sd for sd in problems.statistics.std)
    return add_noise(seen, sd_a, sd_u, key=key, index=index)


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


def evaluate(
    solver: Solver,
    problems: Benchmark,
    direction: Direction,
    regime: str,
    *,
    method: str,
    samples: int = 1,
    **labels: Any,
) -> list[results.Row]:
    """Evaluates one cell of a table.

    Args:
        solver: The method.
        problems: Test problems.
        direction: "forward" or "inverse".
        regime: "full", "sparse" or "noisy".
        method: Name of the method in the row.
        samples: Draws per problem; with more than one a second row judges their mean.
        **labels: Further columns, such as `scale`, `steps` or `run`.

    Returns:
        One row for a single draw, and one for the mean of the draws if there are more.
    """
    seen = observation_of(problems, direction, regime)
    generator = torch.Generator().manual_seed(problems.seed)
    began = time.perf_counter()
    a, u = solver.solve(seen, samples=samples, generator=generator)
    device = a.device
    a, u = a.cpu(), u.cpu()  # waits for the device, too
    seconds = (time.perf_counter() - began) / (samples * problems.n)
    common = {
        "commit": provenance.commit(),
        "method": method,
        "pde": problems.pde.name,
        "direction": direction,
        "regime": regime,
        "setting": f"size={problems.pde.size}" + _setting(regime),
        "metric": problems.pde.error(direction),
        "n": problems.n,
        "seconds_per_sample": f"{seconds:.3g}",
        "calls": solver.calls,
        "peak_mb": _peak_mb(device),
        "device": devices.describe(device),
        "seed": problems.seed,
        **labels,
    }
    judged = {"": (a[0], u[0])}
    if samples > 1:
        judged[f";mean_of={samples}"] = (a.mean(0), u.mean(0))
    rows = []
    for suffix, (guess_a, guess_u) in judged.items():
        values = errors(problems, direction, guess_a, guess_u)
        low, high = metrics.bootstrap_interval(values, key=problems.seed)
        rows.append(
            common
            | {
                "setting": common["setting"] + suffix,
                "value": f"{values.mean().item():.4g}",
                "low": f"{low:.4g}",
                "high": f"{high:.4g}",
            }
        )
    return rows


def table(
    model: Prisma, n: int, steps: int, seed: int = 0, **labels: Any
) -> list[results.Row]:
    """Evaluates a model and the anchors in all six cells.

    Args:
        model: A PRISMA model.
        n: Number of test problems.
        steps: Sampler steps.
        seed: Seed of the test problems.
        **labels: Further columns of every row.
    """
    problems = benchmark(model.pde, n, seed)
    prisma = PrismaSolver(model, Schedule(steps))
    cell = (NumericalSolver(model.pde), problems, DIRECTIONS[0], "full")
    rows = evaluate(*cell, method="numerical solver", **labels)
    mean = MeanField(model.pde)
    for direction in DIRECTIONS:
        if is_gaussian(model.pde):
            rows += exact_rows(problems, direction, **labels)
        rows += evaluate(
            mean, problems, direction, "full", method="mean field", **labels
        )
        for regime in REGIMES:
            rows += evaluate(
                prisma,
                problems,
                direction,
                regime,
                method="PRISMA",
                steps=steps,
                **labels,
            )
    return rows


def exact_rows(
    problems: Benchmark, direction: Direction, **labels: Any
) -> list[results.Row]:
    """Evaluates one draw of the exact posterior in every regime of a direction.

    Args:
        problems: Test problems of a linear equation with Gaussian inputs.
        direction: "forward" or "inverse".
        **labels: Further columns of every row.
    """
    sd_a, sd_u = problems.statistics.std
    rows = []
    for regime in REGIMES:
        noise = NOISE_SD if regime == "noisy" else 0.0
        solver = ExactPosterior(problems.pde, (noise * sd_a, noise * sd_u))
        cell = (solver, problems, direction, regime)
        rows += evaluate(*cell, method="exact posterior", **labels)
    return rows


def _setting(regime: str) -> str:
    return {"sparse": ";rate=0.03", "noisy": f";noise_sd={NOISE_SD:g}"}.get(regime, "")


def _peak_mb(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) // 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def show(rows: list[results.Row]) -> str:
    """Formats rows as a small text table."""
    head = f"{'method':18} {'direction':9} {'regime':7} {'error %':>8}  95% interval"
    lines = [f"{head}   n  s/sample"]
    lines += [
        f"{row['method']:18} {row['direction']:9} {row['regime']:7} {row['value']:>8}  "
        f"[{row['low']}, {row['high']}]  {row['n']}  {row['seconds_per_sample']}"
        for row in rows
    ]
    return "\n".join(lines)


def _run(options: argparse.Namespace) -> int:
    """Evaluates a model and writes its rows where they are wanted."""
    model = checkpoints.load(options.model, device=options.device)
    folder = checkpoints.find(options.model)
    labels = {
        "sweep": "evaluate",
        "run": f"{folder.name}-{options.steps}-{options.n}-{options.seed}",
        "scale": options.scale,
    }
    rows = table(model, options.n, options.steps, options.seed, **labels)
    print(show(rows))
    if options.results:
        results.append(options.results, rows)
    if options.card:
        card = checkpoints.read_card(folder)
        checkpoints.write_card(folder, card | {"errors": rows})
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.evaluate")
    parser.add_argument("model", help="name of a shipped model, or a folder")
    parser.add_argument("--n", type=int, default=128, help="test problems")
    parser.add_argument("--steps", type=int, default=20, help="sampler steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--results", help="CSV file that takes the rows")
    parser.add_argument(
        "--card", action="store_true", help="write the rows into the model's card"
    )
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
