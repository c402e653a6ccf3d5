"""Training as it is: fresh problems, observations, noise, network, optimiser."""

from itertools import islice

from prisma_lib import results
from prisma_lib.bench.measure import Setup, row
from prisma_lib.training import BLOCK, TrainConfig, averaged, loop, start


def bench_train(setup: Setup) -> list[results.Row]:
    """Times the default training, a block of problems and its steps at a time."""
    net = setup.scale.trained[0]
    config = TrainConfig(preset=net.preset, size=net.size, batch=net.batch)
    steps = averaged(loop(start(config, setup.device)))
    seconds = setup.seconds(lambda: list(islice(steps, BLOCK)))
    rate = BLOCK * config.batch / seconds
    return [row("train", config.pde, net.setting, "images_per_s", rate)]
