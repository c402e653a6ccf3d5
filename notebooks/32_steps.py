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
# draw*, is in `13_sample`; here it is the error against the truth and the seconds.
# **Next to nothing: from 20 to 500 steps no cell gains more than 3.8 % of its error,
# from 50 on no more than 0.5 % (both Helmholtz' inverse problem, full): C13 holds. With
# twenty PRISMA errs least where everything is seen (Darcy forward 1.1 %, FunDPS 4.8 %,
# DiffusionPDE 27 %; 8 problems). Under noise FunDPS does, but in Helmholtz forward; it
# misjudges 21 % of Darcy's rock, PRISMA 42 %.** So E19, that PRISMA is ahead in every
# cell, does not hold, nor does C14 in most cells.
#
# Needs: the models of three equations; for C14 the weights of the guided baselines,
# which are left out where they are missing. Its time is that of its network calls,
# which are counted and timed before they are made. Answers are kept in a folder until
# the end: a run that is cut goes on where it stopped.

# %%
from dataclasses import replace
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import Markdown, display

from prisma_lib import baselines, calibration, ensembles, evaluate, load, metrics, plots
from prisma_lib.charts import percent
from prisma_lib.claims.ablations import LITTLE
from prisma_lib.comparison import answers_of
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError
from prisma_lib.judge import answered, judge
from prisma_lib.provenance import ROOT
from prisma_lib.report import Report
from prisma_lib.results import settings, spoken, write_metrics
from prisma_lib.sample import SAMPLERS, calls
from prisma_lib.shelf import Shelf
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
models: list[str] = ["darcy-32", "poisson-32", "helmholtz-32"]  # shipped, or folders
ladder: list[int] = [5, 8, 12, 20, 50]  # steps of every sampler, on n problems
long: list[int] = [100, 200, 500]  # more steps, of the others than Euler's
capped: int = 100  # most steps of the multistep sampler; Heun's takes all of `long`
n: int = 16  # unseen test problems
few: int = 8  # of them for several draws and the guided baselines
draws: int = 4  # draws of each problem where their spread is measured
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
# step but the last. Euler's method, of first order, stays out of the long draws.

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
shelf = Shelf(folder / "draws")
few = min(few, n)
loaded = [load(name) for name in models]
problems = {m.pde.name: evaluate.benchmark(m.pde, n, seed) for m in loaded}
asked = [(d, r) for d in ("forward", "inverse") for r in ("full", "noisy")]
tries = [(name, count) for name in SAMPLERS for count in ladder]
tries += [("heun", count) for count in long]
tries += [("multistep", count) for count in long if count <= capped]
starts = ladder[-2:]
several = [("euler", ladder[0]), *((name, starts[0]) for name in SAMPLERS)]
several = list(dict.fromkeys(several))


def ask(model, cell, name, count, num, samples=1):
    solver = PrismaSolver(model, Schedule(count), name)
    mine, who = problems[model.pde.name].first(num), model.title
    told = {"method": who, "samples": samples}
    make = partial(answered, solver, mine, [cell], **told)
    (found,) = shelf.kept(who, [solver], mine, [cell], samples, make)
    return replace(found, suffix=f";sampler={name}")


# %%
quick = PrismaSolver(loaded[0], Schedule(ladder[0]))
mine = problems[loaded[0].pde.name].first(few)
for _ in range(2):  # the first has to warm up
    (probe,) = judge(quick, mine, asked[:1], method=loaded[0].title)
each = float(probe["seconds_per_sample"]) / probe["calls"]
planned = [calls(*pair) * n for pair in tries]
planned += [calls(*pair) * draws * few for pair in several]
cost = len(loaded) * len(asked) * sum(planned)
print(
    f"{cost:,} network calls; {1000 * each:.1f} ms each as just measured on this "
    f"machine: {cost * each / 60:.0f} minutes, and the guided baselines"
)

# %%
answers = {
    (model.pde.name, cell, *pair): ask(model, cell, *pair, n)
    for model in loaded
    for cell in asked
    for pair in tries
}
errors = {key: answer.errors() for key, answer in answers.items()}
rows = [row for answer in answers.values() for row in answer.rows()]

# %% [markdown]
# Error in percent of Heun's method: relative $L^2$, for Darcy's inverse problem the
# share of misjudged points. **Every number of steps answers the same problems**: a mean
# over others is another number.


