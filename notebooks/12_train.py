# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What does a training step do, and how soon do two hundred of them help?
#
# We run algorithm 1 of PRISMA line by line on one batch, check that the library gets
# the same loss, and then train a small model while we watch. **After 6,400 problems,
# two minutes on one core, the error of the pressure given the permeability has fallen
# from 102 % to 14 %**; answering with the mean field gives 26 %.
#
# Needs: nothing but the library, no GPU. Runs in two minutes on one core.

# %%
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from IPython.display import display
from ipywidgets import interact

# %%
from prisma_lib import (
    checkpoints,
    curves,
    data,
    draws,
    edm,
    evaluate,
    journal,
    observe,
    plots,
    provenance,
    results,
    train,
    training,
)
from prisma_lib.anchors import MeanField
from prisma_lib.devices import resolve
from prisma_lib.fields import GRFNoise
from prisma_lib.files import write_json
from prisma_lib.solve import PrismaSolver

# %% tags=["parameters"]
pde: str = "darcy"  # any name that prisma_lib.pdes.names() lists
size: int = 32  # points per axis
preset: str = "small"  # size of the network: tiny, small, base or paper
images: int = 240_000  # problems of the whole recipe, which `make train` runs
budget: int = 6_400  # problems after which this notebook ends its training
batch: int = 32  # problems per step
optimiser: str = "muon"  # muon or adamw
learning_rate: float = 4e-3  # peak of the learning rate
problems: int = 16  # unseen test problems
sampler_steps: int = 8  # steps of the sampler for each prediction
processes: int = 1  # how many of this machine train together
seed: int = 0  # of weights, data, masks and noise
resume: bool = False  # go on from an interrupted run in `out` instead of anew
device: str = "cpu"  # cpu, cuda or auto
out: str = "outputs/scratch/train"  # folder of the run, metrics.json and figures
scale: str = "cpu"  # smoke, cpu, gpu or paper: what the check cell may claim
interactive: bool = True  # a progress bar, and a slider below the static figure

# %% [markdown]
# The short run is the recipe of the model that ships with an earlier peak of the
# learning rate, which falls to zero over the shorter budget.

