"""Public data sets, converted into data files of this library.

- `diffusionpde`: the `.mat` files of DiffusionPDE, of either MATLAB container.
- `merged`: `.npy` files with both fields as channels, as its training reads them; one
  sample `(2, n, n)` or `(n, n, 2)`, or for Burgers `(n, n)`, or a stack of samples.
- `fundps`: the normalised fields of FunDPS, `.npy` with `(N, 2, n, n)` beside their
  `metadata.json`.
- `kolmogorov`: the trajectories of Shu et al., `kf_2d_re1000_256_40seed.npy`.

Nothing is taken on trust: for some problems of every batch the input is solved again,
and a file whose solutions differ is refused. A file with swapped channels, one
field in other units, transposed axes or other coefficients does not pass.

The equation that is given decides how a file is read. Its constants become attributes,
though those that only draw inputs, such as the spin-up of `kolmogorov`, are then about
our generator and not about the source.

Reference:
    Huang et al. (2024), DiffusionPDE. arXiv 2406.17763. Yao et al. (2025), Guided
    diffusion sampling on function spaces (FunDPS). arXiv 2505.17004. Shu et al. (2023).
    arXiv 2211.14680.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prisma_lib import progress, storage
from prisma_lib.errors import ConfigError, DataError, NumericsError, unknown_name
from prisma_lib.layouts import ORDERS, READERS, Options, Source, reading
from prisma_lib.manifests import file_hash
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.splits import BATCH

__all__ = ["KINDS", "ORDERS", "PUBLIC", "import_files"]

KINDS = tuple(READERS)
# Options with which an equation reads its public data; the command sets them.
PUBLIC: dict[str, dict[str, Any]] = {
    "darcy": {"recipe": "diffusionpde"},
    "kolmogorov": {"resolution": 256},
}

# Largest relative difference between a solution and ours: for solvers of the same
# discrete equation, and for those that differ by what a coarse grid does not resolve.
_SAME, _SIMILAR = 0.01, 0.1


def import_files(
    kind: str,
    files: Sequence[Path | str],
    out: Path | str,
    pde: PDE,
    *,
    order: str | None = None,
    physical: bool = False,
    split: str | None = None,
    overwrite: bool = False,
    shown: bool | None = None,
) -> Path:
    """Converts public data into one data file.

    Args:
        kind: One of `KINDS`.
        files: What to read, in this order.
        out: File to write; its folder is made if missing.
        pde: The equation that the files hold, on the wanted grid.
        order: Of `merged` files: "au" when the input is the first channel, else "ua".
        physical: Whether `merged` files are in physical units; else they are scaled as
            DiffusionPDE does for training.
        split: Of `kolmogorov`: "train" for the first nine tenths of the trajectories,
            "test" for the others.
        overwrite: Replace an existing file, once the new one is complete.
        shown: Force a progress bar on or off; `None`: where someone is looking.

    Returns:
        The file. Its attributes name the sources with their SHA-256.

    Raises:
        ConfigError: When a setting has no meaning.
        DataError: When a file is damaged, of another layout, or its solutions are not
            those of the equation.
        RunDirError: When the file exists or cannot be written.
    """
    if kind not in READERS:
        raise unknown_name("kind of public data", kind, KINDS)
    if not files:
        raise ConfigError("no files were given: name at least one")
    options, sources = Options(order, physical, split), []
    for path in map(Path, files):
        with reading(path):
            sources.append(READERS[kind](pde, path, options))
            if not sources[-1].rows:
                raise DataError(f"{path} holds no problems: leave this file out")
    out, num = Path(out), sum(len(source.rows) for source in sources)
    points = sum(pde.channels) * math.prod(pde.grid.shape)
    storage.prepare(out, 4 * num * points, overwrite)
    origin = {"importer": kind, "num": num, **_columns(sources)}
    with progress.bar(num, "problem", shown=shown) as bar:
        storage.write(out, pde, origin, _checked(pde, sources), bar)
    return out


def _columns(sources: Sequence[Source]) -> dict[str, Any]:
    paths = [source.path for source in sources]
    hashes: dict[str, Path] = {}
    for path in paths:
        twin = hashes.setdefault(file_hash(path), path)
        if twin is not path:
            raise DataError(f"{path} has the content of {twin}: give each file once")
    return {
        "source.name": [path.name for path in paths],
        "source.sha256": list(hashes),
        "source.first": [source.rows.start for source in sources],
        "source.stop": [source.rows.stop for source in sources],
        "source.each": [source.each for source in sources],
    }


def _checked(pde: PDE, sources: Iterable[Source]) -> Iterator[tuple[Field, Field]]:
    """Yields batches in float32, some problems of each solved again."""
    for path, a, u in _batches(sources):
        for name, field in (("a", a), ("u", u)):
            if not field.isfinite().all():
                raise DataError(f"{path}: {name} is not finite: leave this file out")
        rows = sorted({i * (len(a) - 1) // 3 for i in range(4)})
        _check_solved(pde, a[rows], u[rows], path)
        yield a.float(), u.float()


def _batches(sources: Iterable[Source]) -> Iterator[tuple[Path, Field, Field]]:
    """Joins what sources yield, each batch with the path of its first source."""
    parts: list[tuple[Path, Tensor, Tensor]] = []
    for source in sources:
        with reading(source.path):
            for a, u in source.read():
                parts.append((source.path, a, u))
                if sum(len(a) for _, a, _ in parts) >= BATCH:
                    yield _joined(parts)
                    parts = []
    if parts:
        yield _joined(parts)


def _joined(parts: Sequence[tuple[Path, Tensor, Tensor]]) -> tuple[Path, Field, Field]:
    paths, a, u = zip(*parts, strict=True)
    return paths[0], torch.cat(a), torch.cat(u)


def _check_solved(pde: PDE, a: Field, u: Field, path: Path) -> None:
    error, limit = _misfit(pde, a, u), _limit(pde, a, u)
    if error <= limit:
        return
    advice = (
        "look at the order of the channels, the units, the axes (x, y) and the "
        "coefficients of the equation"
    )
    if _misfit(pde, u, a) <= _limit(pde, u, a):
        advice = "they do when a and u are swapped: give the other order"
    raise DataError(
        f"{path}: its fields are no pairs of {pde.name} {pde.options or ''}: solving a "
        f"again gives u with a relative error of {error:.3g}, and {limit:.3g} is "
        f"allowed; {advice}"
    )


def _misfit(pde: PDE, a: Field, u: Field) -> float:
    """Returns the relative difference between `u` and our solution."""
    try:
        solved = pde.solve(a)
    except (DataError, NumericsError):
        return float("inf")
    return ((solved - u).norm() / u.norm()).item()


def _limit(pde: PDE, a: Field, u: Field) -> float:
    if pde.kind not in ("one_step", "geometric"):
        return _SAME
    # Nearer than half of what doing nothing gives, so that no step is taken backwards.
    return min(_SIMILAR, ((a - u).norm() / u.norm()).item() / 2)
