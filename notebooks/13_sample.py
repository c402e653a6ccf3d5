# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How many network calls does a draw need?
#
# A draw follows a differential equation from noise to a clean pair of fields, and every
# step costs calls of the network. **About 16, with the multistep solver: its pressure
# is then within 0.2 % of the converged draw, for which Heun's method, the paper's,
# needs 31. When the rock is sought from a few sensors it is a third nearer to the
# converged draw than Heun's method after as many calls, and its spread is right.** The
# error against the truth cannot tell: two calls have the *smallest* error of all,
# 11.2 % of the points of the rock against 16.0 %, because they answer with a mean and
# show a seventh of the doubt.
#
# Needs: the shipped model `darcy-32`, no GPU. Runs in about two minutes.

# %%
import itertools
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from ipywidgets import IntSlider, interact

from prisma_lib import evaluate, load, memory, plots, provenance, solve
from prisma_lib.edm import Schedule
from prisma_lib.fields import GRFNoise
from prisma_lib.files import write_json
from prisma_lib.sample import SAMPLERS, calls
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
model_name: str = "darcy-32"  # a shipped model, or the folder of one
n: int = 32  # unseen test problems
steps: int = 20  # steps of Heun's method for the trajectory
converged: int = 50  # steps of Heun's method that count as converged
rate: float = 0.03  # share of points that carry a sensor
seed: int = 1  # seed of problems, sensors and noise
out: str = "outputs/scratch/sample"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # offer a slider below the static figure

# %% [markdown]
# ## The noise levels
#
# $$\sigma_i = \Big(\sigma_{max}^{1/\rho} + \frac{i}{N-1} (\sigma_{min}^{1/\rho} -
# \sigma_{max}^{1/\rho})\Big)^\rho, \quad \sigma_N = 0, \qquad
# \sigma_{max} = 80, \; \sigma_{min} = 0.002, \; \rho = 7$$
#
# The right panel shows what a step does to the noise: with $\rho = 7$ every step
# removes a larger share of what is left than the one before, and the fine decisions
# at low noise still get steps of their own.

# %%
Path(out).mkdir(parents=True, exist_ok=True)
with plots.style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8))
    for rho, colour in ((1.0, "0.75"), (3.0, "0.5"), (7.0, "C0")):
        sigmas = Schedule(20, rho=rho).sigmas()
        kind = {"color": colour, "marker": ".", "label": rf"$\rho = {rho:g}$"}
        left.semilogy(range(20), sigmas[:-1], **kind)
        right.plot(range(1, 20), 1 - sigmas[1:-1] / sigmas[:-2], **kind)
    left.set(xlabel="step $i$", ylabel=r"noise level $\sigma_i$")
    right.set(xlabel="step $i$", ylabel="share of the noise removed")
    for axis in (left, right):
        axis.set_xticks(range(0, 21, 5))
        axis.legend()
figure.savefig(Path(out) / "schedule.png", dpi=150)
plt.show()

# %% [markdown]
# ## Three ways to take a step
#
# A perfect denoiser $D$ turns noise into data along the probability-flow equation
#
# $$\frac{dx}{d\sigma} = \frac{x - D(x, \sigma)}{\sigma}, \qquad
# x_0 = \sigma_{max} \, \varepsilon, \quad \varepsilon \sim N(0, C).$$
#
# The paper's algorithm 2 starts from $\varepsilon$ itself; without the factor
# $\sigma_{max}$ the first call would see a state eighty times too small.
#
# - **Euler** follows the slope at the start of the step: one call.
# - **Heun**, the paper's, averages it with the slope at the end: two calls, one in the
#   last step, where the end is $\sigma = 0$.
# - **Multistep** (DPM-Solver++) reuses the call of the step before: with
#   $\lambda = -\ln \sigma$, step sizes $h$ and $h'$ in $\lambda$ and the last estimate
#   $D'$ it takes $D + \frac{h}{2 h'} (D - D')$ for the clean state: one call.
#
# Here are two steps of each by hand; the library must agree.


