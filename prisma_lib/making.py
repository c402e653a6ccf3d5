"""Writing problems into files that are whole or not there.

Up to `shard` problems are one file. More are a folder of parts, each a file of its own,
so that a killed process loses the part in hand and can go on: see `make`.
"""

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prisma_lib import manifests, progress, storage
from prisma_lib.audit import read
from prisma_lib.checks import check_count, check_seed
from prisma_lib.errors import ConfigError, DataError, RunDirError
from prisma_lib.files import check_space, sync
from prisma_lib.manifests import RESUME, Part, part_name
from prisma_lib.pdes.base import PDE
from prisma_lib.splits import batches, checked_statistics, combined, sample_numbers
from prisma_lib.writing import described, write

SHARD = 10_000
SUFFIXES = (".h5", ".hdf5")
_OURS = re.compile(r"part-\d{5,}\.h5")
_LEFT_BEHIND = ("part-*.h5.partial-*", f".{manifests.NAME}.*.part")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Request:
    """Problems of one file: where, which, and what the file must say about them."""

    path: Path
    pde: PDE
    origin: dict[str, Any]

    @property
    def num(self) -> int:
        num: int = self.origin["num"]
        return num

    @property
    def needed(self) -> int:
        """Bytes of its fields."""
        return 4 * self.num * sum(self.pde.channels) * math.prod(self.pde.grid.shape)

    def kept(self) -> dict[str, Any]:
        """Returns what the file there says about itself.

        Raises:
            DataError: When it is unusable, or holds something else.
        """
        about = read(self.path).about
        wanted = json.loads(json.dumps(described(self.pde) | self.origin))
        for name, value in wanted.items():
            if about.get(name) != value:
                raise RunDirError(
                    f"{self.path} has {name} = {about.get(name)!r}, but {value!r} was "
                    "asked for: ask for the same again, choose another name, or "
                    "replace all with overwrite=True (--overwrite)",
                    exit_code=2,
                )
        return about

    def make(self, bar: Any, overwrite: bool) -> dict[str, Any]:
        """Writes the file and returns what it says about itself."""
        origin = self.origin
        numbers = sample_numbers(origin["split"], self.num, origin["start"])
        storage.prepare(self.path, self.needed, overwrite)
        pairs = batches(self.pde, origin["seed"], numbers)
        return write(self.path, self.pde, origin, pairs, bar)


def make(
    path: Path | str,
    pde: PDE,
    num: int,
    *,
    split: str = "train",
    seed: int = 0,
    start: int = 0,
    shard: int = SHARD,
    overwrite: bool = False,
    resume: bool = False,
    shown: bool | None = None,
) -> Path:
    """Writes problems of a split into a file, or into a folder if they are many.

    Args:
        path: Where; its parent folder is made if missing. Up to `shard` problems become
            this file. More become a folder of this name, without a suffix .h5 or .hdf5.
        pde: The equation.
        num: Number of problems, at least 1.
        split: One of `SPLITS`.
        seed: Names the random stream.
        start: First problem, counted within the split.
        shard: Largest number of problems in one file.
        overwrite: Replace what is there: a file once the new one is complete, a folder
            at once.
        resume: Keep what is there and complete, after checking it, and make what is
            missing or damaged.
        shown: Force a progress bar on or off; `None`: where someone is looking.

    Returns:
        The file or the folder.

    Raises:
        ConfigError: When a number or the split is impossible.
        DataError: When `resume` finds a single file that is damaged.
        NumericsError: When a solution is not finite. Parts before that one are kept.
        RunDirError: When the name is taken, what is there differs from what is asked
            for, another process is writing it, or it cannot be written.
    """
    sample_numbers(split, num, start)
    check_seed(seed)
    check_count("shard", shard, 1, SHARD)
    if overwrite and resume:
        raise ConfigError("overwrite and resume were both given: choose one")
    path, origin = Path(path), {"split": split, "seed": seed, "start": start}
    if num <= shard:
        request = _Request(path, pde, origin | {"num": num})
        if resume and path.is_file() and path.stat().st_size:
            request.kept()
            return path
        with progress.bar(num, "problem", shown=shown) as bar:
            request.make(bar, overwrite)
        return path
    folder = path.with_suffix("") if path.suffix in SUFFIXES else path
    whole = _Request(folder, pde, origin | {"num": num})
    _make_folder(whole, shard, overwrite, resume, shown)
    return folder


