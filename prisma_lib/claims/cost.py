"""Claims about seconds and memory, and the lines of tables without numbers.

The former are judged by the rows of 53_compute_cost, the latter by the library itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from prisma_lib.claims.evidence import (
    NO_ROWS,
    OURS,
    Claim,
    Evidence,
    Finding,
    decided,
    judged,
    span,
    untimed,
    value,
)
from prisma_lib.claims.tables import DIFFUSION
from prisma_lib.edm import Schedule
from prisma_lib.presets import ModelConfig
from prisma_lib.ranks import OPEN
from prisma_lib.results import Row, settings
from prisma_lib.sample import calls
from prisma_lib.tasks import TASKS, task_masks

PAPER_SHARE = 1.16  # per cent of a step, the largest of the paper's table
LITTLE_MEMORY = 1.05  # times that without, our limit: the paper has none
BARE = "PRISMA without residual"
EXACT = "no interval: settings are the same in every run"
LONGER = calls("heun", 50) / calls("heun", 20)


def cost(found: Evidence, metric: str, **wanted: str) -> list[Row]:
    """Returns rows of the notebook of costs."""
    return found.select(sweep="compute_cost", metric=metric, **wanted)


def seconds(found: Evidence, metric: str, steps: Sequence[str]) -> list[Row]:
    """Returns the rows of PRISMA, FunDPS and DiffusionPDE, or nothing."""
    names = zip((OURS, *DIFFUSION), steps, strict=True)
    rows = [cost(found, metric, method=name, steps=step) for name, step in names]
    return [each[-1] for each in rows] if all(rows) else []


def iterations(found: Evidence) -> Finding:
    """C23: an iteration takes longer than FunDPS's, less than DiffusionPDE's."""
    rows = seconds(found, "seconds_per_iteration", ("", "", ""))
    if not rows:
        return Finding(OPEN, NO_ROWS)
    ours, fundps, diffusionpde = map(value, rows)
    text = f"{ours / fundps:.2f} of FunDPS's time, {ours / diffusionpde:.2f} of "
    text += "DiffusionPDE's, with networks of about the same size"
    return untimed(decided(fundps < ours < diffusionpde, text, rows))


def faster(found: Evidence) -> Finding:
    """C02: 15 to 250 times faster, with 50 steps, than with 500 and 2000 of others.

    These are the steps that make the paper's range. Ours are timed at 20 steps, and the
    time of a draw is that of its calls. Beside it stands the range at 20 steps, from
    200 of FunDPS on, which the paper's own seconds make the widest.
    """
    rows = seconds(found, "seconds_per_sample", ("20", "500", "2000"))
    if not rows:
        return Finding(OPEN, NO_ROWS)
    ours, *others = map(value, rows)
    times = [other / (LONGER * ours) for other in others]
    text = f"{span(times)} times with 50 steps, {span(o / ours for o in others)} with "
    text += "20, against 500 of FunDPS and 2000 of DiffusionPDE"
    short = seconds(found, "seconds_per_sample", ("20", "200", "2000"))
    if short:
        first, *rest = map(value, short)
        text += f"; {span(o / first for o in rest)} with 20 against 200 of FunDPS and "
        text += "2000 of DiffusionPDE"
    return untimed(decided(min(times) >= 15, text, [*rows, *short]))


def residual_is_cheap(found: Evidence) -> Finding:
    """C24: the residual takes at most 1.16 % of a step, and no memory.

    Memory is what tensors take, which hardly differs from run to run.
    """
    rows = cost(found, "residual_time_fraction", method=OURS)
    if not rows:
        return Finding(OPEN, NO_ROWS)
    size = max(int(settings(row)["size"]) for row in rows)
    large = [row for row in rows if settings(row)["size"] == str(size)]
    taken = [row for row in cost(found, "peak_memory_mb") if same_net(row, large[0])]
    peaks = {(row["method"], row["pde"]): value(row) for row in taken}
    more = [peaks[OURS, p] / peaks[BARE, p] for m, p in peaks if m == BARE]
    peak, share = max(more), max(map(value, large))
    text = f"{span(map(value, large))} % at {size} x {size}, {span(map(value, rows))} "
    text += f"% at all sizes; peak memory {min(more):.3f} to {peak:.3f} times that "
    over = "above" if peak > LITTLE_MEMORY else "within"
    text += f"without, {over} the {LITTLE_MEMORY:g} that we count as none"
    good = share <= PAPER_SHARE and peak <= LITTLE_MEMORY
    finding = untimed(decided(good, text, [*rows, *taken]))
    return replace(finding, evidence=f"{finding.evidence}, memory is counted once")


def same_net(row: Row, other: Row) -> bool:
    """Whether two rows are of the same network."""
    return bool(row["setting"] == other["setting"])


def thousand(found: Evidence) -> Finding:
    """C25: minutes for a thousand samples, where others take hours and days."""
    rows = seconds(found, "seconds_per_sample", ("20", "500", "2000"))
    if not rows:
        return Finding(OPEN, NO_ROWS)
    ours, fundps, diffusionpde = map(value, rows)
    text = f"PRISMA with 20 steps {ours / 0.06:.3g} min, FunDPS with 500 "
    text += f"{fundps / 3.6:.3g} h, DiffusionPDE with 2000 {diffusionpde / 3.6:.3g} h"
    good = fundps > 10 * ours and diffusionpde > 100 * ours
    return untimed(decided(good, text, rows))


def speeds(found: Evidence) -> Finding:
    """E26: iterations and samples take their time in the paper's order."""
    training = seconds(found, "seconds_per_iteration", ("", "", ""))
    drawing = seconds(found, "seconds_per_sample", ("20", "500", "2000"))
    if not (training and drawing):
        return Finding(OPEN, NO_ROWS)
    ours, fundps, diffusionpde = training
    pairs = [*pairwise((fundps, ours, diffusionpde)), *pairwise(drawing)]
    good = sum(value(a) < value(b) for a, b in pairs)
    each = (", ".join(f"{value(r):.3g}" for r in rows) for rows in (training, drawing))
    what = "pairs in order; {} s an iteration, {} s a sample".format(*each)
    return untimed(judged(good, len(pairs), what, rows=[*training, *drawing]))


