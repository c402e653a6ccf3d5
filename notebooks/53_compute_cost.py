# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does it cost, and where does the time go?
#
# **On one core of a server, the residual takes 0.15 to 0.45 % of a step of the paper's
# network, an iteration of training 1.26 of FunDPS's and 0.57 of DiffusionPDE's, and a
# thousand samples 3.8 minutes instead of 2.4 hours (FunDPS) and 17.5 (DiffusionPDE):
# the time goes into the network.**
#
# The paper says that the residual takes at most 1.16 % of a step and no memory (claim
# C24), that an iteration of training takes 28 % longer than FunDPS's and less than half
# of DiffusionPDE's (C23), and that a thousand samples take 3 minutes instead of 3.3 and
# 59 hours (C25). All three are ratios, so that they can be measured on any machine, and
# here they are measured on this one, parts taking turns. The answer is printed at the
# end, with the machine's name: seconds of another one do not compare. Every time is the
# median of its runs, between the order statistics that hold it with 95 %: of ten runs
# the second ones.
#
# Needs nothing, no GPU: new networks take as long as trained ones. Runs in about ten
# minutes of one core. Let nothing else run meanwhile, on another core neither: it slows
# convolutions, those of DiffusionPDE, more than the rest.

# %%
import statistics
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython.display import Markdown, display

from prisma_lib import devices, plots, results
from prisma_lib.bench.measure import SCALES, Setup, columns, peak_megabytes
from prisma_lib.bench.methods import bench_methods
from prisma_lib.bench.networks import job
from prisma_lib.bench.parts import runs_of_parts
from prisma_lib.provenance import ROOT
from prisma_lib.training import TrainConfig, loop, start

# %% tags=["parameters"]
equations: list[str] = ["helmholtz", "navier_stokes", "kolmogorov"]  # the paper's
runs: int = 10  # timed runs of everything
device: str = "cpu"  # cpu, cuda or auto
out: str = "outputs/scratch/compute_cost"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, which says how large the networks are
interactive: bool = True  # nothing to move here

# %%
Path(out).mkdir(parents=True, exist_ok=True)
sizes = SCALES[scale] if scale in SCALES else SCALES["gpu"]
setup = Setup(devices.resolve(device), replace(sizes, runs=runs))
machine = devices.describe(setup.device)
print(machine, *(net.setting for net in sizes.networks), sep="\n")
rows = []


def record(method, pde, setting, metric, times, **more):
    row = {"method": method, "pde": pde, "setting": setting, "metric": metric}
    row |= {"device": machine, "scale": scale} | columns(times)
    rows.append(row | more)
    return statistics.median(times)


# %% [markdown]
# ## A sampling step (E27)
#
# Helmholtz' residual is a stencil, those of the flows are made by Fourier transforms.
# It is the same operator forward and inverse: the paper's two directions differ by up
# to a factor of 1.9, which can only be the clock. We time it once, on batches of which
# half of the points are observed.


# %%
def timed_parts(place, times):
    residual, network, whole = (times[k] for k in ("residual", "network", "whole"))
    rounds = [*zip(residual, network, whole, strict=True)]
    found = {"residual": residual, "network": network}
    found["rest"] = [w - r - net for r, net, w in rounds]
    medians = {
        name: record(*place, f"{name}_ms_per_batch", [1e3 * s for s in seconds])
        for name, seconds in found.items()
    }
    of_rounds = [100 * r / (r + net) for r, net, _ in rounds]
    return medians, record(*place, "residual_time_fraction", of_rounds)


# %%
shares = []
for net in sizes.networks:
    for equation in equations:
        work, bare = (
            job(net, setup.device, equation, **given)
            for given in ({}, {"strategy": "none"})
        )
        place = "PRISMA", equation, net.setting
        taken, share = timed_parts(place, runs_of_parts(setup, work))
        memory = [peak_megabytes(each.infer, setup.device) for each in (work, bare)]
        record(*place, "peak_memory_mb", memory[:1])
        record("PRISMA without residual", *place[1:], "peak_memory_mb", memory[1:])
        shares.append(
            {"net": f"{net.preset}, {net.size}²", "equation": equation}
            | {k: v / net.batch for k, v in taken.items()}
            | {"share": share, "MB": memory[0], "MB without": memory[1]}
        )
frame = pd.DataFrame(shares)
frame.set_index(["net", "equation"]).round(2)

