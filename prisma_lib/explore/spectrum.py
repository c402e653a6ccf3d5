"""The spectrum explorer: what spectral residual attention makes of every mode.

For one block and one step of the trajectory: the spectra of features and residual, the
score, and the mask; and the mask of another score on the same trained weights. The
ratio of the paper's score to the phase-blind one, its upper bound, says how well the
channels of features and residual are in phase.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from torch import Tensor

from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.explore.controls import Choice, Controls, Slider
from prisma_lib.explore.explorer import Explorer, Work
from prisma_lib.explore.question import Question, controls, model_of, observed, path
from prisma_lib.explore.sheet import Sheet, lines, shared
from prisma_lib.model import Prisma
from prisma_lib.nn import sra
from prisma_lib.nn.spectral import Modes, Spectrum
from prisma_lib.plots import Panel

__all__ = ["Spectra", "State", "draw", "plane", "radial"]

OWN = "own"
SCORES = {
    "phase-blind": sra.Strategy.PHASE_BLIND,
    "residual alone": sra.Strategy.MAGNITUDE_ONLY,
}
Half = Float[Tensor, " m"]


@dataclass(frozen=True)
class State(Question):
    """A question, and the view of a block.

    Args:
        step: Sampler step that is shown.
        block: The block, such as "down.0.0".
        other: The score that is compared with the model's own.
    """

    step: int = 5
    block: str = "down.0.0"
    other: str = "phase-blind"


@dataclass(frozen=True)
class Spectra:
    """What a block does with every kept mode; row-major half planes.

    Args:
        sigma: Noise level at which the network was asked.
        modes: Largest kept mode number per axis.
        features: Rms over channels of the features' spectrum.
        residual: Likewise of the lifted residual's.
        scores: Score by name, the model's own under "own".
        masks: Mask by name, likewise.
        strength: Gate strength.
        factor: What each mode is multiplied by.
    """

    sigma: float
    modes: Modes
    features: Half
    residual: Half
    scores: dict[str, Half]
    masks: dict[str, Half]
    strength: float
    factor: Half


Result = list[dict[str, Spectra]]


def plane(half: Half, modes: Modes) -> Float[Tensor, "k1 k2"]:
    """Mirrors the half plane of a real field's modes: A(-k) = A(k).

    Args:
        half: Values of the kept modes, in row-major order.
        modes: Largest kept mode number per axis.

    Returns:
        Values at k1 and k2 from minus the largest mode number to the largest.
    """
    rows = half.view(2 * modes[0] + 1, modes[1] + 1)
    return torch.cat([rows[:, 1:].flip(0, 1), rows], 1)


def radial(half: Half, modes: Modes) -> Float[Tensor, " k"]:
    """Averages over rings of modes whose number |k| rounds to 0, 1, ...

    Args:
        half: Values of the kept modes, in row-major order.
        modes: Largest kept mode number per axis.

    Returns:
        One mean per ring, up to the smaller of both largest mode numbers.
    """
    k1 = torch.arange(-modes[0], modes[0] + 1.0)[:, None]
    k2 = torch.arange(-modes[1], modes[1] + 1.0)
    ring = (k1.square() + k2.square()).sqrt().round().long().flatten()
    values, num = plane(half, modes).flatten(), int(ring.max()) + 1
    total = torch.zeros(num).index_add_(0, ring, values)
    mean: Tensor = total / torch.bincount(ring, minlength=num)
    return mean[: min(modes) + 1]


class SpectrumExplorer(Explorer[State, Result]):
    """The explorer; see the module."""

    views = ("step", "block", "other")

    def controls(self, state: State) -> Controls:
        """Returns the controls of a question, the step, the block and the score."""
        return {
            **controls(state),
            "step": Slider("step shown", 1, state.steps, play=True),
            "block": Choice("block", blocks(state.model)),
            "other": Choice("compare with", tuple(SCORES)),
        }

    @torch.no_grad()
    def compute(self, state: State) -> Work[Result]:
        """Draws once, and asks the network at the beginning of every step."""
        seen, model = observed(state), model_of(state.model)
        sigmas = Schedule(state.steps).sigmas()
        steps, result = path(state, seen), list[dict[str, Spectra]]()
        for sigma in sigmas[:-1].tolist():
            with sra.record(model) as traces:
                next(steps)
            result.append(_blocks(model, traces, sigma))
            yield len(result) / state.steps
        return result

    def paint(self, state: State, result: Result | None) -> Figure:
        """Draws planes of modes and curves over |k|."""
        assert result is not None
        now = result[state.step - 1][state.block]
        title = f"{state.model}, {state.direction}, {state.regime}: block {state.block}"
        where = f"step {state.step} of {state.steps}, noise level {now.sigma:.3g}"
        sheet = Sheet(2, f"{title}, {where}, gate g = {now.strength:.2f}")
        _planes(sheet, state, now)
        sheet.curves((1, 2), lambda axis: _scores(axis, state, now))
        sheet.curves((1, 3), lambda axis: _masks(axis, state, now))
        return sheet.figure


def blocks(name: str) -> tuple[str, ...]:
    """Lists the attention blocks of a model, in the order of the network.

    Raises:
        ConfigError: When it has none.
    """
    names = tuple(_short(place) for place, _ in _attention(model_of(name)))
    if not names:
        raise ConfigError(
            f"{name} has no attention blocks, so there is nothing to see: name a model "
            "trained with the strategy sra"
        )
    return names


def _attention(model: Prisma) -> Iterator[tuple[str, sra.SpectralResidualAttention]]:
    for place, module in model.named_modules():
        if isinstance(module, sra.SpectralResidualAttention):
            yield place, module


def _short(place: str) -> str:
    return place.removeprefix("backbone.").removesuffix(".attention")


def _blocks(
    model: Prisma, traces: dict[str, list[sra.Trace]], sigma: float
) -> dict[str, Spectra]:
    """Keeps of every block what is drawn; a step of Heun's method asks twice."""
    return {
        _short(place): _spectra(block, traces[place][0], sigma)
        for place, block in _attention(model)
    }


