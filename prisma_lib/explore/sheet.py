"""The page that explorers draw on: panels at fixed places, and what is under a point.

Figures are made without pyplot: none stays open. Places are fixed rather than laid out
anew each time, which would take longer than the drawing itself.
"""

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import style as themes
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox, TransformedBbox
from numpy.typing import NDArray
from torch import Tensor

from prisma_lib.plots import STYLE, Panel, limits

COLUMNS = 4
WIDTH, HEIGHT = 9.6, 2.5  # inches of a sheet, and of each of its rows
DPI = 100
# A stated height of titles: matplotlib would measure every label to find one.
THEME: list[Any] = [
    str(STYLE),
    {"axes.titley": 1.02, "figure.constrained_layout.use": False},
]


@dataclass(frozen=True)
class Area:
    """A field on a drawn sheet.

    Args:
        title: Text above it.
        box: Left, bottom, right and top as shares of the sheet, from below.
        values: The field, `(x, y)`.
        origin: Coordinates of its first value.
    """

    title: str
    box: tuple[float, float, float, float]
    values: NDArray[Any]
    origin: tuple[int, int]


@dataclass(frozen=True)
class Spot:
    """A value under a point of a sheet.

    Args:
        title: Title of its panel.
        index: Position of the value in the panel's field.
        place: Its coordinates, as the axes count them.
        value: The value.
    """

    title: str
    index: tuple[int, int]
    place: tuple[int, int]
    value: float

    def __str__(self) -> str:
        """Writes the value beside its place, as a person reads it."""
        value = "missing" if math.isnan(self.value) else f"{self.value:.4g}"
        return f"{self.title}: {value} at {self.place}"


@dataclass(frozen=True)
class Picture:
    """A drawn sheet.

    Args:
        png: The picture.
        areas: The fields in it.
    """

    png: bytes
    areas: tuple[Area, ...]

    def spot(self, x: float, y: float) -> Spot | None:
        """Returns what is under a point.

        Args:
            x: Share of the sheet's width, from the left.
            y: Share of its height, from below.
        """
        for area in self.areas:
            left, bottom, right, top = area.box
            if left <= x < right and bottom <= y < top:
                across = (x - left) / (right - left), (y - bottom) / (top - bottom)
                i, j = (
                    int(share * num)
                    for share, num in zip(across, area.values.shape, strict=True)
                )
                place = area.origin[0] + i, area.origin[1] + j
                return Spot(area.title, (i, j), place, float(area.values[i, j]))
        return None


class Still(Figure):
    """A figure that notebooks show, though pyplot does not know it."""

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
    ) -> Axes:
        """Draws a field with its colour bar: x to the right, y upwards.

        Args:
            place: Row and column.
            panel: The field.
            norm: Limits of the colours; its own by default.
            origin: Coordinates of the first value.
            counts: What both axes count.
        """
        values = panel.values.detach().cpu().float().numpy()
        (left, low), (wide, tall) = origin, values.shape
        norm = norm or limits([panel])
        with themes.context(THEME):
            axis = self.figure.add_subplot(self._grid[place])
            image = axis.imshow(
                values.T,
                norm=norm,
                cmap="RdBu_r" if panel.signed else "viridis",
                extent=(left - 0.5, left + wide - 0.5, low - 0.5, low + tall - 0.5),
                interpolation="nearest",
            )
            axis.set_title(panel.title)
            axis.tick_params(length=2, labelsize=7)
            axis.set_xticks([left, left + wide - 1])
            axis.set_yticks([low, low + tall - 1])
            # Between the two numbers of an axis.
            axis.set_xlabel(counts[0], fontsize=7, labelpad=-7)
            axis.set_ylabel(counts[1], fontsize=7, labelpad=-7)
            _ruler(axis, norm, image.cmap)
        return axis

    def curves(self, place: Any, draw: Callable[[Axes], None]) -> Axes:
        """Draws curves.

        Args:
            place: Row and column; a slice of columns for a wide panel.
            draw: Puts them into the axes.
        """
        with themes.context(THEME):
            axis = self.figure.add_subplot(self._grid[place])
            draw(axis)
            axis.minorticks_off()
            axis.yaxis.labelpad = 1
            axis.tick_params(length=2, labelsize=7)
        return axis


def _ruler(axis: Axes, norm: Normalize, cmap: Colormap) -> None:
    """Draws a colour bar of three numbers; one with axes is slower than a field."""
    low, high = norm.vmin or 0.0, norm.vmax or 0.0
    place = TransformedBbox(Bbox([[1.04, 0], [1.09, 1]]), axis.transAxes)
    bar = BboxImage(place, cmap=cmap, norm=Normalize(0, 1), origin="lower")
    bar.set_data(np.linspace(0, 1, 128)[:, None])
    bar.set_clip_on(False)
    axis.add_artist(bar)
    for height, value in zip((0, 0.5, 1), (low, (low + high) / 2, high), strict=True):
        digits = _short(0.0 if abs(value) < 1e-9 * (high - low) else value)
        where: dict[str, Any] = {"transform": axis.transAxes, "va": "center"}
        axis.text(1.11, height, digits, fontsize=7, **where)


def _short(value: float) -> str:
    """Writes a number in at most seven characters, for the room beside a colour bar."""
    if value == 0 or 0.01 <= abs(value) < 10_000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}e{int(power)}"


def lines(axis: Axes, x: Any, curves: Mapping[str, Any], **settings: Any) -> None:
    """Draws several curves over the same places, with a legend.

    Args:
        axis: Where to draw.
        x: Their places.
        curves: Values by name.
        **settings: Titles, labels and scales of the axes.
    """
    for name, values in curves.items():
        axis.plot(x, values, label=name, marker=".", markersize=4)
    axis.set(**settings)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if axis.get_yscale() == "linear":
        axis.yaxis.set_major_locator(MaxNLocator(4))
    else:
        axis.yaxis.set_major_formatter("{x:g}")
    axis.legend(loc="best" if len(curves) > 1 else "lower left")


def plain(text: str) -> str:
    """Writes a text so that matplotlib takes no part of it for a formula."""
    return text.replace("$", r"\$")


def render(figure: Figure) -> Picture:
    """Turns a figure into a picture that knows its fields."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    areas = []
    for axis in figure.axes:
        if axis.images:
            box = axis.get_position()
            low_x, _, low_y, _ = axis.images[0].get_extent()
            drawn: NDArray[Any] = np.ma.asarray(axis.images[0].get_array())
            values = np.ma.filled(drawn, np.nan).T
            areas.append(
                Area(
                    axis.get_title(),
                    (box.x0, box.y0, box.x1, box.y1),
                    values,
                    (math.ceil(low_x), math.ceil(low_y)),
                )
            )
    return Picture(buffer.getvalue(), tuple(areas))


def shared(*fields: Tensor) -> Normalize:
    """Returns the limits of several fields in one."""
    return limits([Panel(values, "") for values in fields])


def spread(*fields: Tensor) -> Normalize:
    """Returns the limits of several standard deviations in one: from zero."""
    return Normalize(0, max(values.max().item() for values in fields) or 1.0)
