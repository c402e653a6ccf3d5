"""Runs a training in a folder: checkpoints, log, time budget, and the command.

    python -m prisma_lib.train params/train_darcy.yaml --scale cpu

The run's folder holds two generations of checkpoints, `log.jsonl` and at the end the
model. Started again, a run goes on from its last checkpoint as if nothing had happened:
bitwise with as many processes and threads as before, to rounding with others.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prisma_lib import (
    boards,
    budgets,
    checkpoints,
    generations,
    journal,
    parallel,
    plans,
    progress,
    provenance,
    resume,
    teams,
)
from prisma_lib.errors import ConfigError, RunDirError, exit_status
from prisma_lib.files import make_folder
from prisma_lib.training import TrainConfig, TrainState, averaged, loop, start

CHECKPOINT_EVERY = 60.0  # seconds
BOARD = "also write loss, speed and the like for TensorBoard, in the run folder"
HOURS = "train for some seconds only and say how long the whole would take"
PROCESSES = "how many of this machine train together, a GPU or some cores each"


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
        RunDirError: When another process trains there, it cannot be written, or not all
            processes that train together see it.
    """
    folder = Path(folder)
    began = time.monotonic()
    parallel.check_batch(config.batch, parallel.size())
    parallel.told(lambda: generations.claim(folder))
    state = start(config, parallel.device(device))
    if parallel.told(lambda: resume.load(folder, state)):
        if not parallel.is_main():
            resume.load(folder, state)
    else:
        if config.minutes is not None:
            state.config = budgets.fitted(state, time.monotonic() - began)
        parallel.told(lambda: resume.save(folder, state))
    step = parallel.told(lambda: state.step)
    if state.step != step:
        raise RunDirError(
            f"{folder} holds step {step} for the main process and step {state.step} "
            f"for process {parallel.rank()}: use a folder that all machines share"
        )
    parallel.told(lambda: journal.rewind(folder, step))
    return state


def team(
    config: TrainConfig, folder: Path | str, device: str, processes: int
) -> AbstractContextManager[None]:
    """Lets several processes of this machine train what the block begins and runs.

    Args:
        config: Settings of the run.
        folder: Its folder.
        device: "cpu", "cuda" or "auto"; on GPUs each process has one.
        processes: How many, this one among them.

    Raises:
        ConfigError: When the batch cannot be shared by them evenly.
        WorkerError: When one of the others ended; in the block.
    """
    parallel.check_batch(config.batch, processes)
    return teams.team(processes, _follow, config, Path(folder), device)


def _follow(config: TrainConfig, folder: Path, device: str) -> None:
    for _ in run(begin(config, folder, device), folder):
        pass


def run(
    state: TrainState,
    folder: Path | str,
    checkpoint_every: float = CHECKPOINT_EVERY,
    log_every: int = journal.EVERY,
) -> Iterator[TrainState]:
    """Trains in a folder to the end of the budget and yields after every step.

    Of several processes only the main one writes there.

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
    if not parallel.is_main():
        yield from steps
        return
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
        every: Seconds between checkpoints; the last state is always saved, also that
            before another process was lost.
    """
    last, state = time.monotonic(), None
    try:
        for state in states:
            done = state.step == state.config.steps
            if done or time.monotonic() - last >= every:
                resume.save(folder, state)
                last = time.monotonic()
            yield state
    except RuntimeError as error:
        if state and parallel.is_loss(error):  # the weights are those of the last step
            resume.save(folder, state)
        raise


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
    shown = shown if parallel.is_main() else False
    settings: dict[str, Any] = {"shown": shown, "initial": state.step}
    with progress.bar(state.config.steps, "step", **settings) as bar:
        for _ in run(state, folder, log_every=log_every):
            bar.update(state.step - bar.n)
            if state.step % 20 == 0:
                bar.set_postfix(loss=f"{state.loss:.3f}")
            yield state


def _run(options: argparse.Namespace) -> int:
    """Trains what a plan says and writes the model."""
    config = read_plan(options.plan, options.scale)
    if options.hours:
        return _forecast(config, options.device, options.processes)
    folder = options.out or provenance.ROOT / "outputs" / "train" / config.name
    model = options.model or folder / "model"
    if (model / checkpoints.CARD).exists():
        raise ConfigError(f"{model} exists: give another --model, or delete it")
    make_folder(model)
    group = team(config, folder, options.device, options.processes)
    with parallel.joined(), group:
        state = begin(config, folder, options.device)
        if parallel.is_main():
            print(f"{folder}: {state.step} of {state.config.steps} steps done")
        states = watched(state, folder)
        if options.tensorboard and parallel.is_main():
            states = boards.written(states, folder / boards.FOLDER, state.seconds)
        for _ in states:
            pass
        if parallel.is_main():
            print(f"model: {finish(state, model)}")
    return 0


def _forecast(config: TrainConfig, device: str, processes: int) -> int:
    """Prints how long a training would take."""
    parallel.check_batch(config.batch, processes)
    group = teams.team(processes, budgets.forecast, config, device)
    with parallel.joined(), group:
        said = budgets.forecast(config, device)
        if parallel.is_main():
            print(said)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.train", description="Trains.")
    parser.add_argument("plan", type=Path, help="plan with the training settings")
    parser.add_argument("--scale", default="cpu", choices=plans.SCALES)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--processes", type=int, default=1, help=PROCESSES)
    parser.add_argument("--out", type=Path, help="run folder")
    parser.add_argument("--model", type=Path, help="folder of the finished model")
    parser.add_argument("--tensorboard", action="store_true", help=BOARD)
    parser.add_argument("--hours", action="store_true", help=HOURS)
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options), "interrupted: the same command continues")


if __name__ == "__main__":
    sys.exit(main())
