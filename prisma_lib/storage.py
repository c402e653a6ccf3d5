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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from prisma_lib.errors import DataError, PrismaError, RunDirError
from prisma_lib.files import check_space, sync
from prisma_lib.pdes.base import Field

FORMAT = 2
BATCH = 256
FIELDS = ("a", "u")
LAYOUT = "datasets 'a' and 'u' of float32 with axes (n, c, x, y)"
UNLOCKED = "wait for that process, or read a complete file with locking=False"

log = logging.getLogger(__name__)


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


class Writer:
    """A file being written; see `created`."""

    def __init__(
        self,
        file: h5py.File,
        sink: _Sink,
        num: int,
        shape: tuple[int, int],
        channels: tuple[int, int],
    ) -> None:
        self._file, self._sink, self._done = file, sink, 0
        for name, c in zip(FIELDS, channels, strict=True):
            file.create_dataset(
                name,
                shape=(num, c, *shape),
                chunks=(1, c, *shape),
                dtype="float32",
                fletcher32=True,
            )

    def append(self, a: Field, u: Field) -> None:
        """Writes the next problems, or raises why they cannot be written."""
        rows = slice(self._done, self._done + len(a))
        for name, field in zip(FIELDS, (a, u), strict=True):
            self._file[name][rows] = field.numpy()
        self._done = rows.stop
        self._sink.check()

    def describe(self, about: Mapping[str, Any]) -> None:
        """Sets attributes of the file."""
        self._file.attrs.update(about)


@contextmanager
def created(
    path: Path,
    num: int,
    shape: tuple[int, int],
    channels: tuple[int, int] = (1, 1),
) -> Iterator[Writer]:
    """Opens a file to write, which gets its name when the block ends without error.

    Args:
        path: Final name; its folder exists.
        num: Number of problems.
        shape: Points per axis.
        channels: Channels of `a` and of `u`.

    Yields:
        What writes problems and attributes under a partial name.

    Raises:
        RunDirError: When the file cannot be written; nothing is left behind.
    """
    part = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        with _Sink(part, "x+") as sink:
            with suppress(OSError):  # Some network disks have no locks.
                fcntl.flock(sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Checksums of metadata, and room for the names of many sources.
            with h5py.File(sink, "w", libver=("v108", "v108")) as file:
                yield Writer(file, sink, num, shape, channels)
                file.attrs["complete"] = 1
            sink.check()
            os.fsync(sink)
        part.replace(path)
        sync(path.parent)
    except PrismaError:
        raise
    except (OSError, RuntimeError) as error:
        raise RunDirError(
            f"cannot write {path} ({error}): it needs a writable folder with space "
            "left; choose another folder"
        ) from error
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot make the folder {path.parent} ({error})") from error
    for part in path.parent.glob(f"{glob.escape(path.name)}.partial-*"):
        remove_stale(part)
    check_space(path, needed)


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
def opened(path: Path, locking: bool | None = None) -> Iterator[h5py.File]:
    """Opens a complete file to read, after checking its layout.

    Args:
        path: The file.
        locking: Whether to lock it; `None` leaves it to HDF5, `False` is for network
            disks without locks.

    Yields:
        The open file.

    Raises:
        DataError: When it is missing, no HDF5 file, damaged, unfinished or of another
            layout.
        RunDirError: When another process holds it.
    """
    again = "make it again with `python -m prisma_lib.data make`"
    try:
        with h5py.File(path, "r", locking=locking) as file:
            _check_layout(file, path)
            yield file
    except PrismaError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: {again}") from error
    except PermissionError as error:
        raise RunDirError(f"{path} may not be read: {error}") from error
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BlockingIOError) or "unable to lock" in str(error):
            raise RunDirError(
                f"{path} is locked by another process, or its disk has no locks: "
                f"{UNLOCKED}"
            ) from error
        raise DataError(
            f"{path} is no HDF5 file or a damaged one ({error}): {again}"
        ) from error


def _check_layout(file: h5py.File, path: Path) -> None:
    found = sorted(file)
    if any(name not in file for name in FIELDS):
        raise DataError(f"{path} holds {found or 'nothing'}: it needs {LAYOUT}")
    a, u = (file[name] for name in FIELDS)
    for name, field in zip(FIELDS, (a, u), strict=True):
        if not isinstance(field, h5py.Dataset) or field.ndim != 4:
            raise DataError(f"{path}: {name!r} is {field}: it needs {LAYOUT}")
        if field.dtype != "float32":
            raise DataError(f"{path}: {name!r} is {field.dtype}: it needs {LAYOUT}")
    if file.attrs.get("complete") != 1:
        raise DataError(
            f"{path} is unfinished (no attribute complete=1): make it again"
        )
    if file.attrs.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {file.attrs.get('format')}, this library reads "
            f"{FORMAT}: update prisma_lib, or make the file again"
        )
    num, shape, channels = (file.attrs.get(k) for k in ("num", "shape", "channels"))
    promised = [tuple(map(int, (num, c, *shape))) for c in channels]
    if [a.shape, u.shape] != promised:
        raise DataError(
            f"{path}: a has shape {a.shape} and u {u.shape}, but its attributes "
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


def attributes(file: h5py.File) -> dict[str, Any]:
    """Returns all attributes as plain Python values."""
    return {
        str(name): value.tolist() if hasattr(value, "tolist") else value
        for name, value in file.attrs.items()
    }
