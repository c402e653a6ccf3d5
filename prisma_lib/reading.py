"""Files and folders of problems, read back after a look at whether they are sound."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prisma_lib import manifests, pdes, storage
from prisma_lib.errors import DataError
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.splits import checked_statistics, sample_numbers

log = logging.getLogger(__name__)


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

    def origins(self, pde: PDE) -> list[int]:
        """Numbers what each problem comes from, such as its trajectory.

        Problems of one origin are not independent.

        Args:
            pde: The equation of the problems.
        """
        about = self.attributes
        if "importer" not in about:
            return pde.origins(self.numbers)
        # Files of older versions do not say how many problems a trajectory has.
        every = about.get("source.each", [1] * len(self.sources))
        found = [
            (sha, row // each)
            for (sha, (_, rows)), each in zip(self.sources.items(), every, strict=True)
            for row in rows
        ]
        order = {origin: i for i, origin in enumerate(dict.fromkeys(found))}
        return [order[origin] for origin in found]

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

    Raises:
        DataError: When the file is missing, damaged, unfinished, of another layout or
            equation, or its statistics do not describe its fields.
        RunDirError: When another process holds the file.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path, pde, locking)
    with storage.opened(path, locking) as (file, about):
        a, u = (torch.from_numpy(file[name][:]) for name in storage.FIELDS)
    if pde is not None:
        check_equation(about, pde, path)
    found = Problems(a, u, checked_statistics(about, path), about)
    _check_described(found, path)
    content = storage.ContentHash()
    content.add(a, u)
    if content.hexdigest(about) != about.get("sha256"):
        raise DataError(
            f"{path} was changed after it was made: its content hash does not match; "
            "make it again"
        )
    return found


def _load_folder(path: Path, pde: PDE | None, locking: bool | None) -> Problems:
    about, parts = manifests.read(path)
    if pde is not None:
        check_equation(about, pde, path)
    statistics = checked_statistics(about, path)
    fields: list[Field] = []
    lower = 0
    for part in manifests.each(
        path, parts, lambda p: load(p, pde, locking=locking), locking
    ):
        # Filled one by one: a list of parts would need the memory twice.
        pair = part.a, part.u
        fields = fields or [x.new_empty(about["num"], *x.shape[1:]) for x in pair]
        for whole, x in zip(fields, pair, strict=True):
            whole[lower : lower + len(x)] = x
        lower += len(part.a)
    a, u = fields
    return Problems(a, u, statistics, about)


def check_equation(about: dict[str, Any], pde: PDE, path: Path) -> None:
    """Refuses a file whose attributes name another equation than `pde`.

    Raises:
        DataError: When the equation, a coefficient or the grid differs; names it.
    """
    given = {
        "pde": about.get("pde"),
        "shape": tuple(about["shape"]),
        "channels": tuple(about["channels"]),
        **{k: v for k, v in about.items() if k.startswith("coefficient.")},
    }
    wanted = {
        "pde": pde.name,
        "shape": pde.grid.shape,
        "channels": pde.channels,
        **{f"coefficient.{k}": v for k, v in pde.coefficients.items()},
    }
    for name in [*wanted, *given]:
        if given.get(name) != wanted.get(name):
            raise DataError(
                f"{path} holds {given['pde']} with {name} = {given.get(name)}, but "
                f"{pde.name} with {name} = {wanted.get(name)} was asked for: load "
                "another file, or build the PDE as the file says"
            )


def equation_of(about: dict[str, Any], path: Path) -> PDE:
    """Builds the equation that a file says it is of.

    Raises:
        DataError: When this library's equation has other constants.
    """
    marked = "option."
    options = {k[len(marked) :]: v for k, v in about.items() if k.startswith(marked)}
    pde = pdes.load(about["pde"], size=about["size"], **options)
    check_equation(about, pde, path)
    return pde


def _check_described(found: Problems, path: Path) -> None:
    """Refuses fields that their statistics do not describe, or that carry no units."""
    a, u = found.a, found.u
    if found.attributes.get("outliers"):
        kept = ~equation_of(found.attributes, path).outliers(a, u)
        if not kept.any():
            raise DataError(f"{path} holds nothing but outliers; make the file again")
        a, u = a[kept], u[kept]
    normalised = True
    means, stds = found.statistics.mean, found.statistics.std
    for name, field, mean, std in zip("au", (a, u), means, stds, strict=True):
        real_std, real_mean = (x.item() for x in torch.std_mean(field, correction=0))
        off = max(abs(real_mean - mean), abs(real_std - std))
        # A comparison with NaN is false: so written, NaN is refused too.
        if not off <= 1e-3 * std:
            raise DataError(
                f"{path}: {name} has mean {real_mean:.4g} and std {real_std:.4g}, but "
                f"its statistics say {mean:.4g} and {std:.4g}: the fields must be in "
                "physical units, not normalised; make the file again"
            )
        normalised &= abs(mean) < 0.005 and abs(std - 0.5) < 0.005
    if normalised:
        raise DataError(
            f"{path}: both fields have mean 0 and std 0.5, so they are normalised "
            "already: store them in physical units"
        )


def check_disjoint(train: Problems, test: Problems) -> None:
    """Refuses to test on problems that were trained on.

    Args:
        train: Problems to train on.
        test: Problems to test on.

    Raises:
        DataError: When both hold the same problem.
    """
    first, second = train.sources, test.sources
    for sha in first.keys() & second.keys():
        (name, rows), (_, others) = first[sha], second[sha]
        if _common(rows, others):
            raise DataError(
                f"train and test overlap: problems {rows} and {others} of {name}; "
                "import other files, or the other split of this one"
            )
    if first or second:
        return
    same = all(
        train.attributes[name] == test.attributes[name] for name in ("pde", "seed")
    )
    if same and _common(train.numbers, test.numbers):
        raise DataError(
            f"train and test overlap: seed {train.attributes['seed']}, problems "
            f"{train.numbers} and {test.numbers}; make the test data with split='test'"
        )


def check_unseen(training: Mapping[str, Any], test: Problems) -> None:
    """Refuses to judge a model on problems that it was trained on.

    Where the training data are not there any more, nobody can tell, and the log says
    so, unless the problems are made ones of the test split, which no training takes.

    Args:
        training: Settings of the training, from the model's card.
        test: Problems to judge it on.

    Raises:
        DataError: When some were trained on.
    """
    about = test.attributes
    path = training["data"] if training.get("data_sha256") else None
    if path is None:
        same = all(about.get(name) == training.get(name) for name in ("pde", "seed"))
        if same and about.get("split") == "train":
            raise DataError(
                f"the model was trained on the training problems of seed "
                f"{about['seed']}, and these are some of them; make the test data with "
                "split='test'"
            )
    elif Path(path).exists():
        check_disjoint(load(path), test)
    elif about.get("split") != "test":
        text = "%s, which the model was trained on, is not there: whether any test "
        log.warning(text + "problem is in it cannot be told", path)


def _common(first: range, second: range) -> range:
    return range(max(first.start, second.start), min(first.stop, second.stop))
