# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does the network see of a measurement, and does it see more than it should?
#
# One model serves five tasks, because a mask says what was measured. **Of a field on
# 32 × 32 points a sensor on 3 % of them leaves 31 numbers, give or take 5; whatever
# stands at the other 993, NaN or the truth itself, changes the network's answer by
# exactly nothing.** The paper's law of masks "emphasizes highly sparse settings"
# (*Implementation Details*); as printed it does not: 37 % of its sparse training
# problems observe more than 30 % of the points.
#
# Needs: nothing but the library. Runs in seconds on a laptop.

# %%
import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from ipywidgets import interact

from prisma_lib import data, observe, pdes, plots, provenance
from prisma_lib.edm import SIGMA_DATA
from prisma_lib.fields import GRFNoise, keyed_normal
from prisma_lib.files import write_json
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.spectral import radial_spectrum

# %% tags=["parameters"]
pde_name: str = "darcy"  # any name that prisma_lib.pdes.names() lists
size: int = 32  # points per axis
problems: int = 64  # test problems; the pictures show the first
rate: float = 0.03  # share of points that carry a sensor
noise_sd: float = 2.0  # sensor noise, in standard deviations of the field
sigma: float = 0.5  # noise level of the state that observations are mixed into
seed: int = 0  # of the problems, the masks and the noise
out: str = "outputs/scratch/observations"  # folder for metrics.json and figures
scale: str = "cpu"  # smoke, cpu, gpu or paper: what the check cell may claim
interactive: bool = True  # offer sliders below the static figures

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
pde = pdes.load(pde_name, size, **(pdes.quick(pde_name) if scale == "smoke" else {}))
a, u = data.problems(pde, problems, seed=seed)
index = range(problems)
statistics = data.statistics(pde, problems, seed=seed, split="test")
model = Prisma(pde, ModelConfig.preset("tiny"), statistics).eval()

# %% [markdown]
# ## NaN is a missing value
#
# A user hands over what was measured in physical units. Where nothing was, the array
# holds NaN, or a mask holds 0 and the value does not matter. `observation` makes of
# either the same pair: values, 0 where there is none, and a mask.

# %%
generator = torch.Generator().manual_seed(seed)
where = torch.rand(u.shape, generator=generator) < rate
gaps = torch.where(where, u, torch.nan)
by_nan = observe.observation(pde, u=gaps)
by_mask = observe.observation(pde, u=u, mask_u=where)
assert torch.equal(by_nan.x, by_mask.x)
assert torch.equal(by_nan.mask, by_mask.mask)
print(f"{int(where[0].sum())} of {where[0].numel()} points of the first u are known")

# %% [markdown]
# ## Five tasks
#
# Beside coordinates the network takes three pairs of channels: the noisy state
# $x_\sigma$, the values $M x_{obs}$ and the masks $M$ (paper, table
# `prisma_configs_mask`). We show the last two. The values are normalised to mean 0 and
# standard deviation 0.5; an unseen point is 0, the mean, so that the mask alone tells
# it from a measured one. Algorithm 1 of the paper hands the *unmasked* fields to the
# denoiser, which would give the answer away; we mask them first.


# %%
def seen_by_network(task, problem, share):
    seen = observe.observe(task, a, u, rate=share, key=seed, index=index)
    values, mask = (both[problem] for both in model.condition(seen))
    return [*values, *mask]


channels = {"$M_a a$": "RdBu_r", "$M_u u$": "RdBu_r", "$M_a$": "gray", "$M_u$": "gray"}
limits = {"RdBu_r": plt.Normalize(-1.5, 1.5), "gray": plt.Normalize(0, 1)}


# %%
def draw(tasks, problem=0, share=rate):
    with plots.style():
        size = (1.6 * len(tasks) + 1.4, 6.6)
        figure, axes = plt.subplots(4, len(tasks), figsize=size, squeeze=False)
        for column, task in zip(axes.T, tasks, strict=True):
            seen = seen_by_network(task, problem, share)
            parts = zip(column, seen, channels.values(), strict=True)
            for axis, values, cmap in parts:
                plots.field(axis, values, "", limits[cmap], cmap)
            column[0].set_title(task.replace("_", " "))
        for axis, name in zip(axes[:, 0], channels, strict=True):
            axis.set_ylabel(name, rotation=0, labelpad=16, va="center")
        for pair in (axes[:2], axes[2:]):
            bar = figure.colorbar(pair[0, 0].images[0], ax=pair, shrink=0.5)
            bar.locator = plt.MaxNLocator(integer=True)
        figure.get_layout_engine().set(rect=(0.015, 0, 0.985, 1))
    return figure


