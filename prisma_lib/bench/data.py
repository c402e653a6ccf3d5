"""Data: problems per second, and whether training would wait for them."""

from collections import deque
from itertools import islice

from prisma_lib import data, pdes, results
from prisma_lib.bench.direct import bench_direct
from prisma_lib.bench.measure import Network, Setup, row, timed
from prisma_lib.bench.networks import job
from prisma_lib.training import BLOCK

# Equations whose solver is a transform, and how many fields are drawn at once.
_TRANSFORMED, _AT_ONCE = ("helmholtz", "poisson"), 1000


def bench_data(setup: Setup) -> list[results.Row]:
    """Measures every equation, against a training step of the network of its size."""
    rows, waiting = [], []
    for net in setup.scale.trained:
        step = setup.seconds(job(net, setup.device).step())
        for name in pdes.names():
            seconds, note = _generation(setup, net, name)
            ratio = seconds * net.batch / step
            setting = f"{net.setting}{note}"
            rows += [
                row("data", name, setting, "s_per_10000", 10_000 * seconds),
                row("data", name, setting, "data_over_step", ratio),
            ]
            if ratio > 1:
                waiting.append(f"{name} at {net.size} x {net.size}")
    print(f"training would wait for data of: {', '.join(waiting) or 'none'}")
    rows += [_bulk(setup, name) for name in _TRANSFORMED]
    return rows + bench_direct(setup)


def _generation(setup: Setup, net: Network, name: str) -> tuple[float, str]:
    """Returns seconds a problem, made as many at once as training does, and a note."""
    cheap = pdes.quick(name)
    pde = pdes.load(name, size=net.size, **cheap)
    num = BLOCK * net.batch
    seconds = setup.seconds(lambda: pde.pair(0, range(num), setup.device))
    return seconds / num, ";from a small kept pool" if cheap else ""


def _bulk(setup: Setup, name: str) -> results.Row:
    """Draws and solves very many fields, once."""
    size, num = setup.scale.trained[-1].size, setup.scale.bulk
    pde, at_once = pdes.load(name, size=size), min(num, _AT_ONCE)
    blocks = data.stream(pde, at_once, device=setup.device)
    parts = islice(blocks, num // at_once)
    seconds = timed(lambda: deque(parts, maxlen=0), setup.device, runs=1, warm_up=0)
    return row("data", name, f"size={size};{num} fields;one run", "s", seconds)
