r"""Keyed random numbers made on the device that needs them.

Sample `i` of a stream depends on `(key, purpose, i)` alone, as in `fields`, but all
samples are computed at once in whole-number arithmetic, so that a GPU neither waits for
the host nor for a transfer. The numbers differ from those that `fields` draws on the
CPU, where NumPy's generators are faster.

Reference:
    Salmon et al. (2011), Parallel random numbers: as easy as 1, 2, 3 (Philox4x32-10).
    Box and Muller (1958) for the normal distribution.
"""

import math
import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib.devices import sent

LOW = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def key_of(generator: torch.Generator) -> int:
    """Draws the key of a stream, in [0, 2^63), where the generator is."""
    device = generator.device
    return int(torch.randint(2**63 - 1, (), generator=generator, device=device).item())


def philox(counter: Sequence[Tensor], key: tuple[int, int]) -> list[Tensor]:
    """Applies Philox4x32-10.

    Args:
        counter: Four tensors of 32-bit words, held in int64, that broadcast.
        key: Two 32-bit words.

    Returns:
        Four tensors of random 32-bit words, held in int64.
    """
    c0, c1, c2, c3 = counter
    for number in range(ROUNDS):
        # A product wraps around 2^64, which keeps all bits of two 32-bit words.
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        k0, k1 = ((k + number * w) & LOW for k, w in zip(key, WEYL, strict=True))
        c0, c2 = (second >> 32 & LOW) ^ c1 ^ k0, (first >> 32 & LOW) ^ c3 ^ k1
        c1, c3 = second & LOW, first & LOW
    return [c0, c1, c2, c3]


def words(
    key: int,
    index: Sequence[int],
    num: int,
    purpose: str,
    device: torch.device | str = "cpu",
) -> Int[Tensor, "b n"]:
    """Draws random 32-bit words that belong to sample numbers.

    Args:
        key: Names the stream, in [0, 2^63).
        index: Numbers of the wanted samples in the stream, each in [0, 2^63).
        num: Words per sample, fewer than 2^34.
        purpose: Keeps draws for different uses of the same sample independent.
        device: Where to draw.
    """
    numbers = torch.tensor(list(index), dtype=torch.int64)
    sample = sent(numbers, torch.device(device))[:, None]
    block = torch.arange(-(-num // 4), device=device)[None]
    word = torch.full_like(block, zlib.crc32(purpose.encode()))
    counter = [block, sample & LOW, sample >> 32, word]
    found = philox(counter, (key & LOW, key >> 32))
    return torch.stack(found, -1).flatten(1)[:, :num]


def uniform(
    key: int,
    index: Sequence[int],
    shape: tuple[int, ...],
    purpose: str,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "b ..."]:
    """Draws uniform numbers in [0, 1), float32; see `words` for the arguments."""
    found = words(key, index, math.prod(shape), purpose, device)
    return ((found >> 8) * 2.0**-24).to(torch.float32).unflatten(1, shape)


def normal(
    key: int,
    index: Sequence[int],
    shape: tuple[int, ...],
    purpose: str,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "b ..."]:
    """Draws standard normal numbers, float32; see `words` for the arguments."""
    num = math.prod(shape)
    half = -(-num // 2)
    found = words(key, index, 2 * half, purpose, device)
    # In (0, 1]: its logarithm is finite.
    radius = (((found[:, :half] + 1) * 2.0**-32).to(torch.float32).log() * -2).sqrt()
    angle = (found[:, half:] * (math.pi * 2.0**-31)).to(torch.float32)
    pair = torch.cat([radius * angle.cos(), radius * angle.sin()], 1)
    return pair[:, :num].unflatten(1, shape)
