"""Which device computes, and what it is called in a record."""

import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from prisma_lib.errors import ConfigError

Item = TypeVar("Item")
Result = TypeVar("Result")


def resolve(name: str) -> torch.device:
    """Turns a device setting into a device.

    Args:
        name: "auto" (a CUDA GPU where there is one, else the CPU), "cpu" or "cuda",
            optionally with a number such as "cuda:1".

    Raises:
        ConfigError: When the name is unknown; when CUDA is asked for and not available,
            or an Apple GPU is asked for (exit code 4).
    """
    kind = str(name).split(":")[0]
    if kind == "mps":
        raise ConfigError(
            f"device={name!r}: Apple GPUs are refused, for nobody has tested that "
            "Fourier transforms return there what they should; use device: cpu",
            exit_code=4,
        )
    if kind not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device={name!r}: use auto, cpu or cuda")
    available = torch.cuda.is_available()
    if kind == "cuda" and not available:
        raise ConfigError(
            f"device={name!r}: CUDA is not available here; use device: cpu or auto",
            exit_code=4,
        )
    if kind == "auto":
        return torch.device("cuda" if available else "cpu")
    return torch.device(name)


def sent(value: Tensor, device: torch.device) -> Tensor:
    """Copies a tensor to a device without waiting for what that computes.

    A GPU reads pinned memory in its own time; from other memory the copy would wait
    until all work before it is done.

    Args:
        value: A tensor on the CPU or on the device.
        device: Where it is needed.
    """
    if device.type == "cuda" and not value.is_cuda:
        value = value.pin_memory()
    return value.to(device, non_blocking=True)


def describe(device: torch.device) -> str:
    """Names the hardware behind a device, for result rows and model cards."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def spread(
    work: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> list[Result]:
    """Does pieces of work, on a CPU side by side, without gradients.

    Operations on small tensors gain nothing from a second thread: waking it takes as
    long as they do. So each piece keeps to one thread, and there are as many of those
    as torch would have used. Which thread does what changes no result.

    Args:
        work: Does one piece.
        items: The pieces.
        device: Where the work computes; a GPU gets one piece after the other.

    Returns:
        The results in the order of the pieces.
    """
    threads = min(torch.get_num_threads(), len(items))
    if device.type != "cpu" or threads < 2:
        return [work(item) for item in items]
    # Every thread of a process has a number of its own.
    with ThreadPoolExecutor(
        threads, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        return list(pool.map(torch.no_grad()(work), items))
