"""Darcy flow: our solver against a sparse direct one, on the same fields."""

import statistics
import time
from typing import Any

import numpy as np

from prisma_lib import flux_form, pdes, results
from prisma_lib.bench.measure import Setup, optional, row

DEFAULT = "COLAMD"
ORDERINGS = (DEFAULT, "MMD_AT_PLUS_A", "MMD_ATA")
_BATCH = 64


def bench_direct(setup: Setup) -> list[results.Row]:
    """Times a field of Darcy flow with our solver and with SuperLU, in every ordering.

    The direct solver gets its matrix for nothing; ours starts from the coefficient.
    """
    size = setup.scale.trained[-1].size
    pde = pdes.load("darcy", size=size)
    a = pde.draw(0, range(_BATCH)).to(setup.device)
    ours = setup.seconds(lambda: pde.solve(a)) / _BATCH
    where = f"size={size}"
    rows = [row("solve", "darcy", f"{where};ours", "ms_per_field", 1e3 * ours)]
    if optional("scipy.sparse.linalg") is None:
        return rows
    fields = a[: setup.scale.direct, 0].double().cpu()
    matrices = [flux_form.matrix(field, pde.grid.spacing) for field in fields]
    right = np.ones(matrices[0].shape[0])
    times = {name: _seconds(matrices, right, name) for name in ORDERINGS}
    rows += [
        row("solve", "darcy", f"{where};scipy, {name}", "ms_per_field", 1e3 * seconds)
        for name, seconds in times.items()
    ]
    ratios = {
        "speed_over_scipy": min(times.values()) / ours,
        "speed_over_scipy_as_it_comes": times[DEFAULT] / ours,
    }
    return rows + [
        row("solve", "darcy", f"{where};ours", metric, ratio)
        for metric, ratio in ratios.items()
    ]


def _seconds(matrices: list[Any], right: Any, ordering: str) -> float:
    """Returns the median seconds that SuperLU takes for a system, one at a time."""
    times = []
    for matrix in matrices:
        began = time.perf_counter()
        direct_solve(matrix, right, ordering)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def direct_solve(matrix: Any, right: Any, ordering: str) -> Any:
    """Solves a symmetric positive definite system with SuperLU.

    Args:
        matrix: A scipy sparse matrix, by columns.
        right: Right side.
        ordering: One of `ORDERINGS`.

    Returns:
        The solution, a NumPy vector.
    """
    from scipy.sparse.linalg import splu

    # No pivots are needed, which keeps the factors as sparse as the ordering made them.
    options = {"SymmetricMode": ordering == "MMD_AT_PLUS_A"}
    factors = splu(matrix, permc_spec=ordering, diag_pivot_thresh=0.0, options=options)
    return factors.solve(right)
