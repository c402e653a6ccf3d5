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
    """Refuses task probabilities that are none.

    Raises:
        ConfigError: When one is negative or they do not sum to 1.
    """
    total = math.fsum(probabilities)
    if (
        len(probabilities) != len(TASKS)
        or min(probabilities) < 0
        or not math.isclose(total, 1, abs_tol=1e-6)
    ):
        raise ConfigError(
            f"task probabilities {tuple(probabilities)} sum to {total:g}: give "
            f"{len(TASKS)} values of at least 0 that sum to 1, for {', '.join(TASKS)}"
        )


def sample_tasks(
    uniform: Float[Tensor, " b"],
    probabilities: Sequence[float] = TASK_PROBABILITIES,
) -> Int[Tensor, " b"]:
    """Turns uniform numbers into tasks for training.

    Args:
        uniform: Uniform in [0, 1), one for each task.
        probabilities: One for each of `TASKS`; they sum to 1.

    Returns:
        Positions in `TASKS`.

    Raises:
        ConfigError: When a probability is negative or they do not sum to 1.
    """
    check_probabilities(probabilities)
    weights = torch.tensor(probabilities, dtype=torch.float64, device=uniform.device)
    upper = weights.cumsum(0)
    # The last bound of a task that can be drawn is 1 exactly, in spite of rounding.
    return torch.searchsorted(upper / upper[-1], uniform.double(), right=True)


def check_rates(p_min: float, p_max: float, mixture: str, alpha: float = 3.0) -> None:
    """Refuses a law of observation rates that is none.

    Raises:
        ConfigError: When the range, the exponent or the mixture is impossible.
    """
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
    """Turns uniform numbers into the masks of a training batch.

    Args:
        tasks: Task of each problem: positions in `TASKS` or names.
        rates: Share of observed points of each problem if its task is sparse.
        uniform: Uniform in [0, 1), one for each point; the same along the first axis
            where sensors stand at whole columns.

    Returns:
        `mask_a` and `mask_u`, 0 or 1, on the device of `uniform`.
    """
    numbers = tasks if isinstance(tasks, Tensor) else task_numbers(tasks)
    level_a, level_u = levels(*(sent(x, uniform.device) for x in (numbers, rates)))
    return (uniform < level_a).to(torch.float32), (uniform < level_u).to(torch.float32)


def levels(
    tasks: Int[Tensor, " b"], rates: Float[Tensor, " b"]
) -> tuple[Float[Tensor, "b 1 1 1"], Float[Tensor, "b 1 1 1"]]:
    """Gives the probability that a point of `a` and of `u` is observed.

    Args:
        tasks: Positions in `TASKS`.
        rates: Share of observed points of each problem if its task is sparse.

    Returns:
        Probabilities for `a` and for `u`: 1 for a full task, 0 where unknown.
    """

    def level(direction: str) -> Tensor:
        full = (tasks == TASKS.index(f"full_{direction}")).to(rates.dtype)
        sparse = (tasks == TASKS.index(f"sparse_{direction}")).to(rates.dtype)
        return (full + sparse * rates).view(-1, 1, 1, 1)

    return level("forward"), level("inverse")


def task_numbers(tasks: Sequence[str]) -> Int[Tensor, " b"]:
    """Returns the position of each task in `TASKS`.

    Args:
        tasks: Names of tasks.

    Raises:
        ConfigError: When a name is unknown.
    """
    for task in tasks:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
    return torch.tensor([TASKS.index(task) for task in tasks])
