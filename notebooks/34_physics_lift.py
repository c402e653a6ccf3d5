# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What should a network not have to learn?
#
# PRISMA learns from examples what two lines of numerical analysis know: that the
# pressure solves an equation, that a field between two sensors is near both. PRISMA-L,
# which is ours and not the paper's, is told. Numerical analysis makes an estimate $m$
# of both fields and a standard deviation $s$ of its error (the *lift*, once a solve),
# and the network is a denoiser around it, preconditioned point by point as Karras et
# al. precondition around zero:
#
# $$D = m + \frac{s^2}{s^2 + \sigma^2} (x_\sigma - m) + \frac{s \, \sigma}{\sqrt{s^2 +
# \sigma^2}} F_\theta\Big(\frac{x_\sigma - m}{\sqrt{s^2 + \sigma^2}}, m, s, M y, M, r,
# \sigma\Big)$$
#
# What else differs from the paper: its sensors stand in patches, on columns and in
# windows, too, on both fields now and then, and are noisy; the network is told how
# noisy, and when nobody knows, the noise is estimated. Attention to the residual is as
# in the paper. The answers are printed below, from the rows.
#
# Needs: the shipped models `darcy-32L` and `darcy-32`, no GPU; the rows of
# `python -m prisma_lib.screen params/physics_lift_train.yaml` for the table of
# variants. About ten minutes on two cores.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import Markdown, display

# %%
from prisma_lib import (
    ablations,
    benchmarks,
    cells,
    charts,
    checkpoints,
    galleries,
    lifts,
    plots,
    provenance,
    verdicts,
)
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.judge import answered
from prisma_lib.results import read, settings, write_metrics
from prisma_lib.screen import screen
from prisma_lib.solver import PrismaSolver
from prisma_lib.symmetry import SymmetricSolver

# %% tags=["parameters"]
model_name: str = "darcy-32L"  # a model of PRISMA-L, or the folder of one
faithful: str = "darcy-32"  # the model of the paper's method beside it
distilled: str = "distilled/darcy-32L-two"  # a model that draws in one or two calls
trainings: str = "physics_lift_train"  # plan of the variants, file of their rows
here: str = ""  # pattern of variants to train here instead of reading rows
n: int = 64  # unseen test problems
steps: int = 20  # sampler steps
samples: int = 16  # draws per problem
fewer: list[int] = [1, 2, 3, 4, 6, 8, 12, 20]  # calls of the multistep sampler
highest: list[float] = [80.0, 10.0]  # noise levels that it starts from
seed: int = 0  # seed of problems, masks, noise and draws
out: str = "outputs/scratch/physics_lift"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale: of the rows that are read, and for the records
interactive: bool = True  # nothing to move here

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
model = checkpoints.load(model_name)
pde = benchmarks.of_scale(model.pde, scale)
problems = cells.benchmark(pde, n, seed)
paper = checkpoints.load(faithful, pde=pde.name)
alike = paper.pde.size == model.pde.size
contest = benchmarks.Contest(
    *(model, problems, {}, (), (steps,), samples, scale),
    lifted=paper if alike else None,
)
title, name = model.title, paper.title
every = cells.cells(pde)

# %% [markdown]
# ## Where the estimate alone fails, and the network adds
#
# The estimate takes milliseconds, whatever the sensors (see the end). It is linear in
# what was measured, except where the equation itself is solved, so it cannot know that
# rock is of one kind or the other. The network knows. One inverse problem with 3 % of
# the pressure, and one forward problem with all of the rock:

# %%
cell = ("inverse", "sparse")
galleries.answers(contest, cell, galleries.one_answer(contest, cell))
plt.show()

# %%
cell = ("forward", "full")
galleries.answers(contest, cell, galleries.one_answer(contest, cell))
plt.show()

# %% [markdown]
# ## Every cell
#
# A draw of a posterior is not its mean: for a Gaussian one its error is $\sqrt 2$ times
# as large, and the lift is a mean. So means of eight and of sixteen draws stand beside
# it. Nobody tells the network how noisy the sensors are; the lift, here, is told.

