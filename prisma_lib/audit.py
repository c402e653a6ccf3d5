"""Audits of data files: is this the right equation, and are the fields what they claim?

`check_equation` and `check_described` are quick and run on every `read`; `verify` reads
everything and recomputes it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from prisma_lib import manifests, pdes, storage
from prisma_lib.errors import DataError
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.splits import Moments, checked_statistics, combined
from prisma_lib.storage import BATCH


@dataclass(frozen=True)
class Report:
    """What `verify` found of a sound file or folder.

    Args:
        pde: Name of the equation.
        num: Number of problems.
        outliers: How many of them the statistics leave out.
        statistics: Recomputed from the fields.
        residual_rms: Root mean square of the residual of four problems of each file.
    """

    pde: str
    num: int
    outliers: int
    statistics: Statistics
    residual_rms: float


@dataclass(frozen=True)
class Content:
    """The content of one file.

    Args:
        a: Input fields, physical units, float32.
        u: Solution fields, likewise.
        statistics: What normalises them.
        about: Everything that the file says about itself.
    """

    a: Field
    u: Field
    statistics: Statistics
    about: dict[str, Any]


def read(path: Path, pde: PDE | None = None, locking: bool | None = None) -> Content:
    """Reads one file into memory, after checking it.

    Args:
        path: The file.
        pde: Refuse the file of another equation, other coefficients or another grid.
        locking: As for `verify`.

    Raises:
        DataError: When the file is missing, damaged, unfinished, of another layout or
            equation, or its statistics do not describe its fields.
        RunDirError: When another process holds the file.
    """
    with storage.opened(path, locking) as file:
        about = storage.attributes(file)
        a, u = (torch.from_numpy(file[name][:]) for name in storage.FIELDS)
    if pde is not None:
        check_equation(about, pde, path)
    found = checked_statistics(about, path)
    check_described(*_ordinary(a, u, about, path), found, path)
    content = storage.ContentHash()
    content.add(a, u)
    if content.hexdigest(about) != about.get("sha256"):
        raise DataError(
            f"{path} was changed after it was made: its content hash does not match; "
            "make it again"
        )
    return Content(a, u, found, about)


def check_equation(about: dict[str, Any], pde: PDE, path: Path) -> None:
    """Refuses a file of another equation, other coefficients or another grid.

    Args:
        about: Attributes of the file.
        pde: The equation that is asked for.
        path: The file, for messages.

    Raises:
        DataError: Naming what differs.
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


def check_described(a: Field, u: Field, found: Statistics, path: Path) -> None:
    """Refuses fields that their statistics do not describe, or that carry no units.

    Args:
        a: Input fields.
        u: Solution fields.
        found: Statistics that stand beside them.
        path: The file, for messages.

    Raises:
        DataError: When they differ, or both fields are normalised already.
    """
    normalised = True
    pairs = zip("au", (a, u), found.mean, found.std, strict=True)
    for name, field, mean, std in pairs:
        real_mean, real_std = _mean_std(field)
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


def _ordinary(
    a: Field, u: Field, about: dict[str, Any], path: Path
) -> tuple[Tensor, Tensor]:
    """Drops the outliers that a file says it holds, as its statistics do."""
    if not about.get("outliers"):
        return a, u
    kept = ~_equation_of(about, path).outliers(a, u)
    if not kept.any():
        raise DataError(f"{path} holds nothing but outliers; make the file again")
    return a[kept], u[kept]


def _mean_std(field: Field) -> tuple[float, float]:
    """Returns the moments in float64, without a float64 copy of a large field."""
    parts = field.split(BATCH)
    mean = math.fsum(part.double().sum() for part in parts) / field.numel()
    square = math.fsum((part.double() - mean).square().sum() for part in parts)
    return mean, math.sqrt(square / field.numel())


