# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does spectral residual attention see, and what can it not see?
#
# We take the paper's section *Spectral Residual Attention (SRA) Block* one equation at
# a time, beside the function that computes it, on the model that ships. **The mask can
# only damp a mode, by at most one half; a shift of the residual in space leaves it as
# it is; and this model does not care whose residual it is: with that of another
# problem, or its own in another place, the error of its denoiser grows by at most
# 0.1 %. It counts on the damping all the same: with no residual the error grows by
# 21 % where there is little noise.**
#
# Needs: the shipped model `darcy-32`, no GPU. Runs in half a minute on a laptop.

# %%
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import pandas as pd
import torch
from ipywidgets import interact

from prisma_lib import data, load, observe, plots
from prisma_lib.fields import GRFNoise
from prisma_lib.files import write_json
from prisma_lib.nn import sra
from prisma_lib.nn.spectral import analyse

# %% tags=["parameters"]
model_name: str = "darcy-32"  # a shipped model with attention, or the folder of one
task: str = "sparse_inverse"  # what is observed, of observe.TASKS
rate: float = 0.1  # share of observed points of a sparse task
sigma: float = 1.0  # noise level at which blocks are shown
n: int = 128  # test problems for the averages
seed: int = 0  # of masks and noise
out: str = "outputs/scratch/sra"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # offer sliders below the static figures

# %%
Path(out).mkdir(parents=True, exist_ok=True)
model = load(model_name)
a, u = data.problems(model.pde, n, split="test")
x_0 = model.normalise(torch.cat([a, u], 1))
seen = observe.observe(task, a, u, rate=rate, key=seed, index=range(n))
x_obs, mask = model.condition(seen)
eps = GRFNoise(model.pde.grid).draw(seed, range(n), 2)


def noisy(level):
    return x_0 + level * eps, torch.full((n,), float(level)), x_obs, mask


# %% [markdown]
# ## The residual of what is known
#
# $$x_{mix} = M \odot x_{obs} + (1 - M) \odot x_\sigma, \qquad r = R(a_{mix}, u_{mix})$$
#
# `model.residual` does this in physical units. The variant `unguided` leaves the mixing
# out: $r = R(x_\sigma)$.

# %%
x_sigma, levels, _, _ = noisy(sigma)
r = model.residual(x_sigma, x_obs, mask)
x_mix = model.denormalise(observe.mix(mask, x_obs, x_sigma))
inside = model.pde.residual(*x_mix.split(1, 1))
edge = (r.shape[-1] - inside.shape[-1]) // 2
window = slice(edge, r.shape[-1] - edge)
torch.testing.assert_close(r[..., window, window], inside)

# %% [markdown]
# **Unsaid in the paper: the scale of $r$.** It follows the noise, over many orders of
# magnitude. We divide by $\sqrt{\text{rms}(r)^2 + s_0^2}$ with $s_0$ the residual of
# the stored truth, and tell the gates $\ln \text{rms}(r)$, too. The paper tells them
# the signed mean of $r$ alone, which is much smaller than $r$ itself and says little of
# its size.

# %%
ramp = (0.002, 0.02, 0.2, 2.0, 20.0, 80.0)
sizes = {}
for level in ramp:
    r_level = model.residual(noisy(level)[0], x_obs, mask)
    scaled = model.residual_levels(noisy(level)[0], x_obs, mask)[0][0]
    rms = r_level.square().mean((1, 2, 3)).sqrt()
    sizes[level] = {"rms of r": rms.mean(), "largest rms": rms.max()}
    sizes[level]["|mean| / rms"] = (r_level.mean((1, 2, 3)).abs() / rms).mean()
    sizes[level]["rms of r scaled"] = scaled.square().mean((1, 2, 3)).sqrt().mean()
table = pd.DataFrame(sizes).T.rename_axis("noise level").astype(float)
table.map("{:.2g}".format)

# %% [markdown]
# ## Two spectra of equal width
#
# $$\tilde x = F(x), \qquad \tilde r = F(r)$$
#
# Features have $C$ channels, the residual has one. **Unsaid: how one becomes $C$.** A
# linear lift $r_c = w_c r$ would split the score into $|\sum_c w_c x_c| \cdot |r|$, so
# that the residual only scales it. Ours is a small network, `backbone.lifts`, one for
# each level of the U, which reads the residual averaged to that level's grid. The
# transforms of the library know the kept modes alone: $|k_1|, |k_2| \le K$.
#
# `sra.record` keeps what went into every block and what the block made of it. We follow
# the block at the second level on the way down.

# %%
with sra.record(model) as traces:
    model(*noisy(sigma))