def _make_folder(
    whole: _Request, shard: int, overwrite: bool, resume: bool, shown: bool | None
) -> None:
    """Makes the parts that are not there, then the manifest."""
    folder = whole.path
    present = _present(folder, overwrite or resume)
    if not resume:
        _make_room(folder, whole.needed)
    requests = _split(whole, shard)
    extra = present - {request.path.name for request in requests} - {manifests.NAME}
    if resume and extra:
        raise RunDirError(
            f"{folder} holds {max(extra)}, which is beyond what was asked for: ask "
            "for as many problems as before, or choose another name",
            exit_code=2,
        )
    stated = _stated(folder) if resume else {}
    found = {r.path: _kept_part(r, stated) if resume else None for r in requests}
    missing = [request for request in requests if found[request.path] is None]
    _make_room(folder, sum(request.needed for request in missing))
    with _writing(folder):
        _begin(folder, present if overwrite else {manifests.NAME})
    with progress.bar(whole.num, "problem", shown=shown) as bar:
        bar.update(whole.num - sum(request.num for request in missing))
        for request in missing:
            found[request.path] = request.make(bar, overwrite=True)
    with _writing(folder):
        _finish(whole, {path: about or {} for path, about in found.items()})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunDirError(
            f"cannot write {folder} ({error}): it needs a writable folder with space "
            "left; choose another folder"
        ) from error


def _split(whole: _Request, shard: int) -> list[_Request]:
    """Returns the parts of a folder."""
    origin = whole.origin
    parts = []
    for k, lower in enumerate(range(0, whole.num, shard)):
        own = {"start": origin["start"] + lower, "num": min(shard, whole.num - lower)}
        parts.append(_Request(whole.path / part_name(k), whole.pde, origin | own))
    return parts


def _stated(folder: Path) -> dict[str, str]:
    """Returns the hashes of parts as far as there is a manifest that can be read."""
    try:
        return {part.name: part.sha256 for part in manifests.read(folder).parts}
    except DataError:
        return {}


def _kept_part(request: _Request, stated: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns what a complete part says about itself; `None` when it must be made."""
    if not request.path.exists():
        return None
    try:
        about = request.kept()
        if request.path.name in stated:
            manifests.check_hash(request.path, stated[request.path.name])
        return about
    except DataError as error:
        log.warning("%s: making this part again", error)
        return None


def _present(folder: Path, wanted: bool) -> set[str]:
    """Returns the names in a folder, all of which may be kept or replaced."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise RunDirError(f"{folder} is a file: choose another name", exit_code=2)
    for pattern in _LEFT_BEHIND:
        for left in folder.glob(pattern):
            storage.remove_stale(left)
    present = {path.name for path in folder.iterdir()}
    foreign = [n for n in present if n != manifests.NAME and not _OURS.fullmatch(n)]
    if foreign:
        raise RunDirError(
            f"{folder} holds other things, such as {min(foreign)}: choose another name",
            exit_code=2,
        )
    if present and not wanted:
        raise RunDirError(
            f"{folder} exists: choose another name, go on with {RESUME}, or replace it "
            "with overwrite=True (--overwrite)",
            exit_code=2,
        )
    return present


def _make_room(folder: Path, needed: int) -> None:
    with _writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    check_space(folder, needed)


def _begin(folder: Path, old: set[str]) -> None:
    """Makes the folder, or an unfinished one of a finished one."""
    folder.mkdir(exist_ok=True)
    sync(folder.parent)
    for name in [manifests.NAME, *sorted(old - {manifests.NAME})]:
        (folder / name).unlink(missing_ok=True)
        sync(folder)


def _finish(whole: _Request, abouts: Mapping[Path, Mapping[str, Any]]) -> None:
    """Writes the manifest of a folder whose parts are all there."""
    parts = [
        Part(path.name, about["start"], about["num"], manifests.file_hash(path))
        for path, about in abouts.items()
    ]
    statistics = combined(
        [
            (a["num"] - a["outliers"], checked_statistics(a, path))
            for path, a in abouts.items()
        ]
    )
    about = described(whole.pde) | whole.origin | asdict(statistics)
    about["outliers"] = sum(a["outliers"] for a in abouts.values())
    manifests.write(whole.path, about, parts)
