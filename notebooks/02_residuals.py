# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How large is the residual of a right answer, and of the noise where sampling starts?
#
# PRISMA's network sees the PDE residual of its own guess at every step, from pure noise
# to the answer. **On 32 × 32 points the residual of a stored solution is 5e-7 for
# Poisson and 5.5 for a turbulent flow, and noise of the first sampling step raises it
# 7,000-fold to 200-billion-fold.** No constant scales both ends. Divided by
# $\sqrt{\text{rms}(r)^2 + s_0^2}$, with the residual $s_0$ of stored solutions, it is
# of size 0.7 to 1 wherever it exceeds $s_0$, for every equation, task and noise level.
#
# Needs: nothing but the library. Runs in twenty seconds on a laptop, and for a minute
# more the first time: turbulent trajectories are then kept under `outputs/data`.

# %%
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from ipywidgets import interact

from prisma_lib import data, observe, pdes, plots, provenance
from prisma_lib.baselines import published
from prisma_lib.edm import SIGMA_DATA, Schedule
from prisma_lib.fields import GRFNoise
from prisma_lib.files import write_json
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.spectral import radial_spectrum

# %% tags=["parameters"]
size: int = 32  # points per axis of the stored fields
samples: int = 40  # problems per equation; the pictures show the first
error: float = 0.01  # relative size of the errors in a wrong solution
rate: float = 0.03  # share of observed points in sparse tasks
seed: int = 0  # of the problems, the masks and the noise
out: str = "outputs/scratch/residuals"  # folder for metrics.json and figures
scale: str = "cpu"  # smoke, cpu, gpu or paper: what the check cell may claim
interactive: bool = True  # offer a slider below the static figure

# %% [markdown]
# A residual is the left side of an equation minus its right side (for Darcy the other
# way round), $r = R(a, u)$, where the discrete operator has a value. The equations are
# the files of `prisma_lib/pdes/`.


# %%
def load(name, points, **changes):
    """Loads an equation; at smoke size one whose inputs are cheap to draw."""
    return pdes.load(
        name, points, **((pdes.quick(name) if scale == "smoke" else {}) | changes)
    )


def rms(r):
    return r.double().square().mean().sqrt().item()


folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
equations = {name: load(name, size) for name in pdes.names()}
problems = {n: data.problems(pde, samples, seed=seed) for n, pde in equations.items()}
floors = {n: rms(pde.residual(*problems[n])) for n, pde in equations.items()}

# %% [markdown]
# ## One residual, four fields
#
# We take the stored truth, and three fields that differ from it by 1 %:
#
# - *smooth*: $(1 + \varepsilon) u$;
# - *checkerboard*: $u$ plus $\pm$ a constant, the sign alternating from point to point;
# - *noise*: both $a$ and $u$ with the noise of a diffusion model at
#   $\sigma = \varepsilon \sigma_d$, which is $\varepsilon$ of each field's standard
#   deviation.


# %%
def with_noise(name, sigma):
    pde, x = equations[name], torch.cat(problems[name], 1)
    noise = GRFNoise(pde.grid).draw(seed, range(len(x)), 2)
    deviation = x.std((0, 2, 3), keepdim=True)
    return (x + sigma / SIGMA_DATA * deviation * noise).split(1, 1)


def wrong(name):
    a, u = problems[name]
    parity = torch.arange(size)
    checker = 1 - 2 * ((parity[:, None] + parity) % 2)
    strength = error * u.square().mean((1, 2, 3), True).sqrt()
    return {
        "truth": (a, u),
        "smooth": (a, (1 + error) * u),
        "checkerboard": (a, u + strength * checker),
        "noise": with_noise(name, error * SIGMA_DATA),
    }


residuals = {
    name: {kind: pde.residual(*pair) for kind, pair in wrong(name).items()}
    for name, pde in equations.items()
}

# %%
table = pd.DataFrame(
    {n: {k: rms(r) for k, r in f.items()} for n, f in residuals.items()}
)
table = table.T
table.insert(0, "kind", [pde.kind for pde in equations.values()])
table.map(lambda value: value if isinstance(value, str) else f"{value:.1e}")

