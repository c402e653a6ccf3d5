# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # How do you add an equation of your own?
#
# Everything in this project learns from an equation's four parts: a way to draw inputs,
# a reference solver, a residual, and one exact solution. Here we write them for a
# stationary reaction–diffusion equation in one cell, check the contract, train a model
# for some minutes, solve forward and backward, and look inside. The measured errors are
# printed below.
#
# Needs: nothing but the library, no GPU. The training takes ten minutes of one core,
# everything else seconds.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from IPython.display import Markdown

from prisma_lib import (
    data,
    evaluate,
    explore,
    load,
    pdes,
    plots,
    solve,
    train,
    training,
)
from prisma_lib.devices import resolve
from prisma_lib.fields import cosine_field, keyed_normal
from prisma_lib.files import write_json
from prisma_lib.pdes.base import PDE
from prisma_lib.spectral import solve_dirichlet
from prisma_lib.stencils import interior, laplacian
from prisma_lib.training import TrainConfig

# %% tags=["parameters"]
size: int = 32  # points per axis
preset: str = "small"  # size of the network: tiny, small, base or paper
budget: int = 40_000  # training problems, each drawn and solved anew
n: int = 32  # unseen test problems
steps: int = 20  # sampler steps
seed: int = 0  # of weights, data, sensors and draws
out: str = "outputs/scratch/own"  # folder of the model, metrics.json and figures
scale: str = "cpu"  # name of the scale, for the records
interactive: bool = True  # sliders; still figures otherwise

# %% [markdown]
# ## The equation
#
# A substance diffuses, is fed by a random source $a$, and is eaten up at a rate that
# grows with its cube:
#
# $$u^3 - \nu \Delta u = a \text{ in } (0, 1)^2, \qquad u = 0 \text{ on the boundary.}$$
#
# The solver repeats $u \leftarrow (c - \nu \Delta)^{-1} (a + c u - u^3)$ with the sine
# transform. It converges where $c$ is at least half of the largest slope $3 u^2$; a
# larger $c$ is slower.


# %%
class Sink(PDE):
    """Stationary diffusion with a cubic sink and zero edges: inputs and solver."""

    name, equation = "reaction_diffusion", r"u^3 - \nu \Delta u = a"
    kind, order = "discrete", 2.0
    nu, c, rounds = 0.05, 3.0, 400

    def draw(self, key, index):
        noise = keyed_normal(key, index, self.grid.shape, purpose="input")
        return 10 * cosine_field(noise.double())[:, None].float()

    def solve(self, a):
        source = interior(a.double())
        u = torch.zeros_like(source)
        for _ in range(self.rounds):
            right = -(source + self.c * u - u**3) / self.nu
            new = solve_dirichlet(right, self.grid.spacing, shift=-self.c / self.nu)
            moved, u = (new - u).abs().max(), new
            if moved < 1e-13:
                break
        return torch.nn.functional.pad(u, (1, 1, 1, 1)).to(a.dtype)


# %% [markdown]
# The residual is the left side minus the right side at inner nodes. The exact pair is
# $u = \sin \pi x \sin 2 \pi y$ with the source that it needs. `register` makes the name
# known to trainings and model files of this process.


# %%
@pdes.register
class ReactionDiffusion(Sink):
    """The whole equation."""

    def residual(self, a, u):
        self.check(a, u)
        diffusion = self.nu * laplacian(u, self.grid.spacing)
        return interior(u) ** 3 - diffusion - interior(a)

    def exact(self):
        x, y = self.grid.coordinates(torch.float64)
        u = (torch.sin(torch.pi * x) * torch.sin(2 * torch.pi * y))[None, None]
        return u**3 + 5 * torch.pi**2 * self.nu * u, u


# %% [markdown]
# ## The contract
#
# Four facts must hold, and each catches a mistake of its own: a solver of another
# equation than the residual's, a wrong $h$, a stencil that misses a checkerboard, and
# inputs that depend on their batch.

