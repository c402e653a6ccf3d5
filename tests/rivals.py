"""Baselines of noise that several test files evaluate."""

import pytest
import torch

from prisma_lib import cells, checkpoints, data, methods

FAST = {"iterations": 2, "width": 4}
GUIDED = ("diffusionpde", "fundps")
PROBLEMS = {}


def nine(quick, name):
    """Makes nine test problems of a cheap equation, once.

    Args:
        quick: The fixture of that name.
        name: Of the equation.
    """
    if name not in PROBLEMS:
        pde = quick(name, 16)
        a, u = data.problems(pde, 9, split="test")
        statistics = data.statistics(pde, num=64)
        PROBLEMS[name] = cells.Benchmark(pde, a, u, statistics, 0)
    return PROBLEMS[name]


def settings_of(name, folder):
    """Returns settings that make the solver of a baseline fast.

    Args:
        name: Of the baseline.
        folder: Holds its weights.
    """
    if name == "pinn":
        return FAST
    return {"folder": folder, **({"steps": 2} if name in GUIDED else {})}


def untrained(name, pde, folder):
    """Saves a tiny network of noise where `baselines.load` finds it.

    Args:
        name: Of the method.
        pde: The equation.
        folder: Holds the model's folder.

    Returns:
        The network.
    """
    if name in ("fno", "pino"):
        pytest.importorskip("neuralop")
    torch.manual_seed(0)
    kind = methods.network(name)
    statistics = data.statistics(pde, num=64)
    model = kind(pde, kind.settings.preset("tiny"), statistics).eval()
    place = folder / f"{name}-{pde.name}-{pde.size}"
    checkpoints.save(place, model, dtype=torch.float32)
    return model.requires_grad_(False)