# %% [markdown]
# Where the solver solves the very stencil of the residual (`discrete`), the truth
# leaves the rounding of float32. Elsewhere it keeps a floor: the step in time
# (`one_step`), the differences along $t$ (`space_time`), the kinks of a distance
# (`geometric`). Turbulence on a coarse grid has lost eddies that its residual needs: an
# error of 1 % adds less than a tenth. Compact second differences see a checkerboard
# best of all fields; the central differences of the eikonal equation not at all. The
# pictures show a corner of it.


# %%
def row(name, problem):
    found = {kind: r[problem, 0] for kind, r in residuals[name].items()}
    found["checkerboard"] = found["checkerboard"][:10, :10]
    return [plots.Panel(r, f"r, {kind}", signed=True) for kind, r in found.items()]


figure = plots.grid([row(name, 0) for name in equations], list(equations))
figure.savefig(folder / "fields.png", dpi=150)
plt.show()


# %%
def draw(name, problem=0):
    plots.grid([row(name, problem)], [name])
    plt.show()


if interactive:
    interact(draw, name=list(equations), problem=(0, samples - 1))

# %% [markdown]
# ## Which modes is it made of?
#
# Two derivatives multiply mode $k$ by $|k|^2$, and its power by $|k|^4$: a residual
# looks at the finest modes, where a solution has hardly any power and noise has most.
# The paper attends to it mode by mode, since frequencies "contribute unevenly and can
# be differentially corrupted under noise" (its introduction). A smooth error stays in
# the low modes, below the noise of the high ones. For Darcy it is in the mean alone,
# mode 0, which the axis does not show.

# %%
with plots.style():
    figure, axes = plt.subplots(2, 4, figsize=(10.5, 5), sharex=True)
    for axis, (name, found) in zip(axes.flat, residuals.items(), strict=False):
        shown = {k: r[:, 0] for k, r in found.items() if k != "checkerboard"}
        plots.spectra(axis, shown)
        axis.set(title=name, xlabel="", ylabel="")
        if axis is not axes[0, 0]:
            axis.get_legend().remove()
    for axis in axes.flat[len(residuals) :]:
        axis.set_axis_off()
    figure.supxlabel("mode number |k|", fontsize=9)
    figure.supylabel("power of the residual", fontsize=9)
figure.savefig(folder / "spectra.png", dpi=150)
plt.show()

# %% [markdown]
# ## The floor of one step
#
# The residual of a flow is one step of backward Euler, while its solution was stepped
# finely. They differ by the truncation error $\tfrac12 \Delta t \, \omega_{tt}$ of that
# step, so that the floor must fall linearly in $\Delta t$. We shorten the interval,
# from the inputs as drawn and from the same flows five intervals later, and give the
# floor in per cent of the tendency $(\omega' - \omega) / \Delta t$.


# %%
def later(pde, w, steps=5):
    for _ in range(steps):
        w = pde.solve(w)
    return w


def floor(pde, w, divisor):
    step = pde.interval / divisor
    short = pdes.load(pde.name, pde.size, **(pde.options | {"interval": step}))
    u = short.solve(w)
    return step, 100 * rms(short.residual(w, u)) * step / rms(u - w)


steps_of, settled = {}, {}
for name, pde in equations.items():
    if pde.kind == "one_step":
        drawn = problems[name][0].double()
        for start, w in (("as drawn", drawn), ("later", later(pde, drawn))):
            found = [floor(pde, w, 2**i) for i in range(7)]
            steps_of[name, start] = tuple(zip(*found, strict=True))
        times, (a, u) = steps_of[name, "later"][0], problems[name]
        settled[name] = 100 * floors[name] * pde.interval / rms(u - a)

