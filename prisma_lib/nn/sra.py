r"""Spectral residual attention: the PDE residual decides which modes pass.

For features with spectrum $\hat x$ and the lifted residual with spectrum $\hat r$,

$$S(k) = \frac{\big| \sum_c \hat x_c(k) \, \overline{\hat r_c(k)} \big|}{\sqrt C},
\qquad A(k) = \sigma\big(w(k) S(k)\big), \qquad
\hat x(k) \leftarrow \big((1 - g) + g A(k)\big) \hat x(k).$$

Two things that the paper leaves open are fixed here. Both spectra are divided by their
rms over the kept modes, the mean excluded, before the score is formed: without that the
score is 1e-4 at 32 x 32 and every mask is one half. And since $w > 0$ and $S \ge 0$,
$A$ lies in $[1/2, 1)$: attention damps modes, at most by half of the gate.

$S$ is unchanged by a phase common to all channels, such as a translation of the
residual: it measures coherence between channels, not alignment in space.

Reference:
    PRISMA, section "Spectral Residual Attention (SRA) Block". arXiv 2512.01370.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from prisma_lib.nn.spectral import Modes, Spectrum, central_modes

ModeMap = Float[Tensor, "m b"]


def unit_rms(spectrum: Spectrum, modes: Modes) -> Spectrum:
    """Divides spectra by their rms over kept modes and channels, the mean excluded.

    Args:
        spectrum: Spectra of the modes `modes`, in row-major order.
        modes: Largest kept mode number per axis.

    Returns:
        Spectra whose modes other than the mean have rms modulus 1 in every sample; 0
        where the mean is the only mode.
    """
    if spectrum.shape[0] == 1:
        # There is nothing to divide by, so that no mode can be told from another.
        return spectrum * 0
    power = spectrum.square().sum(2).mean(-1)
    mean_mode = modes[0] * (modes[1] + 1)
    total = power[:mean_mode].sum(0) + power[mean_mode + 1 :].sum(0)
    scale = (total / (power.shape[0] - 1) + 1e-20).rsqrt()
    return spectrum * scale[:, None, None]


def coherence(x: Spectrum, r: Spectrum) -> ModeMap:
    """Scores |sum over channels of x conj(r)| / sqrt(C): the paper's score."""
    real = (x * r).sum((2, 3))
    imaginary = (x[:, :, 1] * r[:, :, 0] - x[:, :, 0] * r[:, :, 1]).sum(-1)
    return _modulus(real, imaginary) / x.shape[-1] ** 0.5


def residual_magnitude(x: Spectrum, r: Spectrum) -> ModeMap:
    """Scores |r|, whatever the features are."""
    return r.square().sum((2, 3)).add(1e-20).sqrt() / r.shape[-1] ** 0.5


def phase_blind(x: Spectrum, r: Spectrum) -> ModeMap:
    """Scores the sum over channels of |x| |r| / sqrt(C), without any phase."""
    sizes = _modulus(*x.unbind(2)) * _modulus(*r.unbind(2))
    return sizes.sum(-1) / x.shape[-1] ** 0.5


def _modulus(real: Tensor, imaginary: Tensor) -> Tensor:
    # The small constant keeps the gradient finite where the residual is exactly zero.
    return (real.square() + imaginary.square() + 1e-20).sqrt()


def skip_gate(g: Tensor, attention: Tensor) -> Tensor:
    """Blends the identity and the mask: (1 - g) + g A."""
    return 1 - g + g * attention


def multiplicative_gate(g: Tensor, attention: Tensor) -> Tensor:
    """Scales the mask by the gate, without a skip: g A."""
    return g * attention


def no_gate(g: Tensor, attention: Tensor) -> Tensor:
    """Applies the mask at full strength: g = 1."""
    return attention


class Strategy(Enum):
    """How the network meets the residual: the paper's method and what it ablates.

    NEWTON is ours: the network sees the state after a Newton step instead.
    """

    NONE = "none"
    CONCAT = "concat"
    NEWTON = "newton"
    SRA = "sra"
    NO_GATE = "no_gate"
    MULTIPLICATIVE = "multiplicative"
    MAGNITUDE_ONLY = "magnitude_only"
    PHASE_BLIND = "phase_blind"
    UNGUIDED = "unguided"


@dataclass(frozen=True)
class Attention:
    """One way to turn the spectra of features and residual into a modulation.

    Args:
        score: Non-negative score per mode and sample.
        blend: Combines gate strength and mask into the factor of each mode.
    """

    score: Callable[[Spectrum, Spectrum], ModeMap] = coherence
    blend: Callable[[Tensor, Tensor], Tensor] = skip_gate


ATTENTION = {
    Strategy.SRA: Attention(),
    Strategy.NO_GATE: Attention(blend=no_gate),
    Strategy.MULTIPLICATIVE: Attention(blend=multiplicative_gate),
    Strategy.MAGNITUDE_ONLY: Attention(score=residual_magnitude),
    Strategy.PHASE_BLIND: Attention(score=phase_blind),
    Strategy.UNGUIDED: Attention(),
}


