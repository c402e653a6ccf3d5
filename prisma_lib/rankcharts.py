"""Pictures of ranks, ours beside the paper's and in every column.

Both list the methods in one order, each with its steps and the smallest number of
problems that it answered in a column.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from prisma_lib.cells import REGIMES
from prisma_lib.charts import ROW, one_legend
from prisma_lib.ranks import TIES, column_ranks, problems, ranked, scores_of
from prisma_lib.styles import style
from prisma_lib.tables import METHODS, Entry, Paper, Who


def named(known: Mapping[Who, int]) -> dict[Who, str]:
    """Names methods for a figure, ours first.

    Args:
        known: The smallest number of problems of each method with its steps.
    """

    def place(who: Who) -> tuple[int, int]:
        return -METHODS.index(who[0]), who[1] or 0

    return {
        who: f"{who[0]} {who[1] or ''}".strip() + f", n = {known[who]}"
        for who in sorted(known, key=place)
    }


def rank_bars(ranks: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws average ranks of methods, ours beside the paper's in the same columns.

    Args:
        ranks: Rows of the table of ranks, of one grid.
    """
    names = {"rank": "ours", "paper_in_these_columns": "paper, same columns"}
    few: dict[Who, int] = {}
    for row in ranks:
        who = row["method"], row["steps"]
        few[who] = min(row["n"], few.get(who, row["n"]))
    methods = named(few)
    rows = [
        {
            "regime": row["regime"],
            "method": methods[row["method"], row["steps"]],
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
            shown = [name for name in methods.values() if name in {*mine["method"]}]
            common = {"y": "method", "x": "rank", "order": shown, "ax": axis}
            sns.barplot(mine, hue="of", errorbar=None, **common)
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
    methods = named(problems(ranked(every, paper)))
    rows = [
        {"regime": regime, "method": methods[who], "rank": rank}
        for (_, regime), scores in scores_of(every, paper).items()
        for who, places in column_ranks(scores, TIES[regime]).items()
        for rank in places
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
            shown = [name for name in methods.values() if name in {*mine["method"]}]
            common = {"data": mine, "y": "method", "x": "rank", "order": shown}
            common["ax"] = axis
            sns.stripplot(**common, color="C5", jitter=0.2, alpha=0.7)
            sns.pointplot(
                **common, color="black", errorbar=None, marker="|", linestyle="none"
            )
            axis.set(title=regime, xlabel="rank in a column, 1 is best", ylabel="")
        if not regimes:
            axes[0][0].set_axis_off()
    return figure
