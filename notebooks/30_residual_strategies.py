# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does the residual help, and how should it enter?
#
# The paper's claim C08 (its table `main_ablation`, E16): spectral residual attention
# beats a network that never sees the residual, and one that gets it as one more input
# channel. We train the three with equal budgets, three seeds each, on Helmholtz and
# Kolmogorov flow. **It helps as one more channel, in three of the four cells where
# whole fields are seen: without it, as a channel and through attention the error is
# 29.3, 6.2 and 28.8 % in Helmholtz' inverse problem, 8.6, 6.2 and 8.1 % in Kolmogorov
# flow forward and 8.5, 5.7 and 7.8 % backward. C08 does not hold after this budget.**
# Forward on Helmholtz the three hardly differ (8.5, 8.3 and 8.5 %), and from few or
# noisy sensors seeds tell hardly any two apart.
#
# Needs: the rows of `python -m prisma_lib.screen
# params/residual_strategies_train.yaml`, which trains 18 networks with equal numbers of
# images. With them it runs in seconds.

# %%
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import scipy.stats
from IPython.display import Markdown, display

from prisma_lib import (
    ablations,
    charts,
    claims,
    data,
    pdes,
    plans,
    provenance,
    results,
)
from prisma_lib.claims import designs
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.results import write_metrics
from prisma_lib.screen import screen
from prisma_lib.tables import Paper

# %% tags=["parameters"]
trainings: str = "residual_strategies_train"  # plan of the trainings, file of its rows
equations: list[str] = ["helmholtz", "kolmogorov"]  # of that plan
here: bool = False  # train one seed of each in this notebook instead of reading rows
n: int = 128  # unseen test problems, for trainings in this notebook
out: str = "outputs/scratch/residual_strategies"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale: of the rows that are read, and for the records
interactive: bool = True  # nothing to move here

# %% [markdown]
# ## Three ways
#
# - `none`: the network sees state, observations and masks; the PDE is never evaluated.
# - `concat`: the residual $r = R(M x_{obs} + (1 - M) x_\sigma)$, divided by its root
#   mean square, is one more input channel.
# - `sra`: the residual's spectrum damps the modes of the features, level by level.
#
# All else is the same: fields, tasks, noise levels, optimiser, number of problems. What
# the residual costs in weights:

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
pde = pdes.load(equations[0], size=16)
statistics = data.statistics(pde)
weights = {}
for strategy in ("none", "concat", "sra"):
    config = ModelConfig.preset("small", strategy=strategy)
    network = Prisma(pde, config, statistics)
    weights[strategy] = sum(p.numel() for p in network.parameters())
    print(f"{strategy:7} {weights[strategy]:,} weights")

# %% [markdown]
# ## The rows of the trainings
#
# A row is the mean error of one trained network on the same test problems, one draw of
# 20 steps of Heun's method each. A short run trains one seed of each strategy here: it
# shows that everything runs, and its numbers mean nothing.

# %%
file = provenance.ROOT / "outputs" / "results" / f"{trainings}.csv"
plan = provenance.ROOT / "params" / f"{trainings}.yaml"
if here:
    file = folder / "trained.csv"
    for equation in equations:
        given = (plan, scale, file, "cpu", n)
        for name, _ in screen(*given, only=f"{equation}-*-0", folder=folder):
            print(f"trained {name}")
rows = [r for r in results.read(file) if r["scale"] == scale and r["pde"] in equations]
done = {row["run"] for row in rows}
wanted = [x for x in plans.read_trainings(plan, scale) if x.split("-")[0] in equations]
lacking = [] if here else [name for name in wanted if name not in done]
print(f"{len(done)} trained networks")
if lacking:
    made = f"python -m prisma_lib.screen params/{trainings}.yaml --scale {scale}"
    print(f"{len(lacking)} of {len(wanted)} have no rows yet; they are made by\n{made}")

# %% [markdown]
# ## Errors with what is left open
#
# The interval is that of a single value: where it would be with other problems (by the
# bootstrap) and other seeds (by Student's quantile, deviations pooled over the
# strategies of a cell). It is not for comparisons: all networks answer the same
# problems, whose chance cancels there in part. The budget is about an eighth of that of
# a model that ships. After it every network errs above 100 % from few sensors and
# under noise in Kolmogorov flow, and under noise in Helmholtz' inverse problem: those
# cells compare networks that know nothing yet.

# %%
table = ablations.averaged(rows)


