"""Pictures of tables: time against error, errors by method, ablations.

Each takes the entries of the tables and draws the ones of a single grid; numbers that
are missing are left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from prisma_lib import results
from prisma_lib.answers import ROUNDING
from prisma_lib.cells import REGIMES
from prisma_lib.comparison import EQUAL
from prisma_lib.frontier import answers, unbeaten
from prisma_lib.lifted import PrismaL
from prisma_lib.markdown import label
from prisma_lib.model import Prisma
from prisma_lib.styles import GREY, MARKS, PALETTE, look, style
from prisma_lib.tables import LEARNED, Entry

ROW, BAR = 0.28, 0.2  # inches for a row of text, for a thin bar
OURS = (Prisma.title, PrismaL.title, EQUAL)
SIZES = (30, 200)  # points squared: few steps, many steps
RIVALS = {*LEARNED} - {Prisma.title, PrismaL.title}
# What learned: open marks of rivals, whose answers may lie on each other, differ.
RINGS = dict.fromkeys(LEARNED, "o") | {"PINO": "D", "DeepONet": "^", "PINN": "s"}


def frame(every: Sequence[Entry]) -> pd.DataFrame:
    """Returns entries with a number as a data frame.

    Args:
        every: Entries of one grid.

    Returns:
        The columns regime, cell, method, order, label, steps, value, low, high,
        seconds, rounding: whether it errs by rounding only.
    """
    rows = [
        {
            "regime": entry.regime,
            "cell": f"{entry.pde}, {entry.direction}",
            "method": entry.method,
            "order": OURS.index(entry.method) if entry.method in OURS else len(OURS),
            "label": label(entry),
            "steps": entry.steps or 0,
            "value": entry.value,
            "low": entry.low,
            "high": entry.high,
            "seconds": results.number(entry.row, "seconds_per_sample"),
            "rounding": entry.rounding,
        }
        for entry in every
        if entry.value is not None and entry.usual
    ]
    columns = "regime cell method order label steps value low high seconds rounding"
    return pd.DataFrame(rows, columns=columns.split()).astype({"rounding": bool})


def time_error(every: Sequence[Entry], title: str = "") -> Figure:
    """Draws seconds per sample against error; a larger point has more steps (E05).

    Marks of rivals are open, so that of two with the same answer both are seen.

    No learned method has an answer below the dotted steps, their frontier. What errs by
    rounding only has no place on a logarithmic axis: a line marks its seconds.

    Args:
        every: Entries of one cell, such as Darcy, forward, full.
        title: Text above the picture.
    """
    data = frame(every).query("not rounding").dropna(subset=["seconds"])
    most = max(2, data["steps"].max() if len(data) else 2)
    with style():
        figure, axis = plt.subplots(figsize=(7, 3.8))
        for place, method in enumerate(dict.fromkeys(data["method"])):
            mine = data[data["method"] == method].sort_values("steps", kind="stable")
            colour = look(method).get("color", GREY)
            kind = {
                "marker": RINGS.get(method, MARKS[place % len(MARKS)]),
                "facecolors": "none" if method in RIVALS else colour,
                "edgecolors": colour,
            }
            shape = mine["seconds"], mine["value"]
            sizes = np.interp(mine["steps"], (1, most), SIZES)
            axis.plot(*shape, color=colour, lw=1, zorder=2)
            axis.scatter(*shape, sizes, zorder=3, **kind)
            axis.scatter([], [], SIZES[0], label=stepped(method, mine["steps"]), **kind)
        axis.set(xscale="log", title=title, xlabel="seconds per sample")
        percent(axis, "y")
        timed = answers(every)
        best = unbeaten([each for each in timed if each.learned])
        corners = [(each.seconds, each.error) for each in best if each.error]
        if len(corners) > 1:
            name = "frontier of learned methods"
            axis.step(*zip(*corners, strict=True), "k:", where="post", label=name)
        for each in timed:
            if each.entry.rounding:
                name = f"{each.entry.method}, below {ROUNDING} %"
                axis.axvline(each.seconds, color=GREY, ls="--", lw=1, label=name)
        axis.margins(0.1)
        if len(data):
            figure.legend(loc="outside right center")
    return figure


def stepped(method: str, steps: Iterable[int]) -> str:
    """Names a method with all of its numbers of steps."""
    several = ", ".join(str(each) for each in sorted({*steps}) if each)
    return f"{method}, {several} step{'s' * (several != '1')}" if several else method


def percent(axis: Axes, which: str) -> None:
    """Gives an axis a logarithmic scale of errors, with some numbers written out."""
    axis.set(**{f"{which}scale": "log", f"{which}label": "error, %"})
    ruler = axis.xaxis if which == "x" else axis.yaxis
    low, high = axis.get_xlim() if which == "x" else axis.get_ylim()
    subs = (1, 2, 5) if high < 10 * low else (1, 3) if high < 100 * low else (1,)
    ruler.set_major_locator(LogLocator(subs=subs))
    ruler.set_major_formatter(StrMethodFormatter("{x:g}"))
    ruler.set_minor_formatter(NullFormatter())


def errors(every: Sequence[Entry]) -> Figure:
    """Draws the errors of all methods, a panel for each cell (E06).

    Args:
        every: Entries of one grid. Ours are first, in colour; rounding has no bar, and
            a cell without answers no panel.
    """
    data = frame(every)
    regimes = [regime for regime in REGIMES if regime in {*data["regime"]}]
    ordered = data.sort_values("order", kind="stable")
    heights = {
        cell: list(dict.fromkeys(ordered[ordered["cell"] == cell]["label"]))
        for cell in dict.fromkeys(data["cell"])
    }
    shape = max(1, len(heights)), max(1, len(regimes))
    tall = [1 + BAR * len(names) for names in heights.values()] or [1]
    with style():
        figure, axes = plt.subplots(
            *shape,
            figsize=(2 + 2.6 * shape[1], sum(tall)),
            height_ratios=tall,
            sharex=True,
            sharey="row",
            squeeze=False,
        )
        for row, (cell, names) in zip(axes, heights.items(), strict=False):
            for axis, regime in zip(row, regimes, strict=True):
                mine = data[(data["cell"] == cell) & (data["regime"] == regime)]
                panel(axis, mine, names)
                axis.label_outer()
                if mine.empty:
                    bare(axis)
                else:
                    axis.set_title(f"{cell}, {regime}")
                    axis.tick_params(labelbottom=True)
    return figure


def bare(axis: Axes) -> None:
    """Hides a panel without answers, but for the names that its row begins with."""
    axis.spines[:].set_visible(False)
    axis.xaxis.set_visible(False)
    axis.tick_params(left=False)


def panel(axis: Axes, mine: pd.DataFrame, names: Sequence[str]) -> None:
    """Draws the bars of one cell with their intervals, one below the other."""
    for exact in mine.query("rounding")["label"]:
        place, said = names.index(exact), f"below {ROUNDING}"
        word = axis.text(0.02, place, said, va="center", size=7)
        word.set_transform(axis.get_yaxis_transform())
    mine = mine.query("not rounding")
    places = [names.index(label) for label in mine["label"]]
    colours = [
        look(who)["color"] if who in OURS else ("0.55" if who in LEARNED else "0.8")
        for who in mine["method"]
    ]
    axis.barh(places, mine["value"], color=colours)
    for place, low, high in zip(places, mine["low"], mine["high"], strict=True):
        axis.plot([low, high], [place, place], color="black", lw=0.8)
    percent(axis, "x")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)


def one_legend(figure: Figure) -> None:
    """Puts one legend below all panels in place of one in each."""
    shown: dict[str, Any] = {}
    for axis in figure.axes:
        handles, names = axis.get_legend_handles_labels()
        shown |= dict(zip(names, handles, strict=True))
        if legend := axis.get_legend():
            legend.remove()
    if shown:
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4)


def variants(rows: Sequence[results.Row]) -> Figure:
    """Draws the errors of variants with their intervals, a panel for each equation.

    Args:
        rows: What `ablations.averaged` returned. Rounding is written, not drawn.
    """
    equations = list(dict.fromkeys(row["pde"] for row in rows))
    names = list(dict.fromkeys(results.settings(r).get("variant", "") for r in rows))
    size = max(6, 3.8 * len(equations)), max(4, 1.2 + 0.6 * len(names))
    with style():
        figure, axes = plt.subplots(1, len(equations), figsize=size, squeeze=False)
        for axis, pde in zip(axes[0], equations, strict=True):
            _dots(axis, [row for row in rows if row["pde"] == pde], names)
        one_legend(figure)
    return figure


def _dots(axis: Axes, rows: Sequence[results.Row], names: Sequence[str]) -> None:
    cells = list(dict.fromkeys(f"{row['direction']}\n{row['regime']}" for row in rows))
    axis.set_prop_cycle(color=PALETTE, marker=list("osv^DxP*Xd"))
    for number, name in enumerate(names):
        mine = [row for row in rows if results.settings(row).get("variant", "") == name]
        shift = (number - (len(names) - 1) / 2) * 0.8 / len(names)
        place = [cells.index(f"{r['direction']}\n{r['regime']}") + shift for r in mine]
        value, *ends = np.array(
            [[float(row[key]) for row in mine] for key in ("value", "low", "high")]
        )
        value[value < ROUNDING] = np.nan
        axis.errorbar(value, place, xerr=abs(ends - value), ls="", ms=4, label=name)
        for exact in np.array(place)[np.isnan(value)]:
            word = axis.text(0.01, exact, f"{name}, below {ROUNDING}", size=5)
            word.set(transform=axis.get_yaxis_transform(), va="center")
    percent(axis, "x")
    axis.set_yticks(range(len(cells)), cells)
    axis.set(title=rows[0]["pde"], ylim=(len(cells) - 0.5, -0.5))
