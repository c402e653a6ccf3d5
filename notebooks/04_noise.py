# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Is the noise of the diffusion white, and is it the same on every grid?
#
# A neural operator should mean the same thing on every grid, so the paper diffuses its
# fields with a Gaussian random field instead of white noise. **At $32^2$ points its
# noise is white all the same: neighbours correlate by 0.2 %. At $128^2$ they correlate
# by 21 %, and a low mode gets 5.5 times less noise at the same $\sigma$.** A model that
# was trained on one grid and runs on another must be given the noise of its own.
#
# Needs: nothing but the library. Runs in seconds on a laptop.

# %%
import math
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from ipywidgets import interact

from prisma_lib import data, pdes, plots, provenance
from prisma_lib.edm import SIGMA_DATA
from prisma_lib.fields import GRFNoise, cosine_field, fourier_field, keyed_normal
from prisma_lib.files import write_json
from prisma_lib.grids import Grid
from prisma_lib.spectral import radial_spectrum

# %% tags=["parameters"]
size: int = 32  # points per axis of the training grid
kernel_scale: float = 0.05  # s of the covariance, as in the public code
scales: list[float] = [0.05, 0.1, 0.15, 0.2]  # other values of s to look at
draws: int = 64  # fields per estimate
dense_sizes: list[int] = [8, 16, 32, 48]  # points per axis for dense factors
pde_name: str = "darcy"  # whose data the noise is compared with
seed: int = 0  # of the noise and the problems
out: str = "outputs/scratch/noise"  # folder for metrics.json and figures
scale: str = "cpu"  # smoke, cpu, gpu or paper: what the check cell may claim
interactive: bool = True  # offer a slider below the static figure

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
grids = [size, 2 * size, 4 * size]


def noise(points, s=kernel_scale, wraps=True):
    return GRFNoise(Grid((points, points), periodic=(wraps, wraps)), s)


def draw(source, num=draws, shape=None):
    return source.draw(seed, range(num), 1, shape)[:, 0].double()


# %% [markdown]
# ## The covariance
#
# $$C(d) = \exp\Big(-\frac{d}{2 s^2}\Big) + 10^{-4} \, [d = 0], \qquad s = 0.05$$
#
# for points at distance $d$ on the unit square. The paper takes its `rbf_scale` from
# the DDO code, which FunDPS is built on; the public code of FunDPS calls the kernel
# RBF. It would be one if $d$ were squared. It is not, so the length over which it falls
# to $1/e$ is $2 s^2 = 0.005$, a tenth of $s$ and a sixth of the spacing of 32 points.
# Dots are measured on draws.


# %%
def measured(source, lags):
    """Correlates draws with themselves at distances along both axes, periodic."""
    x = draw(source)
    pairs = [[(x * x.roll(lag, axis)).mean().item() for axis in (1, 2)] for lag in lags]
    return [sum(pair) / 2 for pair in pairs]


with plots.style():
    figure, axis = plt.subplots(figsize=(6, 3.4))
    lags = torch.logspace(-3, -0.5, 200)
    for s in scales:
        line = axis.semilogx(lags, (-lags / (2 * s**2)).exp(), label=f"s = {s:g}")
        steps = [i for i in (1, 2, 4, 8) if i < size]
        found = measured(noise(4 * size, s), steps)
        places = [i / (4 * size) for i in steps]
        axis.plot(places, found, "o", ms=4, color=line[0].get_color())
    for n in grids:
        axis.axvline(1 / n, color="k", ls=":", lw=0.8)
        axis.text(1 / n, 1.02, f"1/{n}", ha="center", fontsize=7)
    axis.set(xlabel="distance d", ylabel="covariance C(d)", ylim=(-0.05, 1.1))
    axis.legend(loc="upper right", bbox_to_anchor=(1.28, 1))
figure.savefig(folder / "covariance.png", dpi=150)
plt.show()

# %% [markdown]
# ## What it looks like
#
# White noise, and one draw of each $s$ on the finest grid. The fields are as rough as a
# Brownian path at every length below $2 s^2$: the kernel has a kink at $d = 0$. A scale
# much above 0.2 correlates across the whole torus, and `GRFNoise` refuses it.


# %%
def white(points, num=draws):
    return keyed_normal(seed, range(num), (points, points), "white noise").double()


