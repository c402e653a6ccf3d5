"""What is known about a run: its record, its identity, its rows.

A papermill notebook cannot tell whether its run succeeded: after a killed kernel or a
timeout every cell says `completed`. So the verdict is `run.json`, rewritten atomically:
`queued`, `running`, then `done`, `failed`, `timeout`, `killed` or `interrupted`. A run
is `done` only when its notebook also left a `metrics.json`.
"""

import errno
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import prisma_lib
from prisma_lib import checkpoints, locks, manifests, pairing, storage
from prisma_lib.errors import DataError, PrismaError
from prisma_lib.files import as_json, write_json

STATES = ("queued", "running", "done", "failed", "timeout", "killed", "interrupted")
NO_SPACE = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)}
LONGEST_NAME = 1024


@dataclass(frozen=True)
class Run:
    """What `run.json` says.

    Args:
        status: One of `STATES`.
        notebook: Name of the notebook.
        identity: Hash of what decides the result; see `identity`.
        source: Hash of the notebook's source.
        version: Version of the library.
        code: Hash of the library's source.
        commit: Commit of the project.
        pid: Process that runs the notebook; of a queued run, that of the sweep.
        host: Machine that runs it.
        start: When it started, UTC; of a queued run, when it was put into the queue.
        seconds: How long it took.
        tries: How often it was started, kernels that died included.
        error: End of the traceback of a run that is not done.
    """

    status: str
    notebook: str
    identity: str
    source: str
    version: str
    code: str
    commit: str
    pid: int
    host: str
    start: str
    seconds: float = 0.0
    tries: int = 1
    error: str = ""

    @property
    def final(self) -> bool:
        """Whether the notebook itself ended the run, so that another try ends alike."""
        return self.status in ("done", "failed", "timeout") and not self.out_of_space

    @property
    def out_of_space(self) -> bool:
        """Whether the run failed because the disk was full."""
        full = any(words in self.error for words in NO_SPACE.values())
        return self.status == "failed" and full

    def save(self, folder: Path) -> "Run":
        """Writes `run.json`; on a full disk into the place of the old one.

        Raises:
            OSError: When it cannot be written; the old one is intact.
        """
        path = folder / "run.json"
        try:
            write_json(path, asdict(self))
        except OSError as error:
            if error.errno not in NO_SPACE or not path.exists():
                raise
            why = f"{NO_SPACE[error.errno]}, when the run was {self.status}"
            short = self.ended("failed", why)
            content = as_json(asdict(short))
            with path.open("r+b") as file:
                file.write(content)
                file.truncate()
            return short
        return self

    def ended(self, status: str, error: str) -> "Run":
        """Returns the record of the same run with another end."""
        return replace(self, status=status, error=error)


def load(folder: Path) -> Run | None:
    """Reads the record in a folder; `None` without a readable one."""
    try:
        return Run(**json.loads((folder / "run.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def seen(folder: Path) -> Run | None:
    """Reads the record in a folder as it is true now.

    A run that is `queued` or `running` by a process that is gone was killed.

    Args:
        folder: A run's folder, in the folder of its sweep.
    """
    run = load(folder)
    working = {"running": folder, "queued": folder.parent}
    if run is None or run.status not in working or locks.held(working[run.status]):
        return run
    gone = f"process {run.pid} on {run.host} is gone, which said the run is"
    return run.ended("killed", f"{gone} {run.status}")


def digest(content: object) -> str:
    """Hashes a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def code() -> str:
    """Hashes the source of the library as it is on disk."""
    root = Path(prisma_lib.__file__).parent
    text = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return text.hexdigest()


def identity(source: Path, parameters: Mapping[str, object]) -> str:
    """Hashes what decides the result of a run.

    That is the notebook, its parameters with their defaults, the library's version, and
    the content of the models and data files that parameters name.

    Args:
        source: The notebook's `.py`.
        parameters: Values that are injected.

    Returns:
        A hash; two runs with the same one need not both be executed.
    """
    stat = source.stat() if source.is_file() else None
    text, declared = _notebook(source, stat and (stat.st_mtime_ns, stat.st_size))
    defaults = {name: entry.default for name, entry in declared.items()}
    effective = defaults | dict(parameters)
    effective.pop("out", None)
    named = inputs(effective, source.resolve().parents[1])
    return digest([text, effective, prisma_lib.__version__, named])


@functools.lru_cache(maxsize=64)
def _notebook(source: Path, state: object) -> tuple[str, dict[str, pairing.Parameter]]:
    book = pairing.read(source)
    return pairing.fingerprint(book["cells"]), pairing.parameters(book, source.name)


def inputs(values: object, root: Path) -> dict[str, str]:
    """Hashes the models and data files that values name.

    Args:
        values: A JSON value.
        root: Folder of the project, to which paths are relative.

    Returns:
        A hash by name; of a model that of its card, of data that of its content.
    """
    found = {}
    for name in {*texts(values)}:
        for path in (root / name, checkpoints.SHIPPED / name):
            mark = content_of(path)
            if mark:
                found[name] = mark
                break
    return found


def texts(value: object) -> Iterator[str]:
    """Yields the texts in a JSON value that can be paths."""
    match value:
        case str():
            if value and "\0" not in value and len(value) < LONGEST_NAME:
                yield value
        case list():
            for item in value:
                yield from texts(item)
        case dict():
            yield from texts([*value.values()])


def content_of(path: Path) -> str | None:
    """Hashes a model's folder, a folder of data or a file; `None` for other places."""
    try:
        for file in (path / "card.json", path / manifests.NAME, path):
            if file.is_file():
                stat = file.stat()
                return _content(file, (stat.st_mtime_ns, stat.st_size))
    except OSError:  # such as a text that is too long to be a name
        return None
    return None


@functools.lru_cache(maxsize=256)
def _content(path: Path, state: object) -> str:
    if path.name == "card.json":
        card = json.loads(path.read_bytes())
        card.pop("errors", None)  # measured with the model, no part of it
        return digest(card)
    try:
        with storage.opened(path, locking=False) as (_, about):
            return str(about["sha256"])
    except PrismaError:
        return manifests.file_hash(path)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Reads the result rows that a notebook left.

    Args:
        folder: A run's folder.

    Returns:
        The rows of its `metrics.json`; a number that is not finite is `None`.

    Raises:
        DataError: When the file is no list of mappings.
    """
    path = folder / "metrics.json"
    try:
        found = json.loads(path.read_text("utf-8"), parse_constant=lambda _: None)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise DataError(f"{path}: a list of rows is needed, such as [{{'value': 0.1}}]")
    return found
