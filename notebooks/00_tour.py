# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Can one model solve Darcy flow forward, backward and from a few sensors?
#
# Water seeps through rock whose permeability $a$ is known, or wanted; $u$ is its
# pressure. A numerical solver goes from $a$ to $u$ when $a$ is known everywhere. A
# diffusion model that has learned pairs $(a, u)$ goes both ways, from whatever was
# measured. **With the shipped model the answer is yes: on problems that it has never
# seen the pressure comes back within 1.4 % on average, the rock with less than 2.5 % of
# its points misjudged, and from sensors at 3 % of the points more than four fifths of
# the rock are right.** The table also has the numerical solver forward and, backward, a
# formula for the rock; where every point is observed without noise they apply, and win.
# So does the *lift* in every cell, a classical estimate of the mean, which is that
# formula where it applies: it draws nothing, and has no doubt to show. The last rows
# are honest, too: heavy noise on the pressure, which the model was never trained on,
# hides the rock from it.
#
# Needs: the shipped model `darcy-32` (1.5 MB), no GPU. Runs in about a minute.

# %%
import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from ipywidgets import IntSlider, interact

from prisma_lib import checkpoints, data, evaluate, load, pdes, plots, provenance, solve
from prisma_lib.anchors import CUT
from prisma_lib.files import write_json

# %% tags=["parameters"]
model_name: str = "darcy-32"  # a shipped model, or the folder of one
problems: int = 32  # unseen test problems for the table
steps: int = 20  # sampler steps; one draw costs 2 steps - 1 network calls
draws: int = 16  # posterior draws for the picture of the unsure parts
rate: float = 0.03  # share of points that carry a sensor
seed: int = 1  # seed of the problems, sensors and draws
out: str = "outputs/scratch/tour"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # offer a slider below the static figure

# %% [markdown]
# ## A problem, solved by the book
#
# The equation is $-\nabla \cdot (a \nabla u) = 1$ on the unit square with $u = 0$ on
# its edge, and $a$ is 3 or 12 in random patches. Drawing rock and solving for the
# pressure takes two lines.

# %%
model = load(model_name)
pde = pdes.load("darcy", size=model.pde.size)
a, u = data.problems(pde, 4, split="test", seed=seed)
residual = pde.residual(a.double(), pde.solve(a.double()))
print(
    f"{pde.size} x {pde.size} nodes, residual of the solver: {residual.abs().max():.0e}"
)
assert residual.abs().max() < 1e-8

# %% [markdown]
# ## Forward: the model does what the solver does
#
# We hand the model $a$ and ask for $u$. The same call takes a NumPy array, one field or
# a batch.

# %%
forward = solve(model, a=a, steps=steps, seed=seed)
rows = [
    plots.comparison(a[i, 0], u[i, 0], forward.u[0, i, 0], names=("a", "u"))
    for i in range(2)
]
plots.grid(rows)
plt.show()

# %% [markdown]
# ## Backward: from the pressure to the rock
#
# Nothing about the model changes; only what is observed does. The prediction is snapped
# to the two values that rock can have, and the error map shows where it is wrong: at
# the edges of the patches.

# %%
inverse = solve(model, u=u, steps=steps, seed=seed)
rows = [
    plots.comparison(
        *(u[i, 0], a[i, 0], pde.snap(inverse.a[0, i, 0])),
        names=("u", "a"),
        metric=pde.error("inverse"),
    )
    for i in range(2)
]
plots.grid(rows)
plt.show()

# %% [markdown]
# ## From a few sensors: many answers, and a map of doubt
#
# Now 3 % of the pressure is measured and everything else is unknown; a missing value is
# NaN. There is no single answer, so we draw several. Where they agree, the data decide;
# where they differ, it is honest to say so.

# %% tags=["thumbnail"]
generator = torch.Generator().manual_seed(seed)
sensors = torch.where(torch.rand(u.shape, generator=generator) < rate, u, torch.nan)
sparse = solve(model, u=sensors, steps=steps, samples=draws, seed=seed)
(mean, _), (std, _) = sparse.mean(), sparse.std()
panels = [
    plots.Panel(sensors[0, 0], f"{int(sensors[0].isfinite().sum())} sensors of u"),
    plots.Panel(a[0, 0], "true a", like="a"),
    plots.Panel(sparse.a[0, 0, 0], "one draw of a", like="a"),
    plots.Panel(mean[0, 0], f"mean of {draws}", like="a"),
    plots.Panel(std[0, 0], "std of the draws"),
]
thumbnail = plots.grid([panels])
plt.show()

