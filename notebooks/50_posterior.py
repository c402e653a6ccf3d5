# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Do the draws spread as far as they err?
#
# **Slightly farther with exact observations, far from it with noisy ones: PRISMA's
# draws of Darcy's rock spread 1.14 (full), 1.07 (sparse), 0.38 (noisy) times their
# error, and 90 % intervals hold 92, 91 and 47 % of the points in doubt. Where the exact
# posterior is known PRISMA-L, ours, is calibrated in 7 of 8 cells, PRISMA in 2.** No
# network but PRISMA-L saw noise in training.
#
# The paper draws sixteen rocks for the same pressure, finds that they spread more where
# less is known (0.32, 0.52 and 1.45 for full, sparse and noisy observations) and that
# the spread correlates with the error ($r$ = 0.85, 0.81, 0.46), and calls this "well
# calibrated" (claim C12). It does not say in which unit, and a correlation cannot show
# calibration: halve every spread and $r$ is the same. So we measure both, and then what
# calibration means: whether intervals hold the truth as often as they say, and for two
# equations whether the draws are those of the exact posterior.
#
# Needs: the shipped model `darcy-32`; `poisson-32` and `helmholtz-32`, and their models
# of PRISMA-L, where they are. Runs in about two hours of one core, most of it for
# PRISMA-L. Draws are kept until the end, so that a run that is cut goes on. The answers
# are printed at the end.

# %%
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from IPython.display import Markdown, display

# %%
from prisma_lib import (
    calibration,
    checkpoints,
    devices,
    evaluate,
    judge,
    load,
    metrics,
    plots,
    styles,
)
from prisma_lib.cells import setting
from prisma_lib.edm import Schedule
from prisma_lib.ensembles import rank_counts
from prisma_lib.errors import CheckpointError
from prisma_lib.lifted import PrismaL
from prisma_lib.posterior import gaussian_posterior
from prisma_lib.results import write_metrics
from prisma_lib.sample import SAMPLERS
from prisma_lib.shelf import Shelf
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
model_name: str = "darcy-32"  # a shipped model, or the folder of one
exact_names: list[str] = ["poisson-32", "helmholtz-32"]  # of known posterior
lifted: bool = True  # judge the models of PRISMA-L beside them, which end in an L
regimes: list[str] = ["full", "sparse", "noisy"]  # what is observed of the pressure
n: int = 64  # unseen test problems that get 19 draws
many: int = 8  # of these, the problems that get 99 draws
exact_n: int = 64  # test problems of the equations with a known posterior
few_n: int = 16  # of these, the problems that PRISMA gets
steps: int = 20  # sampler steps
lifted_steps: int = 50  # steps of PRISMA-L's multistep sampler, of one call each
seed: int = 0  # seed of problems, sensors, noise and draws
out: str = "outputs/scratch/posterior"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # nothing to move here

# %% [markdown]
# ## Nineteen draws of every rock
#
# With $m = 19$ draws the interval between the smallest and the largest holds the truth
# of a calibrated ensemble with probability 18/20 exactly, and that between the fifth
# and the fifteenth with 10/20. Quantiles of sixteen draws have no such guarantee: a
# "90 %" interval of theirs covers 81 %. The sixteen draws of the paper's numbers are
# the first of the nineteen.

# %%
Path(out).mkdir(parents=True, exist_ok=True)
model = load(model_name, pde="darcy")
bench = evaluate.benchmark(model.pde, n, seed)
many = min(many, n)
shelf = Shelf(Path(out) / "draws")


def budget(network):
    lift = isinstance(network, PrismaL)
    return ("multistep", lifted_steps) if lift else ("heun", steps)


def ensemble(network, problems, direction, regime, samples):
    (sampler, count), asked = budget(network), [(direction, regime)]
    solver = PrismaSolver(network, Schedule(count), sampler)
    name = {"method": network.title}
    make = partial(judge.answered, solver, problems, asked, samples=samples, **name)
    (found,) = shelf.kept(network.title, [solver], problems, asked, samples, make)
    return found.u if direction == "forward" else found.a


