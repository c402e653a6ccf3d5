"""Which device computes, and what it is called in a record."""

import platform
from pathlib import Path

import torch

from prisma_lib.errors import ConfigError


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
