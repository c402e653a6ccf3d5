"""Tensors as bytes that are checked when they come back: safetensors and SHA-256."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from prisma_lib.errors import CheckpointError


def pack(tensors: Mapping[str, Tensor], source: object) -> tuple[bytes, dict[str, Any]]:
    """Turns named tensors into the content of a file.

    Args:
        tensors: The tensors, on any device.
        source: What they belong to, for messages.

    Returns:
        The content, and what `unpack` needs to check it: length and checksum.

    Raises:
        CheckpointError: When a value is not finite.
    """
    host = {name: value.detach().to("cpu") for name, value in tensors.items()}
    _check_finite(host, source)
    content = save({name: value.contiguous() for name, value in host.items()})
    checksum = hashlib.sha256(content).hexdigest()
    return content, {"bytes": len(content), "sha256": checksum}


def unpack(path: Path, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    """Reads a file of tensors.

    Args:
        path: The file.
        entry: What `pack` said about it.

    Returns:
        The tensors, on the CPU.

    Raises:
        CheckpointError: When the file is missing, truncated or changed, or a value in
            it is not finite.
    """
    content = path.read_bytes() if path.is_file() else b""
    if len(content) != entry["bytes"]:
        raise CheckpointError(
            f"corrupt: {path} has {len(content)} bytes, its card says "
            f"{entry['bytes']} (truncated?); restore the file, for example with git"
        )
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"corrupt: checksum mismatch of {path}; restore the file")
    try:
        tensors: dict[str, Tensor] = load(content)
    except SafetensorError as error:
        raise CheckpointError(f"corrupt: {path}: {error}") from error
    _check_finite(tensors, path)
    return tensors


def check_fit(
    found: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    source: object,
    dtype: torch.dtype | None = None,
) -> None:
    """Refuses tensors that do not fit a model, in name, shape or type.

    Args:
        found: What a file holds.
        wanted: What the model has.
        source: Where the file is, for messages.
        dtype: Type of all found tensors, if it is not that of the model.

    Raises:
        CheckpointError: Naming what differs.
    """
    if found.keys() != wanted.keys():
        missing = sorted(wanted.keys() - found.keys())[:3]
        extra = sorted(found.keys() - wanted.keys())[:3]
        raise CheckpointError(
            f"{source}: weights do not fit the card's model: missing {missing}, "
            f"unexpected {extra}"
        )
    for name, value in found.items():
        if value.shape != wanted[name].shape:
            raise CheckpointError(
                f"{source}: {name} has shape {tuple(value.shape)}, the card's model "
                f"needs {tuple(wanted[name].shape)}"
            )
        expected = dtype or wanted[name].dtype
        if value.dtype != expected:
            raise CheckpointError(
                f"{source}: {name} is {value.dtype}, {expected} is needed: numbers are "
                "never converted unasked; convert the file where you trust it"
            )


def _check_finite(tensors: Mapping[str, Tensor], source: object) -> None:
    for name, value in tensors.items():
        if not torch.isfinite(value).all():
            raise CheckpointError(
                f"{source}: weight {name} has NaN or Inf; use an earlier checkpoint"
            )
