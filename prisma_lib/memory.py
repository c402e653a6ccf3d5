"""How many draws fit into memory, and what happens when they do not.

A solve is split into parts: the largest that should fit by estimate, halved whenever
memory runs out all the same. What is done stays done.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from prisma_lib.errors import ConfigError

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# No part plans for more than this, however large the machine: more gains no speed.
BUDGET = 8e9
LARGEST = 128
# A network call holds 8 to 11 feature maps of the finest level at once, and an
# allocator's slack comes on top: the process grew by up to 15.3 maps, measured for
# the presets small, base and paper at 64 to 512 points per axis.
MAPS = 16
_SIGNS = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
    "could not create a primitive",  # oneDNN's, which says no more
)


def per_draw(width: int, shape: tuple[int, int], maps: int = MAPS) -> int:
    """Estimates the bytes that a network call takes for one draw, from above.

    Args:
        width: Channels of the finest level.
        shape: Points per axis.
        maps: Feature maps of the finest level that are held at once, of float32.
    """
    return maps * 4 * width * shape[0] * shape[1]


def free(device: torch.device) -> float:
    """Returns the free bytes of a device; infinity where the system does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    table = Path("/proc/meminfo")
    if table.is_file():
        for line in table.read_text().splitlines():
            if line.startswith("MemAvailable"):
                return 1024.0 * int(line.split()[1])
    return float("inf")


def fitting(draw: int, device: torch.device) -> int:
    """Returns how many draws to compute at once, at least one.

    Args:
        draw: Bytes that one draw takes.
        device: Where it is computed; four fifths of its free memory may be taken.
    """
    room = min(BUDGET, 0.8 * free(device))
    return int(max(1, min(LARGEST, room // draw)))


def is_shortage(error: BaseException) -> bool:
    """Says whether an error means that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(s in str(error) for s in _SIGNS)


def in_parts(
    work: Callable[[range], Result], total: int, size: int, subject: str, way_out: str
) -> list[Result]:
    """Does work in parts, with smaller ones once memory runs out.

    Args:
        work: Computes some of the rows `0 .. total - 1`; called again after it failed.
        total: Number of rows.
        size: Rows of a part to begin with.
        subject: What one row is, for the message.
        way_out: What to do when not even one row fits, for the message.

    Returns:
        The result of every part, in the order of the rows.

    Raises:
        ConfigError: When memory runs out for a single row (exit code 4).
    """
    done: list[Result] = []
    start = 0
    while start < total:
        rows = range(start, min(start + size, total))
        shortage = _attempt(work, rows, done)
        if shortage is None:
            start = rows.stop
        elif len(rows) == 1:
            raise ConfigError(
                f"out of memory for {subject} ({shortage}): {way_out}", exit_code=4
            )
        else:
            size = len(rows) // 2
            log.warning("out of memory with max_batch=%d: now %d", len(rows), size)
    return done


def _attempt(
    work: Callable[[range], Result], rows: range, done: list[Result]
) -> str | None:
    """Adds a part's result, or returns what a shortage of memory said.

    The error itself must not outlive this call: it holds the tensors of its frames.
    """
    try:
        done.append(work(rows))
    except (RuntimeError, MemoryError) as error:
        if not is_shortage(error):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        message = lines[0]
    else:
        return None
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return message
