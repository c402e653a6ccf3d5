"""The list of parts of a data folder.

A folder of problems holds `part-00000.h5` and so on, each a complete file, and a
`manifest.json`, which is written last: a folder without one is unfinished. The manifest
says about the whole what a file says about itself, and the SHA-256 of every part's
bytes and of its own content.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from prisma_lib.errors import DataError
from prisma_lib.files import as_json, write_atomically
from prisma_lib.storage import FORMAT, opened

NAME = "manifest.json"
RESUME = "resume=True (--resume)"

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A file of a folder.

    Args:
        name: Its name in the folder.
        start: Its first problem, counted within the split.
        num: Number of its problems.
        sha256: Hash of its bytes.
    """

    name: str
    start: int
    num: int
    sha256: str


def each(
    folder: Path,
    parts: Sequence[Part],
    read: Callable[[Path], T],
    locking: bool | None,
) -> Iterator[T]:
    """Reads every part, after comparing the hash of its bytes.

    Args:
        folder: The folder.
        parts: What its manifest lists.
        read: What to do with the path of a part.
        locking: As for `storage.opened`.

    Yields:
        What `read` returns.

    Raises:
        DataError: When a part is missing, refused by `read` or not the one that was
            written; names it.
        RunDirError: When another process holds it.
    """
    for part in parts:
        path = folder / part.name
        try:
            # A part that someone writes to is locked first, and other bytes second.
            with opened(path, locking):
                pass
            check_hash(path, part.sha256)
            yield read(path)
        except DataError as error:
            raise DataError(f"{error}; make {path.name} again with {RESUME}") from error


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: Path, sha256: str) -> None:
    """Raises DataError when a part has other bytes than the manifest says."""
    if file_hash(path) != sha256:
        raise DataError(f"{path} is damaged: its checksum does not match {NAME}")


def write(folder: Path, about: dict[str, Any], parts: Sequence[Part]) -> None:
    """Writes the manifest of a folder whose parts are all there, listed in order.

    `about` is what a file with all problems would say about itself.
    """
    content = about | {"parts": [asdict(part) for part in parts]}
    content.pop("sha256", None)
    sha256 = hashlib.sha256(as_json(content)).hexdigest()
    write_atomically(folder / NAME, as_json(content | {"sha256": sha256}))


def read(folder: Path) -> tuple[dict[str, Any], tuple[Part, ...]]:
    """Returns what the manifest of a folder that exists says, and its parts in order.

    Raises:
        DataError: When it has none, or a damaged one, or one of another format.
    """
    path = folder / NAME
    try:
        written = path.read_bytes()
        content = json.loads(written)
        # Not a byte may differ, though spaces would not change what is read.
        intact = as_json(content) == written
        sha256 = content.pop("sha256")
        intact &= hashlib.sha256(as_json(content)).hexdigest() == sha256
        parts = tuple(Part(**part) for part in content.pop("parts"))
        if not intact:
            raise ValueError
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} is unfinished: it has no {NAME}; finish it with {RESUME}"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} is damaged: its checksum does not match; write it again with "
            f"{RESUME}"
        ) from error
    if content.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {content.get('format')}, this library reads {FORMAT}: "
            "update prisma_lib, or make the folder again"
        )
    return content | {"sha256": sha256}, parts