# %% tags=["thumbnail"]
draw(observe.TASKS).savefig(folder / "tasks.png", dpi=150)
plt.show()


# %%
def explore(task, problem=0, share=rate):
    draw([task], problem, share)
    plt.show()


if interactive:
    last = problems - 1
    interact(explore, task=observe.TASKS, problem=(0, last), share=(0.01, 1.0, 0.01))

# %% [markdown]
# ## How many sensors is 3 %?
#
# Each point carries a sensor by chance, independently. A mask of a larger share holds
# those of all smaller ones, for the same problem and seed: rates are compared on the
# same sensors and some more.

# %%
shares = [0.01, 0.03, 0.1, 0.5]
masks = {
    f"{100 * share:.0f} %": observe.observe(
        "sparse_inverse", a, u, rate=share, key=seed, index=index
    ).mask_u
    for share in shares
}

# %%
field = u[0, 0]
panels = [plots.Panel(field, "u", "u", signed=bool((field < 0).any()))]
for name, mask in masks.items():
    known = field.masked_fill(mask[0, 0] == 0, torch.nan)
    title = f"{name}: {int(mask[0].sum())} sensors"
    panels.append(plots.Panel(known, title, "u", signed=panels[0].signed))
plots.grid([panels]).savefig(folder / "masks.png", dpi=150)
plt.show()

# %% [markdown]
# Where time is an axis of the field, as for Burgers' equation, a sensor stands at a
# place and sees all times: a column of the field, here a line, for time runs to the
# right. It gets five of them, on any grid, as in DiffusionPDE's code: the
# paper gives no number.

# %%
rows = []
for name in pdes.names():
    equation = pdes.load(name, size)
    if equation.sensors == "columns":
        pair = data.problems(equation, 1, seed=seed)
        seen = observe.observe(
            "sparse_inverse", *pair, columns=5, key=seed, index=range(1)
        )
        known = seen.u.masked_fill(seen.mask_u == 0, torch.nan)
        assert seen.mask_u[0, 0].all(0).sum() == 5
        assert seen.mask_u.sum() == 5 * size
        fields = {"u": pair[1], "5 columns of u": known, "a to recover": pair[0]}
        rows.append([plots.Panel(f[0, 0], k, signed=True) for k, f in fields.items()])
plots.grid(rows).savefig(folder / "columns.png", dpi=150)
plt.show()

# %% [markdown]
# A share means other numbers on other grids: the paper's 3 % are 492 sensors at
# $128^2$, ours 31 at $32^2$, at four times the distance. Errors at 3 % on different
# grids do not compare. The table counts sensors in 200 masks a cell; *fewest* is the
# emptiest of them, and at 1 % of a coarse grid some problems are nearly unobserved.


# %%
def count(n, share):
    uniform = torch.rand(200, n * n, generator=torch.Generator().manual_seed(seed))
    found = (uniform < share).sum(1).double()
    return {
        "share": f"{100 * share:.0f} %",
        "expected": share * n * n,
        "mean": found.mean().item(),
        "sd": found.std().item(),
        "fewest": int(found.min()),
        "spacing": (share * n * n) ** -0.5,
    }


grids = (32, 64, 128)
counts = pd.DataFrame(
    {(n, i): count(n, s) for n in grids for i, s in enumerate(shares)}
)
counts = counts.T.droplevel(1).rename_axis("points per axis")
counts.map(lambda value: f"{value:.3g}" if isinstance(value, float) else value)

# %% [markdown]
# ## The law of the shares
#
# In training the share $p_{obs}$ of a sparse problem is itself random. The paper prints
# an even mixture of
#
# $$p = 0.01 + 0.1 \, U \cdot 0.49 \qquad \text{and} \qquad
# p = 0.01 + (1 - U^3) \cdot 0.49$$
#
# with $U$ uniform. The mean of $1 - U^3$ is 3/4: the second half has a mean of 0.38 and
# leans to *dense* masks, against its words. With $U^3$, `mixture="sparse"`, it would
# have a mean of 0.13. The library offers both and a model's card says which was used.