# %% tags=["thumbnail"]
with plots.style():
    figure, axis = plt.subplots(figsize=(6, 3.8))
    for name in settled:
        line = axis.loglog(*steps_of[name, "later"], "o-", ms=4, label=f"{name}, later")
        same = {"color": line[0].get_color()}
        axis.loglog(
            *steps_of[name, "as drawn"], "--", label=f"{name}, as drawn", **same
        )
        pair = (equations[name].interval, settled[name])
        axis.plot(*pair, "*", ms=10, label=f"{name}, stored pairs", **same)
        times, percent = steps_of[name, "later"]
        linear = [percent[-1] * t / times[-1] for t in times]
        axis.loglog(times, linear, "k:", lw=1, zorder=3)
    axis.plot([], [], "k:", lw=1, label="slope 1")
    axis.set(xlabel=r"$\Delta t$", ylabel="residual, % of the tendency")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.savefig(folder / "floor.png", dpi=150)
plt.show()

# %%
floors_of_steps = pd.DataFrame(
    {
        f"{name}, {start}": [f"{p:.2f} %" for p in percent]
        for (name, start), (_, percent) in steps_of.items()
    },
    index=[f"interval / {2**i}" for i in range(7)],
)
floors_of_steps

# %% [markdown]
# Later on the floor falls with slope 1. It does not for Navier–Stokes inputs as drawn:
# a tenth of them are random fields at $t = 0$, whose finest modes die within one
# interval. The stored pairs of Kolmogorov flow lie above their line: they are
# restricted from a finer grid, and no shorter step removes the stress of what was lost.

# %% [markdown]
# ## Rounding against truncation
#
# `exact()` solves the *continuous* equation wherever time is not stepped, so that its
# residual is the truncation error of the operator, which falls as $h^2$. The same pair
# in float32 differs by rounding, about $10^{-7}$ of $u$, which second differences
# multiply by $1 / h^2$.


# %%
def rounding(name, points):
    finer = {"resolution": points} if "resolution" in equations[name].options else {}
    pde = pdes.load(name, points, **finer)
    a, u = pde.exact()
    r = pde.residual(a, u)
    return rms(r), rms(pde.residual(a.float(), u.float()).double() - r)


grids = [16, 32, 64, 128, 256]
limits = {
    name: tuple(zip(*(rounding(name, n) for n in grids), strict=True))
    for name in equations
}

# %%
with plots.style():
    figure, axes = plt.subplots(2, 4, figsize=(10.5, 5), sharex=True)
    for axis, (name, parts) in zip(axes.flat, limits.items(), strict=False):
        for values, label in zip(parts, ("exact(), float64", "rounding"), strict=True):
            axis.loglog(grids, values, "o-", ms=4, label=label)
        rise = [parts[1][-1] * (n / grids[-1]) ** 2 for n in grids]
        axis.loglog(grids, rise, "k:", lw=1, label="$n^2$")
        axis.set_title(f"{name} ({equations[name].kind})")
        axis.set_xticks(grids, [str(n) for n in grids])
        axis.minorticks_off()
    for axis in axes.flat[len(limits) :]:
        axis.set_axis_off()
    axes[0, 0].legend()
    figure.supxlabel("points per axis", fontsize=9)
    figure.supylabel("rms of the residual", fontsize=9)
figure.savefig(folder / "rounding.png", dpi=150)
plt.show()

# %% [markdown]
# Where second differences are taken, truncation falls fourfold and rounding grows
# fourfold with every doubling. Beyond their crossing a finer grid makes the residual of
# a float32 field larger. The one-step equations have no truncation here: their
# `exact()` solves the discrete step itself.

# %%
crossings = {}
for name, (truncation, rounded) in limits.items():
    ratios = [math.log(r / t) for t, r in zip(truncation, rounded, strict=True)]
    if ratios[0] < 0 < ratios[-1]:
        crossings[name] = math.exp(np.interp(0, ratios, np.log(grids)))
        print(f"{name}: rounding exceeds truncation from {crossings[name]:.0f} points")

# %% [markdown]
# ## From $\sigma = 0.002$ to 80
#
# The sampler evaluates the residual of $x_\sigma = x_0 + \sigma \varepsilon$, after
# observed values have replaced noisy ones. A linear residual grows as $\sigma$, one
# with a product of unknowns as $\sigma^2$. The paper is silent on scale; our network
# gets
#
# $$\hat r = r \, / \sqrt{\text{rms}(r)^2 + s_0^2}$$
#
# and its gates $\ln \text{rms}(r)$, too, so that nothing is lost. $s_0$, the rms
# residual of the stored truth, keeps the rest of a solved problem from being blown up
# to an error.


