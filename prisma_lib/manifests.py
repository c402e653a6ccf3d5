"""The list of parts of a data folder.

A folder of problems holds `part-00000.h5` and so on, each a complete file, and a
`manifest.json`, which is written last: a folder without one is unfinished. The manifest
says about the whole what a file says about itself, and the SHA-256 of every part's
bytes and of its own content.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prisma_lib.errors import DataError
from prisma_lib.files import as_json, write_atomically
from prisma_lib.storage import FORMAT, opened

NAME = "manifest.json"
RESUME = "resume=True (--resume)"


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


@dataclass(frozen=True)
class Manifest:
    """What a folder holds.

    Args:
        folder: The folder.
        about: What a file with all problems would say about itself.
        parts: Its parts in order.
    """

    folder: Path
    about: dict[str, Any]
    parts: tuple[Part, ...]

    def checked(self, locking: bool | None) -> Iterator[tuple[Part, Path]]:
        """Yields every part and its path, after comparing the hash of its bytes.

        Args:
            locking: As for `storage.opened`.

        Raises:
            DataError: When a part is missing or not the one that was written; names it.
            RunDirError: When another process holds it.
        """
        for part in self.parts:
            path = self.folder / part.name
            with blamed(path):
                # A part that someone writes to is locked first, and other bytes second.
                with opened(path, locking):
                    pass
                check_hash(path, part.sha256)
            yield part, path


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Adds to an error about a part how to make that part again."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; make {path.name} again with {RESUME}") from error


def part_name(number: int) -> str:
    """Returns the name of a part of a folder."""
    return f"part-{number:05d}.h5"


def file_hash(path: Path) -> str:
    """Returns the SHA-256 of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: Path, sha256: str) -> None:
    """Refuses a part that has other bytes than the manifest says.

    Raises:
        DataError: Naming the part.
    """
    if file_hash(path) != sha256:
        raise DataError(f"{path} is damaged: its checksum does not match {NAME}")


def write(folder: Path, about: dict[str, Any], parts: Sequence[Part]) -> None:
    """Writes the manifest of a folder whose parts are all there.

    Args:
        folder: The folder.
        about: What a file with all problems would say about itself.
        parts: Its parts in order.
    """
    content = about | {"parts": [asdict(part) for part in parts]}
    content.pop("sha256", None)
    signed = content | {"sha256": hashlib.sha256(as_json(content)).hexdigest()}
    write_atomically(folder / NAME, as_json(signed))


def read(folder: Path) -> Manifest:
    """Reads the manifest of a folder.

    Args:
        folder: A folder that exists.

    Raises:
        DataError: When it has none, or a damaged one, or one of another format.
    """
    path = folder / NAME
    try:
        written = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} is unfinished: it has no {NAME}; finish it with {RESUME}"
        ) from error
    try:
        content = json.loads(written)
        # Not a byte may differ, though spaces would not change what is read.
        intact = as_json(content) == written
        stated = content.pop("sha256")
        intact &= hashlib.sha256(as_json(content)).hexdigest() == stated
        parts = tuple(Part(**part) for part in content.pop("parts"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if not intact:
        raise _damaged(path)
    if content.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {content.get('format')}, this library reads {FORMAT}: "
            "update prisma_lib, or make the folder again"
        )
    return Manifest(folder, content | {"sha256": stated}, parts)


def _damaged(path: Path) -> DataError:
    return DataError(
        f"{path} is damaged: its checksum does not match; write it again with {RESUME}"
    )