# %%
dice = torch.rand(2, 100_000, generator=torch.Generator().manual_seed(seed))
drawn = {
    mixture: observe.sample_rates(*dice, mixture=mixture)
    for mixture in ("paper", "sparse")
}
with plots.style():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharex=True, sharey=True)
    for axis, (mixture, p) in zip(axes, drawn.items(), strict=True):
        axis.hist(p, 49, range=(0.01, 0.5), density=True, alpha=0.5)
        label = f"mean {p.mean():.3f}"
        axis.axvline(p.mean(), color="k", lw=1, label=label)
        axis.axvline(rate, color="k", ls=":", lw=1, label=f"tested at {rate:g}")
        axis.set(title=f'mixture="{mixture}"', xlabel="$p_{obs}$", ylabel="density")
        axis.legend()
figure.savefig(folder / "shares.png", dpi=150)
plt.show()

# %%
dense = {mixture: (p > 0.3).double().mean().item() for mixture, p in drawn.items()}
means = {mixture: p.double().mean().item() for mixture, p in drawn.items()}
pd.DataFrame({"mean": means, "above 0.3": dense})

# %% [markdown]
# ## Sensor noise of two standard deviations
#
# The paper's noisy regime adds $N(0, 1)$ to every observed point and does not say in
# which unit. In normalised data of standard deviation 0.5 it is twice the field's own.
# It is white, and the field is not: the spectra show how many modes stand out of it.
# Those, and what the equation says of them, are all there is to recover.

# %%
clean = observe.observe("full_inverse", a, u, key=seed, index=index)
sd = u.std().item()
noisy = observe.add_noise(clean, 0.0, noise_sd * sd, seed, index)
signed = bool((noisy.u < 0).any())
with plots.style():
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.7), width_ratios=[1, 1, 1.4])
    for axis, seen, title in zip(axes, (clean, noisy), ("u", "noisy u"), strict=False):
        high = seen.u[0].abs().max().item()
        norm = plt.Normalize(-high, high)
        image = plots.field(axis, seen.u[0, 0], title, norm, "RdBu_r")
        figure.colorbar(image, ax=axis, shrink=0.8)
    fluctuation = {"u": u - u.mean(), "noise": noisy.u - clean.u}
    plots.spectra(axes[2], {name: f[:, 0] for name, f in fluctuation.items()})
figure.savefig(folder / "noise.png", dpi=150)
plt.show()
powers = [radial_spectrum(f[:, 0]).mean(0)[1:] for f in fluctuation.values()]
lost = int((powers[0] < powers[1]).nonzero()[0, 0]) + 1
print(f"u has more power than the noise below mode number {lost}")

# %% [markdown]
# ## Mixing observations into the state
#
# The residual that the network sees is that of $x_{mix} = M x_{obs} + (1 - M) x_\sigma$
# (section *PRISMA Model Architecture*). Where a field is known entirely, its
# noise is gone from the residual. A few sensors change little: each puts a right value
# among wrong ones, and the last column shows that only the stencils around it notice.


# %%
def residual(task, level, mixed=True):
    seen = observe.observe(task, a, u, rate=rate, key=seed, index=index)
    x_obs, mask = model.condition(seen)
    noise = GRFNoise(pde.grid).draw(seed, index, 2)
    x_sigma = model.normalise(torch.cat([a, u], 1)) + level * noise
    mask = mask if mixed else torch.zeros_like(mask)
    x_mix = model.denormalise(observe.mix(mask, x_obs, x_sigma))
    return x_mix, model.residual(x_sigma, x_obs, mask)


# %%
def mixing_row(task):
    (state, r), (x_mix, r_mix) = (
        residual(task, sigma, mixed) for mixed in (False, True)
    )
    pairs = [("x_\\sigma", state), ("x_{mix}", x_mix)]
    fields = [
        plots.Panel(x[0, c], f"$u$ of ${name}$" if c else f"$a$ of ${name}$", "au"[c])
        for c in (0, 1)
        for name, x in pairs
    ]
    found = [("$R(x_{mix})$", r_mix), ("$R(x_{mix}) - R(x_\\sigma)$", r_mix - r)]
    return fields + [plots.Panel(f[0, 0], t, signed=True) for t, f in found]


