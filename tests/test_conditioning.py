"""Conditioning on measured values, against dense linear algebra."""

import math

import numpy as np
import pytest
import torch
from scipy.fft import idctn
from small import random_observation

from prisma_lib.pdes import load
from prisma_lib.posterior import gaussian_posterior

NAMES = ("poisson", "helmholtz")


def dense_map(name, n):
    """White noise to both fields as a matrix, built without the library."""
    k = np.arange(n)
    weight = n * 3 / (np.pi**2 * (k[:, None] ** 2 + k**2) + 9)
    weight[0, 0] = 0
    impulses = np.eye(n * n).reshape(-1, n, n)
    a = idctn(weight * impulses, axes=(1, 2), norm="ortho")
    second = np.diag(np.full(n - 3, 1.0), 1) + np.diag(np.full(n - 3, 1.0), -1)
    second = (second - 2 * np.eye(n - 2)) * (n - 1) ** 2
    laplacian = np.kron(second, np.eye(n - 2)) + np.kron(np.eye(n - 2), second)
    if name == "helmholtz":
        laplacian += np.eye(len(laplacian))
        a[:, [0, -1]] = a[:, :, [0, -1]] = 0
    u = np.zeros_like(a)
    inner = a[:, 1:-1, 1:-1].reshape(n * n, -1)
    u[:, 1:-1, 1:-1] = np.linalg.solve(laplacian, inner.T).T.reshape(-1, n - 2, n - 2)
    return np.concatenate([a.reshape(n * n, -1), u.reshape(n * n, -1)], 1).T


def flat(fields):
    return torch.cat(fields, -3).flatten(-3).numpy()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sd", [(0.03, 0.0004), (0.3, 0.0)])
@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_mean_and_std_are_those_of_dense_conditioning(name, sd, rate):
    pde = load(name, size=9)
    seen = random_observation(pde, rate)
    posterior = gaussian_posterior(pde, seen, sd)
    mean, std = flat(posterior.mean()), flat(posterior.std())

    matrix = dense_map(name, 9)
    covariance = matrix @ matrix.T
    scale = np.sqrt(covariance.diagonal()).reshape(2, -1).mean(1).repeat(81)
    noise = np.array(sd).repeat(81) ** 2 + 1e-12 * scale**2
    for j in range(seen.batch):
        known = seen.mask[j].flatten().bool().numpy()
        y = seen.x[j].flatten().double().numpy()[known]
        inner = covariance[np.ix_(known, known)] + np.diag(noise[known])
        gain = np.linalg.solve(inner, covariance[known]).T
        left = (covariance - gain @ covariance[known]).diagonal().clip(0)

        assert np.abs((mean[j] - gain @ y) / scale).max() < 1e-4
        assert np.abs((std[j] - np.sqrt(left)) / scale).max() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(name):
    pde, num = load(name, size=9), 20_000
    seen = random_observation(pde, 0.1, num=2)
    posterior = gaussian_posterior(pde, seen, (0.05, 0.0005))

    draws = flat(posterior.sample(num, torch.Generator().manual_seed(0)))

    mean, std = flat(posterior.mean()), flat(posterior.std())
    certain = 1e-9 * std.max()
    off = np.abs(draws.mean(0) - mean) / (std + certain) * num**0.5
    assert off.max() < 5
    wide = std > 1e-3 * std.max(axis=1, keepdims=True)
    ratio = draws.std(0, ddof=1)[wide] / std[wide]
    assert np.abs(ratio - 1).max() < 5 / math.sqrt(2 * num)
    # Values share their uncertainty: an energy that only the covariance explains.
    energy = (draws[:, 0] - mean[0])[:, :81].sum(1).var()
    matrix, known = dense_map(name, 9), seen.mask[0].flatten().bool().numpy()
    noise = np.array([0.05, 0.0005]).repeat(81)[known] ** 2
    rows = matrix[known]
    sums = matrix[:81].sum(0)
    gain = np.linalg.solve(rows @ rows.T + np.diag(noise), rows @ sums)
    expected = sums @ sums - gain @ (rows @ sums)
    assert energy == pytest.approx(expected, rel=5 * math.sqrt(2 / num))
