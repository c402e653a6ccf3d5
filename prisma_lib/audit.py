"""Audits of data files: is this the right equation, and are the fields what they claim?

`check_equation` and `check_described` are quick and run on every load; `verify` reads
everything and recomputes it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import torch

from prisma_lib import pdes, storage
from prisma_lib.errors import DataError
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.splits import Moments, checked_statistics
from prisma_lib.storage import BATCH


@dataclass(frozen=True)
class Report:
    """What `verify` found of a sound file.

    Args:
        pde: Name of the equation.
        num: Number of problems.
        statistics: Recomputed from the fields.
        residual_rms: Root mean square of the residual of four problems.
    """

    pde: str
    num: int
    statistics: Statistics
    residual_rms: float


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


def _mean_std(field: Field) -> tuple[float, float]:
    """Returns the moments in float64, without a float64 copy of a large field."""
    parts = field.split(BATCH)
    mean = math.fsum(part.double().sum() for part in parts) / field.numel()
    square = math.fsum((part.double() - mean).square().sum() for part in parts)
    return mean, math.sqrt(square / field.numel())


def verify(path: Path | str, *, locking: bool | None = None) -> Report:
    """Recomputes what a file claims: content hash, statistics, residuals.

    Args:
        path: The file.
        locking: As for `load`.

    Returns:
        What was found, if all is well.

    Raises:
        DataError: With everything that is wrong, such as the indices of problems that
            are all zero.
        RunDirError: When another process holds the file.
    """
    path = Path(path)
    with storage.opened(path, locking) as file:
        about = storage.attributes(file)
        stored = checked_statistics(about, path)
        pde = _equation_of(about, path)
        moments, content, zeros = _reread(file, pde)
        rms = _residual_rms(file, pde)
    faults = []
    if zeros:
        faults.append(f"a or u is zero everywhere in {len(zeros)}: {zeros[:20]}")
    if content.hexdigest(about) != about.get("sha256"):
        faults.append("the content hash does not match")
    if not rms <= 10 * stored.residual_rms:
        faults.append(f"residual {rms:.3g}, stated {stored.residual_rms:.3g}")
    if faults:
        raise DataError(f"{path}: {'; '.join(faults)}; make the file again")
    return Report(pde.name, about["num"], moments.statistics(), rms)


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


def _residual_rms(file: h5py.File, pde: PDE) -> float:
    num = file["a"].shape[0]
    spread_out = sorted({i * (num - 1) // 3 for i in range(4)})
    r = pde.residual(*_rows(file, spread_out))
    return r.double().square().mean().sqrt().item()


def _rows(file: h5py.File, rows: slice | Sequence[int]) -> tuple[Field, Field]:
    a, u = (torch.from_numpy(file[name][rows]) for name in storage.FIELDS)
    return a, u
