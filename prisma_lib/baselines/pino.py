r"""PINO: an FNO that the residual of the equation helps to train, and to tune.

$$L = \tfrac12 \Big(\tfrac{\|\hat u - u\|}{\|u\|} + \tfrac{\|\hat a - a\|}{\|a\|}\Big)
    + \tfrac{w}{2 s} \big(\|R(a, \hat u)\| + \|R(\hat a, u)\|\big), \qquad
s = \|R(a, \tfrac{u + \bar u}{2})\|$$

The residual R is that of the equation in physical units, with its finite differences;
s is that of a solution that went halfway to its mean, and at least that of the stored
truth, which makes w a number of the same size for every equation. It is chosen on
validation problems:

    python -m prisma_lib.screen params/pino.yaml --split validation

`solver(tune=STEPS)` tunes both operators to each problem by itself: Adam makes small
the residual of the answer and the error of the way back to what was observed.

Deviations from the publication, beside those of FNO:

- The published losses evaluate derivatives in Fourier space or by finite differences,
  as the equation is; ours are always those of this library's residual.
- The residual is taken on the grid of the data, not on a finer one, and of the problems
  of the data alone.
- While tuning, the unobserved part of the observed field is the other operator's
  answer. The loss that keeps the answer close to where it began counts at the edge
  only, where the residual says nothing; the published ways to hold the edge are made
  for one equation each.
- The optimiser of tuning is Adam at a constant learning rate, with no weights between
  the parts of its loss.

Reference:
    Li et al. (2021), Physics-informed neural operator for learning partial differential
    equations, arXiv 2111.03794.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from prisma_lib import progress
from prisma_lib.baselines.fno import FNO, FNOConfig
from prisma_lib.baselines.operators import OperatorSolver, Rows
from prisma_lib.checks import check_count, check_names, check_number
from prisma_lib.edm import SIGMA_DATA
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import Field
from prisma_lib.units import Errors

SETTINGS = ("tune", "learning_rate")
TINY = 1e-12  # keeps the slope of a root finite


@dataclass(frozen=True)
class PINOConfig(FNOConfig):
    """The settings of a PINO: those of an FNO, and one more.

    Args:
        residual_weight: Weight w of the residual, at least 0.

    Raises:
        ConfigError: When a setting is out of range.
    """

    residual_weight: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.residual_weight:
            check_number("residual_weight", self.residual_weight, 0, 1e6, 1e-2)


class PINO(FNO):
    """A pair of Fourier neural operators that know the residual.

    Args:
        pde: The equation, on the grid that the operators are trained on.
        config: Settings of each operator.
        statistics: Mean and standard deviation per field, physical units.

    Raises:
        ConfigError: When neuralop is not installed.
    """

    method = "pino"
    title = "PINO"
    settings = PINOConfig
    config: PINOConfig

    def loss(self, a: Field, u: Field, guess_a: Field, guess_u: Field) -> Errors:
        """Judges the guesses of both operators, and their residuals."""
        misfit = super().loss(a, u, guess_a, guess_u)
        residuals = self.residual(a, guess_u) + self.residual(guess_a, u)
        scale = 2 * self.residual_scale(a, u)
        return misfit + self.config.residual_weight * residuals / scale

    def residual(self, a: Field, u: Field) -> Errors:
        """Computes the root mean square residual of each pair, physical units."""
        r = self.on((a.shape[-2], a.shape[-1])).residual(a, u).flatten(1)
        return r.norm(dim=1) / r.shape[1] ** 0.5

    @torch.no_grad()
    def residual_scale(self, a: Field, u: Field) -> Errors:
        """Computes the residual of solutions halfway to their mean, above the floor."""
        mean = self.mean[:, self.pde.channels[0] :]
        return torch.hypot(self.residual(a, (u + mean) / 2), self.residual_floor)

    def solver(self, **settings: Any) -> OperatorSolver:
        """Makes the method that answers observations.

        Args:
            **settings: `tune`, the steps of tuning for each problem, 0 by default; and
                `learning_rate`, that of tuning, 1e-3 by default.

        Raises:
            ConfigError: When a setting is unknown or has no meaning.
        """
        check_names("setting of PINO", settings, SETTINGS)
        solver = TunedSolver(self, **settings)
        return solver if solver.tune else OperatorSolver(self)


@dataclass(frozen=True)
class TunedSolver(OperatorSolver):
    """Tunes the operators to each problem before they answer.

    Args:
        model: The operators; they stay as they are.
        tune: Steps of Adam for each problem.
        learning_rate: Its learning rate.

    Raises:
        ConfigError: When a setting has no meaning.
    """

    model: PINO
    tune: int = 0
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_count("tune", self.tune, 0, 100)
        check_number("learning_rate", self.learning_rate, 0, 1, 1e-3)

    @property
    def calls(self) -> int:
        """Network calls for one answer: a step takes both operators."""
        return 2 * self.tune + 1

    def _answer(self, x: Pair, mask: Pair, forward: Rows) -> Pair:
        """Tunes to one problem after the other."""
        answers = []
        parts = (part.split(1) for part in (x, mask, forward))
        with progress.bar(len(x) * self.tune, "step") as bar:
            for one, seen, way in zip(*parts, strict=True):
                model = self._tuned(one, seen, way, bar)
                answers.append(model.complete(model.normalise(one), way))
        return self.model.denormalise(torch.cat(answers))

    @torch.enable_grad()
    def _tuned(self, x: Pair, mask: Pair, forward: Rows, bar: Any) -> PINO:
        """Returns a copy of the operators that suits one problem."""
        model = deepcopy(self.model).requires_grad_(True)
        optimiser = torch.optim.Adam(model.parameters(), self.learning_rate)
        first: Pair | None = None
        for _ in range(self.tune):
            pair, misfit = _both_ways(model, x, mask, forward)
            first = pair.detach() if first is None else first
            fields = model.fields(pair)
            scale = model.residual_scale(*model.fields(first))
            loss = model.residual(*fields) / scale + misfit + _edge(model, pair - first)
            optimiser.zero_grad()
            loss.sum().backward()
            optimiser.step()
            bar.update(1)
        return model.requires_grad_(False)


def _both_ways(model: PINO, x: Pair, mask: Pair, forward: Rows) -> tuple[Pair, Errors]:
    """Asks one operator, and the other one what it makes of the answer.

    Returns:
        The pair without gaps, normalised; and the error of the way back at the observed
        points, in standard deviations.
    """
    known = model.normalise(x)
    answer = model.complete(known, forward)
    back = model.complete(answer, ~forward)
    whole = torch.where(mask > 0, known, back)
    pair = torch.where(model.asked(forward), answer, whole)
    return pair, _size((back - known) * mask, mask)


def _edge(model: PINO, change: Pair) -> Errors:
    """Computes how much a pair changed where the residual says nothing of it."""
    a, u = model.fields(change)
    r = model.on((a.shape[-2], a.shape[-1])).residual(a, u)
    inner = [(n - m) // 2 for n, m in zip(a.shape[2:], r.shape[2:], strict=True)]
    edge = torch.ones_like(change)
    edge[..., inner[0] : -inner[0] or None, inner[1] : -inner[1] or None] = 0
    return _size(change * edge, edge)


def _size(x: Pair, mask: Pair) -> Errors:
    """Computes the root mean square over marked points, in standard deviations."""
    total, num = (part.flatten(1).sum(1) for part in ((x / SIGMA_DATA).square(), mask))
    return (total / num.clamp(min=1) + TINY).sqrt()
