"""How figures look: the same in every notebook, readable at half width."""

from collections.abc import Iterator, Sequence
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
HATCHES = ("", "///", "...", "xxx", "---", "ooo")
# Seaborn's "colorblind"; importing it for ten colours would take a second.
PALETTE = [
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
]
# What learns nothing is told apart by its line.
HONEST = {
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
        **{m: {"color": GREY, "linestyle": dash} for m, dash in HONEST.items()},
        Prisma.title: ours,
        EQUAL: ours | {"linewidth": 1, "linestyle": "--"},
        PrismaL.title: {"color": PALETTE[9], "linewidth": 2},
    }
    return known.get(name, {})


def fills(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the keywords of the bars of methods, as `look` has those of lines.

    A bar has no dashes: hatches tell greys apart, and what has a dashed line is white.

    Args:
        methods: Their titles; one without a look has the next colour of the style.
    """
    found: dict[str, dict[str, Any]] = {}
    hatches = iter(HATCHES * len(methods))
    for method in methods:
        line = look(method)
        found[method] = {"color": line["color"]} if line else {}
        if line.get("color") == GREY:
            found[method] = {"color": "0.8", "edgecolor": "0.4", "hatch": next(hatches)}
        elif "linestyle" in line:
            found[method] = {"color": "white", "edgecolor": line["color"]}
    return found
