"""Pictures of tables: time against error, errors by method, ranks, ablations.

Each takes the entries of the tables and draws the ones of a single grid; numbers that
are missing are left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from prisma_lib import results
from prisma_lib.cells import REGIMES
from prisma_lib.markdown import label
from prisma_lib.plots import style
from prisma_lib.ranks import TIES, column_ranks, scores_of
from prisma_lib.tables import METHODS, Entry, Paper

ROW = 0.28  # inches per bar
SIZES = (30, 200)  # points squared: few steps, many steps


def frame(every: Sequence[Entry]) -> pd.DataFrame:
    """Returns entries with a number as a data frame.

    Args:
        every: Entries of one grid. Those that err by rounding only are left out.

    Returns:
        The columns regime, cell, method, label, steps, value, low, high, seconds.
    """
    rows = [
        {
            "regime": entry.regime,
            "cell": f"{entry.pde}\n{entry.direction}",
            "method": entry.method if entry.method in METHODS else "baseline",
            "label": label(entry),
            "steps": entry.steps or 1,
            "value": entry.value,
            "low": entry.low,
            "high": entry.high,
            "seconds": results.number(entry.row, "seconds_per_sample"),
        }
        for entry in every
        if entry.value is not None and entry.usual and not entry.rounding
    ]
    columns = ["regime", "cell", "method", "label", "steps"]
    columns += ["value", "low", "high", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def time_error(every: Sequence[Entry], title: str = "") -> Figure:
    """Draws seconds per sample against error; a larger point has more steps (E05).

    Args:
        every: Entries of one cell, such as Darcy, forward, full.
        title: Text above the picture.
    """
    data = frame(every).dropna(subset=["seconds"])
    with style():
        figure, axis = plt.subplots(figsize=(5, 3.4))
        sns.scatterplot(
            data,
            x="seconds",
            y="value",
            hue="method",
            size="steps",
            sizes=SIZES,
            size_norm=(1, max(2, data["steps"].max() if len(data) else 2)),
            hue_order=[m for m in (*METHODS, "baseline") if m in {*data["method"]}],
            legend=False,
            ax=axis,
        )
        for _, row in data.iterrows():
            axis.annotate(
                row["label"],
                (row["seconds"], row["value"]),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize=7,
            )
        axis.set(xscale="log", title=title, xlabel="seconds per sample")
        percent(axis, "y")
        axis.margins(0.2)
    return figure


def percent(axis: Axes, which: str) -> None:
    """Gives an axis a logarithmic scale of errors, with its numbers written out."""
    axis.set(**{f"{which}scale": "log", f"{which}label": "error, %"})
    ruler = axis.xaxis if which == "x" else axis.yaxis
    ruler.set_major_locator(LogLocator(subs=(1, 3)))
    ruler.set_major_formatter(StrMethodFormatter("{x:g}"))
    ruler.set_minor_formatter(NullFormatter())


def errors(every: Sequence[Entry]) -> Figure:
    """Draws the errors of all methods in every cell, a panel for each regime (E06).

    Args:
        every: Entries of one grid.
    """
    data = frame(every)
    regimes = [regime for regime in REGIMES if regime in {*data["regime"]}]
    bars = max((len(data[data["regime"] == r]) for r in regimes), default=1)
    with style():
        figure, axes = plt.subplots(
            1,
            max(1, len(regimes)),
            figsize=(3.3 * max(1, len(regimes)), 1.2 + ROW * bars),
            sharex=True,
            squeeze=False,
        )
        for axis, regime in zip(axes[0], regimes, strict=False):
            panel(axis, data[data["regime"] == regime], data)
            axis.set_title(regime)
        one_legend(figure)
    return figure


def panel(axis: Axes, mine: pd.DataFrame, every: pd.DataFrame) -> None:
    """Draws the bars of one regime with their intervals."""
    sns.barplot(
        mine,
        y="cell",
        x="value",
        hue="label",
        hue_order=list(dict.fromkeys(every["label"])),
        errorbar=None,
        dodge=True,
        ax=axis,
    )
    cells = list(dict.fromkeys(mine["cell"]))
    names = list(dict.fromkeys(every["label"]))
    for _, row in mine.dropna(subset=["low", "high"]).iterrows():
        width = 0.8 / len(names)
        shift = (names.index(row["label"]) - (len(names) - 1) / 2) * width
        place = cells.index(row["cell"]) + shift
        axis.plot([row["low"], row["high"]], [place, place], color="black", lw=0.8)
    percent(axis, "x")
    axis.set(ylabel="", ylim=(len(cells) - 0.5, -0.5))


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
        rows: What `ablations.averaged` returned.
    """
    equations = list(dict.fromkeys(row["pde"] for row in rows))
    names = list(
        dict.fromkeys(results.settings(row).get("variant", "") for row in rows)
    )
    with style():
        wide, tall = max(6, 3.8 * len(equations)), 1.2 + 0.6 * len(names)
        figure, axes = plt.subplots(
            1, len(equations), figsize=(wide, tall), squeeze=False
        )
        for axis, pde in zip(axes[0], equations, strict=True):
            mine = [row for row in rows if row["pde"] == pde]
            _dots(axis, mine, names)
            axis.set_title(pde)
        one_legend(figure)
    return figure