# %%
def by_hand(denoise, noise, s):
    x = s[0] * noise
    d0 = denoise(x, s[0])
    slope = (x - d0) / s[0]
    euler = x + (s[1] - s[0]) * slope
    d1 = denoise(euler, s[1])
    heun = x + (s[1] - s[0]) * (slope + (euler - d1) / s[1]) / 2
    h0, h1 = math.log(s[0] / s[1]), math.log(s[1] / s[2])
    clean = d1 + h1 / (2 * h0) * (d1 - d0)
    multistep = clean + s[2] / s[1] * (euler - clean)
    return {"euler": (1, euler), "heun": (1, heun), "multistep": (2, multistep)}


model = load(model_name)
bench = evaluate.benchmark(model.pde, n, seed)
seen = evaluate.observation_of(bench, "inverse", "sparse", rate=rate)
x_obs, mask = (part[:2].to(model.mean.device) for part in model.condition(seen))
noise = GRFNoise(model.pde.grid).draw(seed, range(2), 2).to(model.mean.device)
schedule = Schedule(6)


# %%
def denoise(x, sigma):
    return model(x, torch.as_tensor(sigma).to(x).expand(2), x_obs, mask)


with torch.no_grad():
    expected = by_hand(denoise, noise, schedule.sigmas().tolist())
    for name, (step, x) in expected.items():
        states = SAMPLERS[name](denoise, noise, schedule)
        state = next(itertools.islice(states, step - 1, None))
        torch.testing.assert_close(state.x, x, rtol=1e-4, atol=1e-3)
        print(f"{name:9} step {step}: state {state.x.std():.3f}, {state.calls} calls")

# %% [markdown]
# ## Where the answer is known
#
# For Gaussian data of standard deviation $s$ the perfect denoiser is
# $D = s^2 / (s^2 + \sigma^2) \, x$, and the exact flow ends with standard deviation
# $\sigma_{max} s / \sqrt{\sigma_{max}^2 + s^2}$. So we know each method's error. Its
# slope is the order: one for Euler, two for the others. Heun and the multistep solver
# come to make the same error per *step*, and the multistep solver needs half of the
# calls. (At four calls its error happens to change its sign.)


# %%
def gaussian(x, sigma, s=0.5):
    return s**2 / (s**2 + sigma[:, None, None, None] ** 2) * x


def std_error(name, steps, s=0.5):
    unit = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    *_, state = SAMPLERS[name](gaussian, unit, Schedule(steps))
    return abs(state.x.item() * math.hypot(80, s) / (80 * s) - 1)


counts = [4, 8, 16, 32, 64, 128, 256]
known = {name: [std_error(name, k) for k in counts] for name in SAMPLERS}
with plots.style():
    figure, axis = plt.subplots(figsize=(4.6, 3.2))
    for name, errors in known.items():
        cost = [calls(name, k) for k in counts]
        axis.loglog(cost, errors, marker=".", label=name)
    for order, start in ((1, 0.25), (2, 0.012)):
        guide = [start * (64 / k) ** order / 8 for k in (64, 512)]
        axis.loglog((64, 512), guide, color="0.6", linewidth=0.8)
        axis.annotate(f"order {order}", (520, guide[1]), fontsize=8, color="0.4")
    axis.set(xlabel="calls of the denoiser", ylabel="relative error of the std")
    axis.legend()
figure.savefig(Path(out) / "order.png", dpi=150)
plt.show()

# %% [markdown]
# With few steps Heun's method does worse than answering zero: its first steps are so
# long that the correction overshoots. Now to the network, whose denoiser is curved.
#
# ## The trajectory of one draw
#
# The rock $a$ is sought from a few sensors of the pressure. Above is the state, below
# the network's estimate of the clean field: it starts as the mean of all rocks that fit
# the sensors and is sharpened until nothing is left to decide.

# %%
states = []
one = {"u": seen.u[:1], "mask_u": seen.mask_u[:1], "seed": seed}
solve(model, **one, steps=steps, watch=states.append)
picked = [states[round(i * (steps - 1) / 5)] for i in range(6)]


