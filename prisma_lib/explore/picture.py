"""A drawn sheet, and what is under a point of it."""

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

Place = tuple[float, float]


@dataclass(frozen=True)
class Area:
    """A field on a sheet.

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

    def beside(self, across: Any, along: Any) -> tuple[Any, Any]:
        """Returns a point of the sheet, given shares of this field's width and height.

        Args:
            across: Share of its width, from the left; a number or an array.
            along: Share of its height, from below.
        """
        left, bottom, right, top = self.box
        return left + across * (right - left), bottom + along * (top - bottom)


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