draws = {regime: ensemble(model, bench, "inverse", regime, 19) for regime in regimes}

# %%
rows = []
about = {"method": "PRISMA", "scale": scale, "steps": steps, "seed": seed}
about |= {"device": devices.describe(torch.device("cpu"))}


def record(found, problems, direction, regime, extra, **more):
    cell = {"pde": problems.pde.name, "direction": direction, "regime": regime}
    cell |= {"n": problems.n, "setting": f"{setting(problems, regime)};{extra}"}
    for metric, number in found.items():
        value = dict(zip(("value", "low", "high"), number, strict=True))
        rows.append(about | cell | more | {"metric": metric} | value)


def table(metric):
    mine = pd.DataFrame(rows).query("metric == @metric")
    columns = ["pde", "direction", "regime", "method", "setting", "value", "low"]
    return mine[[*columns, "high", "n"]].round(3).reset_index(drop=True)


# %% [markdown]
# ## The paper's two numbers
#
# Spread: the standard deviation of a point over sixteen draws, averaged over points and
# problems, **in the unit of the permeability, whose two values are 3 and 12** (its own
# standard deviation is 4.5). Error: relative $L^2$ error of the mean of the draws.

# %%
pairs = {}
for regime, ensemble_of in draws.items():
    few = ensemble_of[:16].double()
    width = few.std(0).flatten(1).mean(1)
    error = 100 * metrics.relative_l2(few.mean(0), bench.a.double())
    pairs[regime] = (width, error)
    found = {
        "ensemble_spread": calibration.number(width[:, None], calibration.mean, seed),
        "spread_error_pearson_r": calibration.correlation(width, error, seed),
    }
    record(found, bench, "inverse", regime, "draws=16")
display(table("ensemble_spread"), table("spread_error_pearson_r"))

# %%
with plots.style():
    figure, axes = plt.subplots(1, len(pairs), figsize=(9, 2.9), squeeze=False)
    for axis, (regime, (width, error)) in zip(axes[0], pairs.items(), strict=True):
        sns.regplot(x=width.numpy(), y=error.numpy(), ax=axis, scatter_kws={"s": 9})
        axis.set(title=regime, xlabel="spread of a, its unit")
        axis.set_ylabel("error of the mean, %")
figure.savefig(Path(out) / "spread.png", dpi=150)
plt.show()

# %% [markdown]
# ## Are the draws calibrated?
#
# - **Coverage**: the share of points whose truth lies in the 50 and in the 90 %
#   interval. More than that is timid, less is overconfident.
# - **Spread–skill**: spread over the root mean square error of the mean, times
#   $\sqrt{(m + 1) / m}$. Calibrated: 1.
# - **Fair CRPS**: the distance of the draws from the truth less half of that between
#   them, in the unit of $a$. The best draws have the least.
#
# The permeability has two values. Where its draws agree but for a wobble of the
# network, an interval is as wide as the wobble, and whether it holds the truth says
# nothing. So we also move the draws to the nearer value and count, **where they are in
# doubt**, how often the truth is among the inner 10 or 18 of 20 places (`placed`), a
# tie taking one of its places at random; that is 50 and 90 % for a calibrated ensemble.
#
# Intervals are bootstrapped over problems, as the points of one field are not
# independent.

# %%
for regime in regimes:
    found = calibration.measures(draws[regime], bench.a, key=seed)
    record(found, bench, "inverse", regime, "draws=19")
    snapped = model.pde.snap(draws[regime])
    kept = calibration.measures(snapped, bench.a, key=seed)
    found = {"spread_skill": kept["spread_skill"]}
    for level in calibration.LEVELS:
        name = f"placed_{round(100 * level)}"
        found[name] = calibration.placed(snapped, bench.a, level, seed)
    record(found, bench, "inverse", regime, "draws=19;two values")

few = bench.first(many)
hundred = {r: ensemble(model, few, "inverse", r, 99) for r in regimes}
for regime in regimes:
    found = calibration.measures(hundred[regime], few.a, key=seed)
    record(found, few, "inverse", regime, "draws=99")