# %%
Path(out).mkdir(parents=True, exist_ok=True)
recipe = {"pde": pde, "size": size, "preset": preset, "batch": batch, "seed": seed}
recipe |= {"optimiser": optimiser, "learning_rate": learning_rate}
recipe["images"] = min(images, budget)
recipe["warmup"] = min(3_200, recipe["images"] // 8)
config = training.TrainConfig(**recipe)
state = training.start(config, resolve(device))
model, where = state.model.eval(), state.model.mean.device
print(f"{sum(p.numel() for p in model.parameters()):,} weights, {config.steps} steps")

# %% [markdown]
# ## Lines 3 to 6: a clean pair, a task and its mask
#
# $x_0 = [a, u]$ is solved afresh in every step and normalised to mean 0 and standard
# deviation $\sigma_d = 0.5$. Then the paper draws what may be observed of it:
#
# > Sample task type $t \sim p(task)$ (uncond, full-fwd, full-inv, sparse-fwd,
# > sparse-inv). Sample masks $(M_a, M_u) \sim p(M \mid t)$.
#
# Everything random for the n-th image comes from streams keyed by the seed and $n$:
# neither restarts nor the number of processes that share a batch change it. The figure
# shows what one problem of each task lets the network see; white is unseen.

# %%
a, u = data.problems(model.pde, batch, split="train", seed=seed)
x_0 = model.normalise(torch.cat([a, u], 1).to(where))
noise = GRFNoise(model.pde.grid)
drawn = draws.draw(config, model.pde, noise, draws.images(config, 0), where)
tasks, mask = drawn.tasks, drawn.mask
x_obs = torch.where(mask > 0, x_0, 0.0)

# %%
shown = [i for t in range(5) for i in (tasks == t).nonzero()[:1, 0].tolist()]
names = [observe.TASKS[tasks[i]].replace("_", " ") for i in shown]
hidden = model.denormalise(x_obs).masked_fill(mask == 0, torch.nan)[shown]
rows = [
    [plots.Panel(f, t, symbol) for f, t in zip(hidden[:, c], names, strict=True)]
    for c, symbol in enumerate("au")
]
plots.grid(rows, ["observed a", "observed u"]).savefig(Path(out) / "tasks.png", dpi=150)
plt.show()

# %% [markdown]
# The share $p$ of observed points of a sparse problem comes from a mixture "that
# emphasizes highly sparse settings" (*Implementation Details*): half of the draws are
# uniform in $[0.01, 0.059]$, half are $p = 0.01 + 0.49 \, (1 - U^3)$. But $1 - U^3$
# leans to *dense* masks; $U^3$ would do what the words say. The library has both, and
# the left panel below shows them.
#
# ## Lines 3, 7 and 8: a noise level and the noisy pair
#
# $$\ln \sigma \sim N(P_{mean}, P_{std}^2), \qquad x_\sigma = x_0 + \sigma \varepsilon,
# \qquad \varepsilon \sim N(0, C)$$
#
# The batch takes one level from each of its equal slices of probability. It takes a
# level of about 7 to bury the leading modes of Darcy's fields; above it are 0.4 % of
# EDM's draws ($P_{mean} = -1.2$, $P_{std} = 1.2$) and 11 % of ours (0 and 1.6).

# %%
sigma, eps = drawn.sigma.to(where), drawn.noise
share = torch.special.ndtr((sigma.log() - config.p_mean) / config.p_std)
place = batch * share.cpu() - torch.arange(batch)  # in the slice of each problem
assert -1e-3 < place.min() <= place.max() < 1 + 1e-3
x_sigma = x_0 + sigma[:, None, None, None] * eps

# %% [markdown]
# ## The denoiser and its weight
#
# $$D = c_{skip} x_\sigma + c_{out} F_\theta(c_{in} x_\sigma, \dots), \qquad
# \lambda(\sigma) = \frac{\sigma^2 + \sigma_d^2}{(\sigma \sigma_d)^2} = c_{out}^{-2}$$
#
# At low noise $D$ keeps its input, at high noise it writes a new field. With the weight
# $\lambda$ all levels count alike: what $F_\theta$ must output has variance 1.

# %%
ramp = torch.logspace(-3, 2, 200)
c = edm.precondition(ramp)
torch.testing.assert_close(edm.loss_weight(ramp) * c.out.square(), torch.ones(200))
laws = {"here": (config.p_mean, config.p_std), "EDM": (-1.2, 1.2)}
with plots.style():
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9, 2.7))
    for kind in ("paper", "sparse"):
        p = observe.sample_rates(*torch.rand(2, 20_000), mixture=kind)
        left.hist(p, 49, histtype="step", label=f'"{kind}", mean {p.mean():.2f}')
    left.set(xlabel="share of observed points p", ylabel="draws of 20,000")
    for name, law in laws.items():
        density = torch.distributions.Normal(*law).log_prob(ramp.log()).exp()
        middle.semilogx(ramp, density, label=name)
    middle.plot(sigma.cpu(), torch.zeros(batch), "k|", label="batch")
    middle.set(xlabel=r"noise level $\sigma$", ylabel=r"density of $\ln \sigma$")
    for name, factor in (("skip", c.skip), ("out", c.out), ("in", c.input)):
        right.loglog(ramp, factor, label=f"$c_{{{name}}}$")
    right.set(xlabel=r"noise level $\sigma$", ylabel="factor")
    for axis in (left, middle, right):
        axis.legend()
plt.show()

# %% [markdown]
# ## Line 9: the residual of what is known
#
# $$r = R\big(M x_{obs} + (1 - M) x_\sigma\big)$$
#
# Observed points replace noisy ones before the PDE is evaluated. The table has the rms
# of $r$ in physical units. Observing the field that is differentiated most helps most.

