"""How fast a machine trains, and so how many images fit into a time."""

import time
from copy import deepcopy
from dataclasses import replace

from prisma_lib import devices, parallel
from prisma_lib.training import BLOCK, TrainConfig, TrainState, averaged, loop, start

MEASURED = 0.02  # share of a time budget that may go into measuring the speed
RESERVE = 0.03  # share of it for checkpoints and the log
LOOKED_AT = 10.0  # seconds that are enough to say how long a training will take


def speed(state: TrainState, seconds: float) -> float:
    """Measures how many images are trained on in a second, by all processes.

    Trains a copy of the state for a moment; the state itself stays as it is.

    Args:
        state: A run.
        seconds: How long to measure at least.

    Returns:
        Images per second, the same number in all processes.
    """
    trial = deepcopy(state, {id(state.source): state.source})
    trial.config = replace(state.config, images=1_000_000_000)
    first = trial.step - trial.step % BLOCK + BLOCK
    entered = marked = time.monotonic()
    for _ in averaged(loop(trial)):
        if trial.step == first:  # the first block also warms up
            marked = time.monotonic()
        if trial.step % BLOCK == 0 and trial.step > first:
            spent = parallel.told(lambda: time.monotonic() - entered)
            if spent >= seconds:
                break
    steps = trial.step - first
    taken = parallel.told(lambda: time.monotonic() - marked)
    return steps * state.config.batch / taken


def fitted(state: TrainState, spent: float = 0.0) -> TrainConfig:
    """Fits the number of images to the time budget.

    Args:
        state: A run before its first step, with a time budget; it is not changed.
        spent: Seconds of the budget that are gone.

    Returns:
        The run's settings with the number of images, a multiple of the batch.
    """
    config = state.config
    budget, began = 60 * (config.minutes or 0), time.monotonic()
    rate = speed(state, MEASURED * budget)
    left = budget * (1 - RESERVE) - spent - (time.monotonic() - began)
    images = max(1, int(rate * left / config.batch)) * config.batch
    return replace(config, images=parallel.told(lambda: images))


def forecast(config: TrainConfig, device: str) -> str:
    """Says how long a training will take here, from the speed of its first steps.

    Args:
        config: Settings of the run; a time budget is left aside.
        device: "cpu", "cuda" or "auto".

    Returns:
        A line with images, speed, hardware and hours.

    Raises:
        ConfigError: When a setting is impossible or the device is not there.
    """
    state = start(config, parallel.device(device))
    rate = speed(state, LOOKED_AT)
    name = devices.describe(state.model.mean.device)
    return (
        f"{config.images:,} images at {rate:.3g} images/s of {parallel.size()} x "
        f"{name}: {config.images / rate / 3600:.3g} hours"
    )