names = ("coverage_50", "coverage_90", "placed_50", "placed_90", "spread_skill", "crps")
display(*map(table, names))

# %% [markdown]
# ## Rank histograms
#
# Each bar counts how often the truth takes a place among the ordered draws. A
# calibrated ensemble is flat at 1; a U is too narrow, a dome too wide. The permeability
# is judged twice: as it is drawn, and moved to the nearer value where that is in doubt.


# %%
def panel(axis, ensembles, truth, title, judged=None):
    places = (-0.2, 0.2, 0.0)
    for (name, each), place in zip(ensembles.items(), places, strict=False):
        if name == "two values":
            judged = (each != truth).any(0)
        where = None if judged is None else judged[: each.shape[1]]
        found = calibration.histogram(each, truth[: each.shape[1]], where, key=seed)
        value, low, high = found.T.numpy()
        at = np.arange(1, 21) + place
        drawn = {"x": at, "y": value, "label": name, "drawstyle": "steps-mid"}
        sns.lineplot(**drawn, ax=axis, **styles.look(name))
        axis.vlines(at, low, high, color=axis.lines[-1].get_color(), lw=1)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set(title=title, xlabel="place of the truth", ylabel="points / expected")
    axis.set_xticks([1, 5, 10, 15, 20])


# %% tags=["thumbnail"]
with plots.style():
    figure, axes = plt.subplots(1, len(regimes), figsize=(9, 2.9), squeeze=False)
    for axis, regime in zip(axes[0], regimes, strict=True):
        both = {"as drawn": draws[regime], "two values": model.pde.snap(draws[regime])}
        panel(axis, both, bench.a, f"Darcy, a from {regime} u")
figure.savefig(Path(out) / "ranks.png", dpi=150)
plt.show()

# %% [markdown]
# ## Where the posterior is known
#
# Poisson's and Helmholtz' equations with Gaussian sources have a Gaussian posterior in
# closed form. Beside PRISMA, and our PRISMA-L (see 34_physics_lift), we judge as many
# draws of the exact posterior: what they miss is chance.
#
# PRISMA has the paper's 20 steps of Heun's method, PRISMA-L 50 of the multistep
# sampler. The first table says how wide a *perfect* network would draw a Gaussian of
# some standard deviation, divided by that: a sampler's error, not the network's.
#
# The edge, where the solution is zero in every problem, counts in no interval. Even so
# one truth a problem says little, as a smooth field has few numbers of its own: exact
# draws, too, hold too many truths or too few by chance. So we also judge by all truths
# that an observation leaves possible (`expected`). Their mean and spread are known at
# every point, and with them the chance that an interval holds such a truth, and the
# mean square of its distance from the mean of the draws. What is left is the chance of
# the draws themselves, for which 16 problems are too few where two modes have most of
# the variance. PRISMA gets no more: under noise it is off by more than chance.


# %%
SDS = (1.0, 0.3, 0.1, 0.03, 0.01)


def width_of(sd, sampler, count):
    def perfect(x, sigma):
        return x * sd**2 / (sd**2 + sigma**2)

    noise = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    *_, last = SAMPLERS[sampler](perfect, noise, Schedule(count))
    return last.x.item() / sd


used = [("heun", steps), ("multistep", lifted_steps)]
widths = {f"{s}, {k} steps": {sd: width_of(sd, s, k) for sd in SDS} for s, k in used}
display(pd.DataFrame(widths).rename_axis("true").round(3))

# %%
CELLS = [(d, r) for d in ("forward", "inverse") for r in ("sparse", "noisy")]
MEASURES = ("coverage_50", "coverage_90", "spread_skill")
EXPECTED = [f"expected_{metric}" for metric in MEASURES]


# %%
def loaded(name):
    found = []
    for each in [name, f"{name}L"] if lifted else [name]:
        try:
            found.append(load(each))
        except CheckpointError as error:
            print(f"left out: {error}")
    return found


