"""The page that explorers draw on: panels at fixed places, and what is under a point.

Figures are made without pyplot: none stays open. Places are fixed rather than laid out
anew each time, which would take longer than the drawing itself.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib import style as themes
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator
from matplotlib.transforms import Bbox, TransformedBbox
from torch import Tensor

from prisma_lib.explore.picture import Area, Picture, Place
from prisma_lib.plots import Panel, limits
from prisma_lib.styles import STYLE

COLUMNS = 4
WIDTH, HEIGHT = 9.6, 2.5  # inches of a sheet, and of each of its rows
DPI = 100
SMALL = 8  # points
# A stated height of titles: matplotlib would measure every label to find one.
THEME: list[Any] = [
    str(STYLE),
    {"axes.titley": 1.02, "figure.constrained_layout.use": False},
]


class Still(Figure):
    """A figure that notebooks show, though pyplot does not know it, and its fields."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.areas: list[Area] = []

    def _repr_png_(self) -> bytes:
        return render(self).png


class Sheet:
    """Rows of four panels.

    Args:
        rows: Number of rows.
        title: Text above all.
    """

    def __init__(self, rows: int, title: str) -> None:
        with themes.context(THEME):
            self.figure = Still(figsize=(WIDTH, HEIGHT * rows), layout=None)
            FigureCanvasAgg(self.figure)
            self._grid = self.figure.add_gridspec(
                *(rows, COLUMNS),
                left=0.045,
                right=0.945,
                bottom=0.2 / rows,
                top=1 - 0.27 / rows,
                wspace=0.5,
                hspace=0.36,
            )
            # A name may hold the sign that starts a formula.
            self.figure.suptitle(plain(title), fontsize=10, y=1 - 0.02 / rows)

    def field(
        self,
        place: tuple[int, int],
        panel: Panel,
        norm: Normalize | None = None,
        origin: tuple[int, int] = (0, 0),
        counts: tuple[str, str] = ("x, node", "y, node"),
    ) -> Area:
        """Draws a field with its colour bar: x to the right, y upwards.

        It has no axes: these would take several times as long as all that is seen.

        Args:
            place: Row and column.
            panel: The field.
            norm: Limits of the colours; its own by default.
            origin: Coordinates of the first value.
            counts: What both axes count.

        Returns:
            The field on the sheet.
        """
        values = panel.values.detach().cpu().float().numpy()
        norm = norm or limits([panel])
        cell = self._grid[place].get_position(self.figure)
        ratio = self.figure.get_figheight() / self.figure.get_figwidth()
        box = cell.shrunk_to_aspect(1, cell, ratio).anchored("C", cell)
        sides = (box.x0, box.y0, box.x1, box.y1)
        area = Area(panel.title, sides, values, origin)
        self.figure.areas.append(area)
        cmap = "RdBu_r" if panel.signed else "viridis"
        self._image(box, np.ma.masked_invalid(values.T), norm, cmap)
        self.figure.add_artist(
            Rectangle(box.p0, box.width, box.height, fill=False, ec="0.6", lw=0.6)
        )
        self._ruler(area, norm, cmap)
        self._words(area, counts)
        return area

    def mark(self, area: Area, i: Any, j: Any, marker: str, **style: Any) -> None:
        """Marks values of a field.

        Args:
            area: The field, as `field` returned it.
            i: First indices.
            j: Second indices.
            marker: Matplotlib's name of the marker.
            **style: Further properties of `Line2D`.
        """
        num_x, num_y = area.values.shape
        centres = (np.atleast_1d(i) + 0.5) / num_x, (np.atleast_1d(j) + 0.5) / num_y
        x, y = area.beside(*centres)
        self.figure.add_artist(Line2D(x, y, linestyle="", marker=marker, **style))

    def _image(self, box: Bbox, values: Any, norm: Normalize, cmap: str) -> None:
        where = TransformedBbox(box, self.figure.transFigure)
        image = BboxImage(
            where, cmap=cmap, norm=norm, interpolation="nearest", origin="lower"
        )
        image.set_data(values)
        self.figure.add_artist(image)

    def _ruler(self, area: Area, norm: Normalize, cmap: str) -> None:
        """Draws a colour bar of three numbers."""
        low, high = norm.vmin or 0.0, norm.vmax or 0.0
        box = Bbox([area.beside(1.04, 0), area.beside(1.09, 1)])
        self._image(box, np.linspace(0, 1, 128)[:, None], Normalize(0, 1), cmap)
        for share in (0, 0.5, 1):
            value = low + share * (high - low)
            digits = _short(0.0 if abs(value) < 1e-9 * (high - low) else value)
            self._text(area.beside(1.09, share), (2, 0), digits, va="center")

    def _words(self, area: Area, counts: tuple[str, str]) -> None:
        """Writes the title, and below and beside a field its ends and what they are."""
        self._text(area.beside(0.5, 1), (0, 6), area.title, ha="center", fontsize=9)
        (wide, tall), (left, low) = area.values.shape, area.origin
        for share, text in _ends(wide, left, counts[0]):
            self._text(area.beside(share, 0), (0, -3), text, va="top", ha="center")
        for share, text in _ends(tall, low, counts[1]):
            style = {"va": "center", "ha": "right", "rotation": 90 * (share == 0.5)}
            self._text(area.beside(0, share), (-3, 0), text, **style)

    def _text(
        self, place: Place, shift: tuple[int, int], text: str, **style: Any
    ) -> None:
        """Writes beside a point; the shift is in points."""
        wide, tall = 72 * self.figure.get_size_inches()
        x, y = place[0] + shift[0] / wide, place[1] + shift[1] / tall
        self.figure.text(x, y, plain(text), **{"fontsize": SMALL, **style})

    def curves(self, place: Any, draw: Callable[[Axes], None]) -> Axes:
        """Draws curves.

        Args:
            place: Row and column; a slice of columns for a wide panel.
            draw: Puts them into the axes.
        """
        with themes.context(THEME):
            left, low, right, high = self._grid[place].get_position(self.figure).extents
            # No colour bar at its right, but words at its left.
            left, right = left + 0.022, right + 0.036
            axis = self.figure.add_axes((left, low, right - left, high - low))
            draw(axis)
            axis.minorticks_off()
            axis.yaxis.labelpad = 1
            axis.tick_params(length=2, labelsize=SMALL)
        return axis


