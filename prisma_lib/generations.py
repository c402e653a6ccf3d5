"""Checkpoints of a run: two generations, of which a crash leaves one whole.

A generation is `step-NUMBER.safetensors` (all tensors) and `step-NUMBER.json` (the
rest, with the checksums of both). The file `latest` names the newest and is written
last. No file holds anything that could run.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from prisma_lib.errors import CheckpointError, RunDirError
from prisma_lib.files import as_json, write_atomically, write_json
from prisma_lib.tensorfile import pack, unpack

FORMAT = 2
LATEST, LOCK = "latest", ".lock"

log = logging.getLogger(__name__)
_held: dict[Path, int] = {}

Card = dict[str, Any]


def claim(folder: Path) -> None:
    """Takes a run's folder for this process and removes what a killed one left.

    The claim ends with the process.

    Args:
        folder: The folder; made if missing.

    Raises:
        RunDirError: When another process holds the folder or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() not in _held:
            _lock(folder)
        for stray in folder.glob(".*.part"):
            stray.unlink(missing_ok=True)
        for tensors in folder.glob("step-*.safetensors"):
            if not tensors.with_suffix(".json").exists():
                tensors.unlink(missing_ok=True)
    except BlockingIOError as error:
        raise RunDirError(
            f"another process trains in {folder}: wait for it, or choose another folder"
        ) from error
    except OSError as error:
        raise RunDirError(
            f"{folder} cannot be written ({error}): choose another folder"
        ) from error


def _lock(folder: Path) -> None:
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        log.debug("%s lies on a disk without locks", folder)
    _held[folder.resolve()] = handle


def save(
    folder: Path, step: int, tensors: Mapping[str, Tensor], about: Mapping[str, Any]
) -> None:
    """Writes a generation and removes all but it and the one before.

    Args:
        folder: The run's folder.
        step: Number of steps done.
        tensors: Everything that is a tensor.
        about: Everything else, as plain values.

    Raises:
        CheckpointError: When a tensor is not finite; nothing was written then.
        RunDirError: When the disk is full or may not be written; the generation before
            is still there.
    """
    name = f"step-{step:010d}"
    content, entry = pack(tensors, f"step {step}")
    card = {**about, "format": FORMAT, "step": step, "tensors": entry}
    before = _pointer(folder)
    try:
        write_atomically(folder / f"{name}.safetensors", content)
        write_json(folder / f"{name}.json", {**card, "sha256": _checksum(card)})
        write_atomically(folder / LATEST, f"{name}\n".encode())
        _prune(folder, {name, before})
    except OSError as error:
        raise RunDirError(
            f"step {step} could not be saved in {folder} ({error}): free some space "
            f"and start the same training again; it goes on from {before}"
        ) from error


def _prune(folder: Path, kept: set[str]) -> None:
    for suffix in ("json", "safetensors"):  # tensors without a card are not offered
        for path in folder.glob(f"step-*.{suffix}"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)


def load(folder: Path) -> tuple[Card, dict[str, Tensor]] | None:
    """Reads the newest generation that is whole.

    Args:
        folder: The run's folder.

    Returns:
        Its plain values and its tensors; `None` where no generation was ever written.
        Where `latest` names a damaged one, an older one is used, with a warning.

    Raises:
        CheckpointError: When there are generations but none that can be read.
    """
    named = _pointer(folder)
    found = {path.stem for path in folder.glob("step-*.*")}
    others = sorted(found - {named}, reverse=True)
    problems = [] if named in found or not found else [f"no {LATEST} that names a file"]
    for name in [named, *others] if named in found else others:
        try:
            card = read_card(folder / f"{name}.json")
            tensors = unpack(folder / f"{name}.safetensors", card["tensors"])
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if problems:
            log.warning("going on from %s: %s", folder / name, "; ".join(problems))
            write_atomically(folder / LATEST, f"{name}\n".encode())
        return card, tensors
    if problems:
        raise CheckpointError(
            f"no checkpoint in {folder} can be used: {'; '.join(problems)}; restore "
            "the files, or delete the folder to train from the start"
        )
    return None


def read_card(path: Path) -> Card:
    """Reads and checks the plain values of a generation.

    Raises:
        CheckpointError: When they are missing, damaged or of another format.
    """
    try:
        card: Card = json.loads(path.read_bytes())
        checksum, version = card.pop("sha256"), card["format"]
        step = card["step"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"corrupt: {path} is no checkpoint ({error!r})"
        ) from error
    if version != FORMAT:
        raise CheckpointError(
            f"{path} was written in format {version}, this library reads {FORMAT}: "
            "use the version of prisma_lib that wrote it"
        )
    if checksum != _checksum(card) or path.stem != f"step-{step:010d}":
        raise CheckpointError(f"corrupt: checksum mismatch of {path}")
    return card


def _checksum(card: Mapping[str, Any]) -> str:
    return hashlib.sha256(as_json(json.loads(json.dumps(card)))).hexdigest()


def _pointer(folder: Path) -> str:
    """Returns the name in `latest`, empty without a readable one."""
    try:
        return (folder / LATEST).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