def text(row):
    value, low, high = (float(row[key]) for key in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


frame = pd.DataFrame(table)
cell = ["pde", "regime", "direction"]
if table:
    frame["strategy"] = [results.settings(row)["variant"] for row in table]
    frame["error, %"] = [text(row) for row in table]
    display(frame.pivot(index=cell, columns="strategy", values="error, %"))

# %% tags=["thumbnail"]
if table:
    figure = charts.variants(table)
    figure.savefig(folder / "strategies.png", dpi=150)
    plt.show()

# %% [markdown]
# How much the seeds of one strategy differ, the standard deviation of their errors in
# percent of the error:

# %%
spread = [
    dict(zip(ablations.WHERE, key, strict=True))
    | {"strategy": name, "seeds, %": 100 * ablations.deviation(runs)}
    for key, variants in ablations.grouped(rows).items()
    for name, runs in variants.items()
]
if spread:
    shown = pd.DataFrame(spread).pivot(index=cell, columns="strategy")["seeds, %"]
    display(shown.round(1))

# %% [markdown]
# ## Who beats whom
#
# Two strategies are told apart by Welch's t interval, 95 %, of the difference of the
# logarithms of their errors over the seeds of each. So it is a statement about these
# test problems, which all networks answer. The interval of the ratio (of geometric
# means) is printed; where it holds 1, nothing can be said. If no strategy differed, one
# comparison in twenty would be decided by chance, half of them against attention.
#
# Beside it stands the paper's order in the same cell, at $64^2$, and as `its` the ratio
# of its errors. Its sentence, that attention outperforms both, is more than its own
# table says (I19): for Helmholtz, forward, the network without residual is the better
# one under full and under noisy observations.

# %%
paper = Paper.read(provenance.ROOT / "outputs" / "tables" / "paper.csv")


def beside(pair):
    found = {key: pair.cell[key] for key in cell} | {"attention against": pair.other}
    found |= {"here": pair.gap.verdict}
    found |= dict(zip(("ratio", "low", "high"), pair.gap.ratio, strict=True))
    its = math.exp(designs.printed(paper, pair))
    return found | {"paper": "better" if its < 1 else "worse", "its": its}


pairs = ablations.versus(rows)
compared = pd.DataFrame(map(beside, pairs))
display(compared.round(3))
tested = sum(not math.isnan(pair.gap.low) for pair in pairs)
print(f"{tested} comparisons of seeds; chance alone would decide {0.05 * tested:.1f}")

# %% [markdown]
# ## What it costs
#
# Minutes of a whole training, and seconds of one draw, by the machine in the rows; only
# those of one machine can be compared. Both depend on what else it did; in a step of
# the sampler the residual itself is a small part.

# %%
costs = [
    {"device": r["device"], "pde": r["pde"], "strategy": ablations.parts(r)[1]}
    | {"seconds a draw": results.number(r, "seconds_per_sample")}
    | {r["metric"]: results.number(r)}
    for r in rows
]
measured = ["seconds a draw", "minutes", "images"]
cost = pd.DataFrame(costs, columns=["device", "pde", "strategy", *measured])
cost.groupby(["device", "pde", "strategy"])[measured].median().round(3)

# %% [markdown]
# ## The answer
#
# The sentence (C08) is that attention is better everywhere; the table (E16) has it
# behind in the two cells above. One comparison that seeds decide the other way decides
# against it; otherwise more must be decided than not, or most must rule out an effect
# as large as that of the paper's numbers, in column `its`. So the answer to the title
# is in two parts. Does the residual help? Where whole fields are seen, yes in three of
# four cells, as one more channel: see the errors of `concat` beside those of `none`
# above, most of all in Helmholtz' inverse problem. How should it enter? After this
# budget not by attention, where whole fields are seen. `90_report` has the same rule.

# %%
evidence = claims.Evidence([], [], [], rows, paper)
found = {name: claims.CLAIMS[name].judge(evidence) for name in ("C08", "E16")}
told = " ".join(f"{k} {f.verdict}: {f.evidence}." for k, f in found.items())
verdicts = [pair.gap.verdict for pair in pairs]
better, worse, undecided = (
    verdicts.count(k) for k in (ablations.BETTER, ablations.WORSE, ablations.UNDECIDED)
)
said = f"""**Of {len(pairs)} comparisons, attention is better in {better}, worse in
{worse}, and {undecided} cannot be said.** {told}"""
if pairs:
    said += f""" Over all cells its error is {compared["ratio"].min():.2f} to
{compared["ratio"].max():.2f} times the other's, median
{compared["ratio"].median():.2f}."""
lead = "At this size nothing counts: " if scale == "smoke" else ""
display(Markdown(lead + ("Not all networks are trained. " if lacking else "") + said))

# %% [markdown]
# ## What the text claims
#
# At any scale: a strategy adds less than a quarter in weights, every network was
# judged in the same cells on the same problems after the same budget, the paper's table
# contradicts its sentence in two cells, and what is decided here is decided by Welch's
# test in scipy. With all trainings of the plan every strategy has the same three seeds.

# %%
assert max(weights.values()) < 1.25 * min(weights.values())
asked = {}
for row in rows:
    if row["regime"]:
        where = tuple(row[key] for key in ablations.WHERE)
        asked.setdefault(row["run"], set()).add(where)
for equation in equations:
    cells = [asked[run] for run in asked if run.startswith(equation)]
    assert all(one == cells[0] for one in cells), "not the same cells or problems"
assert len({*ablations.spent(rows, "images").values()}) <= 1, "budgets differ"
for pair in pairs:
    ours, other = (
        [math.log(float(r["value"])) for r in pair.rows if ablations.parts(r)[1] == k]
        for k in (ablations.OURS, pair.other)
    )
    if min(len(ours), len(other)) > 1:
        decided = scipy.stats.ttest_ind(ours, other, equal_var=False).pvalue < 0.05
        assert decided == (pair.gap.verdict != ablations.UNDECIDED)

# %%
if not lacking:
    assert (compared["paper"] == "worse").sum() == 2 * ("helmholtz" in equations)
    assert len(table) == 3 * len({tuple(row[k] for k in cell) for row in table})
    assert len(pairs) == 2 * len(table) / 3
if not here and not lacking:
    seeds = {tuple(ablations.parts({"run": run})[:2]): set() for run in asked}
    for run in asked:
        equation, strategy, seed = ablations.parts({"run": run})
        seeds[equation, strategy].add(seed)
    assert {*map(frozenset, seeds.values())} == {frozenset("012")}

# %%
write_metrics(folder / "metrics.json", [row | {"scale": scale} for row in table])
print(json.dumps({"better": better, "worse": worse, "cannot be said": undecided}))
