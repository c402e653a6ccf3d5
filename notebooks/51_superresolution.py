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
# **PRISMA is not, PRISMA-L is: Darcy forward, from $32^2$ to $256^2$ points, PRISMA's
# error grows from 1.1 to 61 %, where its coarse answer, interpolated, has 2.2 %;
# PRISMA-L's grows from 0.25 to 1.2 %, with 1.6 % for its coarse answer.**
#
# A neural operator accepts any grid. The paper runs a model trained at $64^2$ on up to
# $512^2$ points, eight times finer, and reports seconds and memory (claim C22: 0.24 to
# 4.85 s a sample, 4 to 107 GB), **but no error**. We measure the error, on models
# trained at $32^2$, against a numerical solution on the fine grid, and beside it what
# costs next to nothing: the model's own coarse answer, interpolated.
#
# Needs: the shipped model `darcy-32`, and the others where they are. Runs in less than
# half an hour of one core; a sweep gives the run all cores. All answers are printed at
# the end.

# %%
import time
from functools import cache
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
from prisma_lib.claims.evidence import Evidence
from prisma_lib.claims.posterior import CLAIMS
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.lifted import PrismaL
from prisma_lib.observe import observation
from prisma_lib.provenance import ROOT
from prisma_lib.refine import refine
from prisma_lib.results import write_metrics
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
model_names: list[str] = [  # which; an L behind it: PRISMA-L
    "darcy-32",
    "darcy-32L",
    "helmholtz-32",
    "navier_stokes-32",
]
directions: list[str] = ["forward", "inverse"]  # what is asked of them
factors: list[int] = [1, 2, 4, 8]  # how much finer than the training grid
n: int = 16  # unseen test problems
finer_n: int = 8  # of these, the problems that grids beyond twice as fine get
finest_n: int = 4  # of these, the problems that the finest grid gets
paper_factors: list[int] = [2, 4]  # where PRISMA also starts from the paper's noise
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


def count(factor):
    if factor == max(factors):
        return min(n, finest_n)
    return n if factor <= 2 else min(n, finer_n)


@cache
def finer(name, factor):
    pde = models[name].pde.resized(models[name].pde.size * factor)
    known = coarse[name].a[: count(factor)]
    a = pde.snap(refine(known, models[name].pde.grid, pde.grid.shape))
    return pde, a, pde.solve(a)


# %%
def solver(model, steps, **settings):
    # PRISMA-L would look for noise, which takes long where everything is observed.
    told = {"noise_sd": 0.0} if isinstance(model, PrismaL) else {}
    return PrismaSolver(model, Schedule(steps), **told, **settings)


def answer(model, direction, a, u, noise_grid="train"):
    seen = {"a": a} if direction == "forward" else {"u": u}
    seen = observation(model.pde_on(tuple(a.shape[2:])), **seen)
    key, began = torch.Generator().manual_seed(seed), time.perf_counter()
    asked = solver(model, steps, noise_grid=noise_grid)
    found = asked.solve(seen, samples=1, generator=key)
    seconds = (time.perf_counter() - began) / len(a)
    return found[direction == "forward"][0].cpu(), seconds


# %% [markdown]
# ## Errors, seconds and memory
#
# - **PRISMA**, and our **PRISMA-L** (see 34_physics_lift), whose classical estimate is
#   made on the fine grid, too: run on the fine grid.
# - **PRISMA, paper's noise**: our draws on a fine grid start from the noise of the
#   training grid, resampled without new modes (`noise_grid="train"`, see 04_noise). The
#   paper keeps the kernel of its noise on every grid, as far as it says
#   (`noise_grid="paper"`): PRISMA with that is the control.
# - **PRISMA, interpolated**: its answer at $32^2$, upsampled.
# - **solver, interpolated**: the numerical solution at $32^2$, upsampled: what a coarse
#   grid can know of the fine solution at all. Inverse: what the coarse input holds,
#   which is everything, as the fine one is made of it.
#
# Seconds are those of a batch, divided; megabytes are the most that the tensors of one
# network call take for one sample. Grids beyond twice as fine are asked fewer problems,
# the first of all (`finer_n`, `finest_n`): an answer there takes many seconds. Their
# errors are of fewer problems than those of coarser grids; compare methods on one grid,
# not grids. Problems of Navier–Stokes are consecutive times of two trajectories, on
# these grids of one: their intervals, made as if problems were independent, are too
# narrow.

# %%
rows, pictures, cost, known = [], {}, {}, set()


def record(pde, direction, who, factor, metric, number, **more):
    size = pde.size
    row = {"method": who, "pde": pde.name, "direction": direction, "regime": "full"}
    row |= {"setting": f"size={size};trained={size // factor}", "metric": metric}
    row |= {"steps": steps, "seed": seed, "scale": scale, **more}
    value = dict(zip(("value", "low", "high"), number, strict=True))
    rows.append(row | {"device": devices.describe(torch.device("cpu"))} | value)


