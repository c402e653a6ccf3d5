"""Mean and covariance of the fields of an equation.

Where the equation states how its fields come from white noise they are exact.
Elsewhere they are estimated from the first training problems, with the symmetries that
the equation declares: turns and mirror images, or shifts along periodic axes.
"""

from functools import lru_cache, singledispatch

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib.conditioning import joint_of, rows_of, variance_of
from prisma_lib.lifts.kriging import Kriging, Prior
from prisma_lib.pdes.base import PDE
from prisma_lib.posterior import LinearGaussian, is_gaussian

Both = Float[Tensor, "b c x y"]

# Training problems behind an estimated covariance, and those solved together.
PROBLEMS, _BATCH = 512, 128
_FINE = 64  # points per axis beyond which one batch is all that fits into memory


@lru_cache(maxsize=8)
def kriging_of(pde: PDE, device: torch.device) -> Kriging:
    """Returns what estimates fields of an equation from sensors, on a device."""
    return Kriging(prior(pde, device).kept())


@singledispatch
def prior(pde: PDE, device: torch.device) -> Prior:
    """Returns mean and covariance of the values of both fields."""
    x = training_pairs(pde).to(device)
    if any(pde.periodic):
        return _stationary(x, pde.periodic[0])
    if pde.dihedral:
        x = torch.cat([x, x.flip(-1)])
        x = torch.cat([torch.rot90(x, turn, (-2, -1)) for turn in range(4)])
    mean = x.mean(0)
    factor = (x - mean).flatten(1) / (len(x) - 1) ** 0.5

    def rows(seen: Int[Tensor, " m"]) -> Float[Tensor, "m all"]:
        return factor[:, seen].T @ factor

    return Prior(mean, rows, factor.square().sum(0))


@prior.register
def _linear(pde: LinearGaussian, device: torch.device) -> Prior:
    if not is_gaussian(pde):
        return prior.dispatch(PDE)(pde, device)
    shape = pde.grid.shape
    like = torch.zeros(1, *shape, dtype=torch.float64, device=device)
    every = torch.arange(2 * like.numel(), device=device)

    def both(white: Float[Tensor, "b x y"]) -> Both:
        a = pde.colour(white)
        return torch.cat([a, pde.propagate(a)], dim=1)

    def rows(seen: Int[Tensor, " m"]) -> Float[Tensor, "m all"]:
        return joint_of(both, rows_of(both, seen, like), every, like)

    mean = torch.zeros(2, *shape, dtype=torch.float64, device=device)
    return Prior(mean, rows, variance_of(both, like).flatten())


@lru_cache(maxsize=8)
def training_pairs(pde: PDE) -> Both:
    """Returns the first training problems, without outliers, float64, on the CPU."""
    parts = []
    num = PROBLEMS if pde.size <= _FINE else min(PROBLEMS, _BATCH)
    for start in range(0, num, _BATCH):
        a, u = pde.pair(0, range(start, min(start + _BATCH, num)))
        kept = ~pde.outliers(a, u)
        parts.append(torch.cat([a, u], 1)[kept].double().cpu())
    return torch.cat(parts)


@lru_cache(maxsize=8)
def clean_pairs(pde: PDE) -> Both:
    """Returns training problems that no covariance was estimated from, as above."""
    a, u = pde.pair(0, range(PROBLEMS, PROBLEMS + _BATCH))
    return torch.cat([a, u], 1)[~pde.outliers(a, u)].double().cpu()


def _stationary(x: Both, torus: bool) -> Prior:
    """Estimates a covariance that depends on distances along periodic axes alone.

    Args:
        x: Fields, periodic along the last axis.
        torus: Whether they are along the first, too.
    """
    axes = (-2, -1) if torus else (-1,)
    mean = x.mean((0, *axes), keepdim=True)[0]
    # The other axes number signals of their own: (b, signals, periodic axes).
    signals = (x - mean).unflatten(-2, (1, -1)) if torus else (x - mean).unsqueeze(-2)
    signals = signals.flatten(1, -3)
    points = signals[0, 0].numel()
    spectra = torch.fft.fft2(signals).movedim(1, -1)
    cross = torch.einsum("bxyp,bxyq->pqxy", spectra, spectra.conj())
    table = torch.fft.ifft2(cross).real.flatten(2) / (len(x) * points)
    n1, n2 = signals.shape[-2:]
    place = torch.arange(points, device=x.device)

    def rows(seen: Int[Tensor, " m"]) -> Float[Tensor, "m all"]:
        signal, here = seen // points, seen[:, None] % points
        lag1 = (here // n2 - place // n2) % n1
        lag = lag1 * n2 + (here - place) % n2
        lag = lag[:, None].expand(-1, table.shape[1], -1)
        return table[signal].gather(2, lag).flatten(1)

    variance = table.diagonal().T[:, 0].repeat_interleave(points)
    return Prior(mean.expand(x.shape[1:]).contiguous(), rows, variance)