# %%
levels, found = (0.002, 0.1, 1.0, 10.0, 80.0), {}
for name, seen in {"nothing": [], "a": [0], "u": [1]}.items():
    known = torch.zeros_like(x_0)
    known[:, seen] = 1
    guided = [model.residual(x_0 + s * eps, x_0 * known, known) for s in levels]
    found[f"{name} observed"] = [r.square().mean().sqrt().item() for r in guided]
pd.DataFrame(found, index=pd.Index(levels, name="noise level")).map("{:.2g}".format)

# %% [markdown]
# ## Lines 10 and 11: denoise and compare
#
# $$L = \lambda(\sigma) \, \| D_\theta(x_\sigma, \sigma, x_{obs}, M, r) - x_0 \|^2$$
#
# The network evaluates $r$ itself. It starts with an output of zero: the untrained loss
# is near 1, the variance of its target. `training.losses` must return the same.

# %%
with torch.no_grad():
    difference = model(x_sigma, sigma, x_obs, mask) - x_0
    loss = (edm.loss_weight(sigma) * difference.square().mean((1, 2, 3))).mean()
    library = training.losses(config, model, x_0, drawn).mean()
print(f"line by line {loss:.6f}, training.losses {library:.6f}")
torch.testing.assert_close(loss, library)

# %% [markdown]
# ## The loop
#
# Line 12 minimises the loss; the paper does not name its optimiser. Here Muon takes
# linear layers and local convolutions, AdamW the spectral weights and the rest, with
# clipped gradients and a learning rate that rises, then falls as a cosine; predictions
# use an exponential average of the weights. `train.watched` yields after every step,
# says how long it will take, and saves once a minute: interrupt the cell, and with
# `resume = True` the notebook goes on, bitwise as if it had not stopped. We predict
# unseen problems before, during and after training.

# %%
folder = Path(out) / "run"
if not resume:
    shutil.rmtree(folder, ignore_errors=True)
bench = evaluate.benchmark(model.pde, problems, seed)
observation = evaluate.observation_of(bench, "forward", "full")


def solver(state):
    return PrismaSolver(state.average, edm.Schedule(sampler_steps))


def predict(state):
    key = torch.Generator().manual_seed(seed)
    return solver(state).solve(observation, samples=1, generator=key)[1][0].cpu()


def score(method, name):
    for direction in ("forward", "inverse"):
        labels = {"method": name, "scale": scale, "steps": sampler_steps}
        metrics.extend(evaluate.evaluate(method, bench, direction, "full", **labels))


