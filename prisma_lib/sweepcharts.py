"""Pictures of sweeps: errors with their intervals against what is varied."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prisma_lib import results
from prisma_lib.answers import RATIO
from prisma_lib.charts import one_legend, percent
from prisma_lib.styles import GREY, HONEST, MARKS, PALETTE, look, style
from prisma_lib.tables import LEARNED


def settings_frame(
    rows: Iterable[Mapping[str, Any]], **defaults: float | str
) -> pd.DataFrame:
    """Returns result rows as a data frame with a column for each part of the setting.

    Args:
        rows: Result rows; ratios of two methods' errors are left out, since they are no
            measure of either.
        **defaults: What a part is where a row lacks it, such as `fraction=1.0`.

    Returns:
        The rows, with numbers wherever a column holds some.
    """
    kept = [row for row in rows if row.get("metric") != RATIO]
    data = pd.DataFrame([{**defaults, **row, **results.settings(row)} for row in kept])
    for name in data.columns.difference(["method", "pde", "direction", "regime"]):
        numbers = pd.to_numeric(data[name], errors="coerce")
        if numbers.notna().any():
            data[name] = numbers
    return data


def sweep(
    data: pd.DataFrame,
    key: str,
    label: str,
    *,
    down: str = "pde",
    across: str = "direction",
    log: bool = False,
) -> Figure:
    """Draws errors with their intervals against what is varied.

    Args:
        data: Result rows from `settings_frame`; of a method that answered several
            numbers of problems the largest counts.
        key: Column of what is varied.
        label: Text at its axis.
        down: Column whose values are the rows of panels.
        across: Column whose values are the columns of panels.
        log: Whether what is varied has a logarithmic axis.
    """
    data = data[data["n"] == data.groupby(["pde", "method"])["n"].transform("max")]
    data = data.dropna(subset=["value", key]).sort_values(key, kind="stable")
    places = [sorted({*data[name]}) for name in (down, across)]
    tall, wide = map(len, places)
    names = sorted({*data["method"]})
    with style():
        figure, axes = plt.subplots(
            *(tall, wide), figsize=(3.4 * wide, 0.6 + 2.2 * tall), squeeze=False
        )
        for axis, (row, column) in zip(axes.flat, product(*places), strict=True):
            cell = data[(data[down] == row) & (data[across] == column)]
            lines(axis, cell, key, names)
            percent(axis, "y")
            if log:
                percent(axis, "x")
            axis.set(title=f"{row}, {column}", xlabel=label)
        one_legend(figure)
    return figure


def lines(axis: Axes, cell: pd.DataFrame, key: str, names: Sequence[str] = ()) -> None:
    """Draws a line with its interval for each method.

    What learns nothing is grey beside what learned, so that it does not draw the eye. A
    method that answered fewer problems than others says so: its line is no order.

    Args:
        axis: Where to draw.
        cell: Result rows from `settings_frame`.
        key: Column of what is varied.
        names: All methods of the figure: each looks the same in all of its panels.
    """
    found = {*(names or cell["method"])}
    learned = [name for name in reversed(LEARNED) if name in found]
    others = sorted(found - {*LEARNED})
    most = cell["n"].max() if "n" in cell else None
    for name in [*learned, *others]:
        kind = {"marker": ".", **look(name)}
        if name in others:
            place = others.index(name)
            known = [*HONEST].index(name) if name in HONEST else place
            kind["marker"] = MARKS[known % len(MARKS)]
            kind["linestyle"] = "--" if learned else "-"
            kind["color"] = GREY if learned else PALETTE[place % len(PALETTE)]
        mine = cell[cell["method"] == name]
        few = most is not None and len(mine) and mine["n"].max() < most
        label = f"{name}, n = {mine['n'].max()}" if few else name
        axis.plot(mine[key], mine["value"], markersize=4, label=label, **kind)
        band = {"alpha": 0.2, "linewidth": 0, "color": kind["color"]}
        axis.fill_between(mine[key], mine["low"], mine["high"], **band)
