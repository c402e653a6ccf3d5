"""Pictures of fields, spectra and errors.

A function takes tensors and returns a matplotlib figure; the notebook decides where it
goes. The first tensor axis runs to the right, the second upwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from torch import Tensor

from prisma_lib.pdes.base import Metric
from prisma_lib.solve import Solution
from prisma_lib.spectral import radial_spectrum
from prisma_lib.styles import fills, look
from prisma_lib.styles import style as style

PANEL = 2.05  # inches per field
LOWEST = 0.1  # per cent: errors below it are written, not drawn


@dataclass(frozen=True)
class Panel:
    """One field of a picture.

    Args:
        values: The field, `(x, y)`; NaN is left white.
        title: Text above it.
        like: Panels of one group share limits and colour bar.
        signed: Draw with a diverging map centred on zero.
        bounds: Limits of the group's colours; by default those of its values.
    """

    values: Tensor
    title: str
    like: str = ""
    signed: bool = False
    bounds: tuple[float, float] | None = None


def grid(rows: Sequence[Sequence[Panel | None]], labels: Sequence[str] = ()) -> Figure:
    """Draws fields in rows; a group in a row shares its limits and colour bar.

    Args:
        rows: Panels, row by row; `None` leaves a gap.
        labels: Text at the left of each row.
    """
    wide = max(len(row) for row in rows)
    with style():
        figure, axes = plt.subplots(
            len(rows),
            wide,
            figsize=(PANEL * wide * 1.12, PANEL * len(rows) * 1.05),
            squeeze=False,
        )
        for line, row in zip(axes, rows, strict=True):
            draw_row(figure, list(line), row)
        for line, label in zip(axes, labels, strict=False):
            line[0].set_ylabel(label)
    return figure


def draw_row(figure: Figure, axes: Sequence[Axes], row: Sequence[Panel | None]) -> None:
    """Draws panels on axes; a group shares its limits and colour bar."""
    pairs = list(zip_longest(axes, row))
    for axis, panel in pairs:
        if panel is None:  # but for the row's label, which an axis of its own keeps
            axis.set(xticks=[], yticks=[], frame_on=False, box_aspect=1)
    shown = [(axis, panel) for axis, panel in pairs if panel is not None]
    groups = dict.fromkeys(panel.like or panel.title for _, panel in shown)
    for group in groups:
        members = [
            (axis, panel)
            for axis, panel in shown
            if (panel.like or panel.title) == group
        ]
        norm = limits([panel for _, panel in members])
        for axis, panel in members:
            cmap = "RdBu_r" if panel.signed else "viridis"
            image = field(axis, panel.values, panel.title, norm, cmap)
        # A bar in the middle of a row would push the columns of all rows apart.
        beside = [axis for axis, _ in (pairs if len(groups) == 1 else members)]
        ticks = ScalarFormatter()
        ticks.set_powerlimits((-2, 3))
        bar = figure.colorbar(
            image, ax=beside, shrink=0.8, pad=0.02, aspect=18, format=ticks
        )
        bar.ax.tick_params(labelsize=7)


def limits(panels: Sequence[Panel]) -> Normalize:
    """Returns the colour limits that panels share; those of signed ones are centred."""
    if panels[0].bounds is not None:
        return Normalize(*panels[0].bounds)
    values = np.concatenate([_array(panel.values).ravel() for panel in panels])
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    if panels[0].signed:
        high = max(abs(low), abs(high), 1e-30)
        low = -high
    elif low == high:
        low, high = low - 0.5, high + 0.5
    return Normalize(low, high)


def field(axis: Axes, values: Tensor, title: str, norm: Normalize, cmap: str) -> Any:
    """Draws one field: x to the right, y upwards, missing points white.

    Args:
        axis: Where to draw.
        values: The field, `(x, y)`.
        title: Text above it.
        norm: Limits of the colours.
        cmap: Colour map.

    Returns:
        The image, for a colour bar.
    """
    image = axis.imshow(
        _array(values).T, norm=norm, cmap=cmap, origin="lower", interpolation="nearest"
    )
    axis.set_title(title)
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.5)
    return image


def comparison(
    observed: Tensor,
    truth: Tensor,
    predicted: Tensor,
    names: tuple[str, str],
    metric: Metric = "relative_l2",
    method: str = "PRISMA",
) -> list[Panel]:
    """Returns a row: observation, truth, prediction, error map with the error above.

    Args:
        observed: The measured field, NaN where it was not measured.
        truth: The wanted field.
        predicted: The answer.
        names: Symbols of the measured and the wanted field.
        metric: How the error is measured, as `pde.error(direction)` names it.
        method: Who answered.
    """
    seen, wanted = names
    error = predicted - truth
    if metric == "relative_l2":
        measured = f"{100 * (error.norm() / truth.norm()).item():.1f} % rel. L2"
    else:
        measured = f"{100 * (error != 0).float().mean().item():.1f} % of points"
    return [
        Panel(observed, f"observed {seen}"),
        Panel(truth, f"true {wanted}", like="field"),
        Panel(predicted, f"{method} {wanted}", like="field"),
        Panel(error, f"error ({measured})", signed=True),
    ]


def solution(draws: Solution, problem: int = 0) -> Figure:
    """Draws observation, first draw, mean and spread of both fields of one problem.

    A field of several channels has two rows: its first and its last channel.
    """
    seen = draws.observation
    rows = {}
    for name, values, data, mask in (
        ("a", draws.a, seen.a, seen.mask_a),
        ("u", draws.u, seen.u, seen.mask_u),
    ):
        last = values.shape[2] - 1
        for c in sorted({0, last}):
            mine = values[:, problem, c]
            observed = data[problem, c].masked_fill(mask[problem, c] == 0, float("nan"))
            row = [
                Panel(observed, f"observed {name}"),
                Panel(mine[0], "one draw", like="field"),
                Panel(mine.mean(0), "mean of draws", like="field"),
            ]
            if len(mine) > 1:
                row.append(Panel(mine.std(0), "std of draws"))
            rows[f"{name}, channel {c}" if last else name] = row
    return grid(list(rows.values()), list(rows))


def spectra(axis: Axes, fields: Mapping[str, Tensor]) -> None:
    """Draws the power per shell of mode numbers of several fields.

    Methods and the truth look as in every other figure.

    Args:
        axis: Where to draw.
        fields: Fields `(x, y)` by their name in the legend, or batches `(b, x, y)`,
            over which the power is averaged.
    """
    last = 2
    for name, values in fields.items():
        power = _array(radial_spectrum(values))
        power = power.reshape(-1, power.shape[-1]).mean(0)
        axis.loglog(np.arange(1, len(power)), power[1:], label=name, **look(name))
        last = max(last, len(power))
    axis.set(xlabel="mode number |k|", ylabel="power")
    ticks = [2**i for i in range((last - 1).bit_length())]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.legend()


def sampling_step(
    state: Tensor, denoised: Tensor, residual: Tensor, truth: Tensor, title: str
) -> Figure:
    """Draws where a sampler stands: state, estimate, residual and spectrum.

    Args:
        state: Noisy field.
        denoised: The denoiser's estimate of it.
        residual: PDE residual of the estimate.
        truth: The true field.
        title: Text above all.
    """
    with style():
        figure, axes = plt.subplots(
            1, 4, figsize=(10.4, 2.6), width_ratios=[1, 1, 1, 1.25]
        )
        panels = [
            Panel(state, "state", signed=True),
            Panel(denoised, "denoised"),
            Panel(residual, "residual of estimate", signed=True),
        ]
        draw_row(figure, list(axes[:3]), panels)
        spectra(axes[3], {"state": state, "denoised": denoised, "truth": truth})
        figure.suptitle(title, fontsize=10)
    return figure


def error_bars(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws the errors of several methods in the cells of a benchmark.

    Methods have their colours of every other figure; what learns nothing is grey.

    Args:
        rows: Result rows with method, direction, regime, value, low and high.
    """
    methods = list(dict.fromkeys(str(row["method"]) for row in rows))
    cells = list(dict.fromkeys((row["direction"], row["regime"]) for row in rows))
    paint = fills(methods)
    with style():
        figure, axis = plt.subplots(figsize=(7.5, 3.2))
        width = 0.8 / len(methods)
        for number, method in enumerate(methods):
            mine = [row for row in rows if row["method"] == method]
            at = [cells.index((row["direction"], row["regime"])) for row in mine]
            value, low, high = (
                np.array([float(row[key]) for row in mine])
                for key in ("value", "low", "high")
            )
            place = np.array(at) + (number - (len(methods) - 1) / 2) * width
            for x, height in zip(place, value, strict=True):
                if height < LOWEST:
                    axis.text(x, LOWEST, f" {height:.2g} %", ha="center", rotation=90)
            axis.bar(
                place,
                value,
                width,
                yerr=[np.maximum(value - low, 0), np.maximum(high - value, 0)],
                error_kw={"linewidth": 0.8},
                label=method,
                **paint[method],
            )
        axis.set_yscale("log")
        axis.set_xticks(range(len(cells)), [f"{d}\n{r}" for d, r in cells])
        axis.set_ylabel("error, %")
        axis.legend(ncols=len(methods), loc="upper left")
        axis.set_ylim(LOWEST, axis.get_ylim()[1] * 3)
    return figure


def _array(values: Tensor) -> Any:
    return values.detach().cpu().float().numpy()
