# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Is a model that was trained on a coarse grid worth running on a fine one?
#
# A neural operator accepts any grid. The paper runs a model trained at $64^2$ on up to
# $512^2$ points, eight times finer, and reports seconds and memory (claim C22: 0.24 to
# 4.85 s a sample, 4 to 107 GB), **but no error**. We measure the error, on models
# trained at $32^2$, against a numerical solution on the fine grid, and beside it what
# costs next to nothing: the model's own coarse answer, interpolated.
#
# Needs: the shipped model `darcy-32`; `helmholtz-32` and `navier_stokes-32` where they
# are. Runs in about 20 minutes on two cores; the answer is printed at the end.

# %%
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import Markdown, display
from matplotlib.ticker import NullLocator

# %%
from prisma_lib import (
    calibration,
    charts,
    devices,
    evaluate,
    load,
    memory,
    metrics,
    plots,
)
from prisma_lib.bench.measure import peak_megabytes
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.observe import observation
from prisma_lib.refine import refine
from prisma_lib.results import write_metrics
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
model_names: list[str] = ["darcy-32", "helmholtz-32", "navier_stokes-32"]  # which
directions: list[str] = ["forward", "inverse"]  # what is asked of them
factors: list[int] = [1, 2, 4, 8]  # how much finer than the training grid
n: int = 16  # unseen test problems
steps: int = 20  # sampler steps
seed: int = 0  # seed of problems and draws
out: str = "outputs/scratch/superresolution"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # nothing to move here

# %% [markdown]
# ## The question on every grid
#
# As in the paper, the input is known on the coarse grid and upsampled: by a cubic
# spline between nodes, band-limited where the domain is periodic, and Darcy's rock then
# moved to the nearer of its two values. The equation's own solver solves for this input
# on the fine grid, and that is the truth: all answers are compared on the fine grid.
# The inverse question hands over the fine solution and asks for the input.

# %%
Path(out).mkdir(parents=True, exist_ok=True)
models = {}
for name in model_names:
    try:
        models[name] = load(name)
    except CheckpointError as error:
        print(f"left out: {error}")


def finer(model, coarse_a, factor):
    pde = model.pde.resized(model.pde.size * factor)
    a = pde.snap(refine(coarse_a, model.pde.grid, pde.grid.shape))
    return pde, a, pde.solve(a)


def answer(model, direction, a, u):
    given = {"a": a} if direction == "forward" else {"u": u}
    solver = PrismaSolver(model, Schedule(steps))
    key = torch.Generator().manual_seed(seed)
    pde = model.pde_on(tuple(a.shape[2:]))
    found = solver.solve(observation(pde, **given), samples=1, generator=key)
    return found[direction == "forward"][0].cpu()


# %% [markdown]
# ## Errors, seconds and memory
#
# - **PRISMA**: run on the fine grid.
# - **PRISMA, interpolated**: its answer at $32^2$, upsampled.
# - **solver, interpolated**: the numerical solution at $32^2$, upsampled: what a coarse
#   grid can know of the fine solution at all. Inverse: what the coarse input holds,
#   which is everything, as the fine one is made of it.
#
# Seconds are those of a batch, divided; megabytes are the most that the tensors of one
# network call take for one sample.

# %%
rows, pictures = [], {}


def record(pde, direction, who, factor, metric, number, **more):
    size = pde.size
    row = {"method": who, "pde": pde.name, "direction": direction, "regime": "full"}
    row |= {"setting": f"size={size};trained={size // factor}", "metric": metric}
    row |= {"steps": steps, "n": n, "seed": seed, "scale": scale, **more}
    value = dict(zip(("value", "low", "high"), number, strict=True))
    rows.append(row | {"device": devices.describe(torch.device("cpu"))} | value)


def error(pde, direction, found, truth):
    if pde.error(direction) == "error_rate":
        return 100 * metrics.error_rate(found, truth, pde.snap)
    return 100 * metrics.relative_l2(found, truth)


# %%
def run(name, model, direction, factor):
    pde, a, u = finer(model, coarse[name].a, factor)
    truth = u if direction == "forward" else a
    began = time.perf_counter()
    found = {"PRISMA": answer(model, direction, a, u)}
    seconds = (time.perf_counter() - began) / n
    own, solved = anchors_of[name, direction]
    for who, field in (("PRISMA", own), ("solver", solved)):
        moved = refine(field, model.pde.grid, pde.grid.shape)
        found[f"{who}, interpolated"] = moved
    for who, field in found.items():
        values = error(pde, direction, field, truth)[:, None]
        number = calibration.number(values, calibration.mean, seed)
        timed = {"seconds_per_sample": f"{seconds:.3g}"} if who == "PRISMA" else {}
        record(pde, direction, who, factor, pde.error(direction), number, **timed)
    pictures[name, direction, factor] = (
        truth[0, 0],
        {k: f[0, 0] for k, f in found.items()},
    )
    record(pde, direction, "PRISMA", factor, "seconds_per_sample", (seconds, "", ""))


