"""How public data sets lie in their files; see `importers`.

Every reader looks at the shapes first and yields fields in float64 and physical units
later, a few hundred problems at a time. It runs within `reading`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import matlab
from prisma_lib.diffusionpde import SCALING
from prisma_lib.errors import ConfigError, DataError, PrismaError, unknown_name
from prisma_lib.matlab import Array
from prisma_lib.pdes.base import PDE, Field
from prisma_lib.spectral import resample
from prisma_lib.splits import BATCH

Pairs = Iterator[tuple[Field, Field]]

ORDERS = ("au", "ua")

# Names of the arrays and their axes: N problems, n points, T times.
MATLAB = {
    "darcy": {"thresh_a_data": "Nnn", "thresh_p_data": "Nnn"},
    "poisson": {"f_data": "Nnn", "phi_data": "Nnn"},
    "helmholtz": {"f_data": "Nnn", "psi_data": "Nnn"},
    "navier_stokes": {"a": "Nnn", "u": "NnnT"},
    "burgers": {"input": "Nn", "output": "Nnn"},
}
FUNDPS_VERSION = "2.0"
FUNDPS_NAMES = {"ns-nonbounded": "navier_stokes"}
FUNDPS_STD = 0.5


@dataclass(frozen=True)
class Options:
    """What files do not say themselves; see `importers.import_files`."""

    order: str | None = None
    physical: bool = False
    split: str | None = None


@dataclass(frozen=True)
class Source:
    """Some problems of a file: their numbers in it, and what yields them in order.

    So many in a row, `each`, are of one trajectory and not independent.
    """

    path: Path
    rows: range
    read: Callable[[], Pairs]
    each: int = 1


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever the reader of a foreign format raises into a DataError."""
    try:
        yield
    except PrismaError:
        raise
    except Exception as error:
        if not path.is_file():
            raise DataError(
                f"there is no file {path}: look at its name and folder"
            ) from error
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}): download it "
            "again, and keep its name"
        ) from error