# %%
def read(row):
    number = {key: float(row[key]) for key in ("value", "low", "high")}
    return row | number | {"sampler": settings(row)["sampler"]}


frame = pd.DataFrame(map(read, rows)).astype({"seconds_per_sample": float})
where = ["pde", "regime", "direction"]
heun = frame[frame["sampler"] == "heun"]
print(f"n = {n} problems in every column")
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
            axis.set(xscale="log", xlabel="network calls")
            axis.set_xticks(ticks, map(str, ticks))
            axis.minorticks_off()
            percent(axis, "y")
            axis.set_title(f"{pde}, {direction}, {regime}")
            axis.set_ylabel("error, %" if axis is line[0] else "")
    axes[0, 0].legend()
    figure.suptitle(f"one draw of the same {n} problems at every point")
figure.savefig(folder / "errors.png", dpi=150)
plt.show()

# %% [markdown]
# Seconds follow the calls, whatever the sampler:

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
# ## A draw that is too narrow errs less
#
# A sampler with few steps can err *less* than one with many: look at Euler's method at
# the left of the picture. **Alone, this is no merit.** A single draw's error has two
# parts, that of the posterior mean and the distance of the draw from it. A draw of a
# perfect posterior has both, in equal shares on average; one that stays near the mean
# saves the second. So we take a few draws of each problem and ask for more numbers:
#
# - the error of the **mean of the draws**, which narrowness flatters less;
# - **spread over error**: the spread of the draws over the root mean square error of
#   their mean, times $\sqrt{(m + 1) / m}$ for $m$ draws. Of right draws it is 1, of too
#   narrow ones less. A model that errs may have less than 1 with any sampler;
# - the fair **CRPS**, in the unit of the field, which charges narrowness as it does
#   error: the right draws have the least, so that it can say which sampler is ahead.


# %%
def quality(answer):
    found, truth = answer.a, answer.problems.a
    if answer.cell[0] == "forward":
        found, truth = answer.u, answer.problems.u
    m, found, truth = len(found), found.double(), truth.double()
    variance = found.var(0).flatten(1).mean(1)
    error = (found.mean(0) - truth).square().flatten(1).mean(1)
    both = torch.stack([(m + 1) / m * variance, error], 1)
    skill = calibration.number(both, calibration.root_ratio, seed)
    score = ensembles.crps(found, truth)[:, None]
    score = calibration.number(score, calibration.mean, seed)
    for metric, number in (("spread_skill", skill), ("crps", score)):
        value = dict(zip(("value", "low", "high"), number, strict=True))
        yield answer.rows()[-1] | {"metric": metric} | value


# %%
sets = {
    (model.pde.name, cell, *pair): ask(model, cell, *pair, few, draws)
    for model in loaded
    for cell in asked
    for pair in several
}
means = {key: answer.rows()[-1] for key, answer in sets.items()}
judged = {key: [*quality(answer)] for key, answer in sets.items()}
skills, scores = ({key: both[k] for key, both in judged.items()} for k in (0, 1))


# %%
def named(pair):
    return f"{pair[0]}, {calls(*pair)} calls"


lines = []
for pde in problems:
    for cell in asked:
        for pair in several:
            key = (pde, cell, *pair)
            line = {"pde": pde, "cell": " ".join(cell), "sampler": named(pair)}
            line["one draw, %"] = spoken(sets[key].rows()[0])
            line[f"mean of {draws}, %"] = spoken(means[key])
            for name, row in zip(
                ("spread over error", "CRPS"), judged[key], strict=True
            ):
                number = [row[end] for end in ("value", "low", "high")]
                line[name] = "{:.3g} [{:.3g}, {:.3g}]".format(*number)
            lines.append(line)
print(f"n = {few} problems, {draws} draws of each")
display(pd.DataFrame(lines).set_index(["pde", "cell", "sampler"]))

# %%
with plots.style():
    figure, axis = plt.subplots(figsize=(6.5, 0.8 + 0.3 * len(means) / len(several)))
    places = [f"{pde}, {' '.join(cell)}" for pde in problems for cell in asked]
    for number, pair in enumerate(several):
        mine = [row for key, row in skills.items() if key[2:] == pair]
        spread = [[row["value"] - row["low"] for row in mine]]
        spread.append([row["high"] - row["value"] for row in mine])
        at = [k + 0.18 * (number - 1.5) for k in range(len(mine))]
        value = [row["value"] for row in mine]
        axis.errorbar(value, at, xerr=spread, fmt="o", ms=3, label=named(pair))
    axis.axvline(1, color="0.6", lw=0.8)
    axis.set_yticks(range(len(places)), places)
    axis.set(xlabel="spread over error; below 1 too narrow", xlim=(0, None))
    axis.set_ylim(len(places) - 0.4, -0.6)
    figure.legend(loc="outside lower center", ncols=len(several))
