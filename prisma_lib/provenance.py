"""Where a result comes from: commit, version, hardware, date."""

import datetime
import subprocess
from pathlib import Path

import torch

import prisma_lib
from prisma_lib import devices

ROOT = Path(__file__).parents[1]


def commit() -> str:
    """Returns the short hash of the checked-out commit, "+" if files differ from it.

    Outside a git checkout it is "unknown".
    """
    if not (ROOT / ".git").exists():
        return "unknown"
    try:
        name = _git("rev-parse", "--short=10", "HEAD")
        dirty = _git("status", "--porcelain", "--", "prisma_lib", "notebooks", "params")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + ("+" if dirty else "")


def record(device: torch.device) -> dict[str, str]:
    """Returns what every result row and card says about its origin."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "commit": commit(),
        "version": prisma_lib.__version__,
        "torch": torch.__version__.split("+")[0],
        "device": devices.describe(device),
        "date": now.date().isoformat(),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
