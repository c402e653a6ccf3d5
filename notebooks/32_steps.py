# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What do more than twenty steps bring, and who else can do with twenty?
#
# The paper's claims C13, that there is little to gain beyond 20 to 50 steps (its table
# `abla_iterations_combined`, E18), and C14, that guided diffusion degrades strongly at
# 20 (`abla_20steps_combined`, E19), on Darcy, Poisson and Helmholtz, under full and
# noisy observations. What a step does, and how near few steps come to the *converged
# draw*, is in `13_sample`; here it is the error against the truth and the seconds. The
# answers are printed below, from the rows.
#
# Needs: the models of three equations; for C14 the weights of the guided baselines,
# which are left out where they are missing. Runs in about 25 minutes on two cores.

# %%
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import Markdown, display

from prisma_lib import cells, evaluate, load, metrics, plots, provenance, report
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.results import write_metrics
from prisma_lib.sample import SAMPLERS, calls
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
models: list[str] = ["darcy-32", "poisson-32", "helmholtz-32"]  # shipped, or folders
ladder: list[int] = [5, 8, 12, 20, 50]  # steps of every sampler, on n problems
long: list[int] = [100, 200, 500]  # steps on the first few problems
capped: int = 200  # most steps of the multistep sampler; Heun's takes all of `long`
n: int = 24  # unseen test problems
few: int = 16  # of them for long draws
guided: list[str] = ["fundps", "diffusionpde"]  # baselines at `versus` steps
versus: int = 20  # steps of the comparison with them
seed: int = 0  # seed of problems, noise and draws
out: str = "outputs/scratch/steps"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # nothing to move here

# %% [markdown]
# ## Every number of steps
#
# All draws of a problem start from the same noise, so that two numbers of steps can be
# compared problem by problem. Heun's method, the paper's, calls the network twice a
# step. Long draws take the first problems only; Euler's method, of first order, stays
# out of them.

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
loaded = [load(name) for name in models]
problems = {m.pde.name: evaluate.benchmark(m.pde, n, seed) for m in loaded}
asked = [(d, r) for d in ("forward", "inverse") for r in ("full", "noisy")]
tries = [(name, count, n) for name in SAMPLERS for count in ladder]
tries += [("heun", count, few) for count in long]
tries += [("multistep", count, few) for count in long if count <= capped]


def run(model, direction, regime, name, count, num):
    solver = PrismaSolver(model, Schedule(count), name)
    mine = problems[model.pde.name].first(num)
    seen = evaluate.observation_of(mine, direction, regime)
    began = time.perf_counter()
    key = torch.Generator().manual_seed(seed)
    a, u = (x[0].cpu() for x in solver.solve(seen, samples=1, generator=key))
    seconds = (time.perf_counter() - began) / num
    return evaluate.errors(mine, direction, a, u), seconds


# %%
errors, rows = {}, []
for model in loaded:
    pde = model.pde
    for cell in asked:
        for name, count, num in tries:
            found, seconds = run(model, *cell, name, count, num)
            errors[pde.name, cell, name, count] = found
            low, high = metrics.bootstrap_interval(found, key=seed)
            row = {"method": "PRISMA", "pde": pde.name, "direction": cell[0]}
            row |= {"regime": cell[1], "steps": count, "calls": calls(name, count)}
            row["setting"] = (
                f"{cells.setting(problems[pde.name], cell[1])};sampler={name}"
            )
            row |= {"metric": pde.error(cell[0]), "value": found.mean().item()}
            row |= {"low": low, "high": high, "n": num, "sampler": name}
            rows.append(row | {"seconds_per_sample": round(seconds, 5)})
frame = pd.DataFrame(rows)

# %% [markdown]
# Error in percent of Heun's method: relative $L^2$, for Darcy's inverse problem the
# share of misjudged points.

# %%
heun = frame[frame["sampler"] == "heun"]
where = ["pde", "regime", "direction"]
heun.pivot(index=where, columns="steps", values="value").round(2)