def error(pde, direction, found, truth):
    if pde.error(direction) == "error_rate":
        return 100 * metrics.error_rate(found, truth, pde.snap)
    return 100 * metrics.relative_l2(found, truth)


# %%
PAPER = "paper's noise"


def asked(name, model, direction, factor):
    pde, a, u = finer(name, factor)
    own, seconds = answer(model, direction, a, u)
    found, taken = {model.title: own}, {model.title: seconds}
    if factor in paper_factors and not isinstance(model, PrismaL):
        who = f"{model.title}, {PAPER}"
        found[who], taken[who] = answer(model, direction, a, u, "paper")
    coarse_own, solved = anchors_of[name, direction]
    for who, field in ((model.title, coarse_own), ("solver", solved)):
        moved = refine(field[: len(a)], model.pde.grid, pde.grid.shape)
        found[f"{who}, interpolated"] = moved
    return pde, (u if direction == "forward" else a), found, taken


# %%
def run(name, model, direction, factor):
    pde, truth, found, taken = asked(name, model, direction, factor)
    more = {"n": len(truth)}
    for who, field in found.items():
        place = pde.name, direction, factor, who
        if place in known:  # two models of one equation have one solver
            continue
        known.add(place)
        values = error(pde, direction, field, truth)[:, None]
        number = calibration.number(values, calibration.mean, seed)
        own = {"seconds_per_sample": f"{taken[who]:.3g}"} if who in taken else {}
        record(pde, direction, who, factor, pde.error(direction), number, **more | own)
    fields = {"fine solution": truth} | found
    pictures[name, direction, factor] = {who: x[0, 0] for who, x in fields.items()}
    seconds = taken[model.title]
    cost[name, f"s a sample, {direction}", factor], number = seconds, (seconds, "", "")
    record(pde, direction, model.title, factor, "seconds_per_sample", number, **more)


# %%
coarse = {k: evaluate.benchmark(m.pde, n, seed) for k, m in models.items()}
anchors_of = {}
for name, model in models.items():
    bench = coarse[name]
    u = model.pde.solve(bench.a)
    for direction in directions:
        own, _ = answer(model, direction, bench.a, u)
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
equations = {model.pde.name: model.pde for model in models.values()}
with plots.style():
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    colours = dict(zip(judged["method"].unique(), cycle, strict=False))
    shape = {"figsize": (3 * len(equations), 2.6 * len(directions)), "squeeze": False}
    figure, axes = plt.subplots(len(directions), len(equations), **shape)
    for line, direction in zip(axes, directions, strict=True):
        for axis, pde in zip(line, equations.values(), strict=True):
            mine = judged[(judged.pde == pde.name) & (judged.direction == direction)]
            for who, each in mine.groupby("method"):
                ends = [each["value"] - each["low"], each["high"] - each["value"]]
                kind = {"marker": ".", "color": colours[who], "label": who}
                axis.errorbar(each.factor, each["value"], ends, **kind)
            axis.set(xscale="log", title=f"{pde.name}, {direction}", xlabel="points")
            charts.percent(axis, "y")
            axis.set_xticks(factors, [f"{pde.size * f}²" for f in factors])
            axis.xaxis.set_minor_locator(NullLocator())
    charts.one_legend(figure)
figure.savefig(Path(out) / "errors.png", dpi=150)
plt.show()

# %% [markdown]
# ## What it looks like
#
# The first problem on every grid (the paper's picture, Q7 in its checklist), from
# coarse to fine, all in the colours of the fine solution: what is beyond its values is
# drawn as if at their ends.

# %%
largest = max(factors)
direction = directions[0]
for name, model in models.items():
    shown = [pictures[name, direction, factor] for factor in factors]
    whos = dict.fromkeys(who for each in shown for who in each)
    truth = next(iter(shown[-1].values()))
    look = {"like": "field", "bounds": (truth.min().item(), truth.max().item())}
    lines = []
    for who in whos:
        sizes = [f"{model.pde.size * factor}²" for factor in factors]
        known_of = zip(sizes, shown, strict=True)
        line = [
            plots.Panel(each[who], size, **look) if who in each else None
            for size, each in known_of
        ]
        lines.append(line)
    print(f"{name}, {direction}; rows: {', '.join(whos)}")
    plots.grid(lines, list(whos)).savefig(Path(out) / f"{name}.png", dpi=150)
    plt.show()

# %% [markdown]
# ## The cost (E25)
#
# A batch is split into parts that fit into memory, so that no grid needs more than a
# machine has (a single sample larger than the plan is a part all the same); the paper's
# gigabytes are those of fifty samples at once. We count one, beside what the plan sets
# aside for it. The paper's own numbers, of a model trained at $64^2$, stand by the same
# factors; it does not say of which equation and direction.

