"""Values of kept modes: as a plane, and over the mode number."""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.nn.spectral import Modes

Half = Float[Tensor, " m"]  # of the half plane that a real field needs, row-major


def plane(half: Half, modes: Modes) -> Float[Tensor, "k1 k2"]:
    """Mirrors the half plane of a real field's modes: A(-k) = A(k).

    Args:
        half: Values of the kept modes, in row-major order.
        modes: Largest kept mode number per axis.

    Returns:
        Values at k1 and k2 from minus the largest mode number to the largest.
    """
    rows = half.view(2 * modes[0] + 1, modes[1] + 1)
    return torch.cat([rows[:, 1:].flip(0, 1), rows], 1)


def radial(half: Half, modes: Modes) -> Float[Tensor, " k"]:
    """Averages over rings of modes whose number |k| rounds to 0, 1, ...

    Args:
        half: Values of the kept modes, in row-major order.
        modes: Largest kept mode number per axis.

    Returns:
        One mean per ring, up to the smaller of both largest mode numbers.
    """
    k1 = torch.arange(-modes[0], modes[0] + 1.0)[:, None]
    k2 = torch.arange(-modes[1], modes[1] + 1.0)
    ring = (k1.square() + k2.square()).sqrt().round().long().flatten()
    values, num = plane(half, modes).flatten(), int(ring.max()) + 1
    total = torch.zeros(num).index_add_(0, ring, values)
    mean: Tensor = total / torch.bincount(ring, minlength=num)
    return mean[: min(modes) + 1]
