"""An audit of data files: everything they claim is read and recomputed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import torch

from prisma_lib import manifests, storage
from prisma_lib.errors import DataError
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.reading import equation_of
from prisma_lib.splits import BATCH, Moments, checked_statistics, combined


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
    about, parts = manifests.read(path)
    each = manifests.each(
        path, parts, lambda part: _verify_file(part, locking), locking
    )
    reports = list(each)
    stated = checked_statistics(about, path)
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
    with storage.opened(path, locking) as (file, about):
        stored = checked_statistics(about, path)
        pde = equation_of(about, path)
        moments, content, zeros = Moments(pde), storage.ContentHash(), list[int]()
        for lower in range(0, len(file["a"]), BATCH):
            a, u = _rows(file, slice(lower, lower + BATCH))
            moments.add(a, u)
            content.add(a, u)
            blank = ~(a.flatten(1).any(dim=1) & u.flatten(1).any(dim=1))
            zeros += (blank.nonzero()[:, 0] + lower).tolist()
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


def _residual_rms(file: h5py.File, pde: PDE, outliers: Sequence[int]) -> float:
    every = range(len(file["a"]))
    ordinary = sorted({*every}.difference(outliers)) or every
    spread_out = sorted({ordinary[i * (len(ordinary) - 1) // 3] for i in range(4)})
    r = pde.residual(*_rows(file, spread_out))
    return r.double().square().mean().sqrt().item()


def _rows(file: h5py.File, rows: slice | Sequence[int]) -> tuple[Field, Field]:
    a, u = (torch.from_numpy(file[name][rows]) for name in storage.FIELDS)
    return a, u
