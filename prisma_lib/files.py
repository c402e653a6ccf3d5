"""Files that are either old or new, never half written."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prisma_lib.errors import PrismaError, RunDirError


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file so that a crash leaves either the old content or the new.

    Args:
        path: File to write; its folder exists.
        content: All of its bytes.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def as_json(content: object) -> bytes:
    """Returns strict JSON: a number that is not finite is an error."""
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    return (text + "\n").encode()


def write_json(path: Path, content: object) -> None:
    """Writes strict JSON atomically."""
    write_atomically(path, as_json(content))


def sync(folder: Path) -> None:
    """Makes the names in a folder survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an error of the disk or of HDF5 into a RunDirError that names `path`."""
    try:
        yield
    except PrismaError:
        raise
    except (OSError, RuntimeError) as error:
        raise RunDirError(
            f"cannot write {path} ({error}): it needs a writable folder with space "
            "left; choose another folder"
        ) from error


def make_folder(folder: Path) -> None:
    """Makes a folder and sees that it takes files, before what they hold is computed.

    Raises:
        RunDirError: When it cannot be made or written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def make_room(path: Path, needed: int) -> None:
    """Makes the parent folder of `path`, and sees whether what is written there fits.

    Args:
        path: What will be written.
        needed: Size of the data in bytes; a fifth more must be free.

    Raises:
        RunDirError: When the folder cannot be made or the disk has less space.
    """
    make_folder(path.parent)
    free = shutil.disk_usage(path.parent).free
    if needed * 1.2 > free:
        raise RunDirError(
            f"no space for {path}: {needed * 1.2:.3g} bytes are needed, {free:.3g} are "
            "free; ask for fewer or smaller problems, or choose another disk"
        )