def _dots(axis: Axes, rows: Sequence[results.Row], names: Sequence[str]) -> None:
    cells = list(dict.fromkeys(f"{row['direction']}\n{row['regime']}" for row in rows))
    for number, name in enumerate(names):
        mine = [row for row in rows if results.settings(row).get("variant", "") == name]
        shift = (number - (len(names) - 1) / 2) * 0.8 / len(names)
        place = [cells.index(f"{r['direction']}\n{r['regime']}") + shift for r in mine]
        value, low, high = (
            [float(row[key]) for row in mine] for key in ("value", "low", "high")
        )
        width = [
            [v - b for v, b in zip(value, low, strict=True)],
            [t - v for v, t in zip(value, high, strict=True)],
        ]
        axis.errorbar(value, place, xerr=width, fmt="o", ms=3, label=name)
    percent(axis, "x")
    axis.set_yticks(range(len(cells)), cells)
    axis.set_ylim(len(cells) - 0.5, -0.5)


def rank_bars(ranks: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws average ranks of methods, ours beside the paper's in the same columns.

    Args:
        ranks: Rows of the table of ranks, of one grid.
    """
    names = {"rank": "ours", "paper_in_these_columns": "paper, same columns"}
    rows = [
        {
            "regime": row["regime"],
            "method": f"{row['method']} {row['steps'] or ''}".strip(),
            "of": name,
            "rank": row[key],
        }
        for row in ranks
        for key, name in names.items()
        if row[key] is not None
    ]
    data = pd.DataFrame(rows, columns=["regime", "method", "of", "rank"])
    regimes = [regime for regime in REGIMES if regime in {*data["regime"]}]
    tall = len(dict.fromkeys(data["method"]))
    with style():
        figure, axes = plt.subplots(
            1,
            max(1, len(regimes)),
            figsize=(3.2 * max(1, len(regimes)), 1 + 2 * ROW * max(1, tall)),
            squeeze=False,
        )
        for axis, regime in zip(axes[0], regimes, strict=False):
            mine = data[data["regime"] == regime]
            sns.barplot(mine, y="method", x="rank", hue="of", ax=axis, errorbar=None)
            axis.set(title=regime, xlabel="average rank, 1 is best", ylabel="")
        one_legend(figure)
        if not regimes:
            axes[0][0].set_axis_off()
            axes[0][0].text(0.5, 0.5, "one method ranks nothing", ha="center")
    return figure


def rank_distributions(every: Sequence[Entry], paper: Paper) -> Figure:
    """Draws the rank of each method in every column, and its mean, by regime.

    Args:
        every: Entries of one grid.
        paper: The paper's numbers, which say what columns are ranked.
    """
    rows = [
        {"regime": regime, "method": f"{who[0]} {who[1] or ''}".strip(), "rank": rank}
        for (_, regime), scores in scores_of(every, paper).items()
        for who, ranked in column_ranks(scores, TIES[regime]).items()
        for rank in ranked
    ]
    data = pd.DataFrame(rows, columns=["regime", "method", "rank"])
    regimes = [regime for regime in REGIMES if regime in {*data["regime"]}]
    wide, tall = max(1, len(regimes)), max(1, data["method"].nunique())
    with style():
        figure, axes = plt.subplots(
            1, wide, figsize=(3.2 * wide, 1 + 1.5 * ROW * tall), squeeze=False
        )
        for axis, regime in zip(axes[0], regimes, strict=False):
            mine = data[data["regime"] == regime]
            common = {"data": mine, "y": "method", "x": "rank", "ax": axis}
            sns.stripplot(**common, color="C5", jitter=0.2, alpha=0.7)
            sns.pointplot(
                **common, color="black", errorbar=None, marker="|", linestyle="none"
            )
            axis.set(title=regime, xlabel="rank in a column, 1 is best", ylabel="")
        if not regimes:
            axes[0][0].set_axis_off()
    return figure