# %% [markdown]
# Parts are in milliseconds a sample; "rest" is what the sampler takes beyond both, and
# can be slightly negative where the clock wavers. The share is that of each round, in
# which all parts had their turn.

# %% tags=["thumbnail"]
with plots.style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    labels = list(frame.equation + ", " + frame.net)
    bottom = 0
    for part in ("network", "residual", "rest"):
        whole = frame[["network", "residual", "rest"]].clip(lower=0).sum(axis=1)
        width = 100 * frame[part].clip(lower=0) / whole
        left.barh(labels, width, left=bottom, label=part)
        bottom = bottom + width
    left.set(xlabel="share of a sampling step, %", xlim=(0, 100))
    left.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    sns.barplot(frame, y="equation", x="share", hue="net", ax=right)
    right.axvline(1.16, color="0.4", lw=0.8)
    right.set(xscale="log", xlabel="residual / (residual + network), %", ylabel="")
figure.savefig(Path(out) / "parts.png", dpi=150)
plt.show()

# %% [markdown]
# The line is the paper's largest share. The larger a network is, the less its residual
# matters: its cost grows with the points alone. "Without residual" is a network without
# attention and its gates, too; how much more memory the residual may take for claim C24
# is a twentieth.
#
# ## An iteration of training (E26)
#
# The three networks have about as many weights (preset `small`: 0.69 to 0.78 million)
# and the same batches. FunDPS is an unconditional prior of PRISMA's backbone, without
# the residual and its gates; DiffusionPDE is one too, a U-Net of convolutions. The
# paper's factor of 2.3 to DiffusionPDE compares the networks of the authors' code. Its
# table has the hours of 20,000 iterations, too, at $128^2$: ours are of these small
# networks and batches at $32^2$, so that only ratios compare.

# %%
net = sizes.trained[0]
trained = {"PRISMA": "prisma", "FunDPS": "fundps", "DiffusionPDE": "diffusionpde"}
loops = {}
for who, method in trained.items():
    config = TrainConfig(
        method=method, preset=net.preset, size=net.size, batch=net.batch
    )
    loops[who] = loop(start(config, setup.device))
timed = setup.runs_in_turn({k: lambda s=s: next(s) for k, s in loops.items()})
paper = pd.read_csv(ROOT / "outputs" / "tables" / "paper.csv")
paper = paper[(paper["table"] == "tab:train_speed") & (paper["pde"] == "darcy")]
paper = paper.pivot(index="method", columns="metric", values="value")

# %%
taken, speeds = {}, []
for who, times in timed.items():
    place = who, "darcy", net.setting
    taken[who] = record(*place, "seconds_per_iteration", times)
    hours = [20_000 * seconds / 3600 for seconds in times]
    hours = record(*place, "hours_per_20000_iterations", hours)
    theirs = paper.loc[who]
    speeds.append(
        {"method": who, "s an iteration": taken[who], "hours of 20,000": hours}
        | {"of PRISMA's": taken[who] / taken["PRISMA"]}
        | {"paper: s an iteration": theirs["seconds_per_iteration"]}
        | {"paper: hours of 20,000": theirs["hours"]}
        | {"paper: of PRISMA's": theirs["hours"] / paper.loc["PRISMA", "hours"]}
    )
pd.DataFrame(speeds).set_index("method").round(3)

# %% [markdown]
# ## A sample by every method
#
# Networks of the same preset, a batch of eight. Of the long samplers twenty steps are
# timed, and all of them extrapolated; their interval is over these steps. Network calls
# are those of one draw.

# %%
for row in bench_methods(setup):
    if row["metric"] == "s_per_sample":
        who, *about = row["setting"].split(";")
        given = dict(part.partition("=")[::2] for part in about)
        setting = ";".join(part for part in about if not part.startswith("steps="))
        about = {"method": who, "pde": "darcy", "steps": given.get("steps", "")}
        about |= {"metric": "seconds_per_sample", "setting": setting}
        rows.append(row | about | {"device": machine, "scale": scale})
samples = pd.DataFrame(rows).query("metric == 'seconds_per_sample'")
samples = samples.assign(hours_per_1000=samples["value"].astype(float) / 3.6)
shown = ["method", "steps", "calls", "value", "low", "high", "n", "hours_per_1000"]
samples[shown].reset_index(drop=True)

