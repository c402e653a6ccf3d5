"""A network with something to do: one call, one training step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from prisma_lib import pdes
from prisma_lib.bench.measure import Network
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.splits import Moments

PDE = "darcy"


@dataclass(frozen=True)
class Job:
    """A network and a batch for it.

    Args:
        model: The network, with new weights.
        x: Clean pairs, normalised.
        sigma: Noise level of each.
        mask: 1 where observed.
    """

    model: Prisma
    x: Float[Tensor, "b 2 x y"]
    sigma: Float[Tensor, " b"]
    mask: Float[Tensor, "b 2 x y"]

    def call(self) -> Float[Tensor, "b 2 x y"]:
        """Denoises the batch."""
        denoised: Tensor = self.model(
            self.x, self.sigma, torch.where(self.mask > 0, self.x, 0.0), self.mask
        )
        return denoised

    @torch.no_grad()
    def infer(self) -> Float[Tensor, "b 2 x y"]:
        """Denoises the batch as a sampler does: no gradient, no dropout."""
        self.model.eval()
        return self.call()

    def step(self) -> Callable[[], None]:
        """Returns one training step: loss, gradient, AdamW; the batch stays as it is.

        Times of networks differ by the network alone: drawing problems, observations
        and noise is left out, and measured by the benches `train` and `data`.
        """
        optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

        def work() -> None:
            self.model.train()
            optimiser.zero_grad(set_to_none=True)
            F.mse_loss(self.call(), self.x).backward()
            optimiser.step()

        return work


def job(net: Network, device: torch.device, pde_name: str = PDE, **changes: Any) -> Job:
    """Builds a network and a batch half of whose points are observed.

    Args:
        net: Preset, points per axis and batch.
        device: Where it computes.
        pde_name: Name of the equation, whose inputs are the cheapest that it has.
        **changes: Settings that differ from the preset.
    """
    options: dict[str, Any] = pdes.quick(pde_name)
    if "resolution" in options:  # of trajectories, which are solved on a finer grid
        options["resolution"] = max(options["resolution"], net.size)
    pde = pdes.load(pde_name, size=net.size, **options)
    a, u = pde.pair(0, range(net.batch))
    moments = Moments(pde)
    moments.add(a, u)
    settings = ModelConfig.preset(net.preset, **changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Prisma(pde, settings, moments.statistics()).to(device)
        x = model.normalise(torch.cat([a, u], 1).to(device))
        sigma = torch.logspace(-1, 1, len(x)).to(device)
        mask = torch.rand(x.shape).lt(0.5).float().to(device)
    return Job(model, x, sigma, mask)
