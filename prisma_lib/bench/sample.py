"""Sampling with a shipped model."""

import torch

from prisma_lib import checkpoints, data, results
from prisma_lib.bench.measure import Setup, row
from prisma_lib.observe import observe
from prisma_lib.solve import PrismaSolver

MODEL = "darcy-32"


def bench_sample(setup: Setup) -> list[results.Row]:
    """Times one draw of 20 steps for each problem of a batch."""
    batch = setup.scale.trained[0].batch
    network = checkpoints.load(MODEL, device=str(setup.device))
    a, u = data.problems(network.pde, batch, split="test")
    seen = observe("full_forward", a, u, index=range(batch))
    solver = PrismaSolver(network)
    draws = torch.Generator().manual_seed(0)

    def work() -> None:
        solver.solve(seen, samples=1, generator=draws)

    setting = f"model={MODEL};batch={batch};steps={solver.schedule.steps}"
    seconds = setup.seconds(work) / batch
    return [row("sample", network.pde.name, setting, "s_per_sample", seconds)]
