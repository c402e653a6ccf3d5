"""Shows a training in TensorBoard."""

from collections.abc import Iterator
from pathlib import Path

from prisma_lib import journal
from prisma_lib.errors import ConfigError
from prisma_lib.journal import Journal
from prisma_lib.training import TrainState

FOLDER = "tensorboard"
SHOWN = ("loss", "learning_rate", "gradient_norm", "images_per_second")


def written(
    states: Iterator[TrainState],
    folder: Path,
    seconds: float = 0.0,
    every: int = journal.EVERY,
) -> Iterator[TrainState]:
    """Writes some numbers of the log for TensorBoard and passes the states on.

    Args:
        states: States of a run.
        folder: Where TensorBoard will look.
        seconds: Time that the run has taken before.
        every: Number of steps in a point.

    Raises:
        ConfigError: When TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            "TensorBoard is not installed: pip install 'prisma-lib[tensorboard]', or "
            "read the same numbers in log.jsonl",
            exit_code=4,
        ) from error
    writer, rows = None, Journal(seconds)
    for state in states:
        # What a cut run wrote of the steps that are done again is hidden.
        writer = writer or SummaryWriter(folder, purge_step=state.step)
        rows.add(state)
        if state.step % every == 0 or state.step == state.config.steps:
            row = rows.row(state)
            for name in SHOWN:
                writer.add_scalar(name, row[name], state.step)
            writer.flush()
        yield state
    if writer:
        writer.close()
