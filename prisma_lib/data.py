"""Problems to train and test on: fresh from the equation, or in a file.

`problems` draws and solves numbered problems of a split, `stream` yields fresh training
batches without end, `make` writes a file that `load` reads back.

    python -m prisma_lib.data make darcy --size 32 --num 1000 --split train
    python -m prisma_lib.data verify outputs/data/darcy-32-train.h5
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import prisma_lib
from prisma_lib import pdes, progress, storage
from prisma_lib.audit import Report, check_described, check_equation, verify
from prisma_lib.checks import check_seed
from prisma_lib.errors import ConfigError, DataError, exit_status
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.splits import (
    SPLITS,
    Moments,
    batches,
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
    """The content of a data file.

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
        """Numbers of the problems in the random stream of the seed."""
        about = self.attributes
        return sample_numbers(about["split"], about["num"], about["start"])


def make(
    path: Path | str,
    pde: PDE,
    num: int,
    *,
    split: str = "train",
    seed: int = 0,
    start: int = 0,
    overwrite: bool = False,
    shown: bool | None = None,
) -> Path:
    """Writes problems of a split into a file.

    Args:
        path: File to write; its folder is made if missing.
        pde: The equation.
        num: Number of problems, at least 1.
        split: One of `SPLITS`.
        seed: Names the random stream.
        start: First problem, counted within the split.
        overwrite: Replace an existing file, once the new one is complete.
        shown: Force a progress bar on or off; `None`: where someone is looking.

    Returns:
        The path.

    Raises:
        ConfigError: When a number or the split is impossible.
        NumericsError: When a solution is not finite.
        RunDirError: When the file exists or cannot be written.
    """
    path = Path(path)
    numbers = sample_numbers(split, num, start)
    check_seed(seed)
    shape = pde.grid.shape
    storage.prepare(path, 4 * num * sum(pde.channels) * shape[0] * shape[1], overwrite)
    origin = {"split": split, "seed": seed, "start": start, "num": num}
    with (
        progress.bar(num, "problem", shown=shown) as bar,
        storage.created(path, num, shape, pde.channels) as writer,
    ):
        moments, content = Moments(pde), storage.ContentHash()
        for a, u in batches(pde, seed, numbers):
            writer.append(a, u)
            moments.add(a, u)
            content.add(a, u)
            bar.update(len(a))
        about = _about(pde) | origin | asdict(moments.statistics())
        writer.describe(about | {"sha256": content.hexdigest(about)})
    return path


def _about(pde: PDE) -> dict[str, Any]:
    grid = pde.grid
    return {
        "format": storage.FORMAT,
        "library": prisma_lib.__version__,
        "pde": pde.name,
        "equation": pde.equation,
        "size": pde.size,
        "shape": grid.shape,
        "channels": pde.channels,
        "lengths": grid.lengths,
        "axes": grid.axes,
        "periodic": grid.periodic,
        **{f"option.{name}": value for name, value in pde.options.items()},
        **{f"coefficient.{name}": value for name, value in pde.coefficients.items()},
    }


def load(
    path: Path | str, pde: PDE | None = None, *, locking: bool | None = None
) -> Problems:
    """Reads a file into memory, after checking it.

    Args:
        path: The file.
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
    with storage.opened(path, locking) as file:
        about = storage.attributes(file)
        a, u = (torch.from_numpy(file[name][:]) for name in storage.FIELDS)
    if pde is not None:
        check_equation(about, pde, path)
    found = checked_statistics(about, path)
    check_described(a, u, found, path)
    content = storage.ContentHash()
    content.add(a, u)
    if content.hexdigest(about) != about.get("sha256"):
        raise DataError(
            f"{path} was changed after it was made: its content hash does not match; "
            "make it again"
        )
    return Problems(a, u, found, about)


def check_disjoint(train: Problems, test: Problems) -> None:
    """Refuses to test on problems that were trained on.

    Args:
        train: Problems to train on.
        test: Problems to test on.

    Raises:
        DataError: When both hold the same problem.
    """
    same = all(
        train.attributes[name] == test.attributes[name] for name in ("pde", "seed")
    )
    first = max(train.numbers.start, test.numbers.start)
    last = min(train.numbers.stop, test.numbers.stop)
    if same and first < last:
        raise DataError(
            f"train and test overlap: seed {train.attributes['seed']}, problems "
            f"{train.numbers} and {test.numbers}; make the test data with split='test'"
        )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prisma_lib.data")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write problems into a file")
    making.add_argument("pde", help=f"one of {', '.join(pdes.names())}")
    making.add_argument("--size", type=int, default=32, help="points per axis")
    making.add_argument("--num", type=int, default=1000, help="number of problems")
    making.add_argument("--split", default="train", help=f"one of {', '.join(SPLITS)}")
    making.add_argument("--seed", type=int, default=0, help="random stream")
    making.add_argument("--start", type=int, default=0, help="first problem")
    making.add_argument(
        "--out", type=Path, help="file (outputs/data/PDE-SIZE-SPLIT.h5)"
    )
    making.add_argument("--overwrite", action="store_true", help="replace the file")
    making.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the equation; may be repeated",
    )
    verifying = commands.add_parser("verify", help="recompute what a file claims")
    verifying.add_argument("path", metavar="FILE", type=Path)
    return parser


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
    pde = pdes.load(given.pde, size=given.size, **dict(map(_option, given.set)))
    name = f"{given.pde}-{given.size}-{given.split}.h5"
    path = make(
        given.out or Path("outputs", "data", name),
        pde,
        given.num,
        split=given.split,
        seed=given.seed,
        start=given.start,
        overwrite=given.overwrite,
    )
    print(f"{path}: {given.num} problems of {given.pde}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `make` or `verify` from a command line.

    Args:
        arguments: The words after the command; `None`: those of this process.

    Returns:
        Exit status: 0 all good, 2 bad input, 4 environment, 130 interrupted.
    """
    given = _arguments().parse_args(arguments)
    return exit_status(lambda: _run(given), "interrupted: nothing was written")


if __name__ == "__main__":
    sys.exit(main())