# %%
def beside(networks, problems, direction, regime):
    pde = problems.pde
    seen = evaluate.observation_of(problems, direction, regime)
    exact = gaussian_posterior(pde, seen, problems.noise_sd(regime))
    part = 1 if direction == "forward" else 0
    truth = (problems.a, problems.u)[part]
    key = torch.Generator().manual_seed(seed)
    answers = {"exact posterior": exact.sample(19, key)[part].float()}
    for network in networks:
        mine = problems if isinstance(network, PrismaL) else problems.first(few_n)
        answers[network.title] = ensemble(network, mine, direction, regime, 19)
    varies = truth.std(0, keepdim=True) > 0
    known = exact.mean()[part], exact.std()[part]
    return answers, truth, *known, varies.expand_as(truth)


# %%
compared = {}
for name in exact_names:
    networks = loaded(name)
    if not networks:
        continue
    problems = evaluate.benchmark(networks[0].pde, exact_n, seed)
    budgets = {network.title: budget(network) for network in networks}
    for cell in CELLS:
        compared[name, *cell] = beside(networks, problems, *cell)
        answers, *others = compared[name, *cell]
        for method, each in answers.items():
            mine = problems.first(each.shape[1])
            truth, mean, std, judged = (of[: mine.n] for of in others)
            found = calibration.measures(each, truth, judged, seed)
            found |= calibration.distances(each, mean, std, seed)
            found |= calibration.expected(each, mean, std, judged, seed)
            width = each.double().std(0).flatten(1).mean(1)
            error = metrics.relative_l2(each.mean(0), truth)
            r = calibration.correlation(width, error, seed)
            found["spread_error_pearson_r"] = r
            sampler, taken = budgets.get(method, ("", ""))
            extra = f"draws=19;sampler={sampler}" if sampler else "draws=19"
            record(found, mine, *cell, extra, method=method, steps=taken)

# %% [markdown]
# The distance of the means is in units of the exact spread: $m$ exact draws have
# $1 / \sqrt m = 0.23$. Look at the last table, too: under full noisy observations the
# exact posterior spreads alike for every problem, and its spread correlates with
# nothing. **A perfectly calibrated ensemble can have $r = 0$.**

# %%
if compared:
    for metric in ("mean_distance", "spread_ratio", *EXPECTED):
        display(Markdown(f"**{metric}**"), table(metric))
    display(table("spread_error_pearson_r").query("pde != 'darcy'"))

# %%
for (name, direction, regime), (answers, truth, *known, _) in compared.items():
    if (direction, regime) == ("inverse", "sparse"):
        moments = {m: (each.mean(0), each.std(0)) for m, each in answers.items()}
        moments["exact posterior"] = known
        widest = max(std[0, 0].max().item() for _, std in moments.values())
        lines = []
        for method, each in answers.items():
            mean, std = (of[0, 0] for of in moments[method])
            line = [plots.Panel(truth[0, 0], "truth", like="field")]
            line += [plots.Panel(mean, "mean", like="field")]
            line += [plots.Panel(d[0, 0], "draw", like="field") for d in each[:2]]
            lines.append([*line, plots.Panel(std, "std", bounds=(0, widest))])
        print(f"{name}: a from 3 % of the points of u")
        plots.grid(lines, list(answers)).savefig(Path(out) / f"{name}.png", dpi=150)
        plt.show()

# %%
if compared:
    with plots.style():
        figure, axes = plt.subplots(1, len(CELLS), figsize=(11, 2.9))
        (first, *_) = compared
        for axis, cell in zip(axes, CELLS, strict=True):
            answers, truth, *_, judged = compared[first[0], *cell]
            panel(axis, answers, truth, " ".join([first[0], *cell]), judged)
    figure.savefig(Path(out) / "exact_ranks.png", dpi=150)
    plt.show()

# %% [markdown]
# ## The answer
#
# Here, where the truth alone is known, draws are called calibrated when the 95 %
# interval of the share of points in doubt in 90 % intervals has 90 %, and that of
# spread over error has 1.


# %%
def cell_of(metric, regime, extra="draws=19"):
    (row,) = [
        r
        for r in rows
        if (r["pde"], r["metric"], r["regime"]) == ("darcy", metric, regime)
        and r["setting"].endswith(extra)
    ]
    return row


