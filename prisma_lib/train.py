"""Runs a training in a folder: checkpoints, log, time budget, and the command.

    python -m prisma_lib.train params/train_darcy.yaml --scale cpu

The run's folder holds two generations of checkpoints, `log.jsonl` and at the end the
model. Started again, a run goes on from its last checkpoint as if nothing had happened.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from prisma_lib import (
    checkpoints,
    devices,
    generations,
    journal,
    plans,
    progress,
    provenance,
    resume,
)
from prisma_lib.errors import ConfigError, exit_status
from prisma_lib.training import (
    BLOCK,
    TrainConfig,
    TrainState,
    averaged,
    loop,
    start,
)

CHECKPOINT_EVERY = 60.0  # seconds
MEASURED = 0.02  # share of a time budget that may go into measuring the speed
RESERVE = 0.03  # share of it for checkpoints and the log


def begin(config: TrainConfig, folder: Path | str, device: str = "cpu") -> TrainState:
    """Opens the folder of a run: continues what is there, or starts.

    With a time budget, the number of images is measured at the first start and kept in
    the checkpoints, so that a run that was cut keeps its schedule.

    Args:
        config: Settings of the run.
        folder: Holds checkpoints and log; made if missing. It belongs to this process
            until that ends.
        device: "cpu", "cuda" or "auto".

    Returns:
        The state to go on from; its `config` has the final number of images.

    Raises:
        CheckpointError: When the folder's checkpoints are damaged, or of a run with
            other settings or data.
        ConfigError: When a setting is impossible or the device is not there.
        RunDirError: When another process trains there, or it cannot be written.
    """
    folder = Path(folder)
    began = time.monotonic()
    generations.claim(folder)
    state = start(config, devices.resolve(device))
    if not resume.load(folder, state):
        if config.minutes is not None:
            state.config = fitted(state, time.monotonic() - began)
        resume.save(folder, state)
    journal.rewind(folder, state.step)
    return state


def fitted(state: TrainState, spent: float = 0.0) -> TrainConfig:
    """Fits the number of images to the time budget.

    Trains a copy of the state for a moment; the state itself stays as it is.

    Args:
        state: A run before its first step, with a time budget.
        spent: Seconds of the budget that are gone.

    Returns:
        The run's settings with the number of images, a multiple of the batch.
    """
    config = state.config
    budget = 60 * (config.minutes or 0)
    trial = deepcopy(state, {id(state.source): state.source})
    trial.config = replace(config, images=1_000_000_000)
    entered = marked = time.monotonic()
    for _ in averaged(loop(trial)):
        if trial.step == BLOCK:  # the first block also warms up
            marked = time.monotonic()
        measured = time.monotonic() - entered >= MEASURED * budget
        if trial.step % BLOCK == 0 and trial.step > BLOCK and measured:
            break
    now = time.monotonic()
    rate = (trial.step - BLOCK) / (now - marked)
    left = budget * (1 - RESERVE) - spent - (now - entered)
    return replace(config, images=max(1, int(rate * left)) * config.batch)


def run(
    state: TrainState,
    folder: Path | str,
    checkpoint_every: float = CHECKPOINT_EVERY,
    log_every: int = journal.EVERY,
) -> Iterator[TrainState]:
    """Trains in a folder to the end of the budget and yields after every step.

    Args:
        state: What `begin` returned.
        folder: The run's folder.
        checkpoint_every: Seconds between checkpoints.
        log_every: Steps in a row of the log.

    Yields:
        The state after each step.

    Raises:
        DataError: When the data have another scale than the noise levels are made for.
        NumericsError: When training becomes non-finite; the last checkpoint is whole.
        RunDirError: When the disk is full; the last checkpoint is whole.
    """
    folder = Path(folder)
    steps = timed(averaged(loop(state)))
    states = journal.logged(steps, folder, state.seconds, log_every)
    yield from saved(states, folder, checkpoint_every)


def timed(states: Iterator[TrainState]) -> Iterator[TrainState]:
    """Adds up the time that the steps take, not what callers do in between."""
    while True:
        began = time.monotonic()
        state = next(states, None)
        if state is None:
            return
        state.seconds += time.monotonic() - began
        yield state


def saved(
    states: Iterator[TrainState], folder: Path, every: float
) -> Iterator[TrainState]:
    """Writes checkpoints and passes the states on.

    Args:
        states: States of a run.
        folder: Its folder.
        every: Seconds between checkpoints; the last state is always saved.
    """
    last = time.monotonic()
    for state in states:
        done = state.step == state.config.steps
        if done or time.monotonic() - last >= every:
            resume.save(folder, state)
            last = time.monotonic()
        yield state


def finish(state: TrainState, folder: Path | str) -> Path:
    """Writes the averaged weights of a finished run as a model with its card.

    Args:
        state: The run's last state.
        folder: The model's folder.

    Returns:
        The model's folder.
    """
    config = state.config
    fresh = "fresh problems at every step, test problems never among them"
    kept = f"{config.stored} problems in every epoch, test problems never among them"
    notes: dict[str, Any] = {
        "name": config.name,
        "training": {
            **asdict(config),
            "images_seen": state.images,
            "minutes": round(state.seconds / 60, 1),
            "data": config.data or (kept if config.stored else fresh),
            "data_sha256": state.source.sha256,
        },
        "provenance": provenance.record(state.model.mean.device),
    }
    checkpoints.save(folder, state.average, notes)
    return Path(folder)


def read_plan(path: Path | str, scale: str) -> TrainConfig:
    """Reads the training settings of a plan at a scale.

    Raises:
        ConfigError: When the plan is no mapping or holds an unknown setting.
    """
    return TrainConfig.from_dict(plans.read_training(path, scale))


def watched(
    state: TrainState,
    folder: Path | str,
    *,
    shown: bool | None = None,
    log_every: int = journal.EVERY,
) -> Iterator[TrainState]:
    """Trains like `run`, with a bar that says how long it will take.

    Args:
        state: What `begin` returned.
        folder: The run's folder.
        shown: Force the bar on or off; None decides by who is looking.
        log_every: Steps in a row of the log.

    Yields:
        The state after each step.
    """
    total = state.config.steps
    with progress.bar(total, "step", shown=shown, initial=state.step) as bar:
        for _ in run(state, folder, log_every=log_every):
            bar.update(state.step - bar.n)
            if state.step % 20 == 0:
                bar.set_postfix(loss=f"{state.loss:.3f}")
            yield state


def _run(options: argparse.Namespace) -> int:
    """Trains what a plan says and writes the model."""
    config = read_plan(options.plan, options.scale)
    folder = options.out or provenance.ROOT / "outputs" / "train" / config.name
    model = options.model or folder / "model"
    if (model / checkpoints.CARD).exists():
        raise ConfigError(f"{model} exists: give another --model, or delete it")
    state = begin(config, folder, options.device)
    print(f"{folder}: {state.step} of {state.config.steps} steps done", flush=True)
    for _ in watched(state, folder):
        pass
    print(f"model: {finish(state, model)}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.train", description="Trains.")
    parser.add_argument("plan", type=Path, help="plan with the training settings")
    parser.add_argument("--scale", default="cpu", choices=plans.SCALES)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--out", type=Path, help="run folder")
    parser.add_argument("--model", type=Path, help="folder of the finished model")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options), "interrupted: the same command continues")


if __name__ == "__main__":
    sys.exit(main())
