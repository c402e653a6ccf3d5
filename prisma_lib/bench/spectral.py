"""One spectral convolution alone: useful work over the machine's pace."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from prisma_lib import results
from prisma_lib.bench.measure import Network, Setup, optional, row
from prisma_lib.bench.rivals import EinsumConv, neuralop_conv
from prisma_lib.nn.spectral import ModeProduct, Modes, analyse, synthesise
from prisma_lib.presets import ModelConfig


class OurConv(nn.Module):
    """The spectral convolution of the library, as a block calls it."""

    def __init__(self, product: ModeProduct) -> None:
        super().__init__()
        self.product = product

    def forward(self, h: Tensor) -> Tensor:
        """Convolves; the grid must resolve every mode."""
        shape = (h.shape[-2], h.shape[-1])
        modes = self.product.modes
        mixed = self.product(analyse(h, modes), modes)
        return synthesise(mixed, modes, shape)


def useful_operations(
    batch: int, channels: int, modes: Modes, shape: tuple[int, int], groups: int
) -> int:
    r"""Counts what a spectral convolution must compute, if it forms kept modes only.

    The transforms as products with tables, first along the second axis, and the product
    of every mode, where a complex multiplication and addition is eight operations:

    $$2 \, b c \big(4 n_1 n_2 m_2 + 8 n_1 m_1 m_2\big) + 8 \, b c^2 m_1 m_2 / g$$

    with $m_1 = 2 k_1 + 1$ and $m_2 = k_2 + 1$ modes.

    Args:
        batch: Samples b.
        channels: Channels c.
        modes: Largest kept mode number per axis.
        shape: Points per axis.
        groups: Diagonal blocks g of the weights.
    """
    (k1, k2), (n1, n2) = modes, shape
    m1, m2 = 2 * k1 + 1, k2 + 1
    transform = batch * channels * (4 * n1 * n2 * m2 + 8 * n1 * m1 * m2)
    return 2 * transform + 8 * batch * channels**2 * m1 * m2 // groups


def bench_spectral(setup: Setup) -> list[results.Row]:
    """Measures the finest level of every preset, with its groups and dense."""
    layer = optional("neuralop.layers.spectral_convolution")
    rows = []
    for net in setup.scale.networks:
        config = ModelConfig.preset(net.preset)
        for groups in (config.groups, 1):
            product = ModeProduct(
                config.widths[0], (config.modes[0], config.modes[0]), groups
            )
            convs: dict[str, Callable[[Tensor], Tensor]] = {
                "ours": OurConv(product).to(setup.device),
                "einsum": EinsumConv(product).to(setup.device),
            }
            if layer and groups == 1:
                convs["neuralop"] = neuralop_conv(
                    config.widths[0], product.modes, layer
                ).to(setup.device)
            rows += _measured(setup, net, product, convs)
    return rows


@torch.no_grad()
def _measured(
    setup: Setup,
    net: Network,
    product: ModeProduct,
    convs: dict[str, Callable[[Tensor], Tensor]],
) -> list[results.Row]:
    channels, shape = product.groups * product.weight.shape[-1], (net.size, net.size)
    h = torch.randn(net.batch, channels, *shape, device=setup.device)
    useful = useful_operations(
        net.batch, channels, product.modes, shape, product.groups
    )
    # Ours keeps channels together, the FFT wants the points of a field together.
    features = {
        name: h.contiguous(
            memory_format=torch.channels_last
            if name == "ours"
            else torch.contiguous_format
        )
        for name in convs
    }
    times = setup.seconds_in_turn(
        {name: partial(conv, features[name]) for name, conv in convs.items()}
    )
    rows = []
    for name, seconds in times.items():
        share = 100 * useful / seconds / setup.matrix_rate()
        setting = f"{net.setting};channels={channels};modes={product.modes[0]}"
        setting += f";groups={product.groups};{name}"
        rows += [
            row("spectral", "", setting, "ms", 1e3 * seconds),
            row("spectral", "", setting, "percent_of_matrix_rate", share),
        ]
    return rows
