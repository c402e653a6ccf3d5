"""The widgets around an explorer: controls, a progress bar, a picture.

The shell draws on the kernel's own loop and computes on one thread beside it, a step at
a time, so that the page never freezes and the work can be stopped between two steps.
Where there is no loop, as in a plain script, it computes at once.
"""

import asyncio
import base64
import html
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic

import anywidget
import ipywidgets
import traitlets
from IPython.core.getipython import get_ipython

from prisma_lib.explore.controls import Choice, Control, Slider, settled
from prisma_lib.explore.explorer import Explorer, R, S, Work, advance
from prisma_lib.explore.picture import Picture, Spot
from prisma_lib.explore.sheet import render

WIDE = {"width": "290px"}
PLAYER = {"width": "148px", "margin": "2px 140px 2px 6px"}  # with them as wide
NAMES = {"description_width": "118px"}
WORKER = ThreadPoolExecutor(1, thread_name_prefix="explorer")

# By cell: the run of it that showed explorers last, and these.
SHOWN: dict[str, tuple[str, list["Shell[Any, Any]"]]] = {}


class View(anywidget.AnyWidget):
    """A picture that can be touched."""

    _esm = Path(__file__).with_name("picture.js")
    png = traitlets.Bytes(b"").tag(sync=True)
    alt = traitlets.Unicode("").tag(sync=True)


