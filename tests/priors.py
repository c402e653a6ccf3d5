"""Priors of noise, and exact ones for pairs that are Gaussian."""

import torch

from prisma_lib import data
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fundps import FunDPS
from prisma_lib.cells import Benchmark, observation_of
from prisma_lib.pdes.base import Statistics

BOTH = (DiffusionPDE, FunDPS)


def network(kind, pde, statistics, **changes):
    """Builds a tiny prior whose output is not zero, without gradients."""
    torch.manual_seed(0)
    model = kind(pde, kind.settings.preset("tiny", **changes), statistics).eval()
    for parameter in model.parameters():  # wake the layers that start at zero
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.05)
    return model.requires_grad_(False)


def covariance_of_noise(model):
    """Computes the covariance of both channels' noise, flat."""
    noise = model.noise
    m1, m2 = noise.white_shape
    white = torch.eye(m1 * m2, dtype=torch.float64).view(-1, 1, m1, m2)
    rows = noise.colour(white).flatten(1)
    block = rows.T @ rows
    return torch.block_diag(block, block)


def exact(kind, pde):
    """Builds the optimal prior of a PDE whose pairs are Gaussian.

    Args:
        kind: Class of the prior.
        pde: A `LinearGaussian` equation.

    Returns:
        The prior, and the covariance of its normalised pairs, flat.
    """
    n = pde.size**2
    impulses = torch.eye(n, dtype=torch.float64).view(n, *pde.grid.shape)
    a = pde.colour(impulses)
    rows = torch.cat([a, pde.propagate(a)], 1)
    std = tuple(rows.square().sum(0).mean((1, 2)).sqrt().tolist())
    config = kind.settings.preset("tiny")
    base = kind(pde, config, Statistics((0.0, 0.0), std, 1e-3))
    rows = base.normalise(rows).flatten(1)
    covariance, noise = rows.T @ rows, covariance_of_noise(base)

    class Exact(kind):
        def forward(self, x_sigma, sigma):
            # All draws of a call have one noise level.
            total = covariance + sigma[0].double() ** 2 * noise
            gain = torch.linalg.solve(total, covariance).to(x_sigma.dtype)
            return (x_sigma.flatten(1) @ gain).view_as(x_sigma)

    model = Exact(pde, config, base.statistics).eval().requires_grad_(False)
    return model, covariance


def pose(pde, direction, statistics, n=2):
    """Makes a sparse observation of test problems, a fifth of the points."""
    a, u = data.problems(pde, n)
    problems = Benchmark(pde, a, u, statistics, 0)
    return observation_of(problems, direction, "sparse", rate=0.2)


def trajectory(solver, seen, noise):
    """Lists the states of a guided solver in float64, the start first."""
    x_obs, mask = (x.double() for x in solver.condition(seen))
    states = solver.states(noise, x_obs, mask, seen, range(len(noise)))
    start = solver.levels(seen).sigmas()[0] * noise
    return [start, *(state.x for state in states)]
