"""Problems to train and test on: fresh from the equation, or in files.

`problems` draws and solves numbered problems of a split, `stream` yields fresh training
batches without end, `make` writes a file, or a folder of many, that `load` reads back.
Public data sets become such files by `prisma_lib.importers`.

    python -m prisma_lib.data make darcy --size 32 --num 1000 --split train
    python -m prisma_lib.data verify outputs/data/darcy-32-train.h5
    python -m prisma_lib.data import diffusionpde poisson_1.mat --pde poisson --size 128
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prisma_lib import manifests, pdes
from prisma_lib.audit import Report, check_equation, read, verify
from prisma_lib.errors import ConfigError, DataError, exit_status
from prisma_lib.importers import KINDS, ORDERS, PUBLIC, import_files
from prisma_lib.making import SHARD, make
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.splits import (
    SPLITS,
    checked_statistics,
    problems,
    sample_numbers,
    solved,
    statistics,
    stream,
)

__all__ = [
    "SPLITS",
    "Problems",
    "Report",
    "Statistics",
    "check_disjoint",
    "load",
    "make",
    "problems",
    "sample_numbers",
    "solved",
    "statistics",
    "stream",
    "verify",
]


@dataclass(frozen=True)
class Problems:
    """The content of a data file or folder.

    Args:
        a: Input fields, physical units, float32.
        u: Solution fields, likewise.
        statistics: What normalises them.
        attributes: Everything else that the file says about itself.
    """

    a: Field
    u: Field
    statistics: Statistics
    attributes: dict[str, Any]

    @property
    def numbers(self) -> range:
        """Numbers in the random stream of the seed; of an imported file, the rows."""
        about = self.attributes
        if "importer" in about:
            return range(about["num"])
        return sample_numbers(about["split"], about["num"], about["start"])

    @property
    def sources(self) -> dict[str, tuple[str, range]]:
        """Name and rows of every source of an imported file, by its SHA-256."""
        columns = ("sha256", "name", "first", "stop")
        found = (self.attributes.get(f"source.{c}", ()) for c in columns)
        rows = zip(*found, strict=True)
        return {sha: (name, range(first, stop)) for sha, name, first, stop in rows}


def load(
    path: Path | str, pde: PDE | None = None, *, locking: bool | None = None
) -> Problems:
    """Reads a file, or all parts of a folder, into memory, after checking them.

    Args:
        path: The file or folder.
        pde: Refuse the file of another equation, other coefficients or another grid.
        locking: Whether to lock the file while reading; `False` is for network disks
            without locks, `None` leaves it to HDF5.

    Returns:
        The problems.

    Raises:
        DataError: When the file is missing, damaged, unfinished, of another layout or
            equation, or its statistics do not describe its fields.
        RunDirError: When another process holds the file.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path, pde, locking)
    content = read(path, pde, locking)
    return Problems(content.a, content.u, content.statistics, content.about)


def _load_folder(path: Path, pde: PDE | None, locking: bool | None) -> Problems:
    manifest = manifests.read(path)
    about = manifest.about
    if pde is not None:
        check_equation(about, pde, path)
    found = checked_statistics(about, path)
    fields: list[Field] = []
    lower = 0
    for part, file in manifest.checked(locking):
        with manifests.blamed(file):
            content = read(file, pde, locking)
        parts = (content.a, content.u)
        # Filled one by one: a list of parts would need the memory twice.
        fields = fields or [x.new_empty(about["num"], *x.shape[1:]) for x in parts]
        for whole, x in zip(fields, parts, strict=True):
            whole[lower : lower + part.num] = x
        lower += part.num
    a, u = fields
    return Problems(a, u, found, about)


def check_disjoint(train: Problems, test: Problems) -> None:
    """Refuses to test on problems that were trained on.

    Args:
        train: Problems to train on.
        test: Problems to test on.

    Raises:
        DataError: When both hold the same problem.
    """
    if train.sources or test.sources:
        _check_sources(train.sources, test.sources)
        return
    same = all(
        train.attributes[name] == test.attributes[name] for name in ("pde", "seed")
    )
    both = _common(train.numbers, test.numbers)
    if same and both:
        raise DataError(
            f"train and test overlap: seed {train.attributes['seed']}, problems "
            f"{train.numbers} and {test.numbers}; make the test data with split='test'"
        )