def said(regime):
    extra = "draws=19;two values"
    r, ratio = (cell_of(m, regime, extra) for m in ("placed_90", "spread_skill"))
    fair = r["low"] <= 0.9 <= r["high"] and ratio["low"] <= 1 <= ratio["high"]
    verdict = "calibrated as far as can be seen" if fair else "not calibrated"
    pearson = cell_of("spread_error_pearson_r", regime, "draws=16")["value"]
    held = f"90 % intervals hold {100 * r['value']:.0f} % of the points in doubt"
    skill = f"spread / error {ratio['value']:.2f}"
    return f"- **{regime}**: r = {pearson:.2f}, {held}, {skill}: **{verdict}**"


display(Markdown("\n".join(map(said, regimes))))

# %% [markdown]
# Where the posterior is known, we call an ensemble calibrated when its intervals of 50
# and 90 % hold 48 to 52 and 88 to 92 % of all truths that were possible, and its spread
# is 0.9 to 1.1 of its error. The first three columns are of the truths of the problems:
# read them beside those of the exact posterior, which misses by chance alone. Forward
# from few sensors two modes carry most of what is in doubt; there PRISMA-L is too sure
# by a few percent, of the Helmholtz equation just beyond what we allow.


# %%
def fair(row):
    band = {EXPECTED[0]: (0.48, 0.52), EXPECTED[1]: (0.88, 0.92)}
    low, high = band.get(row["metric"], (0.9, 1.1))
    return low <= row["value"] <= high


# %%
if compared:
    known = pd.DataFrame([r for r in rows if r["pde"] != "darcy"])
    known["cell"] = known["pde"] + ", " + known["direction"] + ", " + known["regime"]
    known = known[known["metric"].isin([*MEASURES, *EXPECTED])]
    known["fair"] = known.apply(fair, axis=1)
    found = known.pivot(index=["method", "cell"], columns="metric", values="value")
    found = found[[*MEASURES, *EXPECTED]]
    judged = known[known["metric"].isin(EXPECTED)].groupby(["method", "cell"])
    found["calibrated"] = judged["fair"].all()
    display(found.round(3))
    lines = [
        f"- **{method}**: calibrated in **{int(each.sum())} of {len(each)}** cells"
        for method, each in found.groupby("method")["calibrated"]
    ]
    display(Markdown("\n".join(lines)))

# %% [markdown]
# ## What the text claims
#
# Of any model: the inner places of the rank histogram are the 90 % interval, halving
# every deviation from the mean leaves $r$ as it is, and exact draws are as far from
# the exact mean as chance makes them. Of the shipped model: 90 % intervals hold about
# as much of what is in doubt as they say for exact observations, and far less for noisy
# ones.

# %%
for regime, each in draws.items():
    counts = rank_counts(each, bench.a)
    inside = counts[:, 1:-1].sum() / counts.sum()
    ties = (each == bench.a).any(0).double().mean().item()
    assert abs(inside.item() - cell_of("coverage_90", regime)["value"]) <= ties + 1e-9
    width, error = pairs[regime]
    halved = calibration.correlation(width / 2, error, seed).value
    kept = cell_of("spread_error_pearson_r", regime, "draws=16")["value"]
    assert abs(halved - kept) < 1e-9
for row in rows:
    if row["metric"] == "mean_distance" and row["method"] == "exact posterior":
        assert abs(row["value"] / 19**-0.5 - 1) < 0.35
if scale != "smoke":
    for regime in regimes:
        held = cell_of("placed_90", regime, "draws=19;two values")
        assert abs(held["value"] - 0.9) < 0.05 or regime == "noisy"
        assert held["high"] < 0.7 or regime != "noisy"
    for row in rows:
        if row["metric"] == EXPECTED[1] and row["method"] == "exact posterior":
            assert row["low"] - 0.02 < 0.9 < row["high"] + 0.02

# %%
write_metrics(Path(out) / "metrics.json", rows)
shelf.clear()
card = checkpoints.read_card(checkpoints.find(model_name))
print(f"{card['name']}, {len(rows)} numbers")
