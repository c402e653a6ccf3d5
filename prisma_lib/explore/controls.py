"""What a person can move in an explorer, said without any widget.

An explorer declares its controls as a pure function of its state; the shell makes
widgets of them, and tests walk through them without a browser.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

S = TypeVar("S", bound=Any)


@dataclass(frozen=True)
class Choice:
    """One of several names.

    Args:
        label: Text beside it.
        options: The names.
        enabled: Whether it matters in the state at hand.
    """

    label: str
    options: tuple[str, ...]
    enabled: bool = True

    @property
    def ends(self) -> tuple[str, ...]:
        """All values, for walks through every setting."""
        return self.options

    def nearest(self, value: object) -> str:
        """Returns the value if it is an option, else the first option."""
        return str(value) if value in self.options else self.options[0]


@dataclass(frozen=True)
class Slider:
    """A number between two ends.

    Args:
        label: Text beside it.
        low: Smallest value; a whole number if only those are meant.
        high: Largest value.
        step: Distance between values.
        enabled: Whether it matters in the state at hand.
        play: Offer a button that runs through the values.
    """

    label: str
    low: float
    high: float
    step: float = 1
    enabled: bool = True
    play: bool = False

    @property
    def ends(self) -> tuple[float, ...]:
        """Smallest and largest value, for walks through every setting."""
        return self.low, self.high

    def nearest(self, value: float) -> float:
        """Returns the value, moved between the ends."""
        return min(max(value, self.low), self.high)


Control = Choice | Slider
Controls = Mapping[str, Control]


def settled(state: S, controls: Callable[[S], Controls]) -> S:
    """Moves every value of a state to where its control allows it.

    What one control allows may depend on those before it: they are settled in order.

    Args:
        state: A frozen dataclass with a field for every control.
        controls: Controls of a state.
    """
    for name in controls(state):
        value = controls(state)[name].nearest(getattr(state, name))
        state = replace(state, **{name: value})
    return state
