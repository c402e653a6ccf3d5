"""The posterior explorer: where draws agree, where they differ, and who is right.

For equations whose exact posterior is known, Poisson and Helmholtz, it stands beside
that of the model.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from prisma_lib.explore.controls import Controls, Slider
from prisma_lib.explore.explorer import Explorer, Work
from prisma_lib.explore.picture import Spot
from prisma_lib.explore.question import (
    Question,
    asked,
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
from prisma_lib.explore.sheet import Sheet, Still, make_room, shared, spread
from prisma_lib.observe import Observation, Pair
from prisma_lib.plots import Panel
from prisma_lib.posterior import gaussian_posterior, is_gaussian

__all__ = ["Posterior", "State"]

One = Float[Tensor, "1 c x y"]  # both fields of one problem


@dataclass(frozen=True)
class State(Question):
    """A question, the number of draws, and the view of them.

    Args:
        draws: Number of draws.
        shown: Number of the draw that is shown, from 1.
        x: First index of the point whose histogram is shown.
        y: Second index.
        channel: Channel of the wanted field.
    """

    direction: str = "inverse"
    regime: str = "sparse"
    sampler: str = "multistep"
    draws: int = 16
    shown: int = 1
    x: int = 16
    y: int = 16
    channel: int = 0


@dataclass(frozen=True)
class Posterior:
    """Draws of both fields of one problem, in physical units.

    Args:
        seen: What the network saw.
        draws: The draws.
        errors: Error of the mean in per cent, and the mean error of single draws.
        exact: Exact mean and standard deviation, where they are known.
    """

    seen: Observation
    draws: Pair
    errors: tuple[float, float]
    exact: tuple[One, One] | None


class Posteriors(Explorer[State, Posterior]):
    """The explorer; see the module."""

    views = ("shown", "x", "y", "channel")

    def controls(self, state: State) -> Controls:
        """Returns the controls of a question, the draws and the point."""
        last, most = model_of(state.model).pde.size - 1, depth(state) - 1
        return {
            **controls(state),
            "draws": Slider("draws", 2, 64),
            "shown": Slider("draw shown", 1, state.draws, play=True),
            "x": Slider("point, x", 0, last),
            "y": Slider("point, y", 0, last),
            "channel": Slider("channel", 0, most, enabled=most > 0),
        }

    @torch.no_grad()
    def compute(self, state: State) -> Work[Posterior]:
        """Draws, and conditions exactly where that is possible."""
        seen, model = observed(state), model_of(state.model)
        for step in path(state, seen, state.draws):
            yield step.step / (state.steps + 1)
        x, exact = model.denormalise(step.x).cpu(), None
        if is_gaussian(model.pde):
            noise_sd = asked(state).noise_sd(state.regime)
            known = gaussian_posterior(model.pde, seen, noise_sd)
            exact = torch.cat(known.mean(), 1), torch.cat(known.std(), 1)
        mean = percent(state, x.mean(0, keepdim=True)).item()
        each = percent(state, x).mean().item()
        return Posterior(seen, x, (mean, each), exact)

    def touched(self, state: State, spots: list[Spot]) -> State:
        """Shows the histogram of the point that was touched."""
        x, y = spots[-1].index
        return replace(state, x=x, y=y)

    def paint(self, state: State, result: Posterior | None) -> Still:
        """Draws the posterior in the first row and its checks in the second."""
        assert result is not None
        mean, each = result.errors
        title = f"{headline(state)}: error of one draw"
        sheet = Sheet(2, f"{title} {each:.1f} %, of the mean of all {mean:.1f} %")
        clean = torch.cat(pair_of(state.model, state.problem), 1)
        truth, draws = (_wanted(state, x) for x in (clean, result.draws))
        if result.exact is None:
            _checks(sheet, draws, truth[0], state)
        else:
            mean_std = tuple(_wanted(state, x)[0] for x in result.exact)
            _exact(sheet, draws, mean_std, state)
        _fields(sheet, state, result, truth[0], draws)
        sheet.curves((1, 3), lambda axis: _histogram(axis, state, result, truth, draws))
        return sheet.figure


def _wanted(state: State, x: Pair) -> Float[Tensor, "b x y"]:
    return part(state, x, sides(state)[1], state.channel).float()


def _fields(
    sheet: Sheet, state: State, result: Posterior, truth: Tensor, draws: Tensor
) -> None:
    known, wanted = sides(state)
    norm = shared(truth, draws.mean(0), draws[state.shown - 1])
    observed = hidden(state, result.seen, state.channel)
    sheet.field((0, 0), Panel(observed, f"observed {known}"))
    areas = [
        sheet.field((0, 1), Panel(truth, f"true {wanted}"), norm),
        sheet.field((0, 2), Panel(draws.mean(0), f"mean of {len(draws)}"), norm),
        sheet.field((0, 3), Panel(draws[state.shown - 1], f"draw {state.shown}"), norm),
    ]
    for area in areas:
        for colour, wide in (("black", 2.4), ("white", 1.0)):  # seen on any colour
            style = {"color": colour, "mew": wide, "fillstyle": "none", "markersize": 7}
            sheet.mark(area, state.x, state.y, "s", **style)


def _checks(sheet: Sheet, draws: Tensor, truth: Tensor, state: State) -> None:
    miss = (draws.mean(0) - truth).abs()
    deeper = (draws < truth).float().mean(0) + 0.5 * (draws == truth).float().mean(0)
    norm = spread(draws.std(0), miss)
    sheet.field((1, 0), Panel(draws.std(0), "std of draws"), norm)
    sheet.field((1, 1), Panel(miss, "|mean - truth|"), norm)
    sheet.field((1, 2), Panel(deeper, "rank of truth in draws"), shared(_UNIT))


def _exact(
    sheet: Sheet, draws: Tensor, exact: tuple[Tensor, ...], state: State
) -> None:
    mean, std = exact
    norm = spread(draws.std(0), std)
    sheet.field((1, 0), Panel(draws.std(0), "std of draws"), norm)
    sheet.field((1, 1), Panel(std, "exact std"), norm)
    away = Panel(draws.mean(0) - mean, "mean - exact mean", signed=True)
    sheet.field((1, 2), away)


_UNIT = torch.tensor([0.0, 1.0])


def _histogram(
    axis: Axes, state: State, result: Posterior, truth: Tensor, draws: Tensor
) -> None:
    values = draws[:, state.x, state.y].numpy()
    axis.hist(values, bins=12, density=True, color="C0", alpha=0.5, label="draws")
    axis.axvline(truth[0, state.x, state.y].item(), color="C1", label="truth")
    if result.exact is not None:
        mean, std = (_wanted(state, x)[0, state.x, state.y] for x in result.exact)
        if std > 0:
            grid = mean + std * torch.linspace(-3.5, 3.5, 99)
            density = torch.distributions.Normal(mean, std).log_prob(grid).exp()
            axis.plot(grid, density, color="C2", label="exact")
    symbol = sides(state)[1]
    axis.set(title=f"{symbol} at ({state.x}, {state.y})", xlabel=f"{symbol}, physical")
    axis.set(ylabel="density")
    make_room(axis, len(axis.get_legend_handles_labels()[1]))
    axis.xaxis.set_major_locator(MaxNLocator(3))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    axis.legend(loc="upper right")


EXPLORER = Posteriors()
