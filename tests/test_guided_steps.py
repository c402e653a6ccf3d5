"""Every guided step against one written by hand, draw by draw, in numpy."""

import numpy as np
import pytest
import torch
from priors import network, pose, trajectory

from prisma_lib import pdes
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fundps import FunDPS
from prisma_lib.baselines.guidance import Moment, Weights
from prisma_lib.pdes.base import Statistics

STATISTICS = Statistics((0.1, 0.001), (0.3, 0.004), 1e-3)
WEIGHTS = {"a": 0.4, "u": 0.7, "pde": 0.3}


class PointwiseDiffusionPDE(DiffusionPDE):
    def forward(self, x_sigma, sigma):
        level = sigma[:, None, None, None]
        return (x_sigma + 0.2 * x_sigma.sin()) / (1 + level)


class PointwiseFunDPS(FunDPS):
    forward = PointwiseDiffusionPDE.forward


def stencil_matrix(n, reaction):
    """Builds the 5-point operator plus a reaction, row by row, and the inner points."""
    rows, inner = [], []
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            row = np.zeros(n * n)
            for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                row[k * n + m] += (n - 1) ** 2
            row[i * n + j] += reaction - 4 * (n - 1) ** 2
            rows.append(row)
            inner.append(i * n + j)
    return np.array(rows), inner


def diffusionpde_pull(x_hat, seen, moment, weights, reaction):
    """Returns the gradient of DiffusionPDE's losses for one denoised pair, by hand."""
    a, u, a_obs, u_obs, mask_a, mask_u = *x_hat, *seen
    grad_a, grad_u = np.zeros_like(a), np.zeros_like(u)
    share = 1.0 if moment.step <= 0.8 * moment.steps else 0.1
    for field, truth, mask, grad, weight in (
        (a, a_obs, mask_a, grad_a, weights.a),
        (u, u_obs, mask_u, grad_u, weights.u),
    ):
        off = mask * (field - truth)
        if off.any():
            grad += share * weight * off / np.sqrt((off**2).sum())
    if share < 1:
        matrix, inner = stencil_matrix(int(len(a) ** 0.5), reaction)
        r = matrix @ u - a[inner]
        slope = weights.pde * r / np.sqrt((r**2).sum()) / len(a)
        grad_u += matrix.T @ slope
        grad_a[inner] -= slope
    return grad_a, grad_u


def fundps_pull(x_hat, seen, moment, weights, reaction, scales, rooted):
    """Returns the gradient of FunDPS's losses, of normalised fields, by hand."""
    a, u, a_obs, u_obs, mask_a, mask_u = *x_hat, *seen
    grad_a, grad_u = np.zeros_like(a), np.zeros_like(u)
    if moment.step == moment.steps:
        return grad_a, grad_u
    factor = 1.0 if moment.sigma > 1 else moment.sigma
    for field, truth, mask, grad, weight, sd in (
        (a, a_obs, mask_a, grad_a, weights.a, scales[0]),
        (u, u_obs, mask_u, grad_u, weights.u, scales[1]),
    ):
        off, num = mask * (field - truth) / sd, mask.sum()
        if not off.any():
            continue
        mean = (off**2).sum() / num
        slope = off / num / np.sqrt(mean) if rooted else 2 * off / num
        grad += factor * weight * slope / sd
    if moment.sigma <= 1:
        matrix, inner = stencil_matrix(int(len(a) ** 0.5), reaction)
        r = matrix @ u - a[inner]
        slope = factor * weights.pde * np.clip(r, -1, 1) / len(r)
        grad_u += matrix.T @ slope
        grad_a[inner] -= slope
    return grad_a, grad_u


def reference(model, x, moment, after, pull, square):
    """Takes one guided step of one draw by hand, in physical units.

    The state is a pair of flat normalised fields, whose scales are those of the model;
    `square` turns a gradient of physical fields into a move of them.
    """
    mean, sd = (v.double().flatten().numpy() for v in (model.mean, model.std / 0.5))
    sigma, moves, hats, slopes = moment.sigma, [], [], []
    for field in x:
        d = (field + 0.2 * np.sin(field)) / (1 + sigma)
        slope = (1 + 0.2 * np.cos(field)) / (1 + sigma)
        direction = (field - d) / sigma
        ahead = field + (after - sigma) * direction
        slope_ahead = 1 + (after - sigma) * (1 - slope) / sigma
        if after > 0:
            d = (ahead + 0.2 * np.sin(ahead)) / (1 + after)
            slope = (1 + 0.2 * np.cos(ahead)) / (1 + after) * slope_ahead
            direction = (direction + (ahead - d) / after) / 2
            ahead = field + (after - sigma) * direction
        moves.append(ahead)
        hats.append(d)
        slopes.append(slope)
    grads = pull([m + s * d for m, s, d in zip(mean, sd, hats, strict=True)], moment)
    parts = moves, square, slopes, grads, sd
    return [
        move - q * slope * grad / s
        for move, q, slope, grad, s in zip(*parts, strict=True)
    ]


@pytest.mark.parametrize("direction", ["forward", "inverse"])
@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
@pytest.mark.parametrize("kind", [PointwiseDiffusionPDE, PointwiseFunDPS])
def test_every_step_is_the_published_one(kind, name, direction):
    pde = pdes.load(name, size=8)
    model = network(kind, pde, STATISTICS)
    solver = model.solver(steps=10, weights=WEIGHTS)
    seen = pose(pde, direction, STATISTICS)
    noise = torch.randn(2, 2, 8, 8, dtype=torch.float64)
    found = trajectory(solver, seen, noise)
    sigmas = solver.levels(seen).sigmas().tolist()
    weights, reaction = Weights(**WEIGHTS), float(name == "helmholtz")
    scales = [sd / 0.5 for sd in STATISTICS.std]
    if kind is PointwiseDiffusionPDE:
        u_scale = {"poisson": 36.5, "helmholtz": 1 / 0.028}[name]
        square = [
            1 / (published * scale) ** 2
            for published, scale in zip((1 / 2.15, u_scale), scales, strict=True)
        ]
    else:
        square = [1.0, 1.0]
        rooted = name == "helmholtz" and direction == "inverse"

    for draw in range(2):
        parts = (seen.a, seen.u, seen.mask_a, seen.mask_u)
        known = [part[draw].double().flatten().numpy() for part in parts]

        def pull(x_hat, moment, known=known):
            if kind is PointwiseDiffusionPDE:
                grads = diffusionpde_pull(x_hat, known, moment, weights, reaction)
            else:
                about = (weights, reaction, scales, rooted)
                grads = fundps_pull(x_hat, known, moment, *about)
            # From gradients of physical fields to those of normalised ones.
            return [g * s * s for g, s in zip(grads, scales, strict=True)]

        x = list(found[0][draw].flatten(1).numpy())
        for step in range(1, 11):
            moment = Moment(step, 10, sigmas[step - 1])
            x = reference(model, x, moment, sigmas[step], pull, square)
            ours = found[step][draw].flatten(1).numpy()
            np.testing.assert_allclose(x, ours, rtol=1e-5, atol=1e-6 * np.abs(x).max())
            x = list(ours)
