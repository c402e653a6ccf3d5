r"""The U-shaped neural operator that denoises.

A level is a resolution. On the way down every level runs its blocks, then
average-pools; on the way up it takes the nearest-neighbour enlargement of the level
below, joins the skip, and runs its blocks again. Each block is

$$x^{l+1} = x^l + \psi_2\Big(\text{SiLU}\big(\text{scale, shift}(\text{norm}(F^{-1} W
F(\text{SRA}(h, r)) + \psi_1(h)))\big)\Big), \qquad h = \text{SiLU}(\text{norm}(x^l)),$$

where modulation and spectral convolution share one transform pair: the inverse
transform that ends the one cancels the transform that begins the other.

Reference:
    PRISMA, section "Backbone". arXiv 2512.01370. Rahman et al. (2022), U-NO,
    arXiv 2204.11127.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from prisma_lib.nn.embed import LocalConv, NoiseEmbedding
from prisma_lib.nn.spectral import (
    ModeProduct,
    Modes,
    Spectrum,
    analyse,
    kept_modes,
    synthesise,
)
from prisma_lib.nn.sra import ATTENTION, SpectralResidualAttention, Strategy

Features = Float[Tensor, "b c x y"]


@dataclass(frozen=True)
class BackboneConfig:
    """The shape of the network.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        residuals: Channels of the residual.
        widths: Channels per level, fine to coarse.
        modes: Largest kept mode number per level.
        blocks: Blocks per level and direction; the coarsest level has them once.
        groups: Diagonal blocks of the spectral weights.
        embedding: Length of the noise-level embedding.
        dropout: Probability of dropping a feature in training.
        strategy: How the residual enters.
        summary: Number of residual scalars for the gate.
        periodic: Whether each axis of the domain is periodic.
        local: Whether points mix with their neighbours in 3 x 3 convolutions; without
            them only modes, averaging and attention carry anything from point to point.
    """

    inputs: int
    outputs: int
    residuals: int
    widths: tuple[int, ...]
    modes: tuple[int, ...]
    blocks: tuple[int, ...]
    groups: int
    embedding: int
    dropout: float
    strategy: Strategy
    summary: int
    periodic: tuple[bool, bool]
    local: bool = True

    def convolution(self, inputs: int, outputs: int) -> nn.Conv2d:
        """Makes a 3 x 3 convolution, or a 1 x 1 one of a network that is not local."""
        if self.local:
            return LocalConv(inputs, outputs, self.periodic)
        return nn.Conv2d(inputs, outputs, 1)


@dataclass(frozen=True)
class Context:
    """What every block of a level reads beside its features."""

    embedding: Float[Tensor, "b e"]
    summary: Float[Tensor, "b s"]
    residual: Spectrum | None


def norm(channels: int) -> nn.GroupNorm:
    """Group norm with groups of at least eight channels."""
    return nn.GroupNorm(max(1, channels // 8), channels)


class Block(nn.Module):
    """A residual block with a spectral and a local path."""

    def __init__(self, config: BackboneConfig, level: int) -> None:
        super().__init__()
        width, k = config.widths[level], config.modes[level]
        self.modes: Modes = (k, k)
        self.norm1, self.norm2 = norm(width), norm(width)
        self.spectral = ModeProduct(width, self.modes, config.groups)
        self.local = config.convolution(width, width)
        self.affine = nn.Linear(config.embedding, 2 * width)
        self.dropout = nn.Dropout(config.dropout)
        self.out = config.convolution(width, width)
        nn.init.zeros_(self.out.weight)
        attention = ATTENTION.get(config.strategy)
        self.attention = (
            SpectralResidualAttention(
                attention, self.modes, config.embedding, config.summary
            )
            if attention
            else None
        )

    def forward(self, x: Features, context: Context) -> Features:
        """Applies the block; the result has the shape of the input."""
        h = F.silu(self.norm1(x))
        h = self.global_path(h, context) + self.local(h)
        scale, shift = self.affine(context.embedding)[..., None, None].chunk(2, 1)
        h = F.silu(self.norm2(h) * (1 + scale) + shift)
        return x + self.out(self.dropout(h))

    def global_path(self, h: Features, context: Context) -> Features:
        """Modulates and mixes the kept modes between one pair of transforms."""
        shape = (h.shape[-2], h.shape[-1])
        modes = kept_modes(self.modes, shape)
        spectrum = analyse(h, modes)
        if self.attention is not None and context.residual is not None:
            spectrum = self.attention(
                spectrum, context.residual, modes, context.embedding, context.summary
            )
        return synthesise(self.spectral(spectrum, modes), modes, shape)


class SelfAttention(nn.Module):
    """Single-head self-attention over all points of the coarsest level."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Features) -> Features:
        """Attends; the result has the shape of the input."""
        tokens = self.qkv(self.norm(x)).flatten(2).transpose(1, 2)
        # With an axis of heads, and channels side by side in memory, no matrix of all
        # pairs of points is ever formed.
        q, k, v = tokens.contiguous()[:, None].chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v)[:, 0]
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        return x + self.out(mixed.contiguous(memory_format=torch.channels_last))