blocks = {name.removeprefix("backbone."): t[0] for name, t in traces.items()}
block, trace = model.backbone.down[1][0].attention, blocks["down.1.0.attention"]
x, lifted, modes = trace.features, trace.residual, trace.modes
scaled, summary = model.residual_levels(x_sigma, x_obs, mask)
again = analyse(model.backbone.lifts[1].lift(scaled[1]), modes)
torch.testing.assert_close(lifted, again)
{name: f"{2 * t.modes[0] + 1} x {t.modes[1] + 1} modes" for name, t in blocks.items()}

# %% [markdown]
# ## The score
#
# $$S(k) = \frac{1}{\sqrt C}
# \Big| \sum_{c=1}^C \tilde x_c(k) \overline{\tilde r_c(k)} \Big|$$

# %%
x_unit, r_unit = sra.unit_rms(x, modes), sra.unit_rms(lifted, modes)
score = sra.coherence(x_unit, r_unit)
x_complex, r_complex = (
    torch.view_as_complex(z.mT.contiguous()) for z in (x_unit, r_unit)
)
by_hand = (x_complex * r_complex.conj()).sum(-1).abs() / x.shape[-1] ** 0.5
torch.testing.assert_close(score, by_hand, rtol=1e-4, atol=1e-6)
torch.testing.assert_close(score, trace.score)

# %% [markdown]
# **Unsaid: the scale of both spectra.** The mask below is a sigmoid of the score, so
# the scale decides everything. If the transform divides by the number of points, scores
# are tiny and every mask is one half; if it does not (torch's default) they are huge
# and almost every mask is one. A mask that is the same for all modes is a scalar gate,
# whatever its score. `unit_rms` divides each spectrum by its rms over the kept modes,
# the mean excluded: now the mask acts.

# %%
points = scaled[1][0].numel()
raw = {
    "divided by points": sra.coherence(x, lifted),
    "torch's default": sra.coherence(x * points, lifted * points),
    "unit rms": score,
}
shares = torch.tensor([0.05, 0.5, 0.95])
found = {k: torch.sigmoid(s).quantile(shares).tolist() for k, s in raw.items()}
pd.DataFrame(found, index=pd.Index(["5 %", "50 %", "95 %"], name="quantile of A")).T

# %% [markdown]
# ## What the score measures
#
# The paper says that $S$ "measures the phase alignment" of both. It is a coherence
# *between channels*: $S(k)$ is large where the pattern of $x$ over channels matches
# that of $r$. The modulus removes any phase that all channels share, and a shift in
# space is just such a phase. **So $S$ cannot tell whether features sit where the
# residual is large**; a phase of its own for each channel does change it.


# %%
def turned(z, phase):
    real, imaginary = z.unbind(2)
    c, s = phase.cos(), phase.sin()
    return torch.stack([c * real - s * imaginary, s * real + c * imaginary], 2)


def change(new):
    return ((new - score).norm() / score.norm()).item()


k_1 = torch.arange(-modes[0], modes[0] + 1.0).repeat_interleave(modes[1] + 1)
shift = 2 * torch.pi * k_1[:, None, None] * 0.16  # by 16 % of the domain
each = torch.linspace(0, 5, x.shape[-1])
moved = {
    "r shifted": change(sra.coherence(x_unit, turned(r_unit, shift))),
    "a phase per channel": change(sra.coherence(x_unit, turned(r_unit, each))),
    "r of another problem": change(sra.coherence(x_unit, r_unit.roll(1, 1))),
}
{name: f"{value:.1e}" for name, value in moved.items()}

# %% [markdown]
# The last line shows how much of the score is the problem's own.
#
# ## The mask
#
# $$A(k) = \sigma\big(w_{gain}(k) \, S(k)\big), \qquad w_{gain} > 0$$
#
# The appendix says that gains are positive, the library takes a softplus. Hence
# $A \in [1/2, 1)$: attention never raises a mode; it damps those that do *not* match
# the residual, and where $r = 0$ it halves everything.

# %%
A = block.mask(x, lifted, modes)
gain = torch.nn.functional.softplus(block.gain).flatten()
torch.testing.assert_close(A, torch.sigmoid(gain[:, None] * score))
torch.testing.assert_close(A, trace.mask)
assert ((A >= 0.5) & (A <= 1)).all()
nothing = block.mask(x, torch.zeros_like(lifted), modes)
torch.testing.assert_close(nothing, torch.full_like(A, 0.5))
print(
    f"A from {A.min():.3f} to {A.max():.3f}, gains {gain.min():.2f} to {gain.max():.2f}"
)

