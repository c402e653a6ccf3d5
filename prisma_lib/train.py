"""Runs a training: checkpoints, resume, and the command.

    python -m prisma_lib.train params/train_darcy.yaml --scale cpu

The run's folder holds `state.pt` (tensors and plain numbers only), `log.jsonl` and at
the end the model. Started again, a run goes on from its last checkpoint.
"""

import argparse
import io
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import torch

from prisma_lib import checkpoints, devices, plans, progress, provenance
from prisma_lib.errors import CheckpointError, ConfigError, exit_status
from prisma_lib.files import write_atomically
from prisma_lib.model import Prisma
from prisma_lib.training import TrainConfig, TrainState, loop, start

STATE, LOG = "state.pt", "log.jsonl"


def save_state(folder: Path, state: TrainState, config: TrainConfig) -> None:
    """Writes everything that a run needs to continue, atomically."""
    buffer = io.BytesIO()
    content = {
        "config": asdict(config),
        "step": state.step,
        "model": state.model.state_dict(),
        "average": state.average.state_dict(),
        "optimiser": state.optimiser.state_dict(),
        "seconds": state.seconds,
    }
    torch.save(content, buffer)
    write_atomically(folder / STATE, buffer.getvalue())


def load_state(folder: Path, state: TrainState, config: TrainConfig) -> TrainState:
    """Continues a fresh state from a run's checkpoint.

    Args:
        folder: The run's folder.
        state: State made by `start` from the same settings.
        config: Settings of the run.

    Returns:
        The state, changed in place.

    Raises:
        CheckpointError: When the file is damaged or was written by a run with other
            settings.
    """
    path = folder / STATE
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        written = content["config"]
    except Exception as error:
        raise CheckpointError(
            f"corrupt: {path} cannot be read ({type(error).__name__}); delete it to "
            "train from the start"
        ) from error
    wanted = json.loads(json.dumps(asdict(config)))
    written = json.loads(json.dumps(written))
    changed = [k for k in wanted if wanted[k] != written.get(k)]
    if changed:
        lines = [f"{k}: {written.get(k)!r} -> {wanted[k]!r}" for k in changed]
        raise CheckpointError(
            f"{path} belongs to a run with other settings ({'; '.join(lines)}): use "
            "another folder or the old settings"
        )
    state.model.load_state_dict(content["model"])
    state.average.load_state_dict(content["average"])
    state.optimiser.load_state_dict(content["optimiser"])
    state.step, state.seconds = content["step"], content["seconds"]
    return state


def run(
    config: TrainConfig,
    folder: Path | str,
    device: str = "cpu",
    checkpoint_every: float = 60.0,
) -> Iterator[TrainState]:
    """Trains in a folder, continuing what is there, and yields after every step.

    Args:
        config: Settings of the run.
        folder: Holds the checkpoint and the log; made if missing.
        device: "cpu", "cuda" or "auto".
        checkpoint_every: Seconds between checkpoints.

    Yields:
        The state after each step.

    Raises:
        CheckpointError: When the folder's checkpoint does not fit.
        NumericsError: When training becomes non-finite.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = start(config, devices.resolve(device))
    if (folder / STATE).exists():
        state = load_state(folder, state, config)
    before, began, saved = state.seconds, time.monotonic(), time.monotonic()
    with _log(folder / LOG) as log:
        for _ in loop(config, state):
            state.seconds = before + time.monotonic() - began
            if state.step % 50 == 0 or state.step == config.steps:
                entry = {
                    "step": state.step,
                    "images": state.step * config.batch,
                    "loss": state.loss,
                    "learning_rate": state.learning_rate,
                    "seconds": round(state.seconds, 2),
                }
                log.write(json.dumps(entry) + "\n")
            if time.monotonic() - saved > checkpoint_every:
                save_state(folder, state, config)
                saved = time.monotonic()
            yield state
    save_state(folder, state, config)


def finish(config: TrainConfig, state: TrainState, folder: Path | str) -> Path:
    """Writes the averaged weights of a finished run as a model with its card.

    Args:
        config: Settings of the run.
        state: The run's last state.
        folder: The model's folder.

    Returns:
        The model's folder.
    """
    device = state.model.mean.device
    notes: dict[str, Any] = {
        "name": config.name,
        "training": {
            **asdict(config),
            "images_seen": state.step * config.batch,
            "minutes": round(state.seconds / 60, 1),
            "data": "fresh problems at every step, test problems never among them",
        },
        "provenance": provenance.record(device),
    }
    averaged = state.average.module
    assert isinstance(averaged, Prisma)
    checkpoints.save(folder, averaged, notes)
    return Path(folder)


@contextmanager
def _log(path: Path) -> Iterator[TextIO]:
    with path.open("a", buffering=1) as log:
        yield log


def read_plan(path: Path | str, scale: str) -> TrainConfig:
    """Reads the training settings of a plan at a scale.

    Raises:
        ConfigError: When the plan is no mapping or holds an unknown setting.
    """
    return TrainConfig.from_dict(plans.read_training(path, scale))


def _run(options: argparse.Namespace) -> int:
    """Trains what a plan says and writes the model."""
    config = read_plan(options.plan, options.scale)
    folder = options.out or provenance.ROOT / "outputs" / "train" / config.name
    model = options.model or folder / "model"
    if (model / checkpoints.CARD).exists():
        raise ConfigError(f"{model} exists: give another --model, or delete it")
    state = None
    with progress.bar(config.steps, "step") as bar:
        for state in run(config, folder, options.device):
            bar.update(state.step - bar.n)
            if state.step % 20 == 0:
                bar.set_postfix(loss=f"{state.loss:.3f}")
    if state is None:
        raise ConfigError(f"{folder} holds a finished run: give another --out")
    print(f"model: {finish(config, state, model)}")
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
