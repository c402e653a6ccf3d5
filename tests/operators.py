"""Operators as the tests of FNO, PINO and DeepONet build and ask them."""

import torch

from prisma_lib import cells, data, evaluate, methods, pdes
from prisma_lib.training import TrainConfig, averaged, loop, start


def untrained(method, pde, **settings):
    torch.manual_seed(0)
    network = methods.network(method)
    config = network.settings.preset("tiny", **settings)
    model = network(pde, config, data.statistics(pde, num=64)).eval()
    return model.requires_grad_(False)


def solved(model, seen, samples=1):
    return model.solver().solve(
        seen, samples=samples, generator=torch.Generator().manual_seed(0)
    )


def trained(method, pde, size, steps, batch, learning_rate, **model):
    config = TrainConfig(
        *(method, pde, size),
        preset="tiny",
        model=model,
        images=steps * batch,
        batch=batch,
        learning_rate=learning_rate,
        warmup=20 * batch,
        ema_half_life=20 * batch,
    )
    *_, state = averaged(loop(start(config, torch.device("cpu"))))
    return state.average


def errors_of(model, size, n=16):
    """Mean errors of both operators on test problems, in percent, by direction."""
    problems = cells.benchmark(pdes.load(model.pde.name, size=size), n=n)
    found = {}
    for direction in problems.pde.directions:
        rows = evaluate.evaluate(
            model.solver(), problems, direction, "full", method="x"
        )
        found[direction] = float(rows[0]["value"])
    return found
