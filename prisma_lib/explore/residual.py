"""The residual explorer: how an estimate and its residual settle along the trajectory.

Two residuals can be shown: that of the estimate, which says whether it obeys the
equation, and that of what the network sees, in which noise stands wherever nothing was
observed.
"""

from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from torch import Tensor

from prisma_lib.explore.controls import Choice, Controls, Slider
from prisma_lib.explore.explorer import Explorer, Work
from prisma_lib.explore.question import (
    Question,
    controls,
    depth,
    headline,
    hidden,
    model_of,
    observed,
    pair_of,
    part,
    path,
    percent,
    sides,
)
from prisma_lib.explore.sheet import Sheet, Still, lines, shared
from prisma_lib.observe import Observation, Pair
from prisma_lib.plots import Panel
from prisma_lib.sample import State as Step

__all__ = ["Moment", "State", "Trajectory", "draw"]

ESTIMATE, SEEN = "of the estimate", "of what is seen"
RMS = "rms, physical units"


@dataclass(frozen=True)
class State(Question):
    """A question, and the view of its trajectory.

    Args:
        step: Sampler step that is shown.
        residual: Whose residual is shown.
        channel: Channel of the wanted field.
    """

    step: int = 10
    residual: str = ESTIMATE
    channel: int = 0


@dataclass(frozen=True)
class Moment:
    """A step of the sampler; both fields along the channel axis, physical units.

    Args:
        sigma: Noise level that the step reached.
        x: The state there.
        estimate: The denoiser's last estimate of the clean state.
        residuals: Residual fields by whose they are.
        error: Error of the estimate, in per cent.
    """

    sigma: float
    x: Pair
    estimate: Pair
    residuals: dict[str, Tensor]
    error: float

    def rms(self, whose: str) -> float:
        """Returns the root mean square of a residual."""
        return self.residuals[whose].square().mean().sqrt().item()


@dataclass(frozen=True)
class Trajectory:
    """All steps of one draw.

    Args:
        seen: What the network saw.
        moments: The steps.
    """

    seen: Observation
    moments: tuple[Moment, ...]


class Residuals(Explorer[State, Trajectory]):
    """The explorer; see the module."""

    views = ("step", "residual", "channel")

    def controls(self, state: State) -> Controls:
        """Returns the controls of a question, the step and the view."""
        most = depth(state) - 1
        return {
            **controls(state),
            "step": Slider("step shown", 1, state.steps, play=True),
            "residual": Choice("residual", (ESTIMATE, SEEN)),
            "channel": Slider("channel", 0, most, enabled=most > 0),
        }

    @torch.no_grad()
    def compute(self, state: State) -> Work[Trajectory]:
        """Draws once and keeps every step."""
        seen = observed(state)
        moments = []
        for step in path(state, seen):
            moments.append(_moment(state, seen, step))
            yield step.step / state.steps
        return Trajectory(seen, tuple(moments))

    def paint(self, state: State, result: Trajectory | None) -> Still:
        """Draws fields, residual and the two curves."""
        assert result is not None
        now = result.moments[state.step - 1]
        title = f"{headline(state)}: step {state.step}"
        sheet = Sheet(2, f"{title} of {state.steps}, noise level {now.sigma:.3g}")
        _fields(sheet, state, result, now)
        r = now.residuals[state.residual][0, 0]
        sheet.field((1, 1), Panel(r, f"residual {state.residual}", signed=True))
        errors = {"estimate": [each.error for each in result.moments]}
        _curve(sheet, 2, state.step, errors, "error of the estimate", "error, %")
        sizes = {
            whose: [each.rms(whose) for each in result.moments]
            for whose in (ESTIMATE, SEEN)
        }
        _curve(sheet, 3, state.step, sizes, "residual", RMS)
        return sheet.figure


def _moment(state: State, seen: Observation, step: Step) -> Moment:
    model = model_of(state.model)
    told, mask = model.condition(seen)
    estimate = model.denormalise(step.denoised).cpu()
    return Moment(
        step.sigma,
        model.denormalise(step.x).cpu(),
        estimate,
        {
            ESTIMATE: model.residual_of(step.denoised).cpu(),
            SEEN: model.residual(step.x, told, mask).cpu(),
        },
        percent(state, estimate).item(),
    )


def _fields(sheet: Sheet, state: State, result: Trajectory, now: Moment) -> None:
    known, wanted = sides(state)
    clean = torch.cat(pair_of(state.model, state.problem), 1)
    truth, guess, noisy = (
        part(state, x, wanted, state.channel)[0] for x in (clean, now.estimate, now.x)
    )
    observed = hidden(state, result.seen, state.channel)
    norm = shared(truth, guess)
    sheet.field((0, 0), Panel(observed, f"observed {known}"))
    sheet.field((0, 1), Panel(guess, f"estimate of {wanted}"), norm)
    sheet.field((0, 2), Panel(truth, f"true {wanted}"), norm)
    sheet.field((0, 3), Panel(guess - truth, "error", signed=True))
    sheet.field((1, 0), Panel(noisy, f"noisy state of {wanted}"))


def _curve(
    sheet: Sheet,
    column: int,
    step: int,
    curves: dict[str, list[float]],
    title: str,
    unit: str,
) -> None:
    def draw(axis: Axes) -> None:
        count = range(1, 1 + len(next(iter(curves.values()))))
        scale = "log" if unit == RMS else "linear"
        settings = {"title": title, "xlabel": "step", "ylabel": unit, "yscale": scale}
        lines(axis, count, curves, **settings)
        axis.axvline(step, color="0.6", linewidth=1)

    sheet.curves((1, column), draw)


EXPLORER = Residuals()


def draw(state: State) -> Still:
    """Draws a step of a trajectory.

    Args:
        state: What is asked and which step is shown.

    Raises:
        CheckpointError: When there is no such model.
    """
    return EXPLORER.draw(state)