# %%
pictures = [mixing_row(task) for task in observe.TASKS[1:]]
figure = plots.grid(pictures, [task.replace("_", " ") for task in observe.TASKS[1:]])
figure.savefig(folder / "mixing.png", dpi=150)
plt.show()

# %%
levels = (0.01, 0.1, 1.0, 10.0)


def rms(r):
    return r.double().square().mean().sqrt().item()


ratios = {
    task: [rms(residual(task, s)[1]) / rms(residual(task, s, False)[1]) for s in levels]
    for task in observe.TASKS
}
index_of = pd.Index(levels, name="noise level")
pd.DataFrame(ratios, index=index_of).map("{:.3g}".format)

# %% [markdown]
# The table divides the rms of the mixed residual by that of the unmixed one.
#
# ## Check: nothing leaks
#
# We give a network of random weights, so that no path through it is closed, the same
# state and the same sensors three times: with NaN, with the truth, and with $10^{30}$
# at the unobserved points. Its answers are equal to the last bit. Another value at one
# sensor changes the answer.


# %%
def answer(**measured):
    noise = GRFNoise(pde.grid).draw(seed, range(problems), 2)
    condition = model.condition(observe.observation(pde, **measured))
    with torch.no_grad():
        return model(sigma * noise, torch.full((problems,), sigma), *condition)


for position, weight in enumerate(model.parameters()):
    values = keyed_normal(seed, [position], tuple(weight.shape), purpose="weights")[0]
    weight.data.copy_(0.3 * values)
reference = answer(u=gaps)
hidden = torch.where(where, u, 1e30)
assert torch.equal(reference, answer(u=u, mask_u=where))
assert torch.equal(reference, answer(u=hidden, mask_u=where))
moved = torch.where(where, u + sd, torch.nan)
assert not torch.equal(reference, answer(u=moved))
print(f"another truth: 0, another sensor value: {rms(answer(u=moved) - reference):.2g}")

# %% [markdown]
# Masks are nested, the counts are binomial, the shares have the means of their laws,
# and mixing changes nothing where nothing is observed.

# %%
for small, large in itertools.pairwise(masks[f"{100 * s:.0f} %"] for s in shares):
    assert (small <= large).all()
assert torch.equal(noisy.mask, clean.mask)
for row in counts.itertuples():
    variance = row.expected * (1 - row.expected / row.Index**2)
    assert abs(row.mean - row.expected) < 5 * (variance / 200) ** 0.5
    assert abs(row.sd / variance**0.5 - 1) < 0.3
for mixture, second in (("paper", 0.75), ("sparse", 0.25)):
    expected = 0.01 + 0.49 * (0.05 + second) / 2
    assert abs(means[mixture] - expected) < 0.003
assert ratios["uncond"] == [1.0] * len(levels)
if scale != "smoke":
    assert round(counts.expected.iloc[1]) == 31
    assert 4 < counts.sd.iloc[1] < 7
    assert abs(dense["paper"] - 0.37) < 0.01
    normalised = noise_sd * sd * SIGMA_DATA / statistics.std[1]
    assert abs(normalised - noise_sd * SIGMA_DATA) < 0.01

# %% [markdown]
# ## What a sweep keeps

# %%
common = {"scale": scale, "seed": seed, "pde": pde_name}
common |= {"device": provenance.record(torch.device("cpu"))["device"]}
rows = [
    common
    | {"method": "mixture", "metric": metric, "value": value, "n": len(drawn[name])}
    | {"setting": f"mixture={name}"}
    for metric, found in (("share_above_0.3", dense), ("mean_share", means))
    for name, value in found.items()
]
rows += [
    common
    | {"method": "bernoulli", "metric": "sensors", "value": row.mean, "n": 200}
    | {"setting": f"size={row.Index},rate={row.share}"}
    for row in counts.itertuples()
]
rows += [
    common
    | {"method": task, "metric": "residual_mixed_over_unmixed", "value": ratio}
    | {"setting": f"size={size},rate={rate},sigma={level}", "n": problems}
    for task, found in ratios.items()
    for level, ratio in zip(levels, found, strict=True)
]
write_json(folder / "metrics.json", rows)