# %%
metrics = []
score(MeanField(model.pde), "mean field")
marks = [config.steps * k // 4 for k in (1, 2, 4)]
every = max(1, config.steps // 50)
view = display(display_id=True) if interactive else None  # grows while it trains
with train.team(config, folder, device, processes):
    state = train.begin(config, folder, device)
    pictures = {state.images: predict(state)}
    score(solver(state), "before")
    for _ in train.watched(state, folder, shown=interactive, log_every=every):
        if state.step in marks:
            pictures[state.images] = predict(state)
        if view and state.step % (5 * every) == 0:
            view.update(live := curves.training_curves(journal.read(folder)))
            plt.close(live)
score(solver(state), "after")
print(f"{state.step} steps of {batch} problems in {state.seconds:.0f} s")

# %%
rows = journal.read(folder)
curves.training_curves(rows).savefig(Path(out) / "loss.png", dpi=150)
plt.show()
pd.Series(rows[-1]["loss_by_task"], name="loss by task").round(3)

# %% [markdown]
# The loss is noisy because every batch mixes other tasks, and it stays above zero:
# where little is observed, nobody can know what the noise has buried. The right panel
# has it by decade of the noise level: at the lowest ones the network would have to
# predict the noise itself, which it has not learned yet. The log, `run/log.jsonl`, also
# has images per second, the gradient's norm and the loss by task, whose last row stands
# above.
#
# ## The same test problems, again and again
#
# Given all of $a$, the network draws $u$. Colours end at the range of the truth.


# %%
def row(problem):
    truth = bench.u[problem, 0]
    found = {f"u, {n:,} images": u[problem, 0] for n, u in pictures.items()}
    found = {k: u.clamp(truth.min(), truth.max()) for k, u in found.items()}
    panels = [plots.Panel(u, k, "u") for k, u in {"true u": truth, **found}.items()]
    return [plots.Panel(bench.a[problem, 0], "observed a"), *panels]


# %% tags=["thumbnail"]
plots.grid([row(i) for i in range(2)]).savefig(Path(out) / "training.png", dpi=150)
plt.show()


# %%
def draw(problem=0):
    plots.grid([row(problem)])
    plt.show()


if interactive:
    interact(draw, problem=(0, problems - 1))

# %% [markdown]
# ## Before and after
#
# Errors over all test problems in percent: relative $L^2$ of $u$ given $a$; the other
# way, the metric of the PDE, for Darcy the share of misjudged points of $a$. Below it
# stands what the card of the model that ships says, where there is one, and of the one
# that shipped before, which AdamW trained on as many problems.

# %%
errors = {(r["method"], r["direction"]): float(r["value"]) for r in metrics}
display(pd.Series(errors).unstack(sort=False))
name = f"{pde}-{size}"
if name in checkpoints.shipped():
    card = checkpoints.read_card(checkpoints.find(name))
    for about in (card, card.get("before", {"training": {}})):
        shown = "optimiser", "learning_rate", "images_seen", "minutes"
        print({k: about["training"][k] for k in shown if k in about["training"]})
        print(evaluate.show(about.get("errors", [])))

# %% [markdown]
# ## Which recipe learns most in the same time?
#
# Each row trained the small network on Darcy flow, on as many problems as two cores do
# in five minutes (`params/recipes.yaml`), in the second table in ten minutes and with
# three seeds (`params/recipes_long.yaml`), in the third on Helmholtz' equation in five
# (`params/recipes_helmholtz.yaml`). Errors of one draw in percent, n = 128.
#
# *as-shipped* is AdamW with a peak of 2e-3, a warm-up of 3,200 problems, batches of 32,
# new problems in every step and $\ln \sigma \sim N(0, 1.6^2)$, which trained the first
# model that shipped; other names say what they change. *paper* has the learning rate of
# the paper and the noise levels of EDM, *min-snr* caps the weight, *ema-600* averages
# over fewer problems, *stored-8k* repeats 8,000 problems; numbers are seeds, with the
# same peak for both optimisers. **Muon with a peak of 4e-3, which orthogonalises the
# updates of matrices, is ahead on full observations with every seed and on both
# equations, and inverse from few sensors, and is now the default.** Forward from few
# sensors it is ahead on Helmholtz' equation, and nobody is on Darcy flow; given noise
# it is behind in the inverse problem: none is in the training, and who reads more out
# of the observations believes noise, too. The noise levels of EDM suit the full forward
# problem and noise: where little is known, large ones decide.


# %%
def recipes(name):
    found = results.read(provenance.ROOT / "outputs" / "results" / f"{name}.csv")
    frame = pd.DataFrame(found).astype({"value": float})
    judged = frame[frame.direction != ""]
    cell = judged.direction + ", " + judged.regime
    table = judged.assign(cell=cell).pivot_table("value", "run", "cell", sort=False)
    spent = frame[frame.metric == "images"].set_index("run").value
    return table.assign(problems=spent.astype(int))


display(recipes("recipes"), recipes("recipes_long").sort_index())
display(recipes("recipes_helmholtz"))

# %% [markdown]
# ## Check, and what a sweep keeps

# %%
before, after = errors["before", "forward"], errors["after", "forward"]
print(f"forward error {before:.1f} % before, {after:.1f} % after {config.images:,}")
assert state.step == config.steps
assert scale == "smoke" or after < before / 2, "training did not halve the error"
assert scale != "cpu" or after < 15
write_json(Path(out) / "metrics.json", metrics)