# %%
coarse = {k: evaluate.benchmark(m.pde, n, seed) for k, m in models.items()}
anchors_of = {}
for name, model in models.items():
    bench = coarse[name]
    u = model.pde.solve(bench.a)
    for direction in directions:
        own = answer(model, direction, bench.a, u)
        anchors_of[name, direction] = own, u if direction == "forward" else bench.a
        for factor in factors:
            run(name, model, direction, factor)

# %%
frame = pd.DataFrame(rows)
frame["factor"] = frame.setting.map(
    lambda text: int(text.split(";")[0][5:]) // int(text.split("trained=")[1])
)
judged = frame[frame.metric.isin(["relative_l2", "error_rate"])]
cells = ["pde", "direction", "method"]
judged.pivot(index=cells, columns="factor", values="value").round(2)

# %% tags=["thumbnail"]
with plots.style():
    shape = {"figsize": (3 * len(models), 2.6 * len(directions)), "squeeze": False}
    figure, axes = plt.subplots(len(directions), len(models), **shape)
    for line, direction in zip(axes, directions, strict=True):
        for axis, name in zip(line, models, strict=True):
            pde = models[name].pde
            mine = judged[(judged.pde == pde.name) & (judged.direction == direction)]
            for who, each in mine.groupby("method"):
                ends = [each["value"] - each["low"], each["high"] - each["value"]]
                axis.errorbar(each.factor, each["value"], ends, marker=".", label=who)
            axis.set(xscale="log", title=f"{pde.name}, {direction}", xlabel="points")
            charts.percent(axis, "y")
            axis.set_xticks(factors, [f"{pde.size * f}²" for f in factors])
            axis.xaxis.set_minor_locator(NullLocator())
    axes[0][0].legend()
figure.savefig(Path(out) / "errors.png", dpi=150)
plt.show()

# %% [markdown]
# ## What it looks like (Q7)

# %%
largest = max(factors)
for (name, direction, factor), (truth, found) in pictures.items():
    if factor == largest and direction == directions[0]:
        line = [plots.Panel(truth, "fine solution", like="field")]
        line += [plots.Panel(f, who, like="field") for who, f in found.items()]
        print(f"{name}, {direction}, {largest} times finer")
        plots.grid([line]).savefig(Path(out) / f"{name}.png", dpi=150)
        plt.show()

# %% [markdown]
# ## The cost (E25)
#
# A batch is split into parts that fit into memory, so that no grid needs more than a
# machine has; the paper's 107 GB are those of fifty samples at once. We count one.

# %%
for name, model in models.items():
    for factor in factors:
        pde, a, u = finer(model, coarse[name].a[:1], factor)
        one = PrismaSolver(model, Schedule(1))
        seen, key = observation(pde, a=a), torch.Generator().manual_seed(seed)
        taken = peak_megabytes(
            lambda s=one, o=seen, k=key: s.solve(o, samples=1, generator=k),
            model.mean.device,
        )
        record(pde, "forward", "PRISMA", factor, "peak_mb", (taken, "", ""))
        bound = memory.per_draw(model.config.widths[0], pde.grid.shape) / 1e6
        print(f"{name:18} {pde.size:4}²: {taken:7.1f} MB, planned for {bound:7.1f}")

# %% [markdown]
# ## The answer


# %%
def value(pde, direction, who, factor):
    place = "pde == @pde and direction == @direction and method == @who"
    return judged.query(f"{place} and factor == @factor")["value"].item()


lines = []
for model in models.values():
    pde = model.pde.name
    for direction in directions:
        first, last = (value(pde, direction, "PRISMA", f) for f in (1, largest))
        cheap = value(pde, direction, "PRISMA, interpolated", largest)
        verdict = "worth running" if last < cheap else "**interpolate instead**"
        fine = f"**{last:.1f} %** {largest} times finer"
        other = f"its coarse answer, interpolated, {cheap:.1f} %"
        where = f"- {pde}, {direction}: {first:.1f} % at {model.pde.size}²"
        lines.append(f"{where}, {fine}; {other}: {verdict}")
display(Markdown("\n".join(lines)))

# %% [markdown]
# ## What the text claims
#
# Of any model: on the training grid an interpolated answer is the answer, no number is
# missing, and larger grids take more memory.

# %%
for model in models.values():
    for direction in directions:
        here = [
            value(model.pde.name, direction, who, 1) for who in judged.method.unique()
        ]
        assert abs(here[0] - here[1]) < 1e-3 * here[0] + 1e-3
        assert here[2] < 1e-2
    mine = frame[(frame.pde == model.pde.name) & (frame.metric == "peak_mb")]
    assert mine["value"].is_monotonic_increasing
assert judged["value"].notna().all()
assert len(judged) == 3 * len(models) * len(directions) * len(factors)

# %%
write_metrics(Path(out) / "metrics.json", rows)
print(f"{len(rows)} numbers")
