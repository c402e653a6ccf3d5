"""What a training writes down: one JSON line for some tens of steps."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prisma_lib import parallel
from prisma_lib.draws import choose, images
from prisma_lib.files import write_atomically
from prisma_lib.tasks import TASKS
from prisma_lib.training import TrainState

LOG = "log.jsonl"
EVERY = 50  # steps

Row = dict[str, Any]


class Journal:
    """Sums up the steps since the last row.

    Args:
        seconds: Time that the run has taken before the next step.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._clear(seconds)

    def _clear(self, seconds: float) -> None:
        self._began, self._images = seconds, 0
        self._losses: list[float] = []
        self._norms: list[float] = []
        self._by_task: defaultdict[str, list[float]] = defaultdict(list)
        self._by_sigma: defaultdict[int, list[float]] = defaultdict(list)

    def add(self, state: TrainState) -> None:
        """Takes in the last step of a state."""
        if state.draws is None:
            return
        tasks, sigmas = state.draws.tasks, state.draws.sigma
        if parallel.size() > 1:  # the others drew a part of them
            config = state.config
            tasks, _, sigmas = choose(config, images(config, state.step - 1))
        self._losses += state.losses
        self._norms.append(state.gradient_norm)
        self._images += state.config.batch
        labels = zip(state.losses, tasks.tolist(), sigmas.tolist(), strict=True)
        for loss, task, sigma in labels:
            self._by_task[TASKS[task]].append(loss)
            self._by_sigma[math.floor(math.log10(sigma))].append(loss)

    def row(self, state: TrainState) -> Row:
        """Returns the row of all steps since the last one, and begins anew.

        Args:
            state: The run after the last of them.

        Returns:
            Step, images, seconds of training, images per second, learning rate; means
            of the loss, over all images, by task and by decade of the noise level, and
            of the gradient's norm.
        """
        spent = max(state.seconds - self._began, 1e-9)
        row: Row = {
            "step": state.step,
            "images": state.images,
            "seconds": round(state.seconds, 2),
            "images_per_second": float(f"{self._images / spent:.4g}"),
            "learning_rate": state.learning_rate,
            "loss": _mean(self._losses),
            "gradient_norm": _mean(self._norms),
            "loss_by_task": {t: _mean(self._by_task[t]) for t in sorted(self._by_task)},
            "loss_by_sigma": {
                f"{10.0**k:g}": _mean(self._by_sigma[k]) for k in sorted(self._by_sigma)
            },
        }
        self._clear(state.seconds)
        return row


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def logged(
    states: Iterator[TrainState], folder: Path, seconds: float, every: int
) -> Iterator[TrainState]:
    """Writes a row for every few steps and passes the states on.

    Args:
        states: States of a run, as `training.loop` yields them.
        folder: The run's folder; its log is appended to.
        seconds: Time that the run has taken before.
        every: Number of steps in a row.
    """
    journal = Journal(seconds)
    with (folder / LOG).open("a", buffering=1) as log:
        for state in states:
            journal.add(state)
            if state.step % every == 0 or state.step == state.config.steps:
                log.write(json.dumps(journal.row(state), allow_nan=False) + "\n")
            yield state


def read(folder: Path | str) -> list[Row]:
    """Reads the log of a run.

    Args:
        folder: The run's folder.

    Returns:
        Its rows; a line that a crash cut off or damaged is left out. Keys of
        `loss_by_sigma` are the lower ends of the decades.
    """
    rows, path = [], Path(folder) / LOG
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows


def rewind(folder: Path, step: int) -> None:
    """Removes the rows of steps that a run does again after a crash.

    Args:
        folder: The run's folder.
        step: The step from which it goes on.
    """
    if (folder / LOG).is_file():
        kept = [json.dumps(row) for row in read(folder) if row["step"] <= step]
        write_atomically(folder / LOG, "".join(f"{r}\n" for r in kept).encode())