# %%
def network(name):
    statistics = data.statistics(equations[name], samples, seed=seed, split="test")
    return Prisma(equations[name], ModelConfig.preset("tiny"), statistics)


networks = {name: network(name) for name in equations}


def sizes(name, task, sigmas):
    """Yields the rms of r over s_0 and of r_hat, one value a problem."""
    model, (a, u) = networks[name], problems[name]
    index = range(len(a))
    seen = observe.observe(task, a, u, rate=rate, key=seed, index=index)
    known = model.condition(seen)
    noise = GRFNoise(model.pde.grid).draw(seed, index, 2)
    for sigma in sigmas:
        x_sigma = model.normalise(torch.cat([a, u], 1)) + sigma * noise
        r = model.residual(x_sigma, *known)
        r_hat = model.residual_levels(x_sigma, *known)[0][0]
        each = [f.double().square().mean((1, 2, 3)).sqrt() for f in (r, r_hat)]
        yield each[0] / model.residual_floor.item(), each[1]


# %%
levels = [s.item() for s in Schedule(12).sigmas()[:-1].flip(0)]
found = {
    (name, task): torch.stack([torch.stack(v) for v in sizes(name, task, levels)])
    for name in equations
    for task in observe.TASKS
}

# %%
middle = min(range(len(levels)), key=lambda i: abs(math.log(levels[i])))
with plots.style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.6))
    for place, name in enumerate(equations):
        style = "--" if place % 2 else "-"
        left.loglog(levels, found[name, "uncond"][:, 0].mean(-1), style, label=name)
    for number, task in enumerate(observe.TASKS):
        places = [place + 0.13 * (number - 2) for place in range(len(equations))]
        sizes_of = [found[name, task][middle, 0].mean() for name in equations]
        right.semilogy(places, sizes_of, "o", ms=4, label=task.replace("_", " "))
    left.set(xlabel=r"noise level $\sigma$", ylabel="rms(r) / $s_0$, nothing observed")
    right.set(ylabel=rf"rms(r) / $s_0$ at $\sigma$ = {levels[middle]:.2g}")
    right.set_xticks(range(len(equations)), list(equations), rotation=30, ha="right")
    left.legend()
    right.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.savefig(folder / "sigma.png", dpi=150)
plt.show()

# %% [markdown]
# At one noise level the tasks differ. Noise in the field that Poisson's equation
# differentiates counts sixty times as much as noise in its source, and more on finer
# grids. Burgers' and the eikonal equation do not look at $a$: where all of $u$ is
# observed, $r$ is the floor whatever the noise, and $\hat r$ says so. No function of
# $\sigma$ alone can scale $r$; its own rms must.

# %%
for name in equations:
    means = [found[name, task][middle, 0].mean().item() for task in observe.TASKS]
    print(f"{name}: largest over smallest task {max(means) / min(means):.3g}")
raw = torch.cat([pair[:, 0].flatten() for pair in found.values()])
hat = torch.cat([pair[:, 1].flatten() for pair in found.values()])
print(f"r_hat where rms(r) >= s_0: {hat[raw >= 1].min():.3f} to {hat.max():.3f}")
print(f"rms(r) < s_0 in {100 * (raw < 1).double().mean():.1f} % of all cases")

# %% [markdown]
# ## What other codes guide with
#
# DiffusionPDE and FunDPS pull draws towards a small residual, too. Those of their
# public codes are written down in `prisma_lib/baselines/published.py`, and they are not
# the equations' own. One that helps tells a right solution from a wrong one: below is
# its rms at the truth, over that at the solution of another problem. 1 tells nothing.
# Burgers' equation is left out: where another history starts is no fault of its own.

# %%
theirs = {"DiffusionPDE": False, "FunDPS": True}  # whether Darcy's knows the spacing


