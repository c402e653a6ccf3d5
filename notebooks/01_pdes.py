# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Can a residual tell a solution from a near miss?
#
# PRISMA feeds the residual of its current guess back into the network. That helps only
# if the residual of a right field is much smaller than that of a slightly wrong one, in
# the precision in which fields are stored. **It is: on 32 × 32 points white noise of
# 1 % raises the residual of every discrete equation at least 370,000-fold, and an
# error of 1 % as smooth as the solution itself still raises it at least 1,700-fold.
# Not for the other four, whose true fields keep a residual of their own: a smooth error
# of 1 % leaves it almost as it is, or trebles it.**
#
# Needs: nothing but the library. Runs in about two minutes on a laptop, most of them
# for a turbulent flow whose trajectories are then kept under `outputs/data`.

# %%
import math
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import Markdown, display
from ipywidgets import interact
from torch.nn import functional

from prisma_lib import data, pdes, plots, provenance
from prisma_lib.files import write_json

# %% tags=["parameters"]
size: int = 32  # points per axis of the stored fields
samples: int = 16  # problems per equation; the pictures show the first three
error: float = 0.01  # relative L2 error of the wrong solutions
seed: int = 0  # of the problems and of the noise
out: str = "outputs/scratch/pdes"  # folder for metrics.json and figures
scale: str = "cpu"  # smoke, cpu, gpu or paper: what the check cell may claim
interactive: bool = True  # offer a slider below the static figure

# %% [markdown]
# The equations are the files of `prisma_lib/pdes/`. This notebook names none of them: a
# new file appears in every figure and table below. A problem is a pair of an input $a$
# and a solution $u$ from the reference solver, both stored in float32.


# %%
def load(name, points):
    """Loads an equation; at smoke size one whose inputs are cheap to draw."""
    return pdes.load(name, points, **(pdes.quick(name) if scale == "smoke" else {}))


Path(out).mkdir(parents=True, exist_ok=True)
equations = {name: load(name, size) for name in pdes.names()}
problems = {
    name: data.problems(pde, samples, seed=seed) for name, pde in equations.items()
}

# %% [markdown]
# ## The equations
#
# Each file opens with the statement of its problem, which we show as it stands there.

# %%
for name, pde in equations.items():
    statement = sys.modules[type(pde).__module__].__doc__
    display(Markdown(f"### {name}\n\n{statement}"))

# %% [markdown]
# The *kind* says which tests an equation must pass: `solve` of a `discrete` one zeroes
# its `residual` to rounding. The *order* says how fast the residual of a smooth exact
# solution shrinks with the grid spacing.

# %%
pd.DataFrame(
    {
        name: {
            "kind": pde.kind,
            "order": pde.order,
            **pde.coefficients,
        }
        for name, pde in equations.items()
    }
).fillna("")

# %% [markdown]
# ## Three problems of each
#
# Inputs above, solutions below; each row shares its colour bar, which is centred on
# zero for fields of both signs. Problems of Navier–Stokes are consecutive times of one
# trajectory, those of Kolmogorov flow are of different ones. The first axis runs to the
# right, the second upwards: $x$ and $y$, for Burgers' equation $t$ and $x$.


# %%
def panel(values, title, like=""):
    return plots.Panel(values, title, like, signed=bool((values < 0).any()))


def fields(name):
    rows = [
        [panel(f, f"{symbol}, problem {i}", symbol) for i, f in enumerate(group[:3, 0])]
        for symbol, group in zip("au", problems[name], strict=True)
    ]
    return plots.grid(rows, [f"{name}: a", f"{name}: u"])


# %% tags=["thumbnail"]
solutions = [panel(problems[name][1][0, 0], f"{name}: u") for name in equations]
plots.grid([solutions[:4], solutions[4:]] if len(solutions) > 4 else [solutions])
plt.show()

# %%
for name in equations:
    fields(name).savefig(Path(out) / f"fields-{name}.png", dpi=150)
    plt.show()

# %% [markdown]
# ## Right, and wrong by one per cent
#
# The residual $r = R(a, u)$ is left side minus right side (for Darcy its negative), at
# the points where the stencil fits. We compare three solutions for the same $a$:
#
# - the stored truth $u$, where only rounding to float32 is left;
# - $(1 + \varepsilon) u$, an error as smooth as the solution;
# - $u + \varepsilon \, \|u\| / \|\eta\| \, \eta$ with white noise $\eta$, an error of
#   the same size without any smoothness.


# %%
def norm(f):
    return f.square().sum((1, 2, 3), keepdim=True).sqrt()


def wrong_solutions(u):
    noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(seed))
    rough = u + error * norm(u) / norm(noise) * noise
    return {"truth": u, "smooth error": (1 + error) * u, "white error": rough}


residuals = {
    name: {kind: pde.residual(a, v) for kind, v in wrong_solutions(u).items()}
    for (name, pde), (a, u) in zip(equations.items(), problems.values(), strict=True)
}

# %% [markdown]
# The ring of edge points without a stencil is left white. Each residual has its own
# colour bar; compare their powers of ten.


