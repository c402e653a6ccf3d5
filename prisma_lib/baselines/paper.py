"""Where the paper of PRISMA has a number: its cells for each method and equation.

Read from its tables `full_main`, `sparse_main` and `noisy_main`, that of the eikonal
equation, and its text on Burgers' equation. Sparse observations of Helmholtz' equation
are among them, though its numbers there are of k = 2, 3 and 4: we ask at k = 1.
"""

from itertools import product

from prisma_lib.pdes.base import Direction

Cells = frozenset[tuple[Direction, str]]

_BOTH: tuple[Direction, ...] = ("forward", "inverse")


def _cells(*regimes: str, directions: tuple[Direction, ...] = _BOTH) -> Cells:
    return frozenset(product(directions, regimes))


_FULL = _cells("full")
_SHARP = _cells("full", "sparse")
_DENSE = _cells("full", "noisy")
_EVERY = _cells("full", "sparse", "noisy")

_OF_ONE_FIELD = {"darcy": _SHARP, "poisson": _FULL, "helmholtz": _FULL}
_OF_OPERATORS = {
    "darcy": _EVERY,
    "poisson": _DENSE,
    "helmholtz": _DENSE,
    "navier_stokes": _EVERY,
    "kolmogorov": _EVERY,
}
_OF_GUIDANCE = {
    **_OF_OPERATORS,
    "helmholtz": _EVERY,
    "eikonal": _cells("full", directions=("forward",)),
}
PAPER: dict[str, dict[str, Cells]] = {
    "pinn": _OF_ONE_FIELD,
    "fno": _OF_OPERATORS,
    "deeponet": _OF_ONE_FIELD,
    "pino": _OF_OPERATORS,
    "diffusionpde": {
        **_OF_GUIDANCE,
        "burgers": _cells("sparse", directions=("reconstruct",)),
    },
    "fundps": _OF_GUIDANCE,
}
