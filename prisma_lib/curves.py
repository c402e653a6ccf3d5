"""Pictures of a training: loss, learning rate, and which noise levels are hard."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prisma_lib.plots import style


def training_curves(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws loss, learning rate and loss by noise level against training images.

    Args:
        rows: Rows of a training's log, as `journal.read` returns them.
    """
    images = np.array([row["images"] for row in rows])
    with style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 2.8))
        _smoothed(left, images, np.array([row["loss"] for row in rows]))
        left.set(ylabel="denoising loss", yscale="log")
        middle.plot(images, [row["learning_rate"] for row in rows], color="C1")
        middle.set(ylabel="learning rate")
        _by_level(right, rows)
        right.set(ylabel="loss by noise level", yscale="log")
        for axis in (left, middle, right):
            axis.set(xlabel="training images")
    return figure


def _smoothed(axis: Axes, images: Any, loss: Any) -> None:
    axis.plot(images, loss, alpha=0.35, label="each row")
    window = max(1, len(loss) // 10)
    smooth = np.convolve(loss, np.ones(window) / window, mode="valid")
    axis.plot(
        images[window // 2 :][: len(smooth)], smooth, "C0", label=f"mean of {window}"
    )
    axis.legend()


def _by_level(axis: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    decades = sorted({low for row in rows for low in row["loss_by_sigma"]}, key=float)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, max(len(decades), 1)))
    for low, colour in zip(decades, colours, strict=False):
        mine = [row for row in rows if low in row["loss_by_sigma"]]
        x, y = zip(*((r["images"], r["loss_by_sigma"][low]) for r in mine), strict=True)
        label = rf"$\sigma$ {low} to {10 * float(low):g}"
        axis.plot(x, y, ".-", color=colour, label=label)
    axis.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