# %%
def framed(r):
    margins = [(size - n) // 2 for n in r.shape]
    pad = (margins[1], margins[1], margins[0], margins[0])
    return functional.pad(r, pad, value=math.nan)


def row(name, problem):
    a, u = (values[problem, 0] for values in problems[name])
    return [
        panel(a, "input a"),
        panel(u, "solution u"),
        *(
            plots.Panel(framed(r[problem, 0]), f"r, {kind}", signed=True)
            for kind, r in residuals[name].items()
        ),
    ]


# %%
figure = plots.grid([row(name, 0) for name in equations], list(equations))
figure.savefig(Path(out) / "pdes.png", dpi=150)
plt.show()

# %% [markdown]
# Where the solver solves the very stencil of the residual (kind `discrete`), the truth
# leaves rounding noise, and the smooth error $\varepsilon$ times the source: 1 for
# Darcy, $a$ for Poisson. White noise of the same size leaves a hundred times as much:
# two derivatives multiply what varies from point to point by about $1 / h^2$. The other
# kinds keep a residual at the truth: the truncation error of one time step or of the
# time axis, the kinks of a distance. Where it vanishes at the truth, a residual ranks
# fields of equal smoothness; it does not measure the error of a solution.


# %%
def draw(name, problem=0):
    plots.grid([row(name, problem)], [name])
    plt.show()


if interactive:
    interact(draw, name=list(equations), problem=(0, samples - 1))


# %%
def rms(r):
    return r.double().square().mean().sqrt().item()


table = pd.DataFrame(
    {name: {k: rms(r) for k, r in found.items()} for name, found in residuals.items()}
).T
table["smooth / truth"] = table["smooth error"] / table["truth"]
table["white / truth"] = table["white error"] / table["truth"]
table.map("{:.2g}".format)

# %% [markdown]
# ## How small can the residual of a stored solution be?
#
# Rounding $u$ to float32 changes it by about $10^{-7}$ of itself, and the stencil
# multiplies that by $1 / h^2$: the rounding part of the residual grows fourfold when
# $h$ is halved. The column float64 is of `solve`, float32 of stored pairs, of four
# problems each: where these were restricted from a finer grid, as those of Kolmogorov
# flow, they are other solutions, not the same ones rounded.


# %%
def stored(name, points):
    pde = load(name, points)
    a, u = data.problems(pde, 4, seed=seed)
    exact = a.double()
    return {"float32": rms(pde.residual(a, u))} | {
        "float64": rms(pde.residual(exact, pde.solve(exact)))
    }


floors = pd.DataFrame(
    {(n, f"{p} × {p}"): stored(n, p) for n in equations for p in (size, 2 * size)}
).T
floors.map("{:.1e}".format)

# %% [markdown]
# ## Does the residual shrink at the order of its stencil?
#
# `exact()` is a smooth pair that solves the *continuous* equation. On a grid its
# residual is the truncation error, which must fall as $h^p$ with the stated order $p$.
# A wrong sign, spacing or missing term would leave a residual that does not fall. Those
# that take a spectral step state no order: their residual of `exact()` is rounding. Nor
# do Burgers' and the eikonal equation, where it falls about as $h^2$.

# %%
grids = [size, 2 * size, 4 * size]
stated = {n: pde.order for n, pde in equations.items() if pde.order is not None}
finer = {name: [load(name, points) for points in grids] for name in stated}
spacing = {
    name: [pde.grid.spacing[0] for pde in found] for name, found in finer.items()
}
truncation = {
    name: [rms(pde.residual(*pde.exact())) for pde in found]
    for name, found in finer.items()
}

# %%
with plots.style():
    figure, axis = plt.subplots()
    for name, found in truncation.items():
        relative = [r / found[0] for r in found]
        axis.loglog(grids, relative, "o-", alpha=0.7, label=name)
    axis.loglog(grids, [4.0**-i for i in range(3)], "k:", label="second order")
    axis.set(xlabel="points per axis", ylabel="residual of exact(), coarsest = 1")
    axis.set_xticks(grids, [str(points) for points in grids])
    axis.minorticks_off()
    axis.legend()
figure.savefig(Path(out) / "order.png", dpi=150)
plt.show()

# %% [markdown]
# The order is the slope between the two finest grids, against the spacing $h$, which is
# $1 / (n - 1)$ on a bounded axis of $n$ points. Helmholtz lies on the line of Poisson.


# %%
def slope(name):
    (_, r_1, r_2), (_, h_1, h_2) = truncation[name], spacing[name]
    return math.log(r_1 / r_2) / math.log(h_1 / h_2)


orders = {name: slope(name) for name in stated}
pd.DataFrame({"measured": orders, "stated": stated})

# %% [markdown]
# ## Check
#
# Equations of kind `discrete` keep the promise of the first paragraph. Rounding and
# white noise both grow as $1 / h^2$, so their ratio holds on every grid; a smooth error
# does not grow, so we scale its factor to 32 points. Other kinds have a residual floor
# of their own, which their notebooks measure.

# %%
for name, pde in equations.items():
    smooth, white = table.loc[name, ["smooth / truth", "white / truth"]]
    print(f"{name}: smooth × {smooth:.3g}, white × {white:.3g}")
    if pde.kind == "discrete":
        assert abs(orders[name] - stated[name]) < 0.1, "the stencil lost its order"
        assert white > smooth > 1, "a wrong solution has the smaller residual"
    if pde.kind == "discrete" and scale != "smoke":
        assert smooth > 1_500 * (32 / size) ** 2, "a smooth error hides in rounding"
        assert white > 300_000, "white noise hides in rounding"

# %% [markdown]
# ## What a sweep keeps

# %%
common = {"scale": scale, "seed": seed, "setting": f"size={size}", "n": samples}
common |= {"device": provenance.record(torch.device("cpu"))["device"]}
rows = [
    common | {"pde": name, "method": kind, "metric": "residual_rms", "value": value}
    for name in equations
    for kind, value in table.loc[name, list(residuals[name])].items()
]
rows += [
    common | {"pde": name, "method": "exact", "metric": "order", "value": value, "n": 1}
    for name, value in orders.items()
]
write_json(Path(out) / "metrics.json", rows)
