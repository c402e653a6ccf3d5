"""Writing problems into files that are whole or not there.

Up to `shard` problems are one file. More are a folder of parts, each a file of its own,
so that a killed process loses the part in hand and can go on: see `make`.
"""

import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prisma_lib import manifests, progress, storage
from prisma_lib.checks import check_count, check_seed
from prisma_lib.errors import ConfigError, DataError, RunDirError
from prisma_lib.files import make_room, sync, writing
from prisma_lib.manifests import RESUME, Part
from prisma_lib.pdes.base import PDE
from prisma_lib.reading import load
from prisma_lib.splits import batches, checked_statistics, combined, sample_numbers

SHARD = 10_000
SUFFIXES = (".h5", ".hdf5")
_OURS = re.compile(rf"part-\d{{5,}}\.h5|{re.escape(manifests.NAME)}")
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
            DataError: When it is unusable.
            RunDirError: When it holds something else.
        """
        about = load(self.path).attributes
        wanted = json.loads(json.dumps(storage.described(self.pde) | self.origin))
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
        return storage.write(self.path, self.pde, origin, pairs, bar)


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
    path = Path(path)
    if num > shard and path.suffix in SUFFIXES:
        path = path.with_suffix("")
    origin = {"split": split, "seed": seed, "start": start, "num": num}
    request = _Request(path, pde, origin)
    if num > shard:
        _make_folder(request, shard, overwrite, resume, shown)
    elif resume and path.is_file() and path.stat().st_size:
        request.kept()
    else:
        with progress.bar(num, "problem", shown=shown) as bar:
            request.make(bar, overwrite)
    return path


def _make_folder(
    whole: _Request, shard: int, overwrite: bool, resume: bool, shown: bool | None
) -> None:
    """Makes the parts that are not there, then the manifest."""
    folder = whole.path
    present = _present(folder, overwrite or resume)
    if not resume:
        make_room(folder, whole.needed)
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
    make_room(folder, sum(request.needed for request in missing))
    with writing(folder):
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
        # Without a manifest, which goes first, the folder is an unfinished one.
        for name in [manifests.NAME, *(sorted(present) if overwrite else ())]:
            (folder / name).unlink(missing_ok=True)
            sync(folder)
    with progress.bar(whole.num, "problem", shown=shown) as bar:
        bar.update(whole.num - sum(request.num for request in missing))
        for request in missing:
            found[request.path] = request.make(bar, overwrite=True)
    with writing(folder):
        _finish(whole, {path: about or {} for path, about in found.items()})


def _split(whole: _Request, shard: int) -> list[_Request]:
    """Returns the parts of a folder."""
    parts = []
    for k, lower in enumerate(range(0, whole.num, shard)):
        start, num = whole.origin["start"] + lower, min(shard, whole.num - lower)
        origin = whole.origin | {"start": start, "num": num}
        parts.append(_Request(whole.path / f"part-{k:05d}.h5", whole.pde, origin))
    return parts


def _stated(folder: Path) -> dict[str, str]:
    """Returns the hashes of parts as far as there is a manifest that can be read."""
    try:
        return {part.name: part.sha256 for part in manifests.read(folder)[1]}
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
    foreign = [name for name in present if not _OURS.fullmatch(name)]
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


def _finish(whole: _Request, abouts: Mapping[Path, Mapping[str, Any]]) -> None:
    """Writes the manifest of a folder whose parts are all there."""
    parts, statistics = [], []
    for path, about in abouts.items():
        start, num = about["start"], about["num"]
        parts.append(Part(path.name, start, num, manifests.file_hash(path)))
        found = checked_statistics(about, path)
        statistics.append((num - about["outliers"], found))
    total = storage.described(whole.pde) | whole.origin | asdict(combined(statistics))
    total["outliers"] = sum(about["outliers"] for about in abouts.values())
    manifests.write(whole.path, total, parts)
