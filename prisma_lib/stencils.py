r"""Second-order finite differences on bounded grids.

Fields have any leading axes and end in `x y`; `spacing` is the distance between nodes
per axis. Results live on inner nodes: the boundary ring, where a stencil would need
points outside the domain, is gone. All second differences are compact, so that a
checkerboard never passes for a smooth field; `gradient` does not see one.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

Spacing = tuple[float, float]


def interior(f: Float[Tensor, "*b x y"]) -> Float[Tensor, "*b x-2 y-2"]:
    """Returns the values at inner nodes, without the boundary ring."""
    return f[..., 1:-1, 1:-1]


def laplacian(
    u: Float[Tensor, "*b x y"], spacing: Spacing
) -> Float[Tensor, "*b x-2 y-2"]:
    """Evaluates the 5-point Laplacian.

    Args:
        u: Field at all nodes.
        spacing: Distance between nodes per axis.

    Returns:
        The Laplacian at inner nodes.
    """
    # Differences of differences: cancelling neighbours first loses fewer digits than
    # summing five large terms.
    du = u[..., 1:, 1:-1] - u[..., :-1, 1:-1]
    dv = u[..., 1:-1, 1:] - u[..., 1:-1, :-1]
    along_x = (du[..., 1:, :] - du[..., :-1, :]) / spacing[0] ** 2
    along_y = (dv[..., 1:] - dv[..., :-1]) / spacing[1] ** 2
    return along_x + along_y


def divergence_flux(
    a: Float[Tensor, "*b x y"], u: Float[Tensor, "*b x y"], spacing: Spacing
) -> Float[Tensor, "*b x-2 y-2"]:
    r"""Evaluates $\nabla \cdot (a \nabla u)$ as a balance of fluxes through faces.

    The coefficient of a face is the mean of its two nodes.

    Args:
        a: Coefficient at all nodes.
        u: Field at all nodes.
        spacing: Distance between nodes per axis.

    Returns:
        The divergence at inner nodes.
    """
    ax, ay = faces(a)
    flux_x = ax * (u[..., 1:, 1:-1] - u[..., :-1, 1:-1])
    flux_y = ay * (u[..., 1:-1, 1:] - u[..., 1:-1, :-1])
    along_x = (flux_x[..., 1:, :] - flux_x[..., :-1, :]) / spacing[0] ** 2
    along_y = (flux_y[..., 1:] - flux_y[..., :-1]) / spacing[1] ** 2
    return along_x + along_y


def faces(
    a: Float[Tensor, "*b x y"],
) -> tuple[Float[Tensor, "*b x-1 y-2"], Float[Tensor, "*b x-2 y-1"]]:
    """Averages a coefficient onto the faces that inner nodes share.

    Args:
        a: Coefficient at all nodes.

    Returns:
        Coefficients of the faces across x, and of those across y.
    """
    across_x = (a[..., 1:, 1:-1] + a[..., :-1, 1:-1]) / 2
    across_y = (a[..., 1:-1, 1:] + a[..., 1:-1, :-1]) / 2
    return across_x, across_y


def gradient(
    u: Float[Tensor, "*b x y"], spacing: Spacing
) -> tuple[Float[Tensor, "*b x-2 y-2"], Float[Tensor, "*b x-2 y-2"]]:
    """Evaluates both first derivatives by central differences.

    Central differences do not see a checkerboard: never take them twice.

    Args:
        u: Field at all nodes.
        spacing: Distance between nodes per axis.

    Returns:
        Derivatives along x and along y at inner nodes.
    """
    along_x = (u[..., 2:, 1:-1] - u[..., :-2, 1:-1]) / (2 * spacing[0])
    along_y = (u[..., 1:-1, 2:] - u[..., 1:-1, :-2]) / (2 * spacing[1])
    return along_x, along_y


def grow(
    f: Float[Tensor, "b 1 x y"], known: Bool[Tensor, "b 1 x y"]
) -> Float[Tensor, "b 1 x y"]:
    """Extends known values over all nodes, one ring of neighbours after the other.

    Args:
        f: Field at all nodes.
        known: Where it holds.

    Returns:
        `f` where it is known, elsewhere the mean of those of the four neighbours that
        are nearer to known nodes. A field without a known node stays as it is.
    """
    cross = f.new_tensor([[0, 1, 0], [1, 0, 1], [0, 1, 0]])[None, None]
    while True:
        near = functional.conv2d(known.to(f), cross, padding=1)
        fresh = ~known & (near > 0)
        if not fresh.any():
            return f
        total = functional.conv2d(torch.where(known, f, 0), cross, padding=1)
        f = torch.where(fresh, total / near, f)
        known = known | fresh
