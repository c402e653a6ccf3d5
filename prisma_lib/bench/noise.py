"""Diffusion noise by FFT, against the dense factor of the same covariance."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import results
from prisma_lib.bench.measure import Setup, peak_megabytes, row
from prisma_lib.fields import GRFNoise
from prisma_lib.grids import Grid

# Points drawn at once: enough to keep a machine busy, at any size of the grid.
_POINTS = 2**20


def bench_noise(setup: Setup) -> list[results.Row]:
    """Measures draws per second, and the memory that one draw of one field takes."""
    rows = []
    device = setup.device
    draws = torch.Generator(device).manual_seed(0)
    for size in setup.scale.noise_grids:
        noise = GRFNoise(Grid((size, size)))
        num = max(1, _POINTS // size**2)

        sample = partial(noise.sample, channels=1, generator=draws)
        rate = num / setup.seconds(partial(sample, num))
        memory = peak_megabytes(partial(sample, 1), device)
        setting = f"size={size};by FFT"
        rows += [
            row("noise", "", f"{setting};batch={num}", "draws_per_s", rate),
            row("noise", "", f"{setting};one draw", "peak_mb", memory),
        ]
        if size == setup.scale.noise_grids[0]:
            rows += _dense(setup, noise, num, rate)
    return rows


def _dense(setup: Setup, noise: GRFNoise, num: int, rate: float) -> list[results.Row]:
    """Measures what the public codes do: a Cholesky factor times white noise."""
    device = setup.device
    draws = torch.Generator(device).manual_seed(0)
    covariance = dense_covariance(noise).to(device)
    seconds = setup.seconds(lambda: torch.linalg.cholesky(covariance))
    factor = torch.linalg.cholesky(covariance).float()

    def work() -> Tensor:
        white = torch.randn(len(factor), num, generator=draws, device=device)
        return (factor @ white).T

    dense = num / setup.seconds(work)
    megabytes = factor.numel() * factor.element_size() / 1e6
    where = f"size={noise.grid.shape[0]}"
    setting = f"{where};by dense factor"
    return [
        row("noise", "", setting, "s_to_factor", seconds),
        row("noise", "", setting, "factor_mb", megabytes),
        row("noise", "", f"{setting};batch={num}", "draws_per_s", dense),
        row(
            "noise", "", f"{where};by FFT;batch={num}", "speed_over_dense", rate / dense
        ),
    ]


def dense_covariance(noise: GRFNoise) -> Float[Tensor, "points points"]:
    """Returns the covariance of noise on a bounded grid as a matrix, float64."""
    grid = noise.grid
    place = grid.coordinates(torch.float64).flatten(1).T
    place = place / torch.tensor(grid.lengths, dtype=torch.float64)
    # Distances of nearby points must not come from differences of large squares.
    mode = "donot_use_mm_for_euclid_dist"
    covariance = torch.cdist(place, place, compute_mode=mode)
    covariance.div_(-2 * noise.scale**2).exp_()
    covariance.diagonal().add_(noise.jitter)
    return covariance