def verify(path: Path | str, *, locking: bool | None = None) -> Report:
    """Recomputes what a file or a folder claims: hashes, statistics, residuals.

    A folder is read part by part.

    Args:
        path: The file or folder.
        locking: Whether to lock a file while reading; `False` is for network disks
            without locks, `None` leaves it to HDF5.

    Returns:
        What was found, if all is well.

    Raises:
        DataError: With everything that is wrong, such as the indices of problems that
            are all zero.
        RunDirError: When another process holds the file.
    """
    path = Path(path)
    if not path.is_dir():
        return _verify_file(path, locking)
    manifest, reports = manifests.read(path), []
    for _, part in manifest.checked(locking):
        with manifests.blamed(part):
            reports.append(_verify_file(part, locking))
    stated = checked_statistics(manifest.about, path)
    found = combined([(r.num - r.outliers, r.statistics) for r in reports])
    pairs = zip((*found.mean, *found.std), (*stated.mean, *stated.std), strict=True)
    if not all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-9) for x, y in pairs):
        raise DataError(
            f"{path}: its parts have {found}, but {manifests.NAME} says {stated}; "
            "make the folder again"
        )
    squares = [report.residual_rms**2 for report in reports]
    rms = math.sqrt(math.fsum(squares) / len(squares))
    num, outliers = sum(r.num for r in reports), sum(r.outliers for r in reports)
    return Report(reports[0].pde, num, outliers, found, rms)


def _verify_file(path: Path, locking: bool | None) -> Report:
    with storage.opened(path, locking) as file:
        about = storage.attributes(file)
        stored = checked_statistics(about, path)
        pde = _equation_of(about, path)
        moments, content, zeros = _reread(file, pde)
        rms = _residual_rms(file, pde, moments.outliers)
    faults, outliers = [], len(moments.outliers)
    if outliers != about.get("outliers"):
        faults.append(f"{outliers} outliers, stated {about.get('outliers')}")
    if zeros:
        faults.append(f"a or u is zero everywhere in {len(zeros)}: {zeros[:20]}")
    if content.hexdigest(about) != about.get("sha256"):
        faults.append("the content hash does not match")
    if not rms <= 10 * stored.residual_rms:
        faults.append(f"residual {rms:.3g}, stated {stored.residual_rms:.3g}")
    if faults:
        raise DataError(f"{path}: {'; '.join(faults)}; make the file again")
    return Report(pde.name, about["num"], outliers, moments.statistics(), rms)


def _equation_of(about: dict[str, Any], path: Path) -> PDE:
    marked = "option."
    options = {k[len(marked) :]: v for k, v in about.items() if k.startswith(marked)}
    pde = pdes.load(about["pde"], size=about["size"], **options)
    check_equation(about, pde, path)
    return pde


def _reread(
    file: h5py.File, pde: PDE
) -> tuple[Moments, storage.ContentHash, list[int]]:
    """Returns moments, content hash and the indices of problems that are all zero."""
    moments, content, zeros = Moments(pde), storage.ContentHash(), []
    for lower in range(0, file["a"].shape[0], BATCH):
        a, u = _rows(file, slice(lower, lower + BATCH))
        moments.add(a, u)
        content.add(a, u)
        blank = ~(a.flatten(1).any(dim=1) & u.flatten(1).any(dim=1))
        zeros += (blank.nonzero()[:, 0] + lower).tolist()
    return moments, content, zeros


def _residual_rms(file: h5py.File, pde: PDE, outliers: Sequence[int]) -> float:
    every = range(file["a"].shape[0])
    ordinary = sorted({*every}.difference(outliers)) or every
    spread_out = sorted({ordinary[i * (len(ordinary) - 1) // 3] for i in range(4)})
    r = pde.residual(*_rows(file, spread_out))
    return r.double().square().mean().sqrt().item()


def _rows(file: h5py.File, rows: slice | Sequence[int]) -> tuple[Field, Field]:
    a, u = (torch.from_numpy(file[name][rows]) for name in storage.FIELDS)
    return a, u