def _check_sources(
    train: dict[str, tuple[str, range]], test: dict[str, tuple[str, range]]
) -> None:
    for sha in train.keys() & test.keys():
        (name, first), (_, second) = train[sha], test[sha]
        if _common(first, second):
            raise DataError(
                f"train and test overlap: problems {first} and {second} of {name}; "
                "import other files, or the other split of this one"
            )


def _common(first: range, second: range) -> range:
    return range(max(first.start, second.start), min(first.stop, second.stop))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prisma_lib.data")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write problems into a file or folder")
    _add_making(making)
    importing = commands.add_parser("import", help="convert public data")
    _add_importing(importing)
    for command, size in ((making, 32), (importing, 128)):
        command.add_argument("--size", type=int, default=size, help="points per axis")
        command.add_argument("--overwrite", action="store_true", help="replace --out")
        command.add_argument(
            "--set",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            help="an option of the equation; may be repeated",
        )
    verifying = commands.add_parser("verify", help="recompute what a file claims")
    verifying.add_argument("path", metavar="PATH", type=Path, help="file or folder")
    return parser


def _add_making(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("pde", help=f"one of {', '.join(pdes.names())}")
    add("--num", type=int, default=1000, help="number of problems")
    add("--split", default="train", help=f"one of {', '.join(SPLITS)}")
    add("--seed", type=int, default=0, help="random stream")
    add("--start", type=int, default=0, help="first problem")
    most = f"most problems in a file ({SHARD}); more are a folder of files"
    add("--shard", type=int, default=SHARD, help=most)
    add("--out", type=Path, help="file or folder (outputs/data/PDE-SIZE-SPLIT.h5)")
    add("--resume", action="store_true", help="keep what is complete, make the rest")


def _add_importing(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", help=f"one of {', '.join(KINDS)}")
    add("files", metavar="FILE", type=Path, nargs="+")
    add("--pde", required=True, help="the equation they hold")
    add("--order", help=f"of the channels of merged files: {' or '.join(ORDERS)}")
    add("--physical", action="store_true", help="merged files are in physical units")
    add("--split", help="of a file of trajectories: train or test")
    add("--out", type=Path, help="file (outputs/data/FILE.h5)")


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--set {text}: write NAME=VALUE, such as --set k=2")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _run(given: argparse.Namespace) -> int:
    if given.command == "verify":
        report = verify(given.path)
        print(
            f"{given.path}: {report.num} problems of {report.pde}, sound; residual "
            f"{report.residual_rms:.3g}"
        )
        return 0
    path = _make(given) if given.command == "make" else _import(given)
    print(f"{path}: written; check it with `python -m prisma_lib.data verify {path}`")
    return 0


def _make(given: argparse.Namespace) -> Path:
    pde = pdes.load(given.pde, size=given.size, **dict(map(_option, given.set)))
    name = f"{given.pde}-{given.size}-{given.split}.h5"
    return make(
        given.out or Path("outputs", "data", name),
        pde,
        given.num,
        split=given.split,
        seed=given.seed,
        start=given.start,
        shard=given.shard,
        overwrite=given.overwrite,
        resume=given.resume,
    )


def _import(given: argparse.Namespace) -> Path:
    options = PUBLIC.get(given.pde, {}) | dict(map(_option, given.set))
    pde = pdes.load(given.pde, size=given.size, **options)
    return import_files(
        given.kind,
        given.files,
        given.out or Path("outputs", "data", f"{given.files[0].stem}.h5"),
        pde,
        order=given.order,
        physical=given.physical,
        split=given.split,
        overwrite=given.overwrite,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `make`, `import` or `verify` from a command line.

    Args:
        arguments: The words after the command; `None`: those of this process.

    Returns:
        Exit status: 0 all good, 2 bad input, 4 environment, 130 interrupted.
    """
    given = _arguments().parse_args(arguments)
    return exit_status(
        lambda: _run(given),
        "interrupted: no unfinished file is left; finished parts of a folder are kept, "
        "go on with --resume",
    )


if __name__ == "__main__":
    sys.exit(main())
