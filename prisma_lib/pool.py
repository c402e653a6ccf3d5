"""Trajectories that are expensive to make, kept on disk.

Each trajectory is a file of its own, made when it is first asked for, so that a killed
process loses one trajectory at most. A file is HDF5 with one frame a chunk and a
checksum for each; it appears under its name when it is complete. A file that is damaged
or of other constants is made again.
"""

import hashlib
import io
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import h5py
import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.errors import RunDirError
from prisma_lib.files import write_atomically
from prisma_lib.pdes.base import BLOCK

Trajectory = Float[Tensor, "frames x y"]

# To raise when the values change though no constant does.
_FORMAT = 1

log = logging.getLogger(__name__)


class Pool:
    """Trajectories by the key of a random stream and their number in it.

    Args:
        folder: Where the files are.
        name: Start of their names.
        about: Everything that decides the values; part of the names, as a hash.
        make: Makes a trajectory from its key and number.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        about: Mapping[str, float | int | bool | str],
        make: Callable[[int, int], Trajectory],
    ) -> None:
        self._folder, self._name, self._make = folder, name, make
        self._about = json.dumps({"format": _FORMAT, **about}, sort_keys=True)
        self._hash = hashlib.sha256(self._about.encode()).hexdigest()[:12]

    def path(self, key: int, number: int) -> Path:
        """Returns the file of a trajectory, which may not exist yet."""
        return self._folder / f"{self._name}-{self._hash}-{key}-{number}.h5"

    def frames(self, key: int, number: int, wanted: Sequence[int]) -> Trajectory:
        """Returns the wanted frames of a trajectory, which is made if it is not there.

        Raises:
            RunDirError: When the file cannot be written.
        """
        path = self.path(key, number)
        found = self._read(path, wanted)
        if found is not None:
            return found
        log.info("making %s", path)
        made = self._make(key, number).float().cpu()
        self._write(path, made)
        return made[list(wanted)]

    def _read(self, path: Path, wanted: Sequence[int]) -> Trajectory | None:
        if not path.exists():
            return None
        try:
            # Files never change once they have their name: no lock is needed.
            with h5py.File(path, "r", locking=False) as file:
                if file.attrs["about"] == self._about:
                    kept = file["frames"]
                    return torch.stack([torch.from_numpy(kept[i]) for i in wanted])
        except (OSError, KeyError, ValueError, RuntimeError) as error:
            log.warning("%s is damaged (%s): making it again", path, error)
        return None

    def _write(self, path: Path, made: Trajectory) -> None:
        content = io.BytesIO()
        with h5py.File(content, "w", libver="latest") as file:
            file.attrs["about"] = self._about
            kept = {"chunks": (1, *made.shape[1:]), "fletcher32": True}
            file.create_dataset("frames", data=made.numpy(), **kept)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content.getvalue())
        except OSError as error:
            raise RunDirError(
                f"cannot write {path} ({error}): it needs a writable folder with "
                f"{content.tell() / 1e6:.3g} MB of space; choose another folder"
            ) from error


def place(index: int, pools: tuple[int, int], pairs: int) -> tuple[int, int]:
    """Returns the trajectory and the frame in it that the pair `index` stands for.

    Neighbouring numbers are on different trajectories, and the next numbers on the same
    one are far apart in time. Every pair comes once before one comes again.

    Args:
        index: Number of a pair, in blocks of 2^40.
        pools: Trajectories of the first block, and of each other.
        pairs: Pairs of neighbouring frames in a trajectory.
    """
    block, within = divmod(index, BLOCK)
    turn, number = divmod(within, pools[0] if block == 0 else pools[1])
    # Steps of about the golden ratio spread best.
    stride = round(0.618 * pairs) or 1
    while math.gcd(stride, pairs) > 1:
        stride += 1
    return block * BLOCK + number, turn * stride % pairs