# %%
with plots.style():
    figure, axis = plt.subplots(figsize=(5, 3))
    names = list(samples.method + " " + samples.steps.astype(str))
    middle, low, high = (
        pd.to_numeric(samples[name], errors="coerce")
        for name in ("value", "low", "high")
    )
    ends = [(middle - low).fillna(0), (high - middle).fillna(0)]
    axis.barh(names, middle, xerr=ends, error_kw={"lw": 1})
    axis.set(xscale="log", xlabel="seconds a sample")
    axis.invert_yaxis()
figure.savefig(Path(out) / "seconds.png", dpi=150)
plt.show()

# %% [markdown]
# ## What training spends on its data
#
# From the recorded bench (`python -m prisma_lib.bench data`): problems are solved anew
# for every step, but for Kolmogorov flow, which is drawn from a pool. Bars show the
# share of a step that this takes.

# %%
bench = pd.DataFrame(results.read(ROOT / "outputs" / "results" / "bench.csv"))
made = bench[
    (bench.metric == "data_over_step") & bench.setting.str.contains("preset=small")
]
made = made.assign(value=made["value"].astype(float)).sort_values("value")
with plots.style():
    figure, axis = plt.subplots(figsize=(5, 2.8))
    ours = 100 * made["value"] / (1 + made["value"])
    axis.barh(list(made.pde), 100 - ours, label="network and optimiser")
    axis.barh(list(made.pde), ours, left=100 - ours, label="making problems")
    axis.set(xlabel="share of a training step, %", xlim=(0, 100))
    axis.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
figure.savefig(Path(out) / "training.png", dpi=150)
plt.show()
pace = bench[(bench.method == "model") & (bench.metric == "images_per_s")]
pace[["setting", "value", "device"]].rename(columns={"value": "images a second"})

# %% [markdown]
# ## The answer


# %%
def thousand(method, steps):
    mine = samples[(samples.method == method) & (samples.steps.astype(str) == steps)]
    return 1000 * mine["value"].astype(float).item()


largest = frame[frame.net == frame.net.iloc[-1]]
ours = thousand("PRISMA", "20")
hours = {k: thousand(*k) / 3600 for k in (("FunDPS", "500"), ("DiffusionPDE", "2000"))}
pair = [thousand(*k) / ours for k in (("FunDPS", "200"), ("DiffusionPDE", "2000"))]
lines = [
    f"On {machine}:",
    f"- the residual takes **{largest.share.max():.2f} %** of a step of the largest "
    f"network at most, {frame.share.max():.2f} % of one of the smallest",
    f"- an iteration takes **{taken['PRISMA'] / taken['FunDPS']:.2f}** of FunDPS's, "
    f"**{taken['PRISMA'] / taken['DiffusionPDE']:.2f}** of DiffusionPDE's",
    f"- a thousand samples take **{ours / 60:.1f} minutes**; FunDPS "
    f"**{hours['FunDPS', '500']:.1f}** and DiffusionPDE "
    f"**{hours['DiffusionPDE', '2000']:.1f} hours**",
    f"- PRISMA with 20 steps is **{pair[0]:.0f} times** faster than FunDPS with 200 "
    f"and **{pair[1]:.0f} times** faster than DiffusionPDE with 2000 (the paper: 26 "
    "and 1183, I09)",
]
display(Markdown("\n".join(lines)))

# %% [markdown]
# ## What the text claims
#
# On any machine: parts take time, fewer steps take less, and a network needs no less
# memory with a residual than without. With networks that are not tiny: an iteration
# takes longer than FunDPS's and less than DiffusionPDE's, and a draw takes less than
# one of FunDPS with 200 steps.

# %%
assert (frame[["network", "residual"]] > 0).all(axis=None)
assert (frame["MB"] >= 0.95 * frame["MB without"]).all()
assert thousand("FunDPS", "200") < thousand("FunDPS", "500")
if scale != "smoke":
    assert ours < 3600 * min(hours.values())
    assert pair[0] > 1
    assert taken["FunDPS"] < taken["PRISMA"] < taken["DiffusionPDE"]
    by_network = frame.groupby("net", sort=False).share.max()
    assert by_network.iloc[-1] < by_network.iloc[0]

# %%
results.write_metrics(Path(out) / "metrics.json", rows)
print(f"{len(rows)} numbers")