def telling(name, residual):
    a, u = problems[name]
    return rms(residual(a, u)) / rms(residual(a, u.roll(1, 0)))


told = pd.DataFrame(
    {
        name: {"ours": telling(name, pde.residual)}
        | {
            title: telling(name, published.published_residual(pde, spaced=spaced))
            for title, spaced in theirs.items()
        }
        for name, pde in equations.items()
        if name in published.NAMES and name != "burgers"
    }
).T
told.map("{:.2g}".format)

# %% [markdown]
# Without the spacing, Darcy's residual is 1 at the truth and at any other pressure: the
# guidance of DiffusionPDE gets nothing from it. The sum of two first derivatives of a
# vorticity is no law of motion, in either code. That is why `residual="ours"` exists,
# and why `prisma_lib.tune` chooses between both by validation problems.

# %% [markdown]
# ## Check
#
# For any fields the spectrum of a residual adds up to its mean square, $\hat r$ is
# bounded, and `discrete` solvers zero their residual in float64; then the numbers
# above.

# %%
assert hat.max() <= 1 + 1e-6
assert hat[raw >= 1].min() > 0.7
for name, pde in equations.items():
    r = residuals[name]["noise"].double()
    torch.testing.assert_close(
        radial_spectrum(r).sum(), r.square().mean((-2, -1)).sum()
    )
    if pde.kind == "discrete":
        a = problems[name][0].double()
        u = pde.solve(a)
        assert rms(pde.residual(a, u)) < 1e-9 * rms(pde.residual(a, 0 * u))
        checkered = residuals[name]["checkerboard"] - residuals[name]["truth"]
        strength = error * problems[name][1].square().mean((1, 2, 3)).min().sqrt()
        assert rms(checkered) > strength / max(pde.grid.spacing) ** 2
assert told["ours"].max() < 0.5 < told.loc["navier_stokes", "FunDPS"]
assert abs(told.loc["darcy", "DiffusionPDE"] - 1) < 0.02

# %%
growth = {name: (found[name, "uncond"][-1, 0].mean()).item() for name in equations}
print(f"at sigma = 80: {min(growth.values()):.2g} to {max(growth.values()):.2g} times")
if scale != "smoke":
    assert min(growth.values()) > 5_000
    assert max(growth.values()) / min(growth.values()) > 1e6
    for name in settled:
        times, percent = steps_of[name, "later"]
        slope = math.log(percent[0] / percent[-1]) / math.log(times[0] / times[-1])
        print(f"{name}: {percent[0]:.2f} % of the tendency, slope {slope:.3f}")
        assert abs(slope - 1) < 0.05, "the floor does not fall linearly"
    for name, (_, rounded) in limits.items():
        if equations[name].kind == "discrete":
            assert 3 < rounded[-1] / rounded[-2] < 5
            assert 32 < crossings[name] < 256
if scale == "cpu":
    assert 4e-7 < min(floors.values()) < 6e-7
    assert abs(max(floors.values()) - 5.5) < 0.3
    assert abs(min(growth.values()) / 7e3 - 1) < 0.1
    assert abs(max(growth.values()) / 2e11 - 1) < 0.1

# %% [markdown]
# ## What a sweep keeps

# %%
common = {"scale": scale, "seed": seed, "n": samples}
common |= {"device": provenance.record(torch.device("cpu"))["device"]}
rows = [
    common
    | {"pde": name, "method": kind, "metric": "residual_rms", "value": rms(r)}
    | {"setting": f"size={size},error={error}"}
    for name, fields in residuals.items()
    for kind, r in fields.items()
]
rows += [
    common
    | {"pde": name, "method": start, "metric": "floor_percent", "value": p}
    | {"setting": f"size={size},interval={t:.3g}"}
    for (name, start), line in steps_of.items()
    for t, p in zip(*line, strict=True)
]
rows += [
    common
    | {"pde": name, "method": "noise", "metric": "residual_over_s0", "value": value}
    | {"setting": f"size={size},sigma=80"}
    for name, value in growth.items()
]
write_json(folder / "metrics.json", rows)
