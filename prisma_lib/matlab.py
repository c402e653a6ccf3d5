"""Arrays in MATLAB files of either container, in MATLAB's order of axes.

Files up to version 7 are read by scipy, those of version 7.3 are HDF5 with the axes in
reverse.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

from prisma_lib.errors import ConfigError, DataError

Array = NDArray[Any]


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the arrays of a file, by name, with their shapes."""
    if not h5py.is_hdf5(path):
        return {name: shape for name, shape, _ in _scipy_io().whosmat(path)}
    with h5py.File(path, "r") as file:
        arrays = {k: v for k, v in file.items() if isinstance(v, h5py.Dataset)}
        return {name: array.shape[::-1] for name, array in arrays.items()}


def whole(path: Path, name: str) -> Array:
    """Returns one array."""
    [[array]] = rows(path, [name], sys.maxsize)
    return array


def rows(path: Path, names: Sequence[str], step: int) -> Iterator[list[Array]]:
    """Yields `step` rows of several arrays at a time, which all have as many."""
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            for lower in range(0, file[names[0]].shape[-1], step):
                yield [file[name][..., lower : lower + step].T for name in names]
        return
    arrays = _scipy_io().loadmat(path, variable_names=names)
    for lower in range(0, len(arrays[names[0]]), step):
        yield [arrays[name][lower : lower + step] for name in names]


def check(path: Path, layout: Mapping[str, str], size: int) -> int:
    """Refuses a file whose arrays are not laid out as they should be.

    Args:
        path: The file.
        layout: Wanted arrays and a letter per axis: N problems, n points, or any other.
        size: The number n.

    Returns:
        The number N.

    Raises:
        DataError: Naming what was found and what is needed.
    """
    found = shapes(path)
    num = found.get(next(iter(layout)), (0,))[0]
    known = {"n": size, "N": num}
    for name, axes in layout.items():
        shape = found.get(name, ())
        pairs = zip(shape, axes, strict=False)
        fits = all(length == known.get(axis, length) for length, axis in pairs)
        if not (num and len(shape) == len(axes) and fits):
            wanted = {k: f"({', '.join(v)})" for k, v in layout.items()}
            raise DataError(
                f"{path} holds {found}: it needs {wanted} with n = {size}; build "
                "the equation with the size of the file, or name another equation"
            )
    return num


def _scipy_io() -> Any:
    try:
        import scipy.io
    except ImportError as error:
        raise ConfigError(
            "reading MATLAB files needs scipy: pip install 'prisma-lib[notebooks]'",
            exit_code=4,
        ) from error
    return scipy.io