class ResidualLift(nn.Module):
    """Lifts the residual's few channels to a level's width and takes its kept modes.

    A linear lift would make the score factorise into the features' and the residual's
    part, hence the nonlinearity.
    """

    def __init__(
        self, channels: int, width: int, k: int, periodic: tuple[bool, bool]
    ) -> None:
        super().__init__()
        self.modes: Modes = (k, k)
        self.lift = nn.Sequential(
            LocalConv(channels, width, periodic), nn.SiLU(), nn.Conv2d(width, width, 1)
        )

    def forward(self, r: Float[Tensor, "b _ x y"]) -> Spectrum:
        """Returns the kept modes of the lifted residual."""
        shape = (r.shape[-2], r.shape[-1])
        return analyse(self.lift(r), kept_modes(self.modes, shape))


class UNO(nn.Module):
    """The backbone: levels of blocks, down and up, with attention at the coarsest."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        widths = config.widths
        levels = range(len(widths))
        self.embedding = NoiseEmbedding(config.embedding)
        self.lifting = config.convolution(config.inputs, widths[0])
        self.down = nn.ModuleList(self._blocks(config, level) for level in levels)
        self.up = nn.ModuleList(self._blocks(config, level) for level in levels[:-1])
        pairs = list(itertools.pairwise(widths))
        self.widen = nn.ModuleList(nn.Conv2d(fine, coarse, 1) for fine, coarse in pairs)
        self.narrow = nn.ModuleList(
            nn.Conv2d(fine + coarse, fine, 1) for fine, coarse in pairs
        )
        self.attend = SelfAttention(widths[-1])
        self.lifts = nn.ModuleList(
            ResidualLift(config.residuals, width, k, config.periodic)
            for width, k in zip(widths, config.modes, strict=True)
            if config.strategy in ATTENTION
        )
        self.norm = norm(widths[0])
        self.project = config.convolution(widths[0], config.outputs)
        nn.init.zeros_(self.project.weight)

    @staticmethod
    def _blocks(config: BackboneConfig, level: int) -> nn.ModuleList:
        return nn.ModuleList(Block(config, level) for _ in range(config.blocks[level]))

    def forward(
        self,
        x: Features,
        noise_level: Float[Tensor, " b"],
        residuals: Sequence[Float[Tensor, "b _ _ _"]],
        summary: Float[Tensor, "b s"],
    ) -> Float[Tensor, "b d x y"]:
        """Evaluates the network.

        Args:
            x: Input channels.
            noise_level: c_noise of each sample.
            residuals: Normalised residual per level, fine to coarse; empty where the
                strategy needs none.
            summary: Residual scalars for the gates.

        Returns:
            Output channels on the input's grid.
        """
        embedding = self.embedding(noise_level)
        pairs = zip(self.lifts, residuals, strict=False)
        spectra: list[Spectrum | None] = [lift(r) for lift, r in pairs]
        spectra += [None] * (len(self.down) - len(spectra))
        contexts = [Context(embedding, summary, r) for r in spectra]
        h = _unrounded(self.lifting, x.contiguous(memory_format=torch.channels_last))
        skips = []
        for level, blocks in enumerate(self.down):
            if level:
                h = _unrounded(self.widen[level - 1], F.avg_pool2d(h, 2))
            h = _run(blocks, h, contexts[level])
            skips.append(h)
        h = self.attend(h)
        for level in reversed(range(len(self.up))):
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            h = _unrounded(self.narrow[level], torch.cat([skips[level], h], 1))
            h = _run(self.up[level], h, contexts[level])
        return _unrounded(self.project, F.silu(self.norm(h)))


def _unrounded(layer: nn.Module, h: Features) -> Float[Tensor, "b _ x y"]:
    """Applies a layer that carries all features in full precision.

    What is rounded to bfloat16 on the way from the measured values to the output is
    amplified by inverse problems; what the blocks add to it is not.
    """
    with torch.autocast(h.device.type, enabled=False):
        out: Tensor = layer(h)
    return out


def _run(blocks: nn.Module, h: Features, context: Context) -> Features:
    for block in blocks.children():
        h = block(h, context)
    return h