# %% tags=["thumbnail"]
with plots.style():
    size, ticks = (10, 2.4 * len(loaded)), [5, 20, 100, 500]
    figure, axes = plt.subplots(len(loaded), 4, figsize=size, squeeze=False)
    for line, pde in zip(axes, problems, strict=True):
        for axis, (direction, regime) in zip(line, asked, strict=True):
            place = f"pde == '{pde}' and direction == '{direction}'"
            here = frame.query(f"{place} and regime == '{regime}'")
            for name, mine in here.groupby("sampler", sort=False):
                spread = [mine["value"] - mine["low"], mine["high"] - mine["value"]]
                kind = {"marker": ".", "lw": 1, "elinewidth": 0.6, "label": name}
                axis.errorbar(mine["calls"], mine["value"], yerr=spread, **kind)
            axis.set(xscale="log", xlabel="network calls", ylim=(0, None))
            axis.set_xticks(ticks, map(str, ticks))
            axis.minorticks_off()
            axis.set_title(f"{pde}, {direction}, {regime}")
        line[0].set_ylabel("error, %")
    axes[0, 0].legend()
figure.savefig(folder / "errors.png", dpi=150)
plt.show()

# %% [markdown]
# The bars of long draws are wider since they are of fewer problems. Seconds follow the
# calls, whatever the sampler:

# %%
with plots.style():
    figure, axis = plt.subplots(figsize=(4.6, 3))
    for name, mine in frame.groupby("sampler", sort=False):
        line = mine.groupby("calls")["seconds_per_sample"].median()
        axis.loglog(line.index, line, marker=".", label=name)
    axis.set(xlabel="network calls", ylabel="seconds per sample (batch of all)")
    axis.legend()
figure.savefig(folder / "seconds.png", dpi=150)
plt.show()

# %% [markdown]
# ## What more steps gain
#
# The gain from $N$ to more steps of Heun's method is the mean difference of the errors,
# problem by problem, as a share of the mean error at $N$; below zero the error grew. A
# few-step draw leans towards the posterior mean, which a single-draw error rewards.


# %%
def gain(pde, cell, start, end):
    before, after = (errors[pde, cell, "heun", k] for k in (start, end))
    num = min(len(before), len(after))
    share = 100 * (before[:num] - after[:num]) / before[:num].mean()
    low, high = metrics.bootstrap_interval(share, key=seed)
    row = {"method": "PRISMA", "pde": pde, "direction": cell[0], "regime": cell[1]}
    row |= {"metric": "gain", "value": share.mean().item(), "low": low, "high": high}
    return row | {"setting": f"from={start}", "steps": end, "n": num}


starts = ladder[-2:]
gains = [
    gain(pde, cell, start, end)
    for pde in problems
    for cell in asked
    for start in starts
    for end in long
]

# %%
last = [row for row in gains if row["steps"] == long[-1]]
with plots.style():
    figure, axis = plt.subplots(figsize=(6.5, 0.8 + 0.22 * len(last)))
    names = [f"{r['pde']}, {r['direction']}, {r['regime']}" for r in last]
    places = list(dict.fromkeys(names))
    for number, start in enumerate(starts):
        mine = [row for row in last if row["setting"] == f"from={start}"]
        spread = [[r["value"] - r["low"] for r in mine]]
        spread.append([r["high"] - r["value"] for r in mine])
        at = [k + 0.24 * number - 0.12 for k in range(len(mine))]
        label = f"from {start} to {long[-1]} steps"
        value = [row["value"] for row in mine]
        axis.errorbar(value, at, xerr=spread, fmt="o", ms=4, label=label)
    axis.axvline(0, color="0.6", lw=0.8)
    axis.set_yticks(range(len(places)), places)
    axis.set(xlabel="gain, % of the error", ylim=(len(places) - 0.4, -0.6))
    axis.legend()
figure.savefig(folder / "gains.png", dpi=150)
plt.show()