# %%
pde = pdes.load("reaction_diffusion", size=size)
a = pde.draw(0, range(8)).double()
u = pde.solve(a)
floor = (pde.residual(a, u).norm() / pde.residual(a, 0 * u).norm()).item()
coarse, fine = (
    p.residual(*p.exact()).square().mean().sqrt()
    for p in (pde.resized(33), pde.resized(65))
)
order = (coarse / fine).log2().item()
parity = (-1.0) ** torch.arange(size)
checker = 1e-3 * parity[:, None] * parity
seen = (pde.residual(a, u + checker) - pde.residual(a, u)).abs().max().item()
print(f"residual of the solver {floor:.0e}, order {order:.2f}, checkerboard {seen:.2g}")
assert floor < 1e-9
assert abs(order - pde.order) < 0.1
assert seen > 1e-3 * pde.nu / max(pde.grid.spacing) ** 2
torch.testing.assert_close(pde.draw(0, [5]), pde.draw(0, range(8))[5:6])

# %% [markdown]
# In `prisma_lib/pdes/reaction_diffusion.py` the same class is found by the contract
# tests, which check these facts and a dozen more.
#
# ## Some minutes of training
#
# Every step draws and solves new problems; the settings are those of the shipped
# models, but for half their learning rate and a warm-up of a twelfth.

# %%
Path(out).mkdir(parents=True, exist_ok=True)
config = TrainConfig(
    pde=pde.name, size=size, preset=preset, images=budget, batch=32, seed=seed,
    learning_rate=2e-3, warmup=max(32, budget // 12),
)  # fmt: skip
first = training.start(config, resolve("cpu"))
losses = []
for state in train.timed(training.averaged(training.loop(first))):
    losses.append(state.loss)
folder = train.finish(state, Path(out) / "model")
early, late = (sum(part) / len(part) for part in (losses[:10], losses[-10:]))
minutes = state.seconds / 60
print(f"{state.step} steps in {minutes:.1f} min, loss {early:.2f} to {late:.2f}")

# %% [markdown]
# ## Solve both ways
#
# The same model answers in every direction.

# %% tags=["thumbnail"]
model = load(folder)
a, u = data.problems(pde, n, split="test", seed=seed)
forward = solve(model, a=a, steps=steps, seed=seed)
inverse = solve(model, u=u, steps=steps, seed=seed)
figure = plots.grid(
    [
        plots.comparison(a[0, 0], u[0, 0], forward.u[0, 0, 0], ("a", "u")),
        plots.comparison(u[0, 0], a[0, 0], inverse.a[0, 0, 0], ("u", "a")),
    ]
)
plt.show()

# %%
rows = evaluate.table(model, n, steps, seed, scale=scale)
print(evaluate.show(rows))
found = {(r["method"], r["direction"], r["regime"]): float(r["value"]) for r in rows}
ours, guess = (found[m, "forward", "full"] for m in ("PRISMA", "mean field"))
Markdown(
    f"**After {state.images:,} problems the error of the solution is {ours:.1f} %; "
    f"answering with the mean field gives {guess:.1f} %.**"
)

# %% [markdown]
# ## Look inside
#
# The explorers take any model's folder.

# %%
explore.residuals(folder, steps=min(steps, 10), interactive=interactive)

# %%
explore.sensors(folder, steps=min(steps, 10), interactive=interactive)

# %% [markdown]
# ## What the text claims
#
# Of any model: the loss is a number, and the numerical solver beats everything forward.
# At larger scales: forward, from all of $a$, the model errs less than half as much as
# the mean field.

# %%
assert torch.tensor(losses).isfinite().all()
assert found["numerical solver", "forward", "full"] < 1e-3
assert scale == "smoke" or (late < early and ours < 0.5 * guess)
figure.savefig(Path(out) / "own.png", dpi=150)
write_json(Path(out) / "metrics.json", rows)
