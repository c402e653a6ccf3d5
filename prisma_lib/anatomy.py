"""What a network is made of: its parameters by part, under every strategy."""

from dataclasses import replace

import torch

from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.sra import Strategy
from prisma_lib.pdes.base import PDE, Statistics

# A parameter belongs to the first part of which a mark stands in its name.
PARTS = {
    "mask gains": ("attention.gain",),
    "gates": ("attention.gate",),
    "residual lifts": ("lifts.",),
    "self-attention": ("attend.",),
    "spectral weights": (".spectral.",),
    "convolutions of blocks": (".local.", ".out."),
    "noise level": ("embedding.", ".affine."),
    "between levels, in and out": ("lifting.", "project.", "widen.", "narrow."),
    "norms": ("norm",),
}


def parameters(model: Prisma) -> dict[str, int]:
    """Counts a model's parameters by part.

    Args:
        model: Any model, also one on the meta device.

    Returns:
        Number of parameters per part in the order of `PARTS`; they sum to the total.
    """
    counts = dict.fromkeys(PARTS, 0)
    for name, value in model.backbone.named_parameters():
        part = next(p for p, marks in PARTS.items() if any(m in name for m in marks))
        counts[part] += value.numel()
    return counts


def sizes(pde: PDE, config: ModelConfig) -> dict[str, dict[str, int]]:
    """Counts the parameters of one configuration under each strategy of the paper.

    Args:
        pde: The equation, on a grid that the configuration can pool.
        config: Settings; their strategy is replaced.

    Returns:
        Parameters per part, by name of the strategy. No weight takes memory.

    Raises:
        ShapeError: When the configuration cannot pool the grid.
    """
    unused = Statistics((0.0, 0.0), (1.0, 1.0), 1.0)
    counts = {}
    ablated = (each for each in Strategy if each is not Strategy.NEWTON)
    for name in (strategy.value for strategy in ablated):
        with torch.device("meta"):
            model = Prisma(pde, replace(config, strategy=name), unused)
        counts[name] = parameters(model)
    return counts
