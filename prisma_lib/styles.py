"""How figures look: the same in every notebook, readable at half width."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatterSciNotation

STYLE = Path(__file__).with_name("prisma.mplstyle")


@contextmanager
def style() -> Iterator[None]:
    """Applies the project's figure style inside a block."""
    with plt.style.context(str(STYLE)):
        yield
        numbers = plt.get_fignums()
        current = plt.gcf().number if numbers else None
        for axes in (axes for n in numbers for axes in plt.figure(n).axes):
            _say_plainly(axes.xaxis)
            _say_plainly(axes.yaxis)
        if current is not None:
            plt.figure(current)


class _Plain(LogFormatterSciNotation):
    """Says 0.04 on a logarithmic axis and not 4 × 10⁻², which runs into its neighbour.

    The style has a setting for it, but that is looked up when a figure is drawn, which
    may be after the block.
    """

    def __call__(self, x: float, pos: int | None = None) -> str:
        with plt.rc_context({"axes.formatter.min_exponent": 3}):
            text: str = super().__call__(x, pos)
        return text


def _say_plainly(axis: Axis) -> None:
    if type(axis.get_major_formatter()) is LogFormatterSciNotation:
        axis.set_major_formatter(_Plain())
    if type(axis.get_minor_formatter()) is LogFormatterSciNotation:
        axis.set_minor_formatter(_Plain())