class SpectralResidualAttention(nn.Module):
    """Modulates kept modes by their coherence with the lifted residual.

    Args:
        attention: Score and blend; `ATTENTION[Strategy.SRA]` is the paper's.
        modes: Largest kept mode number per axis.
        embedding: Length E of the noise-level embedding that the gate reads.
        summary: Number of scalars that summarise the residual for the gate.

    Reference:
        PRISMA, equations for S(k), A(k) and the gated skip; gate MLP in the appendix
        on implementation details. arXiv 2512.01370.
    """

    def __init__(
        self, attention: Attention, modes: Modes, embedding: int, summary: int
    ) -> None:
        super().__init__()
        self.attention = attention
        # softplus(0.54) = 1: at first the mask is sigmoid(S).
        self.gain = nn.Parameter(torch.full((2 * modes[0] + 1, modes[1] + 1), 0.54))
        self.gate = nn.Sequential(
            nn.Linear(embedding + summary, embedding),
            nn.ReLU(),
            nn.Linear(embedding, 1),
        )

    def score(self, x: Spectrum, r: Spectrum, modes: Modes) -> ModeMap:
        """Returns S(k) for spectra of any scale, in float32."""
        return self.attention.score(
            unit_rms(x.float(), modes), unit_rms(r.float(), modes)
        )

    def mask(self, x: Spectrum, r: Spectrum, modes: Modes) -> ModeMap:
        """Returns A(k) in [1/2, 1) for spectra of any scale, in float32."""
        gain = F.softplus(central_modes(self.gain.float(), modes))
        return torch.sigmoid(gain[:, None] * self.score(x, r, modes))

    def strength(
        self, embedding: Float[Tensor, "b e"], summary: Float[Tensor, "b s"]
    ) -> Float[Tensor, " b"]:
        """Returns the gate strength g in (0, 1)."""
        gate: Tensor = self.gate(torch.cat([embedding, summary], 1))
        return torch.sigmoid(gate[:, 0])

    def forward(
        self,
        x: Spectrum,
        r: Spectrum,
        modes: Modes,
        embedding: Float[Tensor, "b e"],
        summary: Float[Tensor, "b s"],
    ) -> Spectrum:
        """Returns the modulated spectrum of the features.

        Args:
            x: Kept modes of the features.
            r: Kept modes of the lifted residual.
            modes: Largest mode number per axis of both.
            embedding: Noise-level embedding.
            summary: Scalars of the residual: signed mean and log rms.

        Returns:
            The features' modes, each times its factor.
        """
        g = self.strength(embedding, summary)
        factor = self.attention.blend(g, self.mask(x, r, modes))
        return x * factor[:, :, None, None].to(x.dtype)


@dataclass(frozen=True)
class Trace:
    """What one attention block made of one batch.

    Args:
        modes: Largest kept mode number per axis; modes are in row-major order.
        features: Kept modes of the features that came in.
        residual: Kept modes of the lifted residual.
        score: S(k), of spectra with unit rms.
        mask: A(k).
        strength: Gate strength g.
        factor: What each mode was multiplied by.
    """

    modes: Modes
    features: Spectrum
    residual: Spectrum
    score: ModeMap
    mask: ModeMap
    strength: Float[Tensor, " b"]
    factor: ModeMap


@contextmanager
def record(network: nn.Module) -> Iterator[dict[str, list[Trace]]]:
    """Keeps what every attention block does while the block of code runs.

    The network computes as ever: a hook repeats the few products of the mask from what
    went into the block. Compiled code may pass hooks by; record the plain model.

    Args:
        network: Anything that holds attention blocks, such as a `Prisma`.

    Yields:
        Traces by the block's place in the network, one for each call, in order. Empty
        for strategies without attention.
    """
    traces: dict[str, list[Trace]] = {}
    hooks = []
    for name, block in network.named_modules():
        if isinstance(block, SpectralResidualAttention):
            kept = traces.setdefault(name, [])

            def hook(
                block: SpectralResidualAttention,
                inputs: tuple[Spectrum, Spectrum, Modes, Tensor, Tensor],
                output: Spectrum,
                kept: list[Trace] = kept,
            ) -> None:
                kept.append(_trace(block, *inputs))

            hooks.append(block.register_forward_hook(hook))
    try:
        yield traces
    finally:
        for handle in hooks:
            handle.remove()


@torch.no_grad()
def _trace(
    block: SpectralResidualAttention,
    x: Spectrum,
    r: Spectrum,
    modes: Modes,
    embedding: Tensor,
    summary: Tensor,
) -> Trace:
    score, mask = block.score(x, r, modes), block.mask(x, r, modes)
    g = block.strength(embedding, summary)
    factor = block.attention.blend(g, mask).expand_as(mask)
    return Trace(modes, x.detach(), r.detach(), score, mask, g, factor)
