"""How problems lie on disk: one HDF5 file that is either complete or not there.

Datasets `a` and `u`, float32, axes `(n, c, x, y)`, one problem a chunk with a checksum.
A file is written as `NAME.partial-PID`, marked complete last, synced and renamed, so
that a crash at any moment leaves nothing under the final name. The layout is read from
the attributes, never guessed; the suffix of the name means nothing.
"""

import fcntl
import glob
import hashlib
import io
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

import prisma_lib
from prisma_lib.errors import DataError, PrismaError, RunDirError
from prisma_lib.files import make_room, sync, writing
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.splits import BATCH, Moments

FORMAT = 2
FIELDS = ("a", "u")
LAYOUT = "datasets 'a' and 'u' of float32 with axes (n, c, x, y)"

log = logging.getLogger(__name__)


def write(
    path: Path,
    pde: PDE,
    origin: dict[str, Any],
    pairs: Iterable[tuple[Field, Field]],
    bar: Any,
) -> dict[str, Any]:
    """Writes problems into one file.

    Args:
        path: The file; `prepare` was called for it.
        pde: The equation.
        origin: Where the problems come from; `num` of them.
        pairs: Batches of inputs and solutions, float32, on the CPU.
        bar: Progress bar to move.

    Returns:
        The attributes of the file.

    Raises:
        DataError: When a field is constant or all problems are outliers.
        RunDirError: When the file cannot be written; nothing is left behind.
    """
    moments, content = Moments(pde), ContentHash()
    with created(path) as (file, sink):
        for name, c in zip(FIELDS, pde.channels, strict=True):
            each = (c, *pde.grid.shape)
            shape, chunks = (origin["num"], *each), (1, *each)
            file.create_dataset(name, shape, "f4", chunks=chunks, fletcher32=True)
        for a, u in pairs:
            rows = slice(moments.num, moments.num + len(a))
            file["a"][rows], file["u"][rows] = a.numpy(), u.numpy()
            sink.check()
            moments.add(a, u)
            content.add(a, u)
            bar.update(len(a))
        about = described(pde) | origin | asdict(moments.statistics())
        about["outliers"] = len(moments.outliers)
        about["sha256"] = content.hexdigest(about)
        file.attrs.update(about)
    return about


def described(pde: PDE) -> dict[str, Any]:
    """Returns what a file says about its equation."""
    grid = pde.grid
    return {
        "format": FORMAT,
        "library": prisma_lib.__version__,
        "pde": pde.name,
        "equation": pde.equation,
        "size": pde.size,
        "shape": grid.shape,
        "channels": pde.channels,
        "lengths": grid.lengths,
        "axes": grid.axes,
        "periodic": grid.periodic,
        "centred": grid.centred,
        **{f"option.{name}": value for name, value in pde.options.items()},
        **{f"coefficient.{name}": value for name, value in pde.coefficients.items()},
    }