class Shell(Generic[S, R]):
    """An explorer with its widgets; the last line of a cell shows it.

    Args:
        explorer: What is shown.
        state: Where to begin; moved to what its controls allow.
    """

    def __init__(self, explorer: Explorer[S, R], state: S) -> None:
        self.explorer = explorer
        self.state = settled(state, explorer.controls)
        self.picture: Picture | None = None
        self.drawn = 0
        self._task: asyncio.Task[None] | None = None
        self._result: R | None = None
        self._shown = self.state
        self._setting = False
        self._links: list[Any] = []
        self._make_widgets()
        self._paint(explorer.result(self.state))
        _take_the_place(self)

    def _make_widgets(self) -> None:
        self.controls = {
            name: _widget(control, name in self.explorer.views)
            for name, control in self.explorer.controls(self.state).items()
        }
        self._set_widgets()
        for name, widget in self.controls.items():
            widget.observe(partial(self._moved, name), "value")
        self.view = View()
        self.view.on_msg(self._message)
        self.bar = ipywidgets.FloatProgress(0, min=0, max=1, layout=WIDE)
        self.value = ipywidgets.Label("point at a field to read its values")
        self.trouble = ipywidgets.HTML()
        acts = {"solve": self.solve, "stop": self.stop}
        for text in self.explorer.actions(self.state):
            acts[text] = partial(self.act, text)
        self.buttons = {text: self._button(text, act) for text, act in acts.items()}
        self.buttons["stop"].disabled = True
        rows = ipywidgets.Layout(flex_flow="row wrap", width="100%")
        parts = [
            ipywidgets.Box(list(self._with_players()), layout=rows),
            ipywidgets.Box([*self.buttons.values(), self.bar, self.value], layout=rows),
            self.trouble,
            self.view,
        ]
        self.box = ipywidgets.VBox(parts, layout=ipywidgets.Layout(max_width="1000px"))

    def _button(self, text: str, act: Callable[[], None]) -> Any:
        button = ipywidgets.Button(description=text, layout={"width": "auto"})
        button.on_click(lambda _: self._guarded(act))
        return button

    def _with_players(self) -> Iterator[Any]:
        for name, control in self.explorer.controls(self.state).items():
            slider = self.controls[name]
            yield slider
            if isinstance(control, Slider) and control.play:
                ends = {"min": slider.min, "max": slider.max}
                play = ipywidgets.Play(**ends, interval=400, layout=PLAYER)
                self._links += [
                    ipywidgets.jslink((slider, end), (play, end))
                    for end in ("min", "max", "value")
                ]
                yield play

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Shows the widgets, and a still picture where there can be none."""
        shown: dict[str, Any] = self.box._repr_mimebundle_(**kwargs)
        return {**shown, "image/png": base64.b64encode(self.view.png).decode()}

    def show(self, state: S) -> None:
        """Goes to a state: draws it, or begins to compute what its picture needs.

        Args:
            state: The state; moved to what its controls allow.
        """
        state = settled(state, self.explorer.controls)
        known = self.explorer.key(state) == self.explorer.key(self.state)
        self.state = state
        self._set_widgets()
        result = self.explorer.kept(state)
        if result is not None:
            self._halt()
            self._paint(result)
        elif self.explorer.waits:
            self._halt()
            self._paint(self._result if known else None)
        elif not (known and self._task):
            self.solve()

    def solve(self) -> None:
        """Computes the picture of the state at hand, in the background if it can."""
        self._halt()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._paint(self.explorer.result(self.state))
        else:
            self._task = loop.create_task(self._work(self.state))

    def stop(self) -> None:
        """Stops computing; the picture stays as it is."""
        if self._task:
            self._halt()
            self.value.value = "stopped: move a control, or press solve"

    def act(self, text: str) -> None:
        """Does what the button of this text does."""
        self.show(self.explorer.actions(self.state)[text])

    def close(self) -> None:
        """Stops computing and gives the widgets back."""
        self._halt()
        for widget in (*_inside(self.box), *self._links):
            widget.close()

    def _halt(self) -> None:
        if self._task:
            self._task.cancel()
        self._task = None
        self.buttons["stop"].disabled = True
        self.bar.value = 0

    async def _work(self, state: S) -> None:
        loop, work = asyncio.get_running_loop(), self.explorer.compute(state)
        self.buttons["stop"].disabled = False
        try:
            while True:
                done, value = await loop.run_in_executor(WORKER, _step, work)
                if done:
                    break
                self.bar.value = value
            self._task = None
            self._halt()
            self.explorer.keep(state, value)
            self._paint(value)
        except Exception as error:
            self._task = None
            self._halt()
            self._report(error)
            raise

    def _paint(self, result: R | None) -> None:
        self._result, self._shown = result, self.state
        self.picture = render(self.explorer.paint(self.state, result))
        self.view.png = self.picture.png
        self.view.alt = f"{type(self.explorer).__name__}: {self.state}"
        self.trouble.value = ""
        self.drawn += 1

    def _report(self, error: Exception) -> None:
        # What went wrong may quote a name that a person gave.
        lines = "".join(traceback.format_exception_only(error))
        self.trouble.value = f"<pre style='color: #a00'>{html.escape(lines)}</pre>"

    def _set_widgets(self) -> None:
        self._setting = True
        try:
            for name, control in self.explorer.controls(self.state).items():
                _set(self.controls[name], control, getattr(self.state, name))
        finally:
            self._setting = False

    def _moved(self, name: str, change: Any) -> None:
        if not self._setting:
            moved = replace(self.state, **{name: change.new})
            self._guarded(lambda: self.show(moved))

    def _message(self, view: Any, content: dict[str, Any], buffers: Any) -> None:
        if self.picture is None:
            return
        found = [self.picture.spot(float(x), float(y)) for x, y in content["points"]]
        spots = [spot for spot in found if spot is not None]
        if spots:
            read = self.explorer.reading(self._shown, self._result, spots[-1])
            self.value.value = read
            if content["kind"] == "touch":
                self._guarded(lambda: self._touch(spots))

    def _touch(self, spots: list[Spot]) -> None:
        state = self.explorer.touched(self.state, spots)
        if state != self.state:
            self.show(state)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._report(error)
            raise


def _inside(box: Any) -> Iterator[Any]:
    """Yields a widget and all that it holds."""
    yield box
    parts = [getattr(box, name, None) for name in ("layout", "style")]
    yield from (part for part in parts if isinstance(part, ipywidgets.Widget))
    for child in getattr(box, "children", ()):
        yield from _inside(child)


def _step(work: Work[Any]) -> tuple[bool, Any]:
    """Returns whether work has come to its end, and its result or the share done."""
    try:
        return False, advance(work)
    except StopIteration as end:
        return True, end.value


def _widget(control: Control, scrub: bool) -> Any:
    """Makes the widget of a control; one that computes waits until it is let go."""
    settings = {"description": control.label, "layout": WIDE, "style": NAMES}
    if isinstance(control, Choice):
        return ipywidgets.Dropdown(options=control.options, **settings)
    numbers = control.low, control.high, control.step
    whole = all(isinstance(number, int) for number in numbers)
    kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    limits = dict(zip(("min", "max", "step"), numbers, strict=True))
    return kind(continuous_update=scrub, **limits, **settings)


def _set(widget: Any, control: Control, value: object) -> None:
    """Moves a widget to what its control says now."""
    if isinstance(control, Choice):
        if tuple(widget.options) != control.options:
            widget.options = control.options
    else:
        widget.max = max(widget.max, control.high)
        widget.min, widget.max = control.low, control.high
    widget.value, widget.disabled = value, not control.enabled


def _take_the_place(shell: Shell[Any, Any]) -> None:
    """Closes the explorers that an earlier run of the same cell has shown."""
    kernel: Any = get_ipython()
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    cell = parent.get("metadata", {}).get("cellId")
    if cell is None:
        return
    run = parent["header"]["msg_id"]
    last, shells = SHOWN.get(cell, (run, []))
    if last != run:
        for old in shells:
            old.close()
        shells = []
    SHOWN[cell] = run, [*shells, shell]
