"""One file of problems, with all that it says about itself."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import prisma_lib
from prisma_lib import storage
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.splits import Moments


def write(
    path: Path,
    pde: PDE,
    origin: dict[str, Any],
    pairs: Iterable[tuple[Field, Field]],
    bar: Any,
) -> dict[str, Any]:
    """Writes problems into one file.

    Args:
        path: The file; `storage.prepare` was called for it.
        pde: The equation.
        origin: Where the problems come from; `num` of them.
        pairs: Batches of inputs and solutions, float32, on the CPU.
        bar: Progress bar to move.

    Returns:
        The attributes of the file.

    Raises:
        DataError: When a field is constant or all problems are outliers.
        RunDirError: When the file cannot be written.
    """
    with storage.created(path, origin["num"], pde.grid.shape, pde.channels) as writer:
        moments, content = Moments(pde), storage.ContentHash()
        for a, u in pairs:
            writer.append(a, u)
            moments.add(a, u)
            content.add(a, u)
            bar.update(len(a))
        about = described(pde) | origin | asdict(moments.statistics())
        about["outliers"] = len(moments.outliers)
        about["sha256"] = content.hexdigest(about)
        writer.describe(about)
    return about


def described(pde: PDE) -> dict[str, Any]:
    """Returns what a file says about its equation."""
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
        "centred": grid.centred,
        **{f"option.{name}": value for name, value in pde.options.items()},
        **{f"coefficient.{name}": value for name, value in pde.coefficients.items()},
    }