figure.savefig(folder / "widths.png", dpi=150)
plt.show()

# %% [markdown]
# ## What more steps gain
#
# The gain from $N$ to more steps of Heun's method is the mean difference of the errors,
# problem by problem, as a share of the mean error at $N$; below zero the error grew.


# %%
def gain(pde, cell, start, end):
    before, after = (errors[pde, cell, "heun", k] for k in (start, end))
    share = 100 * (before - after) / before.mean()
    low, high = metrics.bootstrap_interval(share, key=seed)
    row = {"method": "PRISMA", "pde": pde, "direction": cell[0], "regime": cell[1]}
    row |= {"seed": seed, "device": probe["device"], "commit": probe["commit"]}
    row |= {"metric": "gain", "value": share.mean().item(), "low": low, "high": high}
    return row | {"setting": f"from={start}", "steps": end, "n": n}


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
# FunDPS and DiffusionPDE guide a prior by the gradient of the mismatch. How hard they
# pull decides how far they get, and **weights belong to a number of steps**: published
# ones were made for ten to a hundred times as many. Each cell takes the weights that
# were tuned on validation problems *at these steps*, if its card has them. Otherwise it
# takes the published ones, and a row says so: beside a long draw with tuned weights it
# shows two things at once, fewer steps and no tuning. All answer the same problems.


# %%
def rival(name, solver_of, mine):
    solvers = [solver_of(*cell) for cell in asked]
    make = partial(answers_of, name, solver_of, mine, asked)
    found = shelf.kept(name, solvers, mine, asked, 1, make)
    return [row for answer in found for row in answer.rows()]


rivals = []
for model in loaded:
    mine, own = problems[model.pde.name].first(few), PrismaSolver(model)
    own, before = replace(own, schedule=Schedule(versus)), len(rivals)
    for name in guided:
        try:
            solver_of = baselines.solvers(name, mine.pde, steps=versus)
        except CheckpointError as error:
            print(f"left out: {error}")
            continue
        rivals += rival(name, solver_of, mine)
    if len(rivals) > before:
        rivals += rival("prisma", lambda *_, own=own: own, mine)

# %% [markdown]
# The last column is what the benchmark of the equation has of the same method in 100
# steps or more, with its interval, steps and number of problems.

# %%
benchmarks = Report.read(ROOT / "outputs").entries
longest = {
    (entry.method, entry.pde, entry.regime, entry.direction): entry
    for entry in sorted(benchmarks, key=lambda entry: -(entry.steps or 0))
    if entry.usual and entry.scale == scale and (entry.steps or 0) >= 100
}


def weighted(row):
    kind = settings(row).get("weights", "")
    if kind == "published":
        return "published"
    return f"tuned at {row['steps']} steps" if kind else ""


def beyond(row):
    return longest.get((row["method"], *(row[key] for key in where)))


# %%
def said(row):
    found = {key: row[key] for key in (*where, "method")}
    found["weights"] = weighted(row)
    found[f"{versus} steps"] = spoken(row) if row["value"] else "diverged"
    found["n"], found["100 steps or more"] = row["n"], ""
    if entry := beyond(row):
        about = [f"{entry.steps} steps", f"n = {entry.row['n']}"]
        about += filter(None, [f"{weighted(entry.row)}"])
        found["100 steps or more"] = f"{spoken(entry.row)} ({', '.join(about)})"
    return found


if rivals:
    with pd.option_context("display.max_colwidth", None):
        told = pd.DataFrame(map(said, rivals)).set_index([*where, "method"])
        display(told.sort_index())
bare = {(r["method"], r["pde"]) for r in rivals if weighted(r) == "published"}
short = {baselines.title(name): name for name in guided}
for method, pde in sorted(bare):
    place = f"{short[method]}-{pde}-{problems[pde].pde.size}"
    command = f"python -m prisma_lib.tune {baselines.WEIGHTS.relative_to(ROOT)}/{place}"
    print(f"{method}, {pde}: not tuned at {versus} steps, which")
    print(f"    {command} --steps {versus} --tries 7 does")