# %% [markdown]
# ## The gate and the output
#
# $$g = \sigma\big(\text{MLP}([r_{avg}, c_\sigma])\big), \qquad
# \text{SRA}(x, r) = F^{-1}\big(((1 - g) + g A) \odot \tilde x\big)$$
#
# One number a sample and block; $c_\sigma$ embeds the noise level. $F^{-1}$ is never
# taken: it would cancel against the $F$ of the spectral convolution that follows.

# %%
embedding = model.backbone.embedding(levels.log() / 4)
g = block.strength(embedding, summary)
output = block(x, lifted, modes, embedding, summary)
torch.testing.assert_close(g, trace.strength)
torch.testing.assert_close(output, ((1 - g) + g * A)[:, :, None, None] * x)

# %% [markdown]
# ## One problem, level by level
#
# $k_1$ runs to the right, $k_2$ upwards, the mean stands in the middle. Sizes are root
# mean squares over channels, as logarithms to base 10.


# %%
def plane(values, modes):
    """Mirrors the half plane of a real field's modes: A(-k) = A(k)."""
    half = values.view(2 * modes[0] + 1, modes[1] + 1)
    return torch.cat([half[:, 1:].flip(0, 1), half], 1)


def size(spectrum, problem):
    power = spectrum[:, problem].square().sum(1).mean(-1)
    return power.sqrt().clamp(min=1e-30).log10()


def row(name, problem):
    t = blocks[name]
    after = t.features * t.factor[:, :, None, None]
    shown = {
        "log |x|": (size(t.features, problem), "x"),
        "log |r|": (size(t.residual, problem), "r"),
        "log S": (t.score[:, problem].clamp(min=1e-30).log10(), "S"),
        f"A, g = {t.strength[problem]:.2f}": (t.mask[:, problem], "A"),
        "log |SRA(x, r)|": (size(after, problem), "x"),
    }
    return [plots.Panel(plane(v, t.modes), k, like) for k, (v, like) in shown.items()]


# %%
def draw(problem=0):
    down = [name for name in blocks if name.startswith("down")]
    names = [f"level {i}" for i in range(len(down))]
    return plots.grid([row(name, problem) for name in down], names)


draw().savefig(Path(out) / "modes.png", dpi=150)
plt.show()


# %%
def explore(problem=0):
    draw(problem)
    plt.show()


if interactive:
    interact(explore, problem=(0, n - 1))

# %% [markdown]
# Much of the score is the size of its factors, whatever their coherence: the mask of
# this block is open where features are strong, at the mean mode in the middle. The
# correlation of $\log S$ with the logarithms of both sizes, over modes and problems:


# %%
def alike(t):
    everywhere = [
        torch.stack([size(z, i) for i in range(n)]) for z in (t.features, t.residual)
    ]
    table = torch.stack([*everywhere, t.score.T.clamp(min=1e-30).log10()])
    found = torch.corrcoef(table.flatten(1))
    return {"with |x|": found[2, 0].item(), "with |r|": found[2, 1].item()}


pd.DataFrame({name: alike(t) for name, t in blocks.items()}).T.round(2)

# %% [markdown]
# ## When is the gate open?
#
# The paper expects $g$ to rise as the state becomes cleaner. We ask every block at
# every noise level, averaged over problems; on the right stands what the block takes
# off its modes on average, $1 - ((1 - g) + g A)$.

# %%
curve = torch.logspace(-2.7, 1.9, 12).tolist()
gates, reach = {name: [] for name in blocks}, {name: [] for name in blocks}
for level in curve:
    with torch.no_grad(), sra.record(model) as traces:
        model(*noisy(level))
    for name in blocks:
        t = traces[f"backbone.{name}"][0]
        gates[name].append(t.strength.mean().item())
        reach[name].append((1 - t.factor).mean().item())

# %% tags=["thumbnail"]
with plots.style():
    figure, axes = plt.subplots(1, 2, figsize=(8, 3))
    for axis, lines in zip(axes, (gates, reach), strict=True):
        for name, line in lines.items():
            axis.semilogx(curve, line, label=name.removesuffix(".0.attention"))
        axis.set(xlabel=r"noise level $\sigma$", ylim=(-0.02, None))
    axes[0].set(ylabel="gate g")
    axes[1].set(ylabel="mean damping 1 - factor")
    axes[0].legend()
figure.savefig(Path(out) / "gates.png", dpi=150)
plt.show()

# %% [markdown]
# It does so in the block on the coarsest grid, `down.2`, and in the last one on the
# finest, `up.0`. In the other three the gate is open at all noise levels, and the mask
# stays close to its floor of one half: a nearly constant damping, which the spectral
# weights behind it can undo.
#
# ## What each variant is blind to
#
# Paper, *SRA Ablations*. Each line changes one thing that a block sees; the number is
# the largest change of a mode's factor. Zero is what the variant cannot see. In the
# block shown the gate is open whatever the noise, so that no variant but its formula
# sees the level.


