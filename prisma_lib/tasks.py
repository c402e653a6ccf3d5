"""What may be observed: the five tasks, and how training draws them.

A forward task observes `a`, an inverse one `u`; "full" is every point, "sparse" each
point with the same probability, independently, or each column where sensors stand at
columns; "uncond" is nothing. Reconstructing `u` from a part of it needs no task of its
own: whoever solves the sparse inverse task draws both fields.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib.devices import sent
from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.pdes.base import Field

TASKS = ("uncond", "full_forward", "full_inverse", "sparse_forward", "sparse_inverse")
TASK_PROBABILITIES = (0.1, 0.25, 0.25, 0.2, 0.2)
MIXTURES = ("paper", "sparse")


def check_probabilities(probabilities: Sequence[float]) -> None:
    """Raises ConfigError when a probability is negative or they do not sum to 1."""
    total = math.fsum(probabilities)
    sound = math.isclose(total, 1, abs_tol=1e-6) and min(probabilities) >= 0
    if len(probabilities) != len(TASKS) or not sound:
        raise ConfigError(
            f"task probabilities {tuple(probabilities)} sum to {total:g}: give "
            f"{len(TASKS)} values of at least 0 that sum to 1, for {', '.join(TASKS)}"
        )


def sample_tasks(
    uniform: Float[Tensor, " b"],
    probabilities: Sequence[float] = TASK_PROBABILITIES,
) -> Int[Tensor, " b"]:
    """Turns numbers, uniform in [0, 1), into tasks: positions in `TASKS`.

    Raises:
        ConfigError: When a probability is negative or they do not sum to 1.
    """
    check_probabilities(probabilities)
    weights = torch.tensor(probabilities, dtype=torch.float64, device=uniform.device)
    upper = weights.cumsum(0)
    # The last bound of a task that can be drawn is 1 exactly, in spite of rounding.
    return torch.searchsorted(upper / upper[-1], uniform.double(), right=True)


def check_rates(p_min: float, p_max: float, mixture: str, alpha: float = 3.0) -> None:
    """Raises ConfigError when the range, the exponent or the mixture is impossible."""
    if not 0 < p_min <= p_max <= 1 or not 0 < alpha < math.inf:
        raise ConfigError(
            f"p_min={p_min}, p_max={p_max}, alpha={alpha}: observation rates need "
            "0 < p_min <= p_max <= 1 and alpha above 0, such as p_min=0.01, p_max=0.5"
        )
    if mixture not in MIXTURES:
        raise unknown_name("mask mixture", mixture, MIXTURES)


def sample_rates(
    coin: Float[Tensor, " b"],
    uniform: Float[Tensor, " b"],
    p_min: float = 0.01,
    p_max: float = 0.5,
    alpha: float = 3.0,
    mixture: str = "paper",
) -> Float[Tensor, " b"]:
    r"""Turns uniform numbers into the share of observed points of each sparse problem.

    With equal chance one of

    $$p = p_{min} + 0.1 \, U (p_{max} - p_{min}), \qquad
    p = p_{min} + V (p_{max} - p_{min})$$

    where $V = 1 - U^\alpha$ as the paper prints it. That leans to dense masks (mean
    0.38), against its words; `mixture="sparse"` takes $V = U^\alpha$.

    Args:
        coin: Uniform in [0, 1); below one half it chooses the first.
        uniform: $U$, uniform in [0, 1).
        p_min: Smallest rate, above 0.
        p_max: Largest rate, at most 1.
        alpha: Exponent, above 0.
        mixture: Which second half: "paper" or "sparse".

    Returns:
        Rates in [p_min, p_max].

    Raises:
        ConfigError: When the range, the exponent or the mixture is impossible.

    Reference:
        PRISMA, appendix "Implementation details".
    """
    check_rates(p_min, p_max, mixture, alpha)
    power = uniform**alpha
    leaning = 1 - power if mixture == "paper" else power
    return p_min + (p_max - p_min) * torch.where(coin < 0.5, 0.1 * uniform, leaning)


def task_masks(
    tasks: Int[Tensor, " b"] | Sequence[str],
    rates: Float[Tensor, " b"],
    uniform: Field,
) -> tuple[Field, Field]:
    """Turns uniform numbers into masks.

    Args:
        tasks: Task of each problem: positions in `TASKS` or names.
        rates: Share of observed points of each problem if its task is sparse.
        uniform: Uniform in [0, 1), one for each point; the same along the first axis
            where sensors stand at whole columns.

    Returns:
        `mask_a` and `mask_u`, 0 or 1, on the device of `uniform`.

    Raises:
        ConfigError: When a name is unknown.
    """
    if not isinstance(tasks, Tensor):
        for task in tasks:
            if task not in TASKS:
                raise unknown_name("task", task, TASKS)
        tasks = torch.tensor([TASKS.index(task) for task in tasks])
    numbers, shares = (
        sent(each, uniform.device).view(-1, 1, 1, 1) for each in (tasks, rates)
    )

    def mask(direction: str) -> Field:
        full = numbers == TASKS.index(f"full_{direction}")
        sparse = numbers == TASKS.index(f"sparse_{direction}")
        return (full | sparse & (uniform < shares)).to(torch.float32)

    return mask("forward"), mask("inverse")