# %%
answers = contest.answers(every)
rows = benchmarks.rows_of(answers)
display(Markdown(verdicts.table(verdicts.recorded(rows))))


def value(method, where, more="", metric=None):
    found = [
        row
        for row in rows
        if row["method"] == method
        and (row["direction"], row["regime"]) == where
        and row["metric"] == (metric or pde.error(where[0]))
        and settings(row).get("mean_of", "") == more
    ]
    return float(found[0]["value"]) if found else None


# %% tags=["thumbnail"]
names = [where[0] + ", " + where[1] for where in every]
bars = {
    "lift": [value("lift", where) for where in every],
    f"{name}, mean of {samples}": [value(name, where, str(samples)) for where in every],
    f"{title}, mean of {samples}": [
        value(title, where, str(samples)) for where in every
    ],
}
frame = pd.DataFrame(bars, index=names).dropna(axis="columns")
with plots.style():
    thumbnail, axis = plt.subplots(figsize=(8, 3.2))
    frame.plot.bar(ax=axis, rot=20, width=0.75)
    axis.set(ylabel="error, %", yscale="log")
    axis.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## What should it be told?
#
# Seven networks with one budget: no residual, residual as a channel, attention (the
# paper's), the state after a Newton step instead of a residual; and around the lift:
# alone, with attention, with the Newton step. Two more ask what part of PRISMA-L it is:
# attention that sees the residual of the lift, too, and a lift that is an input only.
# One seed each: intervals are those of the test problems.

# %%
file = provenance.ROOT / "outputs" / "results" / f"{trainings}.csv"
if here:
    plan = provenance.ROOT / "params" / f"{trainings}.yaml"
    file = folder / "trained.csv"
    for run, _ in screen(
        plan, scale, file, "cpu", n, only=here, folder=folder / "trained"
    ):
        print(f"trained {run}")
trained = [row for row in read(file) if row["scale"] == scale]
table = ablations.averaged(trained)
if table:
    figure = charts.variants(table)
    figure.savefig(folder / "variants.png", dpi=150)
    plt.show()
    shown = pd.DataFrame(table)
    shown["variant"] = [settings(row)["variant"] for row in table]
    shown["error, %"] = [
        "{:.2f} [{:.2f}, {:.2f}]".format(*(float(row[k]) for k in cols))
        for row in table
        for cols in [("value", "low", "high")]
    ]
    where = ["pde", "direction", "regime"]
    display(shown.pivot(index=where, columns="variant", values="error, %"))
else:
    print(f"no rows of {trainings} yet: the plan's first line says how to make them")

# %% [markdown]
# ## How few calls are enough?
#
# Around the lift there is little left to draw, so that few steps go a long way. The
# multistep sampler needs one call a step, Heun's method, the paper's, two. A number of
# calls is a setting, so it is chosen on validation problems. One call is the jump from
# pure noise to the mean of the posterior, as far as the network knows it.

