"""Stops a training in the step in which a number stops being finite, and says where.

Each step reads its numbers from the device once. Only when one of them is not finite
does the search for the culprit begin, from the weights to the gradient.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from prisma_lib import parallel
from prisma_lib.draws import Draws
from prisma_lib.errors import NumericsError
from prisma_lib.model import Prisma
from prisma_lib.observe import Pair
from prisma_lib.tasks import TASKS
from prisma_lib.units import Errors, Normalised


@dataclass(frozen=True)
class Suspects:
    """What a step computed from.

    Args:
        step: Number of the step.
        model: The network, with the gradient of the step.
        problems: Numbers of the problems in this process's part of the batch.
        x_0: Clean pairs, normalised.
        draws: What was drawn for them.
    """

    step: int
    model: Normalised
    problems: Sequence[int]
    x_0: Pair
    draws: Draws


def read(
    errors: Errors, gradient: Tensor, suspects: Suspects
) -> tuple[list[float], float]:
    """Brings the numbers of a step to the host, in one transfer.

    Args:
        errors: Loss of each image of this process.
        gradient: Norm of the gradient.
        suspects: What they were computed from.

    Returns:
        The losses of the whole batch and the norm.

    Raises:
        NumericsError: In all processes, when one of them or a weight is not finite:
            says in which step, for which image, task and noise level, and in which
            tensor first.
    """
    weights = nn.utils.get_total_norm(suspects.model.parameters())
    whole = parallel.gathered(errors.detach())
    numbers = torch.cat([whole, torch.stack([gradient, weights])]).tolist()
    if not all(map(math.isfinite, numbers)):
        owner = _worst(numbers[:-2]) // len(errors)
        own = numbers[:-2][parallel.rank() * len(errors) :][: len(errors)]
        raise NumericsError(parallel.told(lambda: _explained(suspects, own), owner))
    return numbers[:-2], numbers[-2]


def _worst(errors: list[float]) -> int:
    """Returns where the first bad loss is, or else the largest."""
    bad = (i for i, error in enumerate(errors) if not math.isfinite(error))
    return next(bad, max(range(len(errors)), key=lambda i: errors[i]))


def _explained(suspects: Suspects, errors: list[float]) -> str:
    site, row = next(_culprits(suspects, errors), ("norm of the gradient", None))
    draws = suspects.draws
    clue = "the first image with it"
    if row is None:
        row = _worst(errors)
        finite = math.isfinite(errors[row])
        clue = "the largest loss" if finite else "the first bad loss"
    return (
        f"step {suspects.step}: {site} is not finite; {clue} is that of image "
        f"{draws.numbers[row]} (problem {suspects.problems[row]}, task "
        f"{TASKS[draws.tasks[row]]}, sigma {draws.sigma[row]:.4g}, loss "
        f"{errors[row]:.4g}). No weight was moved in this step: lower the learning "
        "rate or choose other data, and resume from the last checkpoint"
    )


def _culprits(
    suspects: Suspects, errors: list[float]
) -> Iterator[tuple[str, int | None]]:
    """Yields what is not finite in the order of the computation, with its image."""
    model, x_0, draws = suspects.model, suspects.x_0, suspects.draws
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            yield f"weight {name}", None
    inputs = {"clean pair": x_0, "mask": draws.mask, "noise": draws.noise}
    if isinstance(model, Prisma):
        x_sigma = x_0 + draws.sigma.to(x_0.device)[:, None, None, None] * draws.noise
        told = model.told(x_0, draws.mask, draws.sensors)
        inputs["residual"] = model.residual(x_sigma, told, draws.mask)
    for name, value in inputs.items():
        yield from _bad_row(name, value)
    with torch.no_grad():
        yield from _activations(model, x_0, draws)
    yield from _bad_row("loss", torch.tensor(errors))
    for name, weight in model.named_parameters():
        if weight.grad is not None and not weight.grad.isfinite().all():
            yield f"gradient of {name}", None


def _activations(
    model: Normalised, x_0: Pair, draws: Draws
) -> Iterator[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = []

    def look(name: str) -> object:
        def hook(_module: nn.Module, _inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and not found:
                found.extend(_bad_row(f"output of {name or 'the model'}", output))

        return hook

    named = list(model.named_modules())
    handles = [m.register_forward_hook(look(name)) for name, m in named]
    try:
        told = model.told(x_0, draws.mask, draws.sensors)
        sigma = draws.sigma.to(x_0.device)
        model.errors(x_0, sigma, draws.noise, told, draws.mask)
    finally:
        for handle in handles:
            handle.remove()
    yield from found


def _bad_row(name: str, value: Tensor) -> Iterator[tuple[str, int]]:
    bad = (~value.isfinite()).flatten(1 if value.ndim > 1 else 0)
    rows = (bad.any(1) if bad.ndim > 1 else bad).nonzero()
    if len(rows):
        yield name, int(rows[0])