def _ends(num: int, first: int, name: str) -> tuple[tuple[float, str], ...]:
    """Returns what stands along a side: its two ends, and between them its name."""
    half, last = 0.5 / num, first + num - 1
    return (half, str(first)), (0.5, name), (1 - half, str(last))


def _short(value: float) -> str:
    """Writes a number in at most seven characters, for the room beside a colour bar."""
    if value == 0 or 0.01 <= abs(value) < 10_000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(power)}"


def lines(axis: Axes, x: Any, curves: Mapping[str, Any], **settings: Any) -> None:
    """Draws several curves over the same places, with a legend that covers none.

    Where limits are given, there has to be room for it below the curves.

    Args:
        axis: Where to draw.
        x: Their places.
        curves: Values by name.
        **settings: Titles, labels and scales of the axes.
    """
    for name, values in curves.items():
        axis.plot(x, values, label=name, marker=".", markersize=4)
    axis.set(**settings)
    if "ylim" not in settings:
        make_room(axis, len(curves))
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if axis.get_yscale() == "linear":
        axis.yaxis.set_major_locator(MaxNLocator(4))
    else:
        axis.yaxis.set_major_locator(LogLocator(numticks=5))
        axis.yaxis.set_major_formatter(lambda value, _: _short(value))
    if len(curves) > 1:
        axis.legend(loc="lower left" if "ylim" in settings else "upper right")


def make_room(axis: Axes, rows: int) -> None:
    """Raises the upper limit so that a legend of so many rows covers nothing."""
    low, high = axis.get_ylim()
    more = 1 / (0.97 - 0.11 * rows) if rows > 1 else 1.0
    if axis.get_yscale() == "log":
        axis.set_ylim(low, low * (high / low) ** more)
    else:
        axis.set_ylim(low, low + (high - low) * more)


def plain(text: str) -> str:
    """Writes a text so that matplotlib takes no part of it for a formula."""
    return text.replace("$", r"\$")


def render(figure: Still) -> Picture:
    """Turns a figure into a picture that knows its fields."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, pil_kwargs={"compress_level": 3})
    return Picture(buffer.getvalue(), tuple(figure.areas))


def shared(*fields: Tensor) -> Normalize:
    """Returns the limits of several fields in one."""
    return limits([Panel(values, "") for values in fields])


def spread(*fields: Tensor) -> Normalize:
    """Returns the limits of several standard deviations in one: from zero."""
    return Normalize(0, max(values.max().item() for values in fields) or 1.0)