# %% [markdown]
# Is the map of doubt worth anything? If it is, the mean is wrong more often where the
# spread is large. We sort all points of the four problems by their spread.

# %%
wrong = (pde.snap(mean) != a).flatten().float()
order = std.flatten().argsort()
sure, unsure = wrong[order].chunk(2)
print(
    f"wrong where sure: {100 * sure.mean():.1f} %, unsure: {100 * unsure.mean():.1f} %"
)

# %% [markdown]
# ## The table: unseen problems, every setting, honest rows
#
# Forward settings observe $a$ and are judged by the relative $L^2$ error of $u$;
# inverse ones observe $u$ and are judged by the share of misjudged points of $a$.
# "Sparse" keeps 3 % of the points, "noisy" adds noise of twice the field's standard
# deviation to every point. The stencil reads the rock off $-1 / \Delta u$; the mean
# field ignores the observation. The lift is an estimate by classical means; in the
# first cell it also stands cut short, after one and two iterations of its solver.

# %%
table = evaluate.table(model, problems, steps, seed=seed, scale=scale)
print(evaluate.show(table))

# %%
plots.error_bars([row for row in table if row["method"] not in CUT])
plt.show()

# %% [markdown]
# ## How a draw comes about
#
# The sampler starts from noise and removes it step by step. The slider shows the state,
# the model's estimate of the clean field, the estimate's PDE residual, and the spectra;
# where all of $a$ is known, as here, the estimate has its spectrum from the first step
# on, and what is left is fine.

# %%
states = []
solve(model, a=a[:1], steps=steps, seed=seed, watch=states.append)


def draw(step: int = max(1, steps // 2)) -> None:
    state = states[step - 1]
    x, estimate = model.denormalise(state.x), model.denormalise(state.denoised)
    r = pde.residual(a[:1], estimate[:, 1:])
    title = f"step {step} of {steps}, noise level {state.sigma:.3g}"
    plots.sampling_step(x[0, 1], estimate[0, 1], r[0, 0], u[0, 0], title)
    plt.show()


for step in (1, max(1, steps // 2), steps):
    draw(step)

# %%
if interactive:
    slider = IntSlider(steps // 2, 1, steps, continuous_update=False)
    interact(draw, step=slider)

# %% [markdown]
# ## What the text above claims
#
# Of any model it must hold that the last step, to noise level zero, ends at the model's
# own estimate, and that the rows are complete. Of the shipped model we claim more: the
# numbers of the first paragraph, that estimates settle as noise falls, and that the
# map of doubt separates right from wrong.

# %%
jumps = [
    (two.denoised - one.denoised).norm().item()
    for one, two in itertools.pairwise(states)
]
errors = {(r["method"], r["direction"], r["regime"]): float(r["value"]) for r in table}
print(f"first and last change of the estimate: {jumps[0]:.2f}, {jumps[-1]:.4f}")
torch.testing.assert_close(states[-1].x, states[-1].denoised, rtol=0, atol=1e-5)
assert len(errors) == 22
if scale != "smoke":
    assert jumps[-1] < jumps[0]
    assert errors["PRISMA", "forward", "full"] < 1.5
    assert errors["PRISMA", "inverse", "full"] < 2.5
    assert errors["PRISMA", "inverse", "sparse"] < 20
    assert errors["numerical solver", "forward", "full"] < 1e-3
    assert errors["stencil", "inverse", "full"] < errors["PRISMA", "inverse", "full"]
    for direction in ("forward", "inverse"):
        for regime in ("full", "sparse", "noisy"):
            anchor = errors["mean field", direction, "full"]
            assert errors["PRISMA", direction, regime] < 0.9 * anchor
            lift = errors["lift", direction, regime]
            assert lift < errors["PRISMA", direction, regime]
    assert unsure.mean() > 2 * sure.mean()

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
thumbnail.savefig(folder / "tour.png")
write_json(folder / "metrics.json", table)
card = checkpoints.read_card(checkpoints.find(model_name))
print(f"model {card['name']}, {card['parameters']:,} parameters")
print(provenance.record(torch.device("cpu")))