shown = {"white": white(4 * size)}
shown |= {f"s = {s:g}": draw(noise(4 * size, s)) for s in scales}
panels = [plots.Panel(f[0], name, "eps", signed=True) for name, f in shown.items()]

# %% tags=["thumbnail"]
plots.grid([panels]).savefig(folder / "samples.png", dpi=150)
plt.show()


# %%
def look(s=kernel_scale, points=size):
    plots.grid([[plots.Panel(draw(noise(points, s), 1)[0], f"s = {s:g}", signed=True)]])
    plt.show()


if interactive:
    interact(look, s=(0.02, 0.2, 0.01), points=grids)

# %%
with plots.style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    plots.spectra(left, shown)
    left.set_title(f"{4 * size} × {4 * size} points")
    by_grid = {f"{n} × {n}": draw(noise(n)) for n in grids}
    plots.spectra(right, by_grid)
    right.set(title=f"s = {kernel_scale:g}", ylabel="")
figure.savefig(folder / "spectra.png", dpi=150)
plt.show()

# %% [markdown]
# Every field has variance 1. White noise spreads it over all modes of its grid, so that
# a mode gets $1 / n^2$: the low modes of a finer grid are quieter. Noise that is a
# field has a limit instead, here $2 \pi (2 s^2)^2 = 1.6 \cdot 10^{-4}$ a mode, which a
# grid comes the nearer to the better it resolves 0.005. White noise looks sloped, as a
# shell has the more modes the higher it is, until the corners end.
#
# ## The same $\sigma$ on another grid
#
# The variance of a Fourier coefficient can be had exactly: the draw is a linear map
# $\varepsilon = A w$ of white noise, so it is the square of the row of $A$ that makes
# the coefficient, which automatic differentiation returns.


# %%
def low_mode(source, shape=None, mode=1):
    """Returns the variance of the coefficient of mode (1, 0) of a draw."""
    w = torch.zeros(1, 1, *source.white_shape, dtype=torch.float64, requires_grad=True)
    field = source.colour(w, shape)[0, 0]
    phase = 2 * math.pi * mode * torch.arange(len(field)).double() / len(field)
    parts = [(wave[:, None] * field).mean() for wave in (phase.cos(), phase.sin())]
    rows = [torch.autograd.grad(part, w, retain_graph=True)[0] for part in parts]
    return sum(row.square().sum().item() for row in rows)


table = pd.DataFrame(
    {
        n: {
            "white": 1 / n**2,
            "kernel": low_mode(noise(n)),
            "kernel, bounded": low_mode(noise(n, wraps=False)),
            'noise_grid="train"': low_mode(noise(size), (n, n)),
            "correlation of neighbours": math.exp(-1 / n / (2 * kernel_scale**2)),
        }
        for n in grids
    }
).T.rename_axis("points per axis")
table.map("{:.2g}".format)

# %% [markdown]
# A denoiser learns which modes are buried at a level $\sigma$. On a finer grid with the
# same kernel (`noise_grid="paper"`) low modes stand out of the noise at levels at which
# the network has learned to expect nothing of them. So `solve` draws the noise of the
# training grid and resamples it without new modes (`noise_grid="train"`): its low modes
# keep their variance, and the modes that the training grid does not have get none.

