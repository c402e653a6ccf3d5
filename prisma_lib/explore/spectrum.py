"""The spectrum explorer: what spectral residual attention makes of every mode.

For one block and one step of the trajectory: the spectra of features and residual, how
well their channels are in phase, the score that all three make, and the mask; and the
mask of another score on the same trained weights.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import torch
from matplotlib.axes import Axes
from torch import Tensor

from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.explore.controls import Choice, Controls, Slider
from prisma_lib.explore.explorer import Explorer, Work
from prisma_lib.explore.picture import Spot
from prisma_lib.explore.planes import Half, plane, radial
from prisma_lib.explore.question import (
    Question,
    controls,
    headline,
    model_of,
    observed,
    path,
)
from prisma_lib.explore.sheet import Sheet, Still, lines, shared
from prisma_lib.model import Prisma
from prisma_lib.nn import sra
from prisma_lib.nn.spectral import Modes, Spectrum
from prisma_lib.plots import Panel

__all__ = ["Spectra", "State", "draw"]

OWN = "own"
RING = "mean over modes"
SCORES = {
    "phase-blind": sra.Strategy.PHASE_BLIND,
    "residual alone": sra.Strategy.MAGNITUDE_ONLY,
}


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
        in_phase: The paper's score over the phase-blind one, its upper bound: 1 where
            all channels of features and residual differ by the same phase.
        scores: Score by name, the model's own under "own".
        masks: Mask by name, likewise.
        strength: Gate strength.
        factor: What each mode is multiplied by.
    """

    sigma: float
    modes: Modes
    features: Half
    residual: Half
    in_phase: Half
    scores: dict[str, Half]
    masks: dict[str, Half]
    strength: float
    factor: Half


Result = list[dict[str, Spectra]]


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

    def reading(self, state: State, result: Result | None, spot: Spot) -> str:
        """Reads all that decides about a mode: sizes, phases, score, mask."""
        assert result is not None
        now = result[state.step - 1][state.block]
        read = {
            "|x|": now.features,
            "|r|": now.residual,
            "in phase": now.in_phase,
            "S": now.scores[OWN],
            "A": now.masks[OWN],
            f"A {state.other}": now.masks[state.other],
        }
        values = [
            f"{name} {plane(half, now.modes)[spot.index].item():.2g}"
            for name, half in read.items()
        ]
        return f"mode {spot.place}: {', '.join(values)}"

    def paint(self, state: State, result: Result | None) -> Still:
        """Draws planes of modes and curves over |k|."""
        assert result is not None
        now = result[state.step - 1][state.block]
        title = f"{headline(state)}: block {state.block}"
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
    seen = trace.features, trace.residual, trace.modes
    for name, strategy in SCORES.items():
        other = copy(block)
        other.attention = sra.ATTENTION[strategy]
        scores[name], masks[name] = other.score(*seen), other.mask(*seen)
    x, r = seen[:2]
    return Spectra(
        sigma,
        trace.modes,
        _size(x),
        _size(r),
        (sra.coherence(x, r) / sra.phase_blind(x, r))[:, 0].cpu(),
        {name: score[:, 0].cpu() for name, score in scores.items()},
        {name: mask[:, 0].cpu() for name, mask in masks.items()},
        trace.strength[0].item(),
        trace.factor[:, 0].cpu(),
    )


def _size(spectrum: Spectrum) -> Half:
    """Returns the rms over channels of the spectrum of the first sample."""
    return spectrum[:, 0].square().sum(1).mean(-1).sqrt().cpu()


def _planes(sheet: Sheet, state: State, now: Spectra) -> None:
    sizes = {
        (0, 0): Panel(_log(now.features), "features, log₁₀ |x(k)|"),
        (0, 1): Panel(_log(now.residual), "residual, log₁₀ |r(k)|"),
        (0, 2): Panel(now.in_phase, "in phase: 1 is fully"),
        (0, 3): Panel(_log(now.scores[OWN]), "score, log₁₀ S(k)"),
    }
    masks = {
        (1, 0): Panel(now.masks[OWN], "mask A(k)"),
        (1, 1): Panel(now.masks[state.other], f"A(k), {state.other}"),
    }
    same = shared(*now.masks.values())
    origin = (-now.modes[0], -now.modes[1])
    for place, panel in (sizes | masks).items():
        norm = same if place in masks else shared(_but_mean(panel.values, now.modes))
        both = replace(panel, values=plane(panel.values, now.modes))
        sheet.field(place, both, norm, origin, ("k₁", "k₂"))


def _but_mean(half: Half, modes: Modes) -> Tensor:
    """Leaves out the mean mode, far above all others: colours are for the rest."""
    place = modes[0] * (modes[1] + 1)
    return torch.cat([half[:place], half[place + 1 :]])


def _log(half: Half) -> Half:
    return half.clamp(min=1e-30).log10()


def _scores(axis: Axes, state: State, now: Spectra) -> None:
    curves = {
        "|x|": now.features / now.features.square().mean().sqrt(),
        "|r|": now.residual / now.residual.square().mean().sqrt(),
        "S": now.scores[OWN],
        f"S, {state.other}": now.scores[state.other],
    }
    _rings(axis, now, curves, title="sizes and scores", yscale="log", ylabel=RING)


def _masks(axis: Axes, state: State, now: Spectra) -> None:
    curves = {
        "A": now.masks[OWN],
        f"A, {state.other}": now.masks[state.other],
        "passes": now.factor,
    }
    about = {"title": "mask and what passes", "ylim": (-0.03, 1.03), "ylabel": RING}
    _rings(axis, now, curves, **about)


def _rings(
    axis: Axes, now: Spectra, curves: dict[str, Half], **settings: object
) -> None:
    means = {name: radial(half, now.modes) for name, half in curves.items()}
    count = range(min(now.modes) + 1)
    lines(axis, count, means, xlabel="mode number |k|", **settings)


EXPLORER = SpectrumExplorer()


def draw(state: State) -> Still:
    """Draws a block at a step.

    Args:
        state: What is asked, and which block and step are shown.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When the model has no attention.
    """
    return EXPLORER.draw(state)