# %%
for pde in problems:
    shown = [r for r in rivals if r["pde"] == pde and r["value"]]
    if shown:
        kinds = sorted({weighted(r) for r in shown} - {""})
        title = f"{pde}, {versus} steps, n = {few}; weights {', '.join(kinds)}"
        plots.error_bars(shown).suptitle(title)
        plt.show()

# %% [markdown]
# ## The answer


# %%
def largest(start):
    mine = [row for row in last if row["setting"] == f"from={start}"]
    row = max(mine, key=lambda row: row["value"])
    cell = f"{row['pde']}, {row['direction']}, {row['regime']}"
    return f"{row['value']:.1f} % ({row['low']:.1f} to {row['high']:.1f}; {cell})"


def samplers():
    quick, usual = several[0], ("heun", starts[0])
    both = [[(pde, c, *e) for e in (quick, usual)] for pde in problems for c in asked]
    shorter = [sum(bool(errors[a].mean() < errors[b].mean()) for a, b in both)]
    for kept in (means, skills, scores):
        value = {key: float(row["value"]) for key, row in kept.items()}
        shorter.append(sum(value[a] < value[b] for a, b in both))
    widths = [sorted(skills[pair[k]]["value"] for pair in both) for k in (0, 1)]
    spans = [f"{each[0]:.2f} to {each[-1]:.2f}" for each in widths]
    one, mean, narrow, score = (f"{num} of {len(both)} cells" for num in shorter)
    return f"""one draw of {named(quick)}, errs less than one of {named(usual)}, in
{one} (n = {n}). Its draws are narrower in {narrow} (n = {few}): spread over error
{spans[0]} for {spans[1]}. The mean of {draws} draws errs less in {mean}, and by the
CRPS, which narrowness cannot please, it is ahead in {score}."""


# %%
def degraded(kind):
    pairs = [(r, beyond(r)) for r in rivals if weighted(r).startswith(kind)]
    ratios = [
        float(row["value"] or "inf") / entry.value
        for row, entry in pairs
        if entry and entry.value
    ]
    if not ratios:
        return ""
    alone = "" if kind == "tuned" else ", which is not the steps alone"
    return f"""With weights {kind} at {versus} steps guided baselines err
{min(ratios):.3g} to {max(ratios):.3g} times as much as in their long draws, whose
weights are tuned ({len(ratios)} cells){alone}. """


# %%
text = f"""**C13: from {starts[1]} to {long[-1]} steps of Heun's method the largest gain
of any cell is {largest(starts[1])}; from {starts[0]} it is {largest(starts[0])}.**
\n\n**Samplers**: {samplers()}\n\n"""
ahead = {}
for row in rivals:
    place = tuple(row[key] for key in where)
    ahead.setdefault(place, {})[row["method"]] = float(row["value"] or "inf")
if ahead:
    first = sum(min(cell, key=cell.get) == "PRISMA" for cell in ahead.values())
    text += f"""**C14**: {degraded("tuned")}{degraded("published")}**At {versus} steps
PRISMA is first in {first} of {len(ahead)} cells.**"""
display(Markdown(text if scale != "smoke" else f"At this size nothing counts: {text}"))

# %% [markdown]
# ## What the text claims
#
# At any scale every cell has all of its numbers, a draw of the same steps is the same
# draw in a smaller batch, and the calls are those of `13_sample`. Above smoke, C13
# holds: from the end of the ladder on no cell gains as much as its limit.

# %%
assert len(rows) == len(loaded) * len(asked) * len(tries)
again = ask(loaded[0], asked[0], "heun", ladder[0], 1).errors()
whole = errors[loaded[0].pde.name, asked[0], "heun", ladder[0]]
torch.testing.assert_close(again, whole[:1], rtol=1e-3, atol=1e-3)
assert all(r["calls"] in (r["steps"], 2 * r["steps"] - 1) for r in rows)
assert all(row["low"] <= row["value"] <= row["high"] for row in gains)
assert set(frame["n"]) == {n}
if scale != "smoke":
    mine = [row for row in last if row["setting"] == f"from={starts[1]}"]
    assert len(mine) == len(loaded) * len(asked)
    assert all(row["value"] < LITTLE for row in mine)

# %%
every = [*rows, *means.values(), *skills.values(), *scores.values(), *gains, *rivals]
kept = [row | {"scale": scale} for row in every if row["value"] != ""]
write_metrics(folder / "metrics.json", kept)
shelf.clear()