def stencils_are_cheaper(found: Evidence) -> Finding:
    """E27: a stencil takes a smaller share than Fourier transforms."""
    shares: dict[str, dict[str, Row]] = {}
    for row in cost(found, "residual_time_fraction", method=OURS):
        shares.setdefault(row["setting"], {})[row["pde"]] = row
    rows = [row for each in shares.values() for row in each.values()]
    cases = [
        value(each["helmholtz"]) < value(row)
        for each in shares.values()
        for pde, row in each.items()
        if pde != "helmholtz" and "helmholtz" in each
    ]
    what = f"shares above Helmholtz'; {span(map(value, rows))} %" if rows else ""
    return untimed(judged(sum(cases), len(cases), what, rows=rows))


def masks(_: Evidence) -> Finding:
    """E28: each task observes what the paper's table of masks says."""
    uniform = torch.linspace(0, 0.999, 64).view(1, 1, 8, 8)
    right = []
    for task in TASKS[1:]:
        density, direction = task.split("_")
        pair = task_masks([task], torch.tensor([0.5]), uniform)
        seen, hidden = pair if direction == "forward" else pair[::-1]
        share = 1.0 if density == "full" else 0.5
        right.append(abs(seen.mean().item() - share) < 0.02 and not hidden.any())
    text = f"{sum(right)} of {len(right)} tasks; tests/test_tasks.py, 03_observations"
    return settled(all(right), text, len(right))


def hyperparameters(_: Evidence) -> Finding:
    """E29: the sampler and the network of the paper's size have its settings."""
    levels = Schedule()
    ours = (levels.sigma_min, levels.sigma_max, levels.rho)
    right = [a == b for a, b in zip(ours, (0.002, 80.0, 7.0), strict=True)]
    right.append(ModelConfig.preset("paper").dropout == 0.13)
    text = f"{sum(right)} of {len(right)} settings; params/scales/paper.yaml and the "
    text += "preset paper; tests/test_claims_posterior.py"
    return settled(all(right), text, len(right))


def settled(good: bool, text: str, count: int) -> Finding:
    """Says whether settings of the library are the paper's, on whatever machine.

    Args:
        good: Whether they are.
        text: What was compared.
        count: Number of settings, which stands as n.
    """
    about = {"n": str(count), "device": "any"}
    return replace(decided(good, f"{text}; {EXACT}", ()), about=about)


CLAIMS = {
    "C02": Claim(
        "15 to 250 times faster for each sample",
        "53_compute_cost",
        "0.8 s with 50 steps against 11.8 and 213 s; 26 to 1183 times with 20",
        faster,
    ),
    "C23": Claim(
        "a training iteration takes longer than FunDPS's, less than DiffusionPDE's",
        "53_compute_cost",
        "26.0, 20.2 and 58.73 s an iteration: 1.29 and 0.44 of theirs",
        iterations,
    ),
    "C24": Claim(
        "the residual takes hardly any time and no memory",
        "53_compute_cost",
        "at most 1.16 % of a step, 3.28 GB",
        residual_is_cheap,
    ),
    "C25": Claim(
        "a thousand samples in minutes instead of hours and days",
        "53_compute_cost",
        "3 min, 3.3 h, 59.2 h",
        thousand,
    ),
    "E26": Claim(
        "seconds an iteration and a sample, three methods",
        "53_compute_cost",
        "26.0, 20.2, 58.73 s an iteration; 0.18, 11.8, 213 s a sample",
        speeds,
    ),
    "E27": Claim(
        "share of the residual in a step, by equation",
        "53_compute_cost",
        "Helmholtz 0.07 to 0.09, Kolmogorov 0.45 to 0.50, Navier-Stokes 0.63 to 1.16 %",
        stencils_are_cheaper,
    ),
    "E28": Claim(
        "masks of the tasks",
        "03_observations",
        "a table without numbers",
        masks,
    ),
    "E29": Claim(
        "hyperparameters",
        "12_train",
        "sigma 0.002 to 80, rho 7, dropout 0.13, learning rate 1e-4",
        hyperparameters,
    ),
}
