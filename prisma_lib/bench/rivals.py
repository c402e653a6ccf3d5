r"""The same network with other spectral convolutions, to compare speeds.

All have the widths, the depth and the modes of ours and leave the residual out
(strategy `none`), which asks less of them than of ours. `with_einsum` keeps every
weight, as a complex tensor, and multiplies mode by mode with `torch.einsum` between
real FFTs. `with_neuralop` puts the layer of the `neuralop` package in the place of our
spectral convolution and keeps the rest, local convolutions above all. `as_fundps` gives
every block the form that the public code of FunDPS has: two layers of neuralop with
factorised weights, and no local convolution.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from prisma_lib.model import Prisma
from prisma_lib.nn.spectral import ModeProduct, Modes
from prisma_lib.nn.uno import Block, Context, Features


class EinsumConv(nn.Module):
    """Spectral convolution as textbooks write it: FFT, complex einsum, inverse FFT.

    Args:
        product: Where modes, groups and weights come from.

    Reference:
        Li et al. (2021), Fourier neural operator, section 4. arXiv 2010.08895.
    """

    def __init__(self, product: ModeProduct) -> None:
        super().__init__()
        self.modes, self.groups = product.modes, product.groups
        real, imaginary = product.weight.detach().permute(3, 2, 4, 5, 0, 1)
        self.weight = nn.Parameter(torch.complex(real, imaginary).contiguous())

    def forward(self, h: Float[Tensor, "b c x y"]) -> Float[Tensor, "b c x y"]:
        """Convolves; the grid must resolve every mode."""
        (k1, k2), shape = self.modes, h.shape
        h_hat = torch.fft.rfft2(h, norm="forward")
        columns = h_hat[..., : k2 + 1]
        kept = torch.cat([columns[..., -k1:, :], columns[..., : k1 + 1, :]], -2)
        kept = kept.unflatten(1, (self.groups, -1))
        mixed = torch.einsum("bgixy,gioxy->bgoxy", kept, self.weight).flatten(1, 2)
        out = torch.zeros_like(h_hat)
        out[..., -k1:, : k2 + 1] = mixed[..., :k1, :]
        out[..., : k1 + 1, : k2 + 1] = mixed[..., k1:, :]
        return torch.fft.irfft2(out, s=shape[-2:], norm="forward")


class RivalBlock(Block):
    """A block whose global path is a convolution of features, without a residual."""

    def global_path(self, h: Features, context: Context) -> Features:
        """Convolves the features."""
        convolved: Tensor = self.spectral(h)
        return convolved


class FourierBlock(Block):
    """A block of two spectral convolutions and no local one.

    Reference:
        Yao et al. (2025), FunDPS, arXiv 2505.17004, `training/networks.py`.
    """

    def forward(self, x: Features, context: Context) -> Features:
        """Applies the block; the result has the shape of the input."""
        h = self.spectral(F.silu(self.norm1(x)))
        scale, shift = self.affine(context.embedding)[..., None, None].chunk(2, 1)
        h = self.out(self.dropout(F.silu(self.norm2(h) * (1 + scale) + shift)))
        return x + h


def with_einsum(model: Prisma) -> Prisma:
    """Puts `EinsumConv` in the place of every spectral convolution of a model."""
    device = model.mean.device
    for block in blocks(model, RivalBlock):
        block.register_module("spectral", EinsumConv(block.spectral))
    return model.to(device)


def with_neuralop(model: Prisma, layer: ModuleType) -> Prisma:
    """Puts neuralop's layer in the place of every spectral convolution of a model.

    Args:
        model: A model without residual, changed in place.
        layer: The module `neuralop.layers.spectral_convolution`.
    """
    device = model.mean.device
    for block in blocks(model, RivalBlock):
        conv = neuralop_conv(block.norm1.num_channels, block.modes, layer)
        block.register_module("spectral", conv)
    return model.to(device)


def as_fundps(model: Prisma, layer: ModuleType) -> Prisma:
    """Gives every block of a model the two factorised layers that FunDPS has.

    Args:
        model: A model without residual, changed in place.
        layer: The module `neuralop.layers.spectral_convolution`.
    """
    device = model.mean.device
    for block in blocks(model, FourierBlock):
        del block.local
        for name in ("spectral", "out"):
            conv = neuralop_conv(
                *(block.norm1.num_channels, block.modes, layer),
                factorization="ComplexTucker",
                implementation="factorized",
                rank=0.1,
            )
            block.register_module(name, conv)
    return model.to(device)


def neuralop_conv(
    channels: int, modes: Modes, layer: ModuleType, **settings: Any
) -> nn.Module:
    """Builds neuralop's layer for the modes that ours keeps, with dense weights.

    Args:
        channels: Channels of input and output.
        modes: Largest kept mode number per axis.
        layer: The module `neuralop.layers.spectral_convolution`.
        **settings: Other arguments of its `SpectralConv`.
    """
    # It counts the modes of both signs, and halves the second number itself.
    both = tuple(2 * k + 1 for k in modes)
    conv: nn.Module = layer.SpectralConv(
        channels, channels, both, bias=False, **settings
    )
    return conv


def blocks(model: Prisma, kind: type[Block]) -> Iterator[Block]:
    """Turns every block of a model into another kind and yields it.

    As torch's own parametrisations do, only the class changes: all parts are kept.
    """
    for block in model.modules():
        if isinstance(block, Block):
            block.__class__ = kind
            yield block
