r"""A U-shaped network of 3 x 3 convolutions that denoises: no operator, one grid.

A level is a resolution. On the way down every level runs its blocks, then
average-pools; on the way up it takes the nearest-neighbour enlargement of the level
below, joins the skip, and runs its blocks again. Attention looks at all points of the
coarsest level. A block is

$$x^{l+1} = x^l + \psi_2\Big(\text{SiLU}\big(\text{scale, shift}(\text{norm}(\psi_1(h)))
\big)\Big), \qquad h = \text{SiLU}(\text{norm}(x^l)).$$

Reference:
    Song et al. (2021), Score-based generative modeling through stochastic differential
    equations, the network DDPM++. arXiv 2011.13456.
"""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from prisma_lib.nn.embed import LocalConv, NoiseEmbedding
from prisma_lib.nn.uno import Features, SelfAttention, norm

Embedded = Float[Tensor, "b e"]


class ConvBlock(nn.Module):
    """A residual block of two convolutions, with the noise level between them."""

    def __init__(
        self,
        width: int,
        embedding: int,
        dropout: float,
        periodic: tuple[bool, bool],
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = norm(width), norm(width)
        self.first = LocalConv(width, width, periodic)
        self.second = LocalConv(width, width, periodic)
        self.affine = nn.Linear(embedding, 2 * width)
        self.dropout = nn.Dropout(dropout)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Features, embedding: Embedded) -> Features:
        """Applies the block; the result has the shape of the input."""
        h = self.first(F.silu(self.norm1(x)))
        scale, shift = self.affine(embedding)[..., None, None].chunk(2, 1)
        h = F.silu(self.norm2(h) * (1 + scale) + shift)
        return x + self.second(self.dropout(h))


class ConvUNet(nn.Module):
    """Levels of convolution blocks, down and up, with attention at the coarsest.

    Args:
        channels: Channels in and out.
        widths: Channels per level, fine to coarse.
        blocks: Blocks per level and direction; the coarsest level has them once.
        embedding: Length of the noise-level embedding.
        dropout: Probability of dropping a feature in training.
        periodic: Whether each axis of the domain is periodic.
    """

    def __init__(
        self,
        channels: int,
        widths: tuple[int, ...],
        blocks: tuple[int, ...],
        embedding: int,
        dropout: float = 0.0,
        periodic: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__()

        def stack(level: int) -> nn.ModuleList:
            settings = (widths[level], embedding, dropout, periodic)
            return nn.ModuleList(ConvBlock(*settings) for _ in range(blocks[level]))

        levels = range(len(widths))
        pairs = list(itertools.pairwise(widths))
        self.embedding = NoiseEmbedding(embedding)
        self.lifting = LocalConv(channels, widths[0], periodic)
        self.down = nn.ModuleList(stack(level) for level in levels)
        self.up = nn.ModuleList(stack(level) for level in levels[:-1])
        self.widen = nn.ModuleList(nn.Conv2d(fine, coarse, 1) for fine, coarse in pairs)
        self.narrow = nn.ModuleList(
            nn.Conv2d(fine + coarse, fine, 1) for fine, coarse in pairs
        )
        self.attend = SelfAttention(widths[-1])
        self.norm = norm(widths[0])
        self.project = LocalConv(widths[0], channels, periodic)
        nn.init.zeros_(self.project.weight)

    def forward(
        self, x: Features, noise_level: Float[Tensor, " b"]
    ) -> Float[Tensor, "b c x y"]:
        """Evaluates the network.

        Args:
            x: Input channels.
            noise_level: c_noise of each sample.

        Returns:
            As many channels on the input's grid.
        """
        embedding = self.embedding(noise_level)
        h = self.lifting(x.contiguous(memory_format=torch.channels_last))
        skips = []
        for level, blocks in enumerate(self.down):
            if level:
                h = self.widen[level - 1](F.avg_pool2d(h, 2))
            h = _run(blocks, h, embedding)
            skips.append(h)
        h = self.attend(h)
        for level in reversed(range(len(self.up))):
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            h = self.narrow[level](torch.cat([skips[level], h], 1))
            h = _run(self.up[level], h, embedding)
        out: Tensor = self.project(F.silu(self.norm(h)))
        return out


def _run(blocks: nn.Module, h: Features, embedding: Embedded) -> Features:
    for block in blocks.children():
        h = block(h, embedding)
    return h
