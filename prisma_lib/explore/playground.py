"""The sensor playground: put sensors where you like, and see what they are worth.

One field is measured where sensors stand; everything else of both fields is drawn by
the model. Sensors come from a slider, in random places, and from the hand: touching the
measured field adds or removes them. Where an equation's sensors see whole columns, a
touched point stands for its column.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import checkpoints
from prisma_lib.explore.controls import Choice, Controls, Slider
from prisma_lib.explore.explorer import Explorer, Work
from prisma_lib.explore.picture import Spot
from prisma_lib.explore.question import (
    PROBLEMS,
    Question,
    model_of,
    pair_of,
    part,
    path,
    percent,
    sides,
    title_of,
)
from prisma_lib.explore.sheet import Sheet, Still, shared, spread
from prisma_lib.fields import keyed_uniform
from prisma_lib.observe import Observation, Pair
from prisma_lib.plots import Panel

__all__ = ["State", "sensors"]

Points = tuple[tuple[int, int], ...]
MEASURED = "measured"  # begins the title of the field that can be touched
ADD, REMOVE = "add sensors", "remove sensors"
MOST = 200


@dataclass(frozen=True)
class State:
    """Sensors on one field of a test problem.

    Args:
        model: Name of a shipped model, or its folder.
        problem: Number of the test problem.
        measured: The field that sensors measure, "a" or "u".
        scattered: Number of sensors in random places.
        brush: What touching the measured field does.
        draws: Number of draws.
        steps: Steps of the multistep sampler, one network call each.
        seed: Seed of the random places and the draws.
        added: Points that were added by hand.
        removed: Points that were removed by hand.
    """

    model: str = "darcy-32"
    problem: int = 0
    measured: str = "u"
    scattered: int = 20
    brush: str = ADD
    draws: int = 8
    steps: int = 10
    seed: int = 0
    added: Points = ()
    removed: Points = ()


def sensors(state: State) -> Float[Tensor, "x y"]:
    """Returns the mask of the sensors, 1 where one stands.

    Sensors in random places are nested: more of them keep the fewer.
    """
    pde = model_of(state.model).pde
    n = pde.size
    order = keyed_uniform(state.seed, [state.problem], (n * n,), purpose="mask")
    mask = torch.zeros(n * n)
    mask[order[0].argsort()[: state.scattered]] = 1
    mask = mask.view(n, n)
    for points, value in ((state.added, 1.0), (state.removed, 0.0)):
        for i, j in points:
            mask[i, j] = value
    if pde.sensors == "columns":
        mask = mask.amax(0, keepdim=True).expand(n, n).contiguous()
    return mask


class Playground(Explorer[State, Pair]):
    """The explorer; see the module. Its result are draws of both fields."""

    views = ("brush",)
    waits = True

    def controls(self, state: State) -> Controls:
        """Returns the controls, in the order in which they depend."""
        names = dict.fromkeys((*checkpoints.shipped(), state.model))
        return {
            "model": Choice("model", tuple(names)),
            "problem": Slider("test problem", 0, PROBLEMS - 1),
            "measured": Choice("sensors on", ("a", "u")),
            "scattered": Slider("random sensors", 0, MOST),
            "brush": Choice("touching the field", (ADD, REMOVE)),
            "draws": Slider("draws", 2, 64),
            "steps": Slider("calls a draw", 2, 40),
            "seed": Slider("seed", 0, 99),
        }

    def actions(self, state: State) -> Mapping[str, State]:
        """Returns the states without any sensor, and without those set by hand."""
        return {
            "no sensors": replace(state, scattered=0, added=(), removed=()),
            "undo by hand": replace(state, added=(), removed=()),
        }

    def touched(self, state: State, spots: list[Spot]) -> State:
        """Adds or removes the sensors that were touched."""
        hit = [spot.index for spot in spots if spot.title.startswith(MEASURED)]
        added = [point for point in state.added if point not in hit]
        removed = [point for point in state.removed if point not in hit]
        side = added if state.brush == ADD else removed
        side += hit
        return replace(
            state,
            added=tuple(sorted({*added})),
            removed=tuple(sorted({*removed})),
        )

    @torch.no_grad()
    def compute(self, state: State) -> Work[Pair]:
        """Draws given what the sensors measure."""
        for step in path(_question(state), _observed(state), state.draws):
            yield step.step / state.steps
        return model_of(state.model).denormalise(step.x).cpu()

    def paint(self, state: State, result: Pair | None) -> Still:
        """Draws the sensors, and the posterior once it is there."""
        mask = sensors(state)
        clean = torch.cat(pair_of(state.model, state.problem), 1)
        columns = model_of(state.model).pde.sensors == "columns"
        num = int(mask[0].sum() if columns else mask.sum())
        unit = "columns" if columns else "sensors"
        title = f"{title_of(state.model)}, {num} {unit} on {state.measured}"
        sheet = Sheet(2, title + _errors(state, result))
        other = "u" if state.measured == "a" else "a"
        for row, symbol in enumerate((state.measured, other)):
            field = _row(state, clean, symbol)[0]
            drawn = None if result is None else _row(state, result, symbol)
            points = mask if symbol == state.measured else torch.zeros_like(mask)
            _draw_row(sheet, row, symbol, field, drawn, points)
        return sheet.figure


def _question(state: State) -> Question:
    direction = "forward" if state.measured == "a" else "inverse"
    shared_by_both = ("model", "problem", "steps", "seed")
    given = {name: getattr(state, name) for name in shared_by_both}
    return Question(direction=direction, sampler="multistep", **given)


def _observed(state: State) -> Observation:
    a, u = pair_of(state.model, state.problem)
    mask_a, mask_u = (
        sensors(state).expand_as(field).contiguous()
        if symbol == state.measured
        else torch.zeros_like(field)
        for symbol, field in (("a", a), ("u", u))
    )
    return Observation(a * mask_a, u * mask_u, mask_a, mask_u)


def _row(state: State, x: Pair, symbol: str) -> Float[Tensor, "b x y"]:
    return part(_question(state), x, symbol, 0)


def _errors(state: State, result: Pair | None) -> str:
    if result is None:
        return f": press solve for {state.draws} draws of {state.steps} network calls"
    asked = _question(state)
    mean = percent(asked, result.mean(0, keepdim=True)).item()
    wanted = sides(asked)[1]
    return f": error of the mean {wanted} of {len(result)} draws {mean:.1f} %"


def _draw_row(
    sheet: Sheet,
    row: int,
    symbol: str,
    truth: Tensor,
    drawn: Tensor | None,
    mask: Tensor,
) -> None:
    title = f"{MEASURED} {symbol}: touch it" if row == 0 else f"true {symbol}"
    nothing = torch.full_like(truth, torch.nan)
    one, mean, std = (
        (nothing,) * 3 if drawn is None else (drawn[0], drawn.mean(0), drawn.std(0))
    )
    norm = shared(truth, one, mean)
    area = sheet.field((row, 0), Panel(truth, title), norm)
    x, y = mask.nonzero().unbind(1)
    style = {"color": "white", "mec": "black", "markersize": 3.2, "mew": 0.8}
    sheet.mark(area, x.numpy(), y.numpy(), "o", **style)
    sheet.field((row, 1), Panel(one, f"one draw of {symbol}"), norm)
    sheet.field((row, 2), Panel(mean, f"mean of draws of {symbol}"), norm)
    doubt = None if drawn is None else spread(std)
    sheet.field((row, 3), Panel(std, f"std of draws of {symbol}"), doubt)


EXPLORER = Playground()
