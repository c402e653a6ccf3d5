# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How much noise does a draw survive, and what does it cost to be unaware of it?
#
# The paper adds Gaussian noise to 10 to 90 % of the observed points (table `noisy_all`,
# E11) and calls PRISMA robust at every share (C17); over the noise's standard deviation
# (figure `noise_sigma_vary`, E13) it finds that the error grows gracefully and is the
# lowest at every level (C10). It does not state the unit (I27): ours is the standard
# deviation of the field. **From 0.1 to 2 of it PRISMA's error grows from 1.2 to 15 %
# (Darcy) and 3.7 to 32 % (Helmholtz) forward; backward from 16 to 42 % of Darcy's
# points, and from 83 to 143 % on Helmholtz, where the mean field errs by 100 %.**
#
# No model here but PRISMA-L saw noise in training. **PRISMA-L, which estimates it,
# errs at 2 by 6.0 and 21 % on Darcy, 34 and 66 % on Helmholtz; there a draw of the
# exact posterior, which is told, errs by 32 and 63 %. So unawareness costs at most a
# factor of about 2 to 2.5, and nothing forward on Helmholtz.** At most, since PRISMA-L
# has its lift besides. C10 and E11 do not hold, nor C17 on Darcy forward: from 10 to
# 90 % of noisy points the error grows from 3.55 to 14.5 %.
#
# Needs: the shipped models, no GPU; baselines where their weights are. Took 50 minutes
# of one core (AMD EPYC) with all of them; a sweep gives the run all cores.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

from prisma_lib import evaluate, plots, results, robustness, sweepcharts

# %% tags=["parameters"]
models: list[str] = ["darcy-32", "poisson-32", "helmholtz-32"]  # one an equation
methods: list[str] = [  # if they have weights
    "prisma-l",
    "fno",
    "pino",
    "diffusionpde",
    "fundps",
]
fractions: list[float] = [0.1, 0.3, 0.5, 0.9]  # shares of noisy points
levels: list[float] = [0.1, 0.5, 1.0, 2.0]  # noise, in standard deviations of the field
n: int = 64  # unseen test problems; guided methods answer the first four
steps: int = 20  # sampler steps
guided_steps: int = 100  # sampler steps of DiffusionPDE and FunDPS
seed: int = 0  # seed of problems, noise and draws
out: str = "outputs/scratch/noise_levels"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # nothing to move here: the explorer is in 00_tour

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
loaded, missing = robustness.available(models)
for reason in missing:
    print(f"left out: {reason}")
benchmarks = [evaluate.benchmark(model.pde, n, seed) for model in loaded]

# %% [markdown]
# ## What the noise looks like
#
# The same noise stands on more and more points, and then grows: what is noisy at 10 %
# is noisy at 90 %. Nobody is told which points are, nor how much. The right-most panel
# is the protocol's noisy regime, twice the field's standard deviation on every point.

# %%
panels = []
for bench in benchmarks:
    hidings = {f"{100 * x:g} % noisy": {"fraction": x} for x in fractions[::2]}
    hidings |= {f"all, {x:g} sd": {"noise": x} for x in levels[-3:]}
    row = [plots.Panel(bench.a[0, 0], f"true a, {bench.pde.name}", like="a")]
    limits = bench.a[0].min().item(), bench.a[0].max().item()
    for title, hidden in hidings.items():
        seen = evaluate.observation_of(bench.first(1), "forward", "noisy", **hidden)
        row.append(plots.Panel(seen.a[0, 0].clamp(*limits), title, like="a"))
    panels.append(row)
plots.grid(panels).savefig(folder / "noise.png", dpi=120)
plt.show()

# %% [markdown]
# ## Every method, every share, every level
#
# Each row of the results has the error in percent with its bootstrap 95 % interval. A
# guided method answers four problems at 100 steps; PRISMA answers those again. Beside
# them stand the mean field, which looks at nothing, the exact posterior where it is
# known, and the *lift*, a classical estimate of the mean: both are told how strong the
# noise is, the lift as if it stood on every point. PRISMA-L, ours, estimates it; no
# other method is told, or asks.