def panels(state, like):
    x, estimate = (model.denormalise(f)[0, 0] for f in (state.x, state.denoised))
    title = rf"$\sigma = {state.sigma:.3g}$"
    return plots.Panel(x, title), plots.Panel(estimate, like, like="a")


# %% tags=["thumbnail"]
pairs = [panels(state, f"{state.calls} calls") for state in picked]
truth = plots.Panel(bench.a[0, 0], "true a", like="a")
sensors = seen.u[0, 0].masked_fill(seen.mask_u[0, 0] == 0, torch.nan)
above = [*(p for p, _ in pairs), plots.Panel(sensors, "sensors of u")]
below = [*(p for _, p in pairs), truth]
plots.grid([above, below], ["state of a", "estimate of a"]).savefig(
    Path(out) / "trajectory.png", dpi=150
)
plt.show()


# %%
def draw(step=1):
    plots.grid([[*panels(states[step - 1], "estimate of a"), truth]])
    plt.show()


if interactive:
    interact(
        draw, step=IntSlider(max(1, steps // 2), 1, steps, continuous_update=False)
    )

# %% [markdown]
# ## Calls against error, and against doubt
#
# All methods start from the same noise, so that their draws can be compared one by one.
# We measure three things: the distance to the draw that Heun's method gives in many
# steps, which is the error of the *sampler*; the error against the truth; and the
# spread of two draws of the same problem, as a share of the converged spread.

# %%
ladder = {
    name: [2, 4, 8, 16, 32] if name != "heun" else [2, 4, 8, 16] for name in SAMPLERS
}
settings = (("forward", "full", 1), ("inverse", "sparse", 2))


def run(name, count, direction, regime, samples):
    solver = PrismaSolver(model, Schedule(count), name)
    given = evaluate.observation_of(bench, direction, regime, rate=rate)
    key = torch.Generator().manual_seed(seed)
    a, u = (x.cpu() for x in solver.solve(given, samples=samples, generator=key))
    error = sum(
        evaluate.errors(bench, direction, a[i], u[i]).mean().item()
        for i in range(samples)
    )
    return (u if direction == "forward" else a), error / samples


# %%
table = []
for direction, regime, samples in settings:
    cell = (direction, regime, samples)
    exact, _ = run("heun", converged, *cell)
    for name, count in [(k, c) for k, cs in ladder.items() for c in cs]:
        found, error = run(name, count, *cell)
        row = {"method": name, "direction": direction, "regime": regime}
        row |= {"steps": count, "calls": calls(name, count), "error": error}
        row["distance"] = 100 * ((found - exact).norm() / exact.norm()).item()
        if samples > 1:
            spread = found.std(0).norm() / exact.std(0).norm()
            row["spread"] = 100 * spread.item()
        table.append(row)
frame = pd.DataFrame(table)
frame.pivot(index="calls", columns=["direction", "method"], values="error").round(1)

# %% [markdown]
# The table has the error in percent: relative $L^2$ of the pressure forward, share of
# misjudged points of the rock from sensors.

# %%
views = [
    ("forward", "distance", "distance to converged u, %"),
    ("inverse", "distance", "distance to converged a, %"),
    ("inverse", "error", "misjudged points of a, %"),
    ("inverse", "spread", "spread of a / converged, %"),
]
with plots.style():
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8))
    for axis, (direction, column, label) in zip(axes, views, strict=True):
        for name in SAMPLERS:
            mine = frame[(frame.method == name) & (frame.direction == direction)]
            axis.plot(mine["calls"], mine[column], marker=".", label=name)
        axis.set(xscale="log", xlabel="network calls", title=label)
        axis.set_xticks([2, 4, 8, 16, 32], ["2", "4", "8", "16", "32"])
        axis.minorticks_off()
        if column == "distance":
            axis.set(yscale="log", ylim=(None, 1e3))
    axes[2].set_ylim(10, 20)
    axes[3].set_ylim(0, 200)
    axes[3].axhline(100, color="0.6", linewidth=0.8)
    axes[0].legend()
figure.savefig(Path(out) / "calls.png", dpi=150)
plt.show()

