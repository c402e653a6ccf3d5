"""How long the explorers take to draw what is computed already."""

import tempfile
from dataclasses import replace
from functools import partial
from typing import Any

from prisma_lib import checkpoints, data, pdes, results
from prisma_lib.bench.measure import Setup, optional, row
from prisma_lib.bench.networks import PDE
from prisma_lib.model import ModelConfig, Prisma


def bench_explore(setup: Setup) -> list[results.Row]:
    """Times the picture that follows a move of a slider, for each explorer.

    A network with new weights is shown: the pictures are as large as those of others.
    """
    if optional("matplotlib") is None:
        return []
    from prisma_lib.explore import playground, posteriors, residual, spectrum
    from prisma_lib.explore.controls import settled

    pde = pdes.load(PDE, setup.scale.compared.size)
    network = Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=64))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints.save(folder, network)
        for module in (residual, spectrum, posteriors, playground):
            explorer = module.EXPLORER
            first = replace(module.State(model=folder), steps=2)
            state = settled(first, explorer.controls)
            redraw = partial(_redraw, explorer, state, explorer.result(state))
            seconds = setup.seconds(redraw)
            name = module.__name__.rpartition(".")[2]
            setting = f"explorer={name};size={pde.size}"
            rows.append(row("explore", PDE, setting, "ms_per_redraw", 1e3 * seconds))
    return rows


def _redraw(explorer: Any, state: Any, result: Any) -> bytes:
    from prisma_lib.explore.sheet import render

    return render(explorer.paint(state, result)).png
