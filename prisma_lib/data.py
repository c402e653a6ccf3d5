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
from pathlib import Path
from typing import Any

from prisma_lib import pdes
from prisma_lib.audit import verify
from prisma_lib.errors import ConfigError, exit_status
from prisma_lib.importers import KINDS, ORDERS, PUBLIC, import_files
from prisma_lib.making import SHARD, make
from prisma_lib.reading import check_disjoint, check_unseen, load
from prisma_lib.splits import (
    SPLITS,
    problems,
    sample_numbers,
    solved,
    statistics,
    stream,
)

__all__ = [
    "SPLITS",
    "check_disjoint",
    "check_unseen",
    "load",
    "make",
    "problems",
    "sample_numbers",
    "solved",
    "statistics",
    "stream",
    "verify",
]

_FOLDER = Path("outputs", "data")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prisma_lib.data")
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write problems into a file or folder")
    add = making.add_argument
    add("pde", help=f"one of {', '.join(pdes.names())}")
    add("--num", type=int, default=1000, help="number of problems")
    add("--split", default="train", help=f"one of {', '.join(SPLITS)}")
    add("--seed", type=int, default=0, help="random stream")
    add("--start", type=int, default=0, help="first problem")
    most = f"most problems in a file ({SHARD}); more are a folder of files"
    add("--shard", type=int, default=SHARD, help=most)
    add("--out", type=Path, help="file or folder (outputs/data/PDE-SIZE-SPLIT.h5)")
    add("--resume", action="store_true", help="keep what is complete, make the rest")
    importing = commands.add_parser("import", help="convert public data")
    add = importing.add_argument
    add("kind", help=f"one of {', '.join(KINDS)}")
    add("files", metavar="FILE", type=Path, nargs="+")
    add("--pde", required=True, help="the equation they hold")
    add("--order", help=f"of the channels of merged files: {' or '.join(ORDERS)}")
    add("--physical", action="store_true", help="merged files are in physical units")
    add("--split", help="of a file of trajectories: train or test")
    add("--out", type=Path, help="file (outputs/data/FILE.h5)")
    option = "an option of the equation; may be repeated"
    for command, size in ((making, 32), (importing, 128)):
        add = command.add_argument
        add("--size", type=int, default=size, help="points per axis")
        add("--overwrite", action="store_true", help="replace --out")
        add("--set", metavar="NAME=VALUE", action="append", default=[], help=option)
    verifying = commands.add_parser("verify", help="recompute what a file claims")
    verifying.add_argument("path", metavar="PATH", type=Path, help="file or folder")
    return parser


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--set {text}: write NAME=VALUE, such as --set k=2")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _run(command: str, given: dict[str, Any]) -> int:
    if command == "verify":
        path, found = given["path"], verify(given["path"])
        problems = f"{found.num} problems of {found.pde}"
        print(f"{path}: {problems}, sound; residual {found.residual_rms:.3g}")
        return 0
    name, size, out = (given.pop(key) for key in ("pde", "size", "out"))
    options = dict(map(_option, given.pop("set")))
    if command == "make":
        pde = pdes.with_options(name, size, options)
        path = make(out or _FOLDER / f"{name}-{size}-{given['split']}.h5", pde, **given)
    else:
        pde = pdes.with_options(name, size, PUBLIC.get(name, {}) | options)
        out = out or _FOLDER / f"{given['files'][0].stem}.h5"
        path = import_files(out=out, pde=pde, **given)
    print(f"{path}: written; check it with `python -m prisma_lib.data verify {path}`")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `make`, `import` or `verify` from a command line.

    Args:
        arguments: The words after the command; `None`: those of this process.

    Returns:
        Exit status: 0 all good, 2 bad input, 4 environment, 130 interrupted.
    """
    given = vars(_arguments().parse_args(arguments))
    return exit_status(
        lambda: _run(given.pop("command"), given),
        "interrupted: no unfinished file is left; finished parts of a folder are kept, "
        "go on with --resume",
    )


if __name__ == "__main__":
    sys.exit(main())