# %%
asked = [("forward", "noisy"), ("inverse", "noisy")]
conditions = [{"fraction": share} for share in fractions]
conditions += [{"noise": level} for level in levels]
rows = []
for model, bench in zip(loaded, benchmarks, strict=True):
    everyone, missing = robustness.contestants(
        model, methods, steps=steps, guided_steps=guided_steps
    )
    for reason in missing:
        print(f"left out: {reason}")
    for hidden in conditions:
        problems = bench.hiding(**hidden)
        rows += robustness.compete(everyone, problems, asked, scale=scale)
        rows += robustness.beside(problems, asked, scale=scale)

# %% [markdown]
# ## More noisy points
#
# Guided methods answered four problems and are drawn with these: a line of theirs below
# another is no order. Who is ahead on the same four stands further down.

# %% tags=["thumbnail"]
data = sweepcharts.settings_frame(rows, fraction=1.0)
strongest = data[(data["noise_sd"] == 2.0) & (data["method"] != "exact posterior")]
sweepcharts.sweep(strongest, "fraction", "share of noisy points (noise: 2 sd)").savefig(
    folder / "fractions.png", dpi=120
)
plt.show()

# %% [markdown]
# ## Stronger noise
#
# Noise on every point. A draw of somebody who knows nothing errs $\sqrt 2$ times as
# much as the mean field: a line above that says that the model takes noise for
# structure. The exact posterior shows what could be known all the same. Guided methods
# are drawn on four problems here, too.

# %%
whole = data[data["fraction"] == 1.0]
sweepcharts.sweep(whole, "noise_sd", "noise, sd of the field").savefig(
    folder / "levels.png", dpi=120
)
plt.show()

# %% [markdown]
# ## The numbers
#
# PRISMA's error in percent, at each level (columns) on each share of the points.


# %%
ours = data[(data["method"] == "PRISMA") & (data["n"] == n)]
sentences = []
for (pde, direction), cell in ours.groupby(["pde", "direction"], sort=False):
    by_share = cell[cell["noise_sd"] == 2.0].set_index("fraction")
    least, most = (
        results.spoken(by_share.loc[share]) for share in (min(fractions), 1.0)
    )
    text = f"{pde}, {direction}: {least} with {100 * min(fractions):g} % of the points"
    sentences.append(f"{text} noisy, {most} with all")
display(Markdown(f"**{'; '.join(sentences)} (n = {n}).**"))
table = ours.pivot(
    index=["pde", "direction"], columns=["noise_sd", "fraction"], values="value"
)
table.round(1)

# %% [markdown]
# ## Who is the best at each share and level?
#
# Among those that answered the same four problems, so that chance is the same for all.
# PRISMA-L and the operators answered all problems and stand in the figures. In
# 90_report the claim E11 counts the operators, too, which are in the paper's table of
# shares; C10 has the guided methods alone, as the paper's figure of levels.

# %%
few = data["n"].where(data["n"] < n).max()
same = data[(data["n"] == (few if few == few else n)) & data["value"].notna()]
same = same[~same["method"].isin(["mean field", "exact posterior"])]
cells = same.groupby(["pde", "direction", "noise_sd", "fraction"])
first = same.loc[cells["value"].idxmin()]
first.groupby(["pde", "direction"])["method"].value_counts().unstack(fill_value=0)

# %% [markdown]
# ## What the text claims
#
# At any scale the mean field is deaf to noise, and the protocol's noise is the last
# condition. At larger scales noise does harm, in every cell.

# %%
deaf = data[data["method"] == "mean field"].groupby(["pde", "direction"])["value"]
assert (deaf.max() == deaf.min()).all()
assert len(ours) == 2 * len(conditions) * len(loaded)
for bench in benchmarks:
    weak, strong = (
        evaluate.observation_of(bench, "inverse", "noisy", noise=level).u - bench.u
        for level in (1.0, 2.0)
    )
    assert ((2 * weak - strong).abs() < 1e-4 * bench.statistics.std[1]).all()
if scale != "smoke":
    for _, cell in ours.groupby(["pde", "direction"]):
        by_level = cell[cell["fraction"] == 1.0].set_index("noise_sd")["value"]
        by_share = cell[cell["noise_sd"] == 2.0].set_index("fraction")["value"]
        assert by_level[min(levels)] < by_level[max(levels)]
        assert by_share[min(fractions)] < by_share[1.0]

# %%
results.write_metrics(folder / "metrics.json", rows)
print(f"{len(rows)} rows of {len({row['method'] for row in rows})} methods")
