"""Where the time of a sampling step goes."""

import statistics

import torch

from prisma_lib.bench.measure import Setup
from prisma_lib.bench.networks import Job
from prisma_lib.edm import Schedule
from prisma_lib.sample import calls, heun

# Steps of the sampler whose time is divided up.
_STEPS = 2


def parts(setup: Setup, work: Job) -> dict[str, float]:
    """Divides the time of one network call of a sampler.

    Args:
        setup: Where and how often to measure; the parts take turns.
        work: The network and its batch.

    Returns:
        Seconds a batch: "residual", its evaluation and normalisation for all levels;
        "network", the backbone; and "rest", what the sampler takes beyond both.
    """
    times = {k: statistics.median(v) for k, v in runs_of_parts(setup, work).items()}
    whole = times.pop("whole")
    return times | {"rest": whole - sum(times.values())}


@torch.no_grad()
def runs_of_parts(setup: Setup, work: Job) -> dict[str, list[float]]:
    """Times one network call of a sampler and its parts.

    Args:
        setup: Where and how often to measure; the parts take turns.
        work: The network and its batch.

    Returns:
        Seconds a batch of every round: "residual" and "network" as in `parts`, and
        "whole", of the sampler.
    """
    model, schedule = work.model, Schedule(_STEPS)
    x_obs = torch.where(work.mask > 0, work.x, 0.0)

    def sample() -> None:
        states = heun(
            lambda x, sigma: model(x, sigma, x_obs, work.mask), work.x, schedule
        )
        for _ in states:
            pass

    given = []
    hook = model.backbone.register_forward_pre_hook(lambda _, args: given.append(args))
    work.infer()
    hook.remove()
    times = setup.runs_in_turn(
        {
            "whole": sample,
            "residual": lambda: model.residual_levels(work.x, x_obs, work.mask),
            "network": lambda: model.backbone(*given[0]),
        }
    )
    num = calls("heun", _STEPS)
    found = {name: times[name] for name in ("residual", "network")}
    return found | {"whole": [seconds / num for seconds in times["whole"]]}
