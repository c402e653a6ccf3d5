"""The noise level as a vector, and convolutions that know the domain's boundary."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class NoiseEmbedding(nn.Module):
    r"""Embeds the noise level: sines and cosines of $c_\text{noise}$, then an MLP.

    Args:
        width: Length E of the embedding, even.

    Reference:
        Karras et al. (2022), table 1, c_noise = ln(sigma) / 4. arXiv 2206.00364.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.mlp = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )

    def forward(self, noise_level: Float[Tensor, " b"]) -> Float[Tensor, "b e"]:
        """Returns the embedding of c_noise."""
        frequencies = _frequencies(self.width // 2, noise_level.device)
        # In bfloat16 an angle of eight turns would be wrong by a tenth of a radian.
        angles = noise_level[:, None] * frequencies
        waves = torch.cat([angles.sin(), angles.cos()], 1)
        embedded: Tensor = self.mlp(waves.to(next(self.parameters()).dtype))
        return embedded


@cache
@torch.inference_mode(False)
def _frequencies(num: int, device: torch.device) -> Tensor:
    """Returns radians per unit of c_noise, whose values span [-1.6, 1.1]."""
    # Angles from a quarter turn to eight turns.
    return 2 ** (torch.linspace(0, 1, num) * 5).to(device)


class LocalConv(nn.Conv2d):
    """A 3 x 3 convolution that wraps around on periodic axes and pads zeros elsewhere.

    Args:
        inputs: Channels in.
        outputs: Channels out.
        periodic: Whether each axis is periodic.
    """

    def __init__(
        self, inputs: int, outputs: int, periodic: tuple[bool, bool] = (False, False)
    ) -> None:
        padding = 0 if any(periodic) else 1
        super().__init__(inputs, outputs, 3, padding=padding)
        self.periodic = periodic

    def forward(self, input: Float[Tensor, "b c x y"]) -> Float[Tensor, "b d x y"]:
        """Convolves; the result has the size of the input."""
        if any(self.periodic):
            for axis, wraps in enumerate(self.periodic):
                width = (0, 0, 1, 1) if axis == 0 else (1, 1, 0, 0)
                input = F.pad(input, width, mode="circular" if wraps else "constant")
        return super().forward(input)