# %% [markdown]
# On the smooth pressure the multistep solver keeps what theory promises, half of Heun's
# calls. Where the edges of the rock must fall on one side or the other, its lead is
# smaller. Below eight calls a first-order step is the safer one.
#
# Few calls have the smallest error against the truth and the least spread: they have
# not drawn from the posterior but averaged over it, and a mean is nearer to the truth
# than a draw. A benchmark of single draws rewards that. Whoever needs the doubt must
# look at the distance and the spread.
#
# ## What few calls look like

# %%
budget = [("euler", 4), ("heun", 4), ("multistep", 4), ("multistep", 16)]
rows = []
for i in range(min(2, n)):
    given = {"u": seen.u[i : i + 1], "mask_u": seen.mask_u[i : i + 1], "seed": seed}
    line = [plots.Panel(bench.a[i, 0], "true a", like="a")]
    for name, count in [*budget, ("heun", converged)]:
        a = solve(model, **given, sampler=name, steps=count).a[0, 0, 0]
        title = f"{name}, {calls(name, count)} calls"
        line.append(plots.Panel(a.cpu().clamp(-3, 18), title, like="a"))
    rows.append(line)
plots.grid(rows).savefig(Path(out) / "few_calls.png", dpi=150)
plt.show()

# %% [markdown]
# ## What a draw does not depend on
#
# The noise of a draw belongs to its number, so it does not matter how a large batch is
# split to fit into memory; when memory runs out all the same, the part is halved. In
# bfloat16 the network's matrix products are faster on a GPU. Both may move the draw by
# rounding only.

# %%
few = {"a": bench.a[:4], "seed": seed, "steps": steps, "sampler": "multistep"}
whole = solve(model, **few)
variants = {
    "one draw at a time": solve(model, **few, max_batch=1),
    "bfloat16": solve(model, **few, precision="bf16"),
}
moved = {
    k: ((v.u - whole.u).norm() / whole.u.norm()).item() for k, v in variants.items()
}
for name, share in moved.items():
    print(f"{name:20} moves u by {share:.1e}, {variants[name].execution}")
for size in (32, 128, 512):
    need = memory.per_draw(model.config.widths[0], (size, size))
    print(f"{size} x {size}: at most {need / 2**20:,.0f} MiB a draw")

# %% [markdown]
# ## Check, and what a sweep keeps


# %%
def entry(direction, name, column, count):
    place = f"direction == '{direction}' and method == '{name}' and calls == {count}"
    return frame.query(place)[column].item()


orders = {k: math.log2(e[-3] / e[-2]) for k, e in known.items()}
print({k: round(order, 2) for k, order in orders.items()})
assert abs(orders["euler"] - 1) < 0.1
assert all(abs(orders[k] - 2) < 0.15 for k in ("heun", "multistep"))
assert moved["one draw at a time"] < 1e-5
assert moved["bfloat16"] < 2e-2
if scale != "smoke":
    multistep = entry("forward", "multistep", "distance", 16)
    heun = entry("forward", "heun", "distance", 31)
    print(f"16 calls {multistep:.2f} %, 31 calls of Heun {heun:.2f} %")
    assert multistep < 1.2 * heun
    assert multistep < 0.25
    rock = frame[frame.direction == "inverse"]
    assert rock.error.min() == entry("inverse", "euler", "error", 2)
    assert 0.1 < entry("inverse", "euler", "spread", 2) / 100 < 0.25
    assert abs(entry("inverse", "multistep", "spread", 16) - 100) < 5
    lead = entry("inverse", "multistep", "distance", 16)
    assert lead < 0.75 * entry("inverse", "heun", "distance", 15)

# %%
metrics = [
    {
        "method": row["method"],
        "pde": model.pde.name,
        "direction": row["direction"],
        "regime": row["regime"],
        "setting": f"size={model.pde.size};measure={measure}",
        "metric": "percent",
        "value": row[measure],
        "n": n,
        "steps": row["steps"],
        "calls": row["calls"],
        "seed": seed,
        "scale": scale,
    }
    for row in table
    for measure in ("error", "distance", "spread")
    if measure in row
]
write_json(Path(out) / "metrics.json", metrics)
print(provenance.record(model.mean.device))
