# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Why does attention light up certain frequencies?
#
# Four explorers let us take a trained model apart by hand: move a slider, and see. The
# paper says of spectral residual attention that it lets the PDE residual decide which
# Fourier modes pass. **A mode lights up where features and residual are both strong and
# their channels are in phase. Were the score blind to phase, many times more modes
# would be lit.** The last cells measure this.
#
# Needs: a shipped model, no GPU. Runs in seconds. In JupyterLab (`make lab`, then *Run
# All Cells*) the explorers have sliders; `make explore` shows the same as a page
# without code. They compute beside the page, and *stop* ends it.

# %%
from pathlib import Path

import torch
from IPython.display import Markdown

from prisma_lib import explore
from prisma_lib.explore import residual, spectrum
from prisma_lib.files import write_json

# %% tags=["parameters"]
model_name: str = "darcy-32"  # a shipped model, or the folder of one
steps: int = 10  # sampler steps to begin with
seed: int = 0  # of sensors, noise and draws
out: str = "outputs/scratch/explorer"  # folder for metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # sliders; still figures otherwise

# %% [markdown]
# ## The residual settles while the noise falls
#
# Noise becomes an estimate step by step. Press play beside *step shown* and watch the
# two curves: the residual of *what is seen*, observations where there are any and the
# noisy state elsewhere, falls with the noise over many orders of magnitude; that of
# *the estimate* says how well the estimate obeys the equation. Point at a field to read
# its values.

# %%
given = {"steps": steps, "seed": seed, "interactive": interactive}
explore.residuals(
    model_name, direction="inverse", regime="sparse", step=max(1, steps // 2), **given
)

# %% [markdown]
# Three things to try: the direction *forward*, where the estimate is near its last one
# from the first step on; *noisy* with a noise of two standard deviations; another seed,
# which moves the sensors.
#
# ## The spectra, and what attention makes of them
#
# A trained block multiplies every Fourier mode $k$ of its features by a number of at
# most one. Read the first row from left to right: how strong the features $x(k)$ are,
# how strong the lifted residual $r(k)$ is, how well the channels of both are *in
# phase*, and the score, which is large only where all three are:
#
# $$S(k) = \frac{1}{\sqrt C} \Big| \sum_{c=1}^C x_c(k) \overline{r_c(k)} \Big|, \qquad
# A(k) = \sigma\big(w(k) S(k)\big) \ge \tfrac12.$$
#
# The mask $A(k)$ below is *lit* where it is near one. Beside it stands that of another
# score on the same weights, and at the right all of it over the mode number $|k|$:
# *passes* is what each mode is multiplied by, $(1 - g) + g A(k)$, with the gate $g$ of
# the title. Colours of the first row leave out the mean, $k = 0$, which is lit anyway.

# %% tags=["thumbnail"]
shown = {"step": max(1, 4 * steps // 5), "block": "up.1.0"}
explore.spectra(model_name, direction="inverse", regime="sparse", **shown, **given)

# %% [markdown]
# **Why are these modes lit?** Point at the bright cross, then at a corner, and compare
# what you read: in the corner the residual is as strong or stronger, but the features
# are weak there, and out of phase with it. A strong residual alone does not light a
# mode up.
#
# Now drag three sliders. *step shown*, from left to right: in noise hardly any mode is
# lit; with the picture the cross comes out, the longest waves, while the phase-blind
# mask goes dark. *test problem*: another field, the same cross, for every field has
# most of itself in its longest waves. *share of sensors*: the cross stays, though the
# network sees another field and another residual.
#
# Two lists say more. Another *block* shows another band of modes; in *down.2.0* the
# gate opens as the noise falls. *compare with* replaces the score: the phase-blind mask
# is lit in many more modes, so what keeps $A$ selective is that channels cancel each
# other where they are out of phase.
#
# ## Where the draws agree
#
# From a few sensors there are many answers. Touch a field to see the draws at a point,
# and press play beside *draw shown* to see one after another. The model *helmholtz-32*
# is of an equation whose exact posterior is known: it stands beside that of the draws.

# %%
explore.posterior(model_name, **given)

# %% [markdown]
# ## Your own sensors
#
# Touch or stroke the measured field to put sensors where you like, and press *solve*.
# Where do ten of them tell most about the rock?

# %%
playground = {"steps": steps, "seed": seed, "interactive": interactive}
explore.sensors(model_name, scattered=20, **playground)

# %% [markdown]
# ## Check: which modes are lit?
#
# Over all blocks and steps of one trajectory we correlate the score with the sizes of
# its factors and with how well they are in phase, all as logarithms, mode by mode.

# %%
still = {"model": model_name, "direction": "inverse", "regime": "sparse"}
state = spectrum.State(**still, **shown, steps=steps, seed=seed)
seen = [s for step in spectrum.EXPLORER.result(state) for s in step.values()]
columns = [
    [
        (s.features * s.residual).clamp(min=1e-30).log(),
        s.in_phase.clamp(min=1e-30).log(),
        s.scores["own"].clamp(min=1e-30).log(),
    ]
    for s in seen
]
each = torch.stack([torch.corrcoef(torch.stack(c))[2, :2] for c in columns])
by_size, in_phase = each.mean(0).tolist()
lit = {
    name: torch.cat([(s.masks[name] > 0.75).float() for s in seen]).mean().item()
    for name in ("own", "phase-blind")
}
Markdown(
    f"**The score follows the sizes (correlation {by_size:.2f}) and the phases "
    f"({in_phase:.2f}): {100 * lit['own']:.1f} % of the modes have $A > 3/4$, and "
    f"{100 * lit['phase-blind']:.0f} % would if the score were blind to phase.**"
)

# %% [markdown]
# And in the view above: modes that stay dark although their residual is stronger than
# the median of the lit ones.

# %%
blocks = spectrum.EXPLORER.result(state)[shown["step"] - 1]
now = blocks.get(shown["block"], next(iter(blocks.values())))
bright = now.masks["own"] > 0.75
dark = ~bright & (now.residual > now.residual[bright].median())
medians = {
    name: [values[modes].median().item() for modes in (bright, dark)]
    for name, values in (("|x|", now.features), ("in phase", now.in_phase))
}
print(f"medians of {bright.sum()} lit modes, and of {dark.sum()} dark ones")
for name, both in medians.items():
    print(f"{name}: {both[0]:.2g}, {both[1]:.2g}")

# %%
assert scale == "smoke" or all(2 * below < above for above, below in medians.values())
assert all((s.masks["own"] >= 0.5).all() for s in seen)
assert all(
    (s.scores["own"] <= 1.001 * s.scores["phase-blind"] + 1e-6).all() for s in seen
)
assert scale == "smoke" or (min(by_size, in_phase) > 0.2 and lit["own"] < 0.5)
assert scale == "smoke" or lit["phase-blind"] > 5 * lit["own"]

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
residual.draw(residual.State(**still, steps=steps, step=steps, seed=seed)).savefig(
    folder / "residuals.png", dpi=150
)
spectrum.draw(state).savefig(folder / "spectra.png", dpi=150)
common = {"method": "prisma", "n": 1, "seed": seed, "scale": scale, "steps": steps}
common |= {"setting": f"model={model_name};regime=sparse", "direction": "inverse"}
values = {"score_follows_size": by_size, "score_follows_phase": in_phase}
values |= {f"lit_modes_{name}": share for name, share in lit.items()}
rows = [common | {"metric": name, "value": value} for name, value in values.items()]
write_json(folder / "metrics.json", rows)