class _Sink(io.FileIO):
    """A file that keeps its first error, and swallows what is written after it.

    HDF5 ends the process when it cannot flush what it has to close, as on a full disk.
    Here it can always close, and the error is raised after.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and not self.error:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        return size or 0 if self.error else super().truncate(size)

    def check(self) -> None:
        if self.error:
            raise self.error


@contextmanager
def created(path: Path) -> Iterator[tuple[h5py.File, _Sink]]:
    """Opens a file to write, which gets its name when the block ends without error.

    Args:
        path: Final name; its folder exists.

    Yields:
        The file under a partial name, and what checks that its bytes arrive.

    Raises:
        RunDirError: When the file cannot be written; nothing is left behind.
    """
    part = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        with writing(path):
            with _Sink(part, "x+") as sink:
                with suppress(OSError):  # Some network disks have no locks.
                    fcntl.flock(sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Checksums of metadata, and room for the names of many sources.
                with h5py.File(sink, "w", libver=("v108", "v108")) as file:
                    yield file, sink
                    file.attrs["complete"] = 1
                sink.check()
                os.fsync(sink)
            part.replace(path)
            sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def prepare(path: Path, needed: int, overwrite: bool) -> None:
    """Makes sure that a file can be written, before anything expensive starts.

    Partial files that a killed process left are removed.

    Args:
        path: Final name of the file.
        needed: Size of the data in bytes; a fifth more must be free.
        overwrite: Whether an existing file may be replaced.

    Raises:
        RunDirError: When the name is taken, being written by another process, or the
            folder has no space left or cannot be made.
    """
    if path.is_dir():
        raise RunDirError(f"{path} is a folder: choose another name", exit_code=2)
    if path.exists() and path.stat().st_size and not overwrite:
        raise RunDirError(
            f"{path} exists: choose another name, or overwrite it with overwrite=True "
            "(--overwrite)",
            exit_code=2,
        )
    make_room(path, needed)
    for part in path.parent.glob(f"{glob.escape(path.name)}.partial-*"):
        remove_stale(part)


def remove_stale(part: Path) -> None:
    """Removes a partial file that a killed process left.

    Raises:
        RunDirError: When a living process holds its lock.
    """
    try:
        with part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RunDirError(
            f"{part} is being written by another process: wait for it, or choose "
            "another name"
        ) from error
    except OSError:
        pass  # No locks on this disk, or the file is gone already.
    log.warning("removed %s, which a killed process left unfinished", part)
    part.unlink(missing_ok=True)


@contextmanager
def opened(
    path: Path, locking: bool | None = None
) -> Iterator[tuple[h5py.File, dict[str, Any]]]:
    """Opens a complete file to read, after checking its layout.

    Args:
        path: The file.
        locking: Whether to lock it; `None` leaves it to HDF5, `False` is for network
            disks without locks.

    Yields:
        The open file, and its attributes as plain Python values.

    Raises:
        DataError: When it is missing, no HDF5 file, damaged, unfinished or of another
            layout.
        RunDirError: When another process holds it.
    """
    again = "make it again with `python -m prisma_lib.data make`"
    try:
        with h5py.File(path, "r", locking=locking) as file:
            about = {
                name: value.tolist() if hasattr(value, "tolist") else value
                for name, value in file.attrs.items()
            }
            _check_layout(file, about, path)
            yield file, about
    except PrismaError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: {again}") from error
    except PermissionError as error:
        raise RunDirError(f"{path} may not be read: {error}") from error
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BlockingIOError) or "unable to lock" in str(error):
            raise RunDirError(
                f"{path} is locked by another process, or its disk has no locks: wait "
                "for that process, or read a complete file with locking=False"
            ) from error
        raise DataError(
            f"{path} is no HDF5 file or a damaged one ({error}): {again}"
        ) from error


def _check_layout(file: h5py.File, about: dict[str, Any], path: Path) -> None:
    fields = [file.get(name) for name in FIELDS]
    if None in fields:
        found = sorted(file) or "nothing"
        raise DataError(f"{path} holds {found}: it needs {LAYOUT}")
    for name, field in zip(FIELDS, fields, strict=True):
        if not isinstance(field, h5py.Dataset) or field.ndim != 4:
            raise DataError(f"{path}: {name!r} is {field}: it needs {LAYOUT}")
        if field.dtype != "float32":
            raise DataError(f"{path}: {name!r} is {field.dtype}: it needs {LAYOUT}")
    if about.get("complete") != 1:
        raise DataError(
            f"{path} is unfinished (no attribute complete=1): make it again"
        )
    if about.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {about.get('format')}, this library reads {FORMAT}: "
            "update prisma_lib, or make the file again"
        )
    found = [field.shape for field in fields]
    promised = [(about["num"], c, *about["shape"]) for c in about["channels"]]
    if found != promised:
        raise DataError(
            f"{path}: a has shape {found[0]} and u {found[1]}, but its attributes "
            f"promise {promised[0]} and {promised[1]} in the order (n, c, x, y)"
        )


class ContentHash:
    """SHA-256 of problems and attributes, the same however problems are batched."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, a: Field, u: Field) -> None:
        """Appends a batch of problems."""
        for rows in zip(a.split(BATCH), u.split(BATCH), strict=True):
            pairs = torch.cat(rows, dim=1).numpy().astype("<f4", copy=False)
            self._hash.update(np.ascontiguousarray(pairs).data)

    def hexdigest(self, about: dict[str, Any]) -> str:
        """Returns the hash of all problems and of what is said about them."""
        stated = {k: v for k, v in about.items() if k not in ("complete", "sha256")}
        final = self._hash.copy()
        final.update(json.dumps(stated, sort_keys=True, default=str).encode())
        return final.hexdigest()
