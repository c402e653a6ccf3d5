"""Locks that a process holds on a folder and that end with it, however it dies.

The operating system keeps them, so that no process number has to be trusted: a lock of
a killed process, or of one before a power cut, is free.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from prisma_lib.errors import RunDirError

NAME = ".lock"
# A look at a lock holds it for a moment: whoever wants it tries a few times.
TRIES = 5
PAUSE = 0.05


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keeps everybody else out of a folder.

    Args:
        folder: The folder; made when it is not there.
        wait: Wait for a process that works there instead of an error.

    Yields:
        Nothing, once the folder is ours.

    Raises:
        RunDirError: When the folder cannot be written or someone else works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / NAME).open("a+b", buffering=0)
    except OSError as error:
        raise unwritable(folder, error) from error
    with lock:
        _take(lock, folder, wait)
        where = socket.gethostname()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {where} since {since}".encode())
        except OSError as error:
            raise unwritable(folder, error) from error
        yield


def held(folder: Path) -> bool:
    """Whether a process works in a folder; waits for nobody and writes nothing."""
    try:
        with (folder / NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def unwritable(folder: Path, error: OSError) -> RunDirError:
    """Makes the error for a folder that cannot be used."""
    return RunDirError(f"{folder} cannot be written ({error}): choose another --out")


def _take(lock: IO[bytes], folder: Path, wait: bool) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            if attempt == TRIES:
                lock.seek(0)
                who = lock.read().decode()
                raise RunDirError(
                    f"another sweep works in {folder}: {who}; wait for it, or choose "
                    "another folder with --out"
                ) from error
            time.sleep(PAUSE)
        except OSError as error:
            raise unwritable(folder, error) from error
        else:
            return