# %%
def seen_by(strategy):
    variant = sra.SpectralResidualAttention(
        sra.ATTENTION[strategy], modes, len(embedding[0]), summary.shape[1]
    )
    variant.load_state_dict(block.state_dict())
    changes = {
        "phase per channel": (x, turned(lifted, each), embedding),
        "shift of r": (x, turned(lifted, shift), embedding),
        "other features": (x.roll(1, 1), lifted, embedding),
        "other residual": (x, lifted.roll(1, 1), embedding),
        "other noise level": (x, lifted, model.backbone.embedding(levels.log() - 1)),
    }
    with torch.no_grad(), sra.record(variant) as kept:
        for inputs in [(x, lifted, embedding), *changes.values()]:
            variant(*inputs[:2], modes, inputs[2], summary)
    first, *others = (t.factor for t in kept[""])
    pairs = zip(changes, others, strict=True)
    return {k: (f - first).abs().max().item() for k, f in pairs}


# %%
blind = pd.DataFrame({s.value: seen_by(s) for s in sra.ATTENTION}).T
blind.map("{:.1g}".format)

# %% [markdown]
# - `no_gate`: $g = 1$. The MLP and the noise level have no say.
# - `multiplicative`: $g A \tilde x$ without a skip. The only one that can close a mode.
# - `magnitude_only`: $S = |\tilde r|$. Features have no say: $r$ alone makes a filter.
# - `phase_blind`: $S = \sum_c |\tilde x_c| |\tilde r_c| / \sqrt C$, an upper bound of
#   the paper's score that no phase of any channel changes.
# - `unguided`: SRA with $r = R(x_\sigma)$: its residual is blind to the observations.
# - `concat` hands $r$ to the first convolution as one more channel; `none` never
#   evaluates the PDE.
#
# ## Does the model need its residual?
#
# We hand the trained denoiser a wrong residual at each noise level, and measure how far
# its estimate moves and how much larger its error becomes.

# %%
wrong = {
    "shifted": lambda r: r.roll((7, 5), (2, 3)),
    "of another problem": lambda r: r.roll(1, 0),
    "zero": torch.zeros_like,
}


def compare(level):
    given, plain = noisy(level), model.residual
    with torch.no_grad():
        answer = model(*given)
    error = (answer - x_0).norm().item()
    for name, spoil in wrong.items():
        swapped = patch.object(model, "residual", lambda *z, f=spoil: f(plain(*z)))
        with torch.no_grad(), swapped:
            other = model(*given)
        moved = (other - answer).norm().item() / answer.norm().item()
        worse = (other - x_0).norm().item() / error - 1
        yield {"noise level": level, "residual": name, "moved": moved, "worse": worse}


# %%
rows = [
    entry for level in (0.05, 0.2, 1.0, 5.0, 20.0, 80.0) for entry in compare(level)
]
effect = pd.DataFrame(rows).pivot(index="noise level", columns="residual")
(100 * effect).map("{:.2f} %".format)

# %% [markdown]
# With a wrong residual the estimate moves by less than a per cent and is not worse:
# this model has learned to solve Darcy flow from observations and masks. With none it
# is worse at low noise: a size of zero is one that the gates have never seen, and the
# weights behind count on the masks as they were. The first table shows a reason: $r$
# is, at most noise levels, the residual *of the noise*, far above that of any error of
# the estimate. That holds for this model, after little training on a coarse grid; what
# attention is worth elsewhere, the ablation of strategies has to measure.
#
# ## Check, and what a sweep keeps

# %%
worst = effect["worse"].abs().max()
foreign = worst[["of another problem", "shifted"]].max()
print(f"a wrong residual changes the error by at most {100 * foreign:.2f} %")
print(f"no residual changes it by at most {100 * worst['zero']:.0f} %")
assert moved["r shifted"] < 1e-5 < 1e-2 < moved["a phase per channel"]
coarse = [line for name, line in gates.items() if name.startswith(("down.2", "up.0"))]
assert all(line[0] > line[-1] for line in coarse)
assert scale == "smoke" or foreign < 0.002, "the model has come to need its residual"
assert scale == "smoke" or abs(worst["zero"] - 0.21) < 0.02
common = {"method": "prisma", "pde": model.pde.name, "n": n, "scale": scale}
common |= {"setting": f"model={model_name};task={task}", "seed": seed}
metrics = [
    common | {"metric": f"worse_with_residual_{name.replace(' ', '_')}", "value": value}
    for name, value in effect["worse"].abs().max().items()
]
write_json(Path(out) / "metrics.json", metrics)