# %%
kept = {f"{n} × {n}": draw(noise(size), shape=(n, n)) for n in grids}
with plots.style():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, (title, fields) in zip(
        axes, {"paper": by_grid, "train": kept}.items(), strict=True
    ):
        for name, f in fields.items():
            power = radial_spectrum(f).mean(0)[1 : size // 2]
            axis.loglog(range(1, size // 2), power, label=name)
        axis.set(title=f'noise_grid="{title}"', xlabel="mode number |k|")
        axis.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axis.minorticks_off()
    axes[0].set_ylabel("power")
    axes[1].legend()
figure.savefig(folder / "grids.png", dpi=150)
plt.show()

# %% [markdown]
# What this means for data: at which $\sigma$ does noise have the power of the fields,
# shell by shell? Fields are normalised to standard deviation 0.5. Above its line a
# shell is buried. With the kernel kept, the lines of the finer grids lie higher.


# %%
def buried(f, eps):
    normalised = SIGMA_DATA * (f - f.mean()) / f.std()
    powers = [radial_spectrum(x).mean(0) for x in (normalised, eps)]
    return (powers[0] / powers[1]).sqrt()[1 : size // 2]


quick = pdes.quick(pde_name) if scale == "smoke" else {}
with plots.style():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for n in grids:
        pde = pdes.load(pde_name, n, **quick)
        pair = data.problems(pde, draws, seed=seed)
        source = GRFNoise(pde.grid, kernel_scale)
        for axis, symbol, f in zip(axes, "au", pair, strict=True):
            levels = buried(f[:, 0].double(), draw(source))
            axis.loglog(range(1, len(levels) + 1), levels, label=f"{n} × {n}")
            axis.set(title=f"{pde_name}: {symbol}", xlabel="mode number |k|")
            axis.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
            axis.minorticks_off()
    axes[0].set_ylabel(r"$\sigma$ at which it is buried")
    axes[0].legend()
figure.savefig(folder / "buried.png", dpi=150)
plt.show()

# %% [markdown]
# ## What a draw costs
#
# The public code multiplies white noise by a Cholesky factor of the covariance of all
# points with all: $n^4$ numbers, made in $n^6 / 3$ operations. We embed the grid in a
# torus of $2 (n - 1)$ points an axis, where the covariance is diagonal in Fourier space
# (Dietrich and Newsam, 1997). That is exact, too, and needs $2 (n - 1) \cdot n$ numbers
# and two transforms. We build both, the factor as far as seconds allow, and time each
# once.


# %%
def dense(points):
    x = Grid((points, points)).coordinates(torch.float64).flatten(1).T
    distance = (x[:, None] - x).norm(dim=-1)
    covariance = (-distance / (2 * kernel_scale**2)).exp()
    return covariance + 1e-4 * torch.eye(len(x), dtype=torch.float64)


def timed(make):
    start = time.perf_counter()
    made = make()
    return made, time.perf_counter() - start


costs = {}
for n in dense_sizes:
    factor, slow = timed(lambda n=n: torch.linalg.cholesky(dense(n)).float())
    source, fast = timed(lambda n=n: noise(n, wraps=False))
    rows, columns = source.white_shape
    costs[n] = {
        "factor, MiB": factor.nbytes / 2**20,
        "torus, MiB": 4 * rows * (columns // 2 + 1) / 2**20,
        "factor, s": slow,
        "torus, s": fast,
    }
pd.DataFrame(costs).T.rename_axis("points per axis").map("{:.2g}".format)

# %%
with plots.style():
    figure, axis = plt.subplots()
    sizes = [2**i for i in range(3, 10)]
    factors = [4 * n**4 / 2**20 for n in sizes]
    tori = [8 * (n - 1) * n / 2**20 for n in sizes]
    for values, label in ((factors, "$4 n^4$ bytes"), (tori, "$8 n (n - 1)$ bytes")):
        axis.loglog(sizes, values, ":", color="k", lw=1)
        axis.text(sizes[-1], values[-1], label, ha="right", va="bottom")
    for kind in ("factor, MiB", "torus, MiB"):
        axis.plot(
            list(costs), [costs[n][kind] for n in costs], "o", label=kind.split(",")[0]
        )
    axis.set(xlabel="points per axis n", ylabel="memory, MiB")
    axis.set_xticks(sizes, [str(n) for n in sizes])
    axis.minorticks_off()
    axis.legend(title="built here")
figure.savefig(folder / "memory.png", dpi=150)
plt.show()
print(
    f"a factor needs {factors[4]:.0f} MiB at 128², {factors[6] / 1024:.0f} GiB at 512²"
)

# %% [markdown]
# ## The other random fields: inputs of equations
#
# Inputs are much smoother. Their covariance is a power of the Laplacian,
# $\tau^{2 \alpha - 2} (-\Delta + \tau^2)^{-\alpha}$, in a cosine basis on bounded
# squares ($\alpha = 2$, $\tau = 3$ for Darcy, Poisson and Helmholtz), in Fourier modes
# on the torus ($\alpha = 2.5$, $\tau = 7$ for flows). A mode has power
# $(|\kappa|^2 + \tau^2)^{-\alpha}$ at angular wavenumber $\kappa$, and a shell has
# about $|k|$ modes: it falls as $|k|^{1 - 2 \alpha}$. A cosine field is not periodic;
# mirrored at its edges it is, with half mode numbers. Dotted lines are the laws.

# %%
recipes = {
    "cosine, α = 2, τ = 3": (cosine_field, 2.0, 3.0),
    "cosine, α = 2, τ = 10": (cosine_field, 2.0, 10.0),
    "cosine, α = 3, τ = 3": (cosine_field, 3.0, 3.0),
    "Fourier, α = 2.5, τ = 7": (fourier_field, 2.5, 7.0),
}
inputs = {
    name: colour(white(4 * size), alpha, tau)
    for name, (colour, alpha, tau) in recipes.items()
}
panels = [plots.Panel(f[0], name, signed=True) for name, f in inputs.items()]
plots.grid([panels]).savefig(folder / "inputs.png", dpi=150)
plt.show()

# %%
drifts = {}
with plots.style():
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for name, (colour, alpha, tau) in recipes.items():
        f = inputs[name]
        mirrored = colour is cosine_field
        if mirrored:
            f = torch.cat([f, f.flip(1)], 1)
            f = torch.cat([f, f.flip(2)], 2)
        power = radial_spectrum(f).mean(0)[1 : 2 * size]
        k = torch.arange(1, 2 * size) / (2 if mirrored else 1)
        line = axis.loglog(k, power, label=name)
        law = k * (4 * math.pi**2 * k**2 + tau**2) ** -alpha
        ratio = (power / law).log()[size // 4 :]
        drifts[name] = np.polyfit(k.log()[size // 4 :], ratio, 1)[0]
        axis.loglog(k, law * power[size] / law[size], ":", color=line[0].get_color())
    axis.plot([], [], "k:", label=r"$|k| (|\kappa|^2 + \tau^2)^{-\alpha}$")
    axis.set(xlabel="mode number |k|", ylabel="power")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.savefig(folder / "input-spectra.png", dpi=150)
plt.show()

# %% [markdown]
# ## Check
#
# Unit impulses through the sampler are the columns of $A$, and $A A^T$ must be $C$,
# point by point, whatever the grid: that is the whole claim of exactness. Resampling
# must not change the variance of a low mode, and inputs have the slope of their law.

# %%
worst = 0.0
for n in (6, 9, 12):
    source = noise(n, wraps=False)
    impulses = torch.eye(math.prod(source.white_shape), dtype=torch.float64)
    a = source.colour(impulses.view(-1, 1, *source.white_shape)).flatten(1).T
    worst = max(worst, (a @ a.T - dense(n)).abs().max().item())
print(f"largest error of the covariance: {worst:.1e}")
assert worst < 1e-12
for n in grids:
    assert 1 / n**2 < table.loc[n, "kernel"] < table.loc[grids[0], "kernel"] + 1e-9
    assert abs(table.loc[n, 'noise_grid="train"'] / table.kernel.iloc[0] - 1) < 1e-6
print({name: f"slope off by {drift:.3f}" for name, drift in drifts.items()})
assert max(map(abs, drifts.values())) < 0.1
for n, cost in costs.items():
    assert cost["factor, MiB"] == 4 * n**4 / 2**20
    assert cost["torus, MiB"] == 8 * (n - 1) * n / 2**20

# %%
if scale == "cpu":
    for n, expected in ((32, 9.8e-4), (64, 3.0e-4), (128, 1.8e-4)):
        assert abs(table.loc[n, "kernel"] / expected - 1) < 0.02
    assert abs(table.iloc[0, -1] - 0.002) < 5e-4
    assert abs(table.iloc[-1, -1] - 0.21) < 5e-3
    assert abs(table.kernel.iloc[0] / table.kernel.iloc[-1] - 5.5) < 0.1
    assert table.kernel.iloc[0] < 1.01 / size**2, "not white on this grid"

# %% [markdown]
# ## What a sweep keeps

# %%
common = {"scale": scale, "seed": seed, "n": 1}
common |= {"device": provenance.record(torch.device("cpu"))["device"]}
rows = [
    common
    | {"method": name, "metric": "low_mode_variance", "value": float(value)}
    | {"setting": f"size={n},scale={kernel_scale}"}
    for n, found in table.drop(columns="correlation of neighbours").iterrows()
    for name, value in found.items()
]
rows += [
    common
    | {"method": name.split(",")[0], "metric": metric, "value": value}
    | {"setting": f"size={n}"}
    for n, cost in costs.items()
    for name, value in cost.items()
    for metric in ["seconds" if name.endswith("s") else "memory_mib"]
]
write_json(folder / "metrics.json", rows)