def _spectra(
    block: sra.SpectralResidualAttention, trace: sra.Trace, sigma: float
) -> Spectra:
    scores, masks = {OWN: trace.score}, {OWN: trace.mask}
    for name, strategy in SCORES.items():
        other = copy(block)
        other.attention = sra.ATTENTION[strategy]
        seen = trace.features, trace.residual, trace.modes
        scores[name], masks[name] = other.score(*seen), other.mask(*seen)
    return Spectra(
        sigma,
        trace.modes,
        _size(trace.features),
        _size(trace.residual),
        {name: score[:, 0].cpu() for name, score in scores.items()},
        {name: mask[:, 0].cpu() for name, mask in masks.items()},
        trace.strength[0].item(),
        trace.factor[:, 0].cpu(),
    )


def _size(spectrum: Spectrum) -> Half:
    """Returns the rms over channels of the spectrum of the first sample."""
    return spectrum[:, 0].square().sum(1).mean(-1).sqrt().cpu()


def _planes(sheet: Sheet, state: State, now: Spectra) -> None:
    own, other = now.scores[OWN], now.scores[state.other]
    panels = {
        (0, 0): Panel(_log(now.features), "log |x(k)|"),
        (0, 1): Panel(_log(now.residual), "log |r(k)|"),
        (0, 2): Panel(_log(own), "log S(k)"),
        (0, 3): Panel(own / other.clamp(min=1e-30), f"S(k) / S {state.other}"),
    }
    masks = {(1, 0): (OWN, "A(k)"), (1, 1): (state.other, f"A(k) {state.other}")}
    limits = shared(*now.masks.values())
    origin = (-now.modes[0], -now.modes[1])

    def show(place: tuple[int, int], panel: Panel, norm: Normalize | None) -> None:
        whole = replace(panel, values=plane(panel.values, now.modes))
        sheet.field(place, whole, norm, origin, ("k₁", "k₂"))

    for place, panel in panels.items():
        show(place, panel, None)
    for place, (name, title) in masks.items():
        show(place, Panel(now.masks[name], title), limits)


def _log(half: Half) -> Half:
    return half.clamp(min=1e-30).log10()


def _scores(axis: Axes, state: State, now: Spectra) -> None:
    curves = {
        "|x|": now.features / now.features.square().mean().sqrt(),
        "|r|": now.residual / now.residual.square().mean().sqrt(),
        "S": now.scores[OWN],
        f"S {state.other}": now.scores[state.other],
    }
    _rings(axis, now, curves, title="sizes and scores", yscale="log", ylabel="mean")


def _masks(axis: Axes, state: State, now: Spectra) -> None:
    curves = {
        "A": now.masks[OWN],
        f"A {state.other}": now.masks[state.other],
        "(1 - g) + g A": now.factor,
    }
    _rings(
        axis, now, curves, title="mask and factor", ylim=(-0.03, 1.03), ylabel="mean"
    )


def _rings(
    axis: Axes, now: Spectra, curves: dict[str, Half], **settings: object
) -> None:
    means = {name: radial(half, now.modes) for name, half in curves.items()}
    count = range(min(now.modes) + 1)
    lines(axis, count, means, xlabel="mode number |k|", **settings)


EXPLORER = SpectrumExplorer()


def draw(state: State) -> Figure:
    """Draws a block at a step.

    Args:
        state: What is asked, and which block and step are shown.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When the model has no attention.
    """
    return EXPLORER.draw(state)
