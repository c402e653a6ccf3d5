"""Training as it is: fresh problems, observations, noise, network, optimiser."""

from itertools import islice

from prisma_lib import methods, results
from prisma_lib.bench.measure import Setup, optional, row
from prisma_lib.bench.methods import FROM_NEURALOP
from prisma_lib.training import BLOCK, TrainConfig, averaged, loop, start


def bench_train(setup: Setup) -> list[results.Row]:
    """Times training by every method, a block of problems and its steps at a time."""
    net, rows = setup.scale.trained[0], []
    for name in methods.names():
        if name in FROM_NEURALOP and not optional("neuralop"):
            continue
        config = TrainConfig(
            method=name, preset=net.preset, size=net.size, batch=net.batch
        )
        steps = averaged(loop(start(config, setup.device)))
        seconds = setup.seconds(lambda s=steps: list(islice(s, BLOCK)))  # type: ignore[misc]
        setting = net.setting if name == "prisma" else f"{net.setting};{name}"
        rate = BLOCK * config.batch / seconds
        rows.append(row("train", config.pde, setting, "images_per_s", rate))
    return rows
