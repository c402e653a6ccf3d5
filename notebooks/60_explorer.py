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
# Fourier modes pass. **A mode lights up where features and residual are both strong
# (correlation with the score 0.84) and their channels are in phase (0.58): 6 % of the
# modes pass with $A > 3/4$, and 46 % would if the score were blind to phase.** The last
# cells measure this.
#
# Needs: a shipped model, no GPU. Runs in seconds. In JupyterLab the explorers have
# sliders; `make explore` shows the same as a page without code.

# %%
from pathlib import Path

import torch

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
# Noise becomes an estimate step by step. Press play below the sliders and watch the two
# curves: the residual of *what the network sees*, observations where there are any and
# the noisy state elsewhere, falls with the noise over many orders of magnitude; that of
# *the estimate* says how well the estimate obeys the equation. Point at a field to read
# its values.

# %%
given = {"steps": steps, "seed": seed, "interactive": interactive}
explore.residuals(model_name, direction="inverse", regime="sparse", **given)

# %% [markdown]
# Three things to try: the direction *forward*, where the estimate settles within a few
# steps; *noisy* with a noise of two standard deviations; another seed, which moves the
# sensors.
#
# ## The spectra, and what attention makes of them
#
# For one block and one step: the spectrum of the features $x(k)$, of the lifted
# residual $r(k)$, the score $S(k)$, and the mask $A(k) \ge 1/2$. The gate $g$ stands in
# the title; what each mode is multiplied by, $(1 - g) + g A(k)$, is the green curve.
# The fourth panel divides $S$ by its phase-blind upper bound: one means that all
# channels are in phase.

# %% tags=["thumbnail"]
explore.spectra(
    model_name, direction="inverse", regime="sparse", step=max(1, steps // 2), **given
)

# %% [markdown]
# Now drag: *step shown* from left to right opens the gate of the deeper blocks; another
# *block* shows another band of modes; *compare with* replaces the score on the same
# weights. The phase-blind mask lights up many more modes: what keeps $A$ selective is
# that channels cancel each other where they are out of phase.
#
# ## Where the draws agree
#
# From a few sensors there are many answers. Touch a field to see the draws at a point.

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
# its factors and with the phase alignment, all as logarithms, mode by mode.

# %%
state = spectrum.State(
    model=model_name, direction="inverse", regime="sparse", steps=steps, seed=seed
)
seen = [s for step in spectrum.EXPLORER.result(state) for s in step.values()]
columns = [
    [
        (s.features * s.residual).clamp(min=1e-30).log(),
        (s.scores["own"] / s.scores["phase-blind"]).clamp(min=1e-30).log(),
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
print(f"log S with log |x||r|: {by_size:.2f}, with phase alignment: {in_phase:.2f}")
print(f"A above 3/4: {lit['own']:.0%} of modes; without phase {lit['phase-blind']:.0%}")

# %%
assert all((s.masks["own"] >= 0.5).all() for s in seen)
assert all(
    (s.scores["own"] <= 1.001 * s.scores["phase-blind"] + 1e-6).all() for s in seen
)
assert scale == "smoke" or (min(by_size, in_phase) > 0.2 and lit["own"] < 0.5)
assert scale == "smoke" or lit["phase-blind"] > lit["own"]

# %%
folder = Path(out)
folder.mkdir(parents=True, exist_ok=True)
still = {"model": model_name, "direction": "inverse", "regime": "sparse"}
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