def _matlab(pde: PDE, path: Path, options: Options) -> Source:
    """Reads a `.mat` file of DiffusionPDE."""
    if pde.name not in MATLAB:
        raise unknown_name("equation of DiffusionPDE", pde.name, MATLAB)
    layout = MATLAB[pde.name]
    num = matlab.check(path, layout, pde.size)
    times = _matlab_times(pde, path) if pde.name == "navier_stokes" else []
    each = len(times) + 1 - pde.channels[1] if times else 1

    def read() -> Pairs:
        for arrays in matlab.rows(path, list(layout), max(1, BATCH // each)):
            yield _matlab_pairs(pde, arrays, times)

    return Source(path, range(num * each), read, each)


def _matlab_times(pde: PDE, path: Path) -> list[int]:
    """Returns which of the stored times are Δt, 2 Δt, ... after the start."""
    if "t" not in matlab.shapes(path):
        raise DataError(f"{path} has no times: it needs 't' with the times of u")
    t = matlab.whole(path, "t").astype(float).ravel()
    interval = float(pde.options["interval"])
    found: list[int] = []
    while len(hits := np.flatnonzero(abs(t / interval - len(found) - 1) < 1e-3)):
        found.append(int(hits[0]))
    if len(found) < pde.channels[1]:
        raise DataError(
            f"{path} has u at the times {t[:12].tolist()} after a: {pde.channels[1]} "
            f"of them must be interval={interval} apart, from there on; build the "
            f"equation with interval={t.min():g}, or fewer frames"
        )
    return found


def _matlab_pairs(
    pde: PDE, arrays: Sequence[Array], times: list[int]
) -> tuple[Field, Field]:
    a, u = map(_numbers, arrays)
    if times:
        frames = torch.cat([a[..., None], u[..., times]], -1).movedim(-1, 1)
        return _windows(frames, pde.channels[1])
    if a.ndim == 2:  # starts, which are the same at all times
        a = a[:, None].expand_as(u)
    return a[:, None], u[:, None]


def _windows(frames: Float[Tensor, "n t x y"], later: int) -> tuple[Field, Field]:
    """Returns every frame that has `later` frames after it, and those."""
    last = frames.shape[1] - later
    u = torch.stack([frames[:, k : k + last] for k in range(1, later + 1)], 2)
    return frames[:, :last].flatten(0, 1)[:, None], u.flatten(0, 1)


def _merged(pde: PDE, path: Path, options: Options) -> Source:
    """Reads a `.npy` file with both fields as channels, or one with u alone."""
    if options.order not in ORDERS:
        raise ConfigError(
            f"order={options.order!r}: say which channel comes first in {path.name}, "
            "order='au' or order='ua' (--order)"
        )
    if not options.physical and pde.name not in SCALING:
        raise unknown_name("equation of DiffusionPDE", pde.name, SCALING)
    planes = _planes(pde, path)
    scales = ((1, 0), (1, 0)) if options.physical else SCALING[pde.name]

    def read() -> Pairs:
        for fields in _rows(planes):
            if fields.shape[1] == 1:  # a history, which begins with its start
                a, u = fields[..., :1, :].expand_as(fields), fields
            elif options.order == "au":
                a, u = fields.split(pde.channels, 1)
            else:
                u, a = fields.split(pde.channels[::-1], 1)
            (a_factor, a_shift), (u_factor, u_shift) = scales
            yield (a - a_shift) / a_factor, (u - u_shift) / u_factor

    return Source(path, range(len(planes)), read)


def _fundps(pde: PDE, path: Path, options: Options) -> Source:
    """Reads normalised fields with the statistics in `metadata.json` beside them."""
    about = path.with_name("metadata.json")
    with reading(about):
        found = json.loads(about.read_text("utf-8"))
        name, version = found.get("name"), found.get("__version__")
        table = found.get("stats", {})
    if FUNDPS_NAMES.get(name, name) != pde.name:
        raise DataError(f"{about} is about {name!r}, but {pde.name} was asked for")
    if version != FUNDPS_VERSION:
        raise DataError(
            f"{about} has statistics of version {version!r}: {FUNDPS_VERSION!r} is "
            "needed, whose fields have mean 0 and std 0.5"
        )
    mean, std = (np.array(table.get(key, [])) for key in ("mean", "std"))
    if mean.shape != (2,) or std.shape != (2,) or not (std > 0).all():
        raise DataError(
            f"{about}: stats hold mean {mean.tolist()} and std {std.tolist()}: two "
            "numbers each are needed, of a and of u, std positive"
        )
    planes = _planes(pde, path)

    def read() -> Pairs:
        for fields in _rows(planes):
            x = zip(fields.split(pde.channels, 1), mean, std, strict=True)
            a, u = (m.item() + z * (s.item() / FUNDPS_STD) for z, m, s in x)
            yield a, u

    return Source(path, range(len(planes)), read)


def _trajectories(pde: PDE, path: Path, options: Options) -> Source:
    """Reads pairs of neighbouring frames of trajectories, restricted to the grid."""
    if options.split not in ("train", "test"):
        raise ConfigError(
            f"split={options.split!r}: choose split='train', the first nine tenths of "
            "the trajectories, or split='test' (--split)"
        )
    data = np.load(path, mmap_mode="r")
    shape, n, later = data.shape, pde.size, pde.channels[1]
    fits = data.ndim == 4 and shape[0] > 1 and shape[2] == shape[3] >= n
    if not (fits and shape[1] > later):
        raise DataError(
            f"{path} holds {shape}: it needs (trajectories, frames, x, y), at least 2 "
            f"trajectories of {1 + later} frames with {n} points per axis"
        )
    held, pairs = max(1, 9 * shape[0] // 10), shape[1] - later
    chosen = range(held) if options.split == "train" else range(held, shape[0])

    def read() -> Pairs:
        for number in chosen:
            for lower in range(0, pairs, BATCH):
                block = _numbers(data[number, None, lower : lower + BATCH + later])
                yield _windows(resample(block, (n, n)), later)

    rows = range(chosen.start * pairs, chosen.stop * pairs)
    return Source(path, rows, read, pairs)


READERS: dict[str, Callable[[PDE, Path, Options], Source]] = {
    "diffusionpde": _matlab,
    "merged": _merged,
    "fundps": _fundps,
    "kolmogorov": _trajectories,
}


def _planes(pde: PDE, path: Path) -> Array:
    """Returns the fields of a `.npy` file, mapped, as `(N, c, n, n)`."""
    array = np.load(path, mmap_mode="r")
    n, c = pde.size, sum(pde.channels)
    stack = array if array.ndim == 4 else array[None]
    if stack.shape[1:] == (n, n) and pde.kind == "space_time":
        return stack[:, None]
    if stack.shape[1:] == (c, n, n):
        return stack
    if stack.shape[1:] == (n, n, c):
        return np.moveaxis(stack, -1, 1)
    raise DataError(
        f"{path} holds {array.shape}: {pde.name} with size={n} needs ({c}, {n}, {n}) "
        f"or ({n}, {n}, {c}), with or without an axis of problems in front"
    )


def _rows(planes: Array) -> Iterator[Field]:
    for lower in range(0, len(planes), BATCH):
        yield _numbers(planes[lower : lower + BATCH])


def _numbers(array: Array) -> Tensor:
    """Returns a float64 copy in memory, in the usual order of axes."""
    if array.dtype.kind != "f":
        raise DataError(f"an array holds {array.dtype}: floating-point numbers are due")
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C"))