# %%
for name, model in models.items():
    for factor in factors:
        pde, a, _ = finer(name, factor)
        one = solver(model, 1)
        seen, key = observation(pde, a=a[:1]), torch.Generator().manual_seed(seed)
        taken = peak_megabytes(
            lambda s=one, o=seen, k=key: s.solve(o, samples=1, generator=k),
            model.mean.device,
        )
        record(pde, "forward", model.title, factor, "peak_mb", (taken, "", ""), n=1)
        bound = memory.per_draw(model.config.widths[0], pde.grid.shape) / 1e6
        assert taken < bound, f"{name}, {pde.size}²: {taken:.0f} of {bound:.0f} MB"
        cost[name, "MB a sample", factor] = taken
        cost[name, "MB planned", factor] = bound

# %%
paper = pd.read_csv(ROOT / "outputs" / "tables" / "paper.csv")
units = {"seconds_per_sample": "s a sample", "peak_memory_gb": "GB of fifty samples"}
for row in paper[paper["table"] == "tab:super-res"].to_dict("records"):
    if row["metric"] in units:
        size, trained, _ = (int(x.split("=")[1]) for x in row["setting"].split(";"))
        cost["the paper", units[row["metric"]], size // trained] = row["value"]
wide = pd.Series(cost).rename_axis(["model", "cost", "times finer"]).unstack()
wide.map(lambda number: f"{number:.3g}")

# %% [markdown]
# ## The answer


# %%
def value(pde, direction, who, factor):
    place = "pde == @pde and direction == @direction and method == @who"
    return judged.query(f"{place} and factor == @factor")["value"].item()


def with_paper_noise(pde, direction, title):
    told = [
        f"{value(pde, direction, f'{title}, {PAPER}', factor):.1f} % instead of "
        f"{value(pde, direction, title, factor):.1f} % {factor} times finer"
        for factor in sorted({*factors} & {*paper_factors})
    ]
    return f"- {title}, {PAPER}, {pde}, {direction}: {', '.join(told)}"


# %%
lines = []
for model in models.values():
    pde, title = model.pde.name, model.title
    for direction in directions:
        first, last = (value(pde, direction, title, f) for f in (1, largest))
        cheap = value(pde, direction, f"{title}, interpolated", largest)
        verdict = "worth running" if last < cheap else "**interpolate instead**"
        fine = f"**{last:.1f} %** {largest} times finer"
        other = f"its coarse answer, interpolated, {cheap:.1f} %"
        where = f"- {title}, {pde}, {direction}: {first:.1f} % at {model.pde.size}²"
        lines.append(f"{where}, {fine}; {other}: {verdict}")
        if not isinstance(model, PrismaL):
            lines.append(with_paper_noise(pde, direction, title))
for name in ("C22", "E25"):
    every = [row | {"sweep": "superresolution"} for row in rows]
    found = CLAIMS[name].judge(Evidence([], [], [], every))
    told = f"**{found.verdict}** ({found.evidence}); the paper: {CLAIMS[name].paper}"
    lines.append(f"- {name}, {CLAIMS[name].text}: {told}")
display(Markdown("\n".join(lines)))

# %% [markdown]
# ## What the text claims
#
# Of any model: on the training grid an interpolated answer is the answer, no number is
# missing, and larger grids take more memory, but not more than planned. Of the shipped
# models: on the finest grid PRISMA is worse than its coarse answer, interpolated, for
# every equation and direction, and PRISMA-L better.

# %%
for model in models.values():
    for direction in directions:
        names = model.title, f"{model.title}, interpolated", "solver, interpolated"
        here, moved, solved = (value(model.pde.name, direction, x, 1) for x in names)
        assert abs(here - moved) < 1e-3 * here + 1e-3
        assert solved < 1e-2
    mine = frame[(frame.pde == model.pde.name) & (frame.method == model.title)]
    assert mine[mine.metric == "peak_mb"]["value"].is_monotonic_increasing
assert judged["value"].notna().all()
answers = (2 * len(models) + len(equations)) * len(factors)
faithful = [model for model in models.values() if not isinstance(model, PrismaL)]
answers += len(faithful) * len({*factors} & {*paper_factors})
assert len(judged) == answers * len(directions)
if scale != "smoke":
    for model in models.values():
        for direction in directions:
            names = model.title, f"{model.title}, interpolated"
            own, moved = (value(model.pde.name, direction, x, largest) for x in names)
            assert (own < moved) == isinstance(model, PrismaL), model.pde.name

# %%
write_metrics(Path(out) / "metrics.json", rows)
print(f"{len(rows)} numbers")
