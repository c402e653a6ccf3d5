"""The contract of an explorer: a state, its controls, slow work, a fast picture."""

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from prisma_lib.explore.controls import Controls, settled
from prisma_lib.explore.picture import Spot
from prisma_lib.explore.question import stamp
from prisma_lib.explore.sheet import Still

S = TypeVar("S", bound=Any)
R = TypeVar("R")

KEPT = 12  # results
_ONE_AT_A_TIME = threading.Lock()
Work: TypeAlias = Generator[float, None, R]


def advance(work: Work[Any]) -> float:
    """Takes the next step of some work; only one is taken at a time.

    A step may watch the inside of a network, which all explorers share.

    Returns:
        The share that is done.

    Raises:
        StopIteration: When the work has come to its end; carries the result.
    """
    with _ONE_AT_A_TIME:
        return next(work)


class Explorer(ABC, Generic[S, R]):
    """What is shown, without any widget.

    A state is a frozen dataclass with the field `model` and one for every control. Some
    fields only choose a view of the result: changing them computes nothing.

    Args:
        views: Names of these fields.
        waits: Whether computing waits until a person asks for it.
    """

    views: tuple[str, ...] = ()
    waits = False

    def __init__(self) -> None:
        self._results: OrderedDict[Any, R] = OrderedDict()

    @abstractmethod
    def controls(self, state: S) -> Controls:
        """Returns the controls of a state, in the order in which they depend."""

    @abstractmethod
    def compute(self, state: S) -> Work[R]:
        """Computes what a picture needs; yields the share that is done."""

    @abstractmethod
    def paint(self, state: S, result: R | None) -> Still:
        """Draws a result; None: nothing has been computed, which only some can draw."""

    def reading(self, state: S, result: R | None, spot: Spot) -> str:
        """Says what is under the pointer."""
        return str(spot)

    def touched(self, state: S, spots: list[Spot]) -> S:
        """Returns the state after a person has touched the picture."""
        return state

    def actions(self, state: S) -> Mapping[str, S]:
        """Returns the states that buttons lead to, by their text."""
        return {}

    def key(self, state: S) -> Any:
        """Returns what a result depends on: the weights, and the state but its view."""
        fresh = type(state)()
        unseen = {name: getattr(fresh, name) for name in self.views}
        return stamp(state.model), replace(state, **unseen)

    def kept(self, state: S) -> R | None:
        """Returns the result of a state if it was computed lately."""
        return self._results.get(self.key(state))

    def keep(self, state: S, result: R) -> None:
        """Keeps a result; the oldest one leaves."""
        self._results[self.key(state)] = result
        while len(self._results) > KEPT:
            self._results.popitem(last=False)

    def result(self, state: S) -> R:
        """Returns the result of a state, computing it here and now if need be."""
        found = self.kept(state)
        if found is None:
            work = self.compute(state)
            while True:
                try:
                    advance(work)
                except StopIteration as end:
                    found = end.value
                    break
            self.keep(state, found)
        return found

    def draw(self, state: S) -> Still:
        """Draws a state, moved to what its controls allow: always the same picture."""
        state = settled(state, self.controls)
        return self.paint(state, self.result(state))
