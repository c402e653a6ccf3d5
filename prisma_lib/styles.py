"""How figures look: the same in every notebook, readable at half width."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axis import Axis
from matplotlib.ticker import LogFormatterSciNotation

from prisma_lib.comparison import EQUAL
from prisma_lib.lifted import PrismaL
from prisma_lib.model import Prisma
from prisma_lib.tables import EXACT, MEAN, METHODS

STYLE = Path(__file__).with_name("prisma.mplstyle")
MARKS, GREY = "sv^Dx+", "0.5"  # of what learns nothing
# Seaborn's "colorblind"; importing it for ten colours would take a second.
PALETTE = [
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
]
# What learns nothing is told apart by its line.
_HONEST = {
    **{EXACT: "--", "lift": "-.", MEAN: ":", "stencil": (0, (1, 4))},
    **{"numerical solver": (0, (6, 3)), "persistence": (0, (3, 1, 1, 1, 1, 1))},
}


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


def look(name: str) -> dict[str, Any]:
    """Returns the keywords of a line, the same for a method in every figure.

    Args:
        name: Title of a method, or "truth".

    Returns:
        Colour, and width or style; nothing for a name that is none of these.
    """
    ours = {"color": PALETTE[0], "linewidth": 2}
    known: dict[str, dict[str, Any]] = {
        "truth": {"color": "black", "linewidth": 2},
        **{m: {"color": PALETTE[i]} for i, m in enumerate(METHODS[::-1])},
        **{m: {"color": GREY, "linestyle": dash} for m, dash in _HONEST.items()},
        Prisma.title: ours,
        EQUAL: ours | {"linewidth": 1, "linestyle": "--"},
        PrismaL.title: {"color": PALETTE[9], "linewidth": 2},
    }
    return known.get(name, {})