# %%
unseen = cells.benchmark(pde, max(n // 2, 1), seed, split="validation")


def tagged(answer, tag):
    return [row | {"setting": f"{row['setting']};{tag}"} for row in answer.rows()]


swept = []
tried = [("multistep", count, top) for top in highest for count in fewer]
for sampler, count, top in [*tried, ("heun", steps, Schedule().sigma_max)]:
    schedule = Schedule(count, sigma_max=top)
    solver = PrismaSolver(model, schedule, sampler=sampler)
    for where in every:
        (found,) = answered(
            *(solver, unseen, [where]),
            method=title,
            samples=min(samples, 4),
            scale=scale,
        )
        tag = f"sampler={sampler};sigma_max={top:g};split=validation"
        swept += tagged(found, tag)

# %%
calls = pd.DataFrame(swept)
calls["sampler"] = [settings(row)["sampler"] for row in swept]
calls["from"] = [float(settings(row)["sigma_max"]) for row in swept]
calls["what"] = [
    "mean of draws" if "mean_of" in settings(row) else "one draw" for row in swept
]
calls["cell"] = calls["direction"] + ", " + calls["regime"]
calls["value"] = calls["value"].astype(float)
multi, heun = (calls[calls["sampler"] == name] for name in ("multistep", "heun"))
with plots.style():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for axis, what in zip(axes, ("one draw", "mean of draws"), strict=True):
        for cell, mine in multi[multi["what"] == what].groupby("cell", sort=False):
            part = mine[mine["from"] == highest[0]]
            (line,) = axis.plot(part["calls"], part["value"], ".-", label=cell)
            part = heun[(heun["what"] == what) & (heun["cell"] == cell)]
            axis.plot(part["calls"], part["value"], "*", color=line.get_color())
        axis.set(title=what, xlabel="network calls", xscale="log", yscale="log")
    axes[0].set(ylabel="error, %")
    axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
figure.savefig(folder / "calls.png", dpi=150)
plt.show()
print(f"stars: Heun's method, {steps} steps; lines start from {highest[0]:g}")

# %% [markdown]
# How much larger the error is than with twenty steps of Heun, in percent, in the worst
# cell. A draw's spread depends on the sampler where a posterior is wide (a draw that is
# too narrow errs *less*), so one draw counts where everything is observed, and the mean
# of draws in every cell. The fewest calls that lose at most 2 %:

# %%
usual = heun.set_index(["cell", "what"])["value"]
counts = multi["cell"].str.endswith("full") | (multi["what"] == "mean of draws")
judged = multi[counts].copy()
over = [usual[place] for place in zip(judged["cell"], judged["what"], strict=True)]
judged["loss"] = 100 * (judged["value"] / over - 1)
loss = judged.groupby(["from", "calls"])["loss"].max().unstack("from")
display(loss.round(1))
enough = [(count, top) for top in highest for count in fewer if loss[top][count] <= 2]
fewest = min(enough, default=None)
print(f"fewest calls, and the noise level to start from: {fewest}")

# %% [markdown]
# ## A draw in two calls
#
# The first call, from pure noise, finds the mean of the posterior, and a sampler of two
# steps has hardly left it: its draws are too much alike. But a draw is a function of
# the noise that it starts from, and a network can learn that function. The student
# below has seen where its teacher's draws are half way and where they end. Spread is
# the mean standard deviation over draws, in units of the field's.

# %%
students, lines = [], []
try:
    student = checkpoints.load(distilled, pde=pde.name)
except CheckpointError as error:
    student = None
    print(f"left out: {error}")


def judge(kind, found):
    one, *_, mean = tagged(found, f"kind={kind.replace(' ', '_')}")
    students.extend((one, mean))
    part = int(found.cell[0] == "forward")
    draws = (found.a, found.u)[part]
    spread = draws.std(0).mean() / problems.statistics.std[part]
    line = {"cell": ", ".join(found.cell), "who": kind, "spread": spread.item()}
    line |= {"one draw": float(one["value"]), "mean of draws": float(mean["value"])}
    lines.append(line)


# %%
if student and samples > 1:
    short = student.schedule
    for kind, network in (("student", student), ("teacher", model)):
        solver = PrismaSolver(network, short, sampler="euler")
        about = {"method": network.title, "samples": samples, "scale": scale}
        for where in every:
            (found,) = answered(solver, problems, [where], **about)
            judge(f"{short.steps} calls, {kind}", found)
    for found in answers:  # the teacher's long draws are there already
        if found.method == title and found.about["calls"] == 2 * steps - 1:
            judge(f"{2 * steps - 1} calls, teacher", found)
    shown = pd.DataFrame(lines).set_index(["cell", "who"]).unstack("who")
    display(shown.round(3))

# %% [markdown]
# ## Noise that nobody states
#
# The estimate of the noise is one of maximum likelihood for fields of the training's
# covariance. Below: sensors at every point, noise from none to four times the field's
# standard deviation; the network is told, or it finds out.

# %%
told = []
for level in (0.1, 0.5, 1.0, 2.0, 4.0):
    noisy = problems.hiding(noise=level)
    for direction in pde.directions:
        where = (direction, "noisy")
        seen = cells.observation_of(noisy, *where)
        guess = lifts.noise_of(pde, seen)[:, int(direction != "forward")]
        unit = noisy.statistics.std[int(direction != "forward")]
        line = {"noise": level, "direction": direction}
        line["estimated"] = (guess / unit).median().item()
        for known, sd in (("told", noisy.noise_sd("noisy")), ("not told", None)):
            solver = PrismaSolver(model, Schedule(steps), noise_sd=sd)
            (found,) = answered(
                *(solver, noisy, [where]), method=title, scale=scale, samples=1
            )
            told += tagged(found, f"noise={known.replace(' ', '_')}")
            line[f"{known}: error, %"] = float(told[-1]["value"])
        display(Markdown(", ".join(f"{k}: {v}" for k, v in line.items())))

# %% [markdown]
# ## All eight views
#
# Turned and mirrored, a problem of this equation is one like the others. A network is
# not told so; draws from all eight views have a mean that does not depend on which of
# them was asked.

# %%
views = []
if pde.dihedral:
    solver = PrismaSolver(model, Schedule(steps))
    for where in every:
        for kind, each in (("one", solver), ("eight", SymmetricSolver(solver))):
            (found,) = answered(
                *(each, problems, [where]), method=title, scale=scale, samples=8
            )
            views += tagged(found, f"views={kind}")
    seen = pd.DataFrame(views)
    seen["views"] = [settings(row)["views"] for row in views]
    seen = seen[["mean_of" in settings(row) for row in views]]
    display(seen.pivot(index=["direction", "regime"], columns="views", values="value"))

# %% [markdown]
# ## What the estimate costs
#
# It is made once a solve, whatever the number of steps and draws; sparse problems do
# not share their masks, which is the dear case. Milliseconds a problem, and their share
# of one draw:

# %%
seconds = pd.DataFrame([row for row in rows if "sampler" not in settings(row)])
seconds = seconds[seconds["method"].isin(["lift", title])]
seconds["ms"] = 1e3 * seconds["seconds_per_sample"].astype(float)
seconds = seconds.pivot_table("ms", ["direction", "regime"], "method")
seconds["%"] = 100 * seconds["lift"] / seconds[title]
display(seconds.round(2))

# %% [markdown]
# ## The answer

# %%
better = [
    (where, value(title, where, str(samples)), value("lift", where)) for where in every
]
counted = [(mine, lift) for _, mine, lift in better if mine is not None and lift]
ratios = [mine / lift for mine, lift in counted]
halved = sum(ratio <= 0.5 for ratio in ratios)
said = f"""**The mean of {samples} draws errs {min(ratios):.2f} to {max(ratios):.2f}
times as much as the estimate that it starts from, in {len(ratios)} cells; in {halved}
of them at most half as much.**"""
if alike:
    over = [
        value(title, where, str(samples)) / value(name, where, str(samples))
        for where in every
    ]
    said += f""" **Over the paper's method, with the same number of draws, it is
{min(over):.2f} to {max(over):.2f} times.**"""
display(Markdown(said if scale != "smoke" else f"At this size nothing counts: {said}"))

# %% [markdown]
# ## What the text claims
#
# At any scale: what was measured without noise is in the answer, to the last digit, and
# a network that is silent leaves the estimate as it is.

# %%
seen = cells.observation_of(problems, every[0][0], "sparse")
solver = PrismaSolver(model, Schedule(2))
a, u = solver.solve(seen, samples=1, generator=torch.Generator().manual_seed(seed))
kept = torch.cat([a, u], 2)[0][seen.mask > 0]
torch.testing.assert_close(kept, seen.x[seen.mask > 0], rtol=1e-4, atol=1e-5)
if scale == "cpu":
    assert max(ratios) < 1.1, "somewhere the network makes the estimate worse"

# %%
thumbnail.savefig(folder / "lift.png", dpi=150, bbox_inches="tight")
write_metrics(folder / "metrics.json", [*rows, *swept, *students, *told, *views])