# %% [markdown]
# ## Others in twenty steps
#
# FunDPS and DiffusionPDE guide a prior by the gradient of the mismatch, with published
# weights, which were made for ten to a hundred times as many steps. They and PRISMA
# answer the same problems; with 200 steps or more they stand in the benchmarks.

# %%
rivals = []
for model in loaded:
    mine = problems[model.pde.name].first(min(8, n))
    prisma = PrismaSolver(model, Schedule(versus))
    answered = []
    for name in guided:
        given = {"settings": {name: {"steps": versus}}}
        try:
            answered += evaluate.compare([name], mine, **given)
        except CheckpointError as error:
            print(f"left out: {error}")
    if answered:
        answered += evaluate.compare([], mine, prisma=prisma)
    rivals += [row for row in answered if (row["direction"], row["regime"]) in asked]

# %%
benchmarks = report.Report.read(provenance.ROOT / "outputs").entries
longest = {
    (entry.method, entry.pde, entry.regime, entry.direction): entry.value
    for entry in sorted(benchmarks, key=lambda entry: entry.steps or 0)
    if entry.usual and entry.scale == scale and (entry.steps or 0) >= 100
}


def said(row):
    place = (row["pde"], row["regime"], row["direction"])
    found = dict(zip(where, place, strict=True)) | {"method": row["method"]}
    interval = f"[{row['low']}, {row['high']}]" if row["low"] else "diverged"
    found[f"{versus} steps"] = f"{row['value']} {interval}".strip()
    return found | {"200 steps or more": longest.get((row["method"], *place), "")}


if rivals:
    display(pd.DataFrame(map(said, rivals)).set_index([*where, "method"]))

# %%
for pde in problems:
    shown = [r for r in rivals if r["pde"] == pde and r["value"]]
    if shown:
        plots.error_bars(shown).suptitle(f"{pde}, {versus} steps")
        plt.show()

# %% [markdown]
# ## The answer


# %%
def largest(start):
    mine = [row for row in last if row["setting"] == f"from={start}"]
    row = max(mine, key=lambda row: row["value"])
    cell = f"{row['pde']}, {row['direction']}, {row['regime']}"
    return f"{row['value']:.1f} % ({row['low']:.1f} to {row['high']:.1f}; {cell})"


text = f"""**From {starts[1]} to {long[-1]} steps the largest gain of any cell is
{largest(starts[1])}; from {starts[0]} it is {largest(starts[0])}.**"""
ahead = {}
for row in rivals:
    place = tuple(row[key] for key in where)
    ahead.setdefault(place, {})[row["method"]] = float(row["value"] or "inf")
if ahead:
    first = sum(min(cell, key=cell.get) == "PRISMA" for cell in ahead.values())
    text += f" **At {versus} steps PRISMA is first in {first} of {len(ahead)} cells.**"
display(Markdown(text if scale != "smoke" else f"At this size nothing counts: {text}"))

# %% [markdown]
# ## What the text claims
#
# At any scale every cell has all of its numbers, a draw of the same steps is the same
# draw in a smaller batch, and the calls are those of `13_sample`. At laptop scale the
# interval of every gain holds its value.

# %%
assert len(rows) == len(loaded) * len(asked) * len(tries)
again, _ = run(loaded[0], "forward", "full", "heun", ladder[0], 1)
whole = errors[loaded[0].pde.name, ("forward", "full"), "heun", ladder[0]]
torch.testing.assert_close(again, whole[:1], rtol=1e-3, atol=1e-3)
assert all(r["calls"] in (r["steps"], 2 * r["steps"] - 1) for r in rows)
assert all(row["low"] <= row["value"] <= row["high"] for row in gains)

# %%
common = {"seed": seed, "device": provenance.record(loaded[0].mean.device)["device"]}
kept = [{k: v for k, v in row.items() if k != "sampler"} for row in rows]
every = [common | row | {"scale": scale} for row in [*kept, *gains, *rivals]]
write_metrics(folder / "metrics.json", [row for row in every if row["value"] != ""])
