"""Small files in the layouts of public data, and what they should become."""

import h5py
import numpy as np
import scipy.io
import torch

from prisma_lib import data, pdes

SIZE, NUM = 16, 5


def public(name, num=NUM, size=SIZE, **options):
    """Returns an equation and pairs of it in float64, without the channel axis."""
    pde = pdes.load(name, size=size, **options)
    a = pde.draw(0, range(num)).double()
    return pde, a[:, 0].numpy(), pde.solve(a)[:, 0].numpy()


def history():
    """Returns Burgers' equation and an exact pair of it."""
    pde = pdes.load("burgers", size=SIZE)
    a, u = pde.exact()
    return pde, a[:, 0].numpy(), u[:, 0].numpy()


def save_mat(path, arrays, modern=False):
    """Writes a MATLAB file up to version 7, or of 7.3 (HDF5, axes in reverse)."""
    if not modern:
        scipy.io.savemat(path, arrays)
        return path
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file[name] = array.transpose()
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    path.write_bytes(head + path.read_bytes()[128:])
    return path


def assert_holds(path, pde, a, u):
    loaded = data.load(path, pde)
    for found, wanted in ((loaded.a, a), (loaded.u, u)):
        want = torch.from_numpy(np.asarray(wanted)).reshape(found.shape)
        size = want.abs().max().item()
        torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=1e-6 * size)
    assert data.verify(path).num == len(loaded.a)
