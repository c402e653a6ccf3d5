r"""Operators between the two fields, one for each way: what FNO and its kin share.

$$\hat u = F(a), \qquad \hat a = G(u)$$

Both operators are trained on every image, with all of the input known, by the relative
error that their papers use, in physical units. They are separate networks: half of the
weights and half of the time belong to each way.

They know no masks. Where a field was not observed they get its mean, which is 0 inside
the network; the comparison tables of PRISMA and DiffusionPDE fill in zeros as well.
Sensor noise goes in as it is.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from prisma_lib import memory
from prisma_lib.baselines.base import Baseline
from prisma_lib.denoiser import check_grid, place
from prisma_lib.edm import Levels
from prisma_lib.errors import ConfigError
from prisma_lib.observe import Observation, Pair
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.solver import Draws
from prisma_lib.units import Errors, Told

Place = Float[Tensor, "_ x y"]
Rows = Bool[Tensor, " b"]


class Operators(Baseline):
    """A forward and an inverse operator of one PDE.

    Args:
        pde: The equation, on the grid that the operators are trained on.
        config: Settings of each operator, with a `width`.
        statistics: Mean and standard deviation per field, physical units.
    """

    unweighted = False

    def __init__(self, pde: PDE, config: Any, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        in_a, in_u = pde.channels
        self.forward_operator = self.build(in_a, in_u)
        self.inverse_operator = self.build(in_u, in_a)

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> nn.Module:
        """Makes an operator, called with normalised fields and the points' `Place`.

        Args:
            inputs: Channels of the field that is known.
            outputs: Channels of the field that is asked.
        """

    def on(self, shape: tuple[int, int]) -> PDE:
        """Returns the equation on a grid.

        Raises:
            ShapeError: When the operators cannot run there.
        """
        if shape == self.pde.grid.shape:
            return self.pde
        check_grid(shape, 1)
        return self.pde.resized(shape[0])

    def complete(self, x: Pair, forward: Rows) -> Pair:
        """Puts the operators' answers in the place of what is asked.

        Args:
            x: Pairs, normalised; what stands in a field that is asked does not matter.
            forward: Where `u` is asked; elsewhere `a` is.

        Returns:
            The pairs with the answers, normalised.
        """
        where = self._place(x)
        a, u = (field.clone() for field in x.split(self.pde.channels, 1))
        if forward.any():
            u[forward] = self.forward_operator(a[forward], where)
        if not forward.all():
            a[~forward] = self.inverse_operator(u[~forward], where)
        return torch.cat([a, u], 1)

    def guesses(self, x: Pair) -> tuple[Field, Field]:
        """Asks both operators for the other field of whole pairs.

        Args:
            x: Whole pairs, normalised.

        Returns:
            Guesses of `a` and of `u`, physical units.
        """
        where = self._place(x)
        a, u = x.split(self.pde.channels, 1)
        guess = self.inverse_operator(u, where), self.forward_operator(a, where)
        return self.fields(torch.cat(guess, 1))

    def fields(self, x: Pair) -> tuple[Field, Field]:
        """Splits normalised pairs into the fields, in physical units."""
        a, u = self.denormalise(x).split(self.pde.channels, 1)
        return a, u

    def errors(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Computes the mean of both operators' relative errors for each image.

        Args:
            x_0: Clean pairs, normalised.
            sigma: Plays no part.
            noise: Plays no part.
            told: Plays no part.
            mask: Plays no part: the operators are trained on whole fields.
        """
        return self.loss(*self.fields(x_0), *self.guesses(x_0))

    def loss(self, a: Field, u: Field, guess_a: Field, guess_u: Field) -> Errors:
        """Judges the guesses of both operators, physical units."""
        return (relative(guess_a, a) + relative(guess_u, u)) / 2

    def asked(self, forward: Rows) -> Bool[Tensor, "b c 1 1"]:
        """Marks the channels that are asked of each problem.

        Args:
            forward: Where `u` is asked; elsewhere `a` is.
        """
        ways = zip((~forward, forward), self.pde.channels, strict=True)
        marks = [way[:, None].expand(-1, c) for way, c in ways]
        return torch.cat(marks, 1)[..., None, None]

    def solver(self, **settings: Any) -> "OperatorSolver":
        """Makes the method that answers observations; it has no settings.

        Raises:
            ConfigError: When there is a setting.
        """
        if settings:
            raise ConfigError(
                f"{self.title} was given {', '.join(settings)}: it answers with one "
                "call of a network and has no settings; leave them out"
            )
        return OperatorSolver(self)

    def _place(self, x: Pair) -> Place:
        return place(self.on((x.shape[-2], x.shape[-1])), x.dtype, x.device)


@dataclass(frozen=True)
class OperatorSolver:
    """Answers with one call of an operator: a `Solver`.

    The field that is asked is the operator's output. The other one comes back as it was
    observed, with its mean where it was not: `reconstruct` is no question for it.

    Args:
        model: The operators.
    """

    model: Operators

    @property
    def pde(self) -> PDE:
        """The operators' equation."""
        return self.model.pde

    @property
    def calls(self) -> int:
        """Network calls for one answer."""
        return 1

    @torch.no_grad()
    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Answers; every draw is the same, and nothing is drawn from the generator.

        Args:
            observation: What was measured, physical units: of each problem `a` or `u`.
            samples: Draws per problem.
            generator: Not used.

        Returns:
            Draws of `a` and `u`, physical units.

        Raises:
            ShapeError: When the operators cannot run on the observation's grid.
            ConfigError: When both fields of a problem were observed or none, or not
                even one problem fits into memory (exit code 4).

        Warns:
            UserWarning: When values do not look like those of the training.
        """
        model, device = self.model, self.model.mean.device
        model.on(observation.shape)
        seen = observation.to(device)
        forward = questions(seen)
        model.warn_of_range(model.normalise(seen.x), seen.mask, stacklevel=3)
        x, mask = torch.where(seen.mask > 0, seen.x, model.mean), seen.mask
        need = memory.per_draw(model.config.width, seen.shape)

        def answer(part: range) -> Pair:
            rows = slice(part.start, part.stop)
            return self._answer(x[rows], mask[rows], forward[rows])

        answers = memory.in_parts(
            answer,
            seen.batch,
            memory.fitting(need, device),
            f"one problem of {seen.shape[0]} x {seen.shape[1]} points on {device}",
            "use a coarser grid, or a device with more memory",
        )
        x = torch.where(model.asked(forward), torch.cat(answers), x)
        a, u = x.expand(samples, *x.shape).split(self.pde.channels, 2)
        return a, u

    def _answer(self, x: Pair, mask: Pair, forward: Rows) -> Pair:
        """Returns pairs that hold the answers, physical units."""
        answers = self.model.complete(self.model.normalise(x), forward)
        return self.model.denormalise(answers)


def questions(observation: Observation) -> Rows:
    """Says for each problem whether `u` is asked, not `a`.

    Raises:
        ConfigError: When both fields of a problem were observed, or none; names the
            first such problem.
    """
    seen = observation.mask_a, observation.mask_u
    seen_a, seen_u = (mask.flatten(1).any(1) for mask in seen)
    odd = (seen_a == seen_u).nonzero()[:, 0].tolist()
    if odd:
        given = "both a and u" if seen_a[odd[0]] else "neither a nor u"
        raise ConfigError(
            f"{given} of problem {odd[0]} were observed: an operator maps one field to "
            "the other; give points of a to ask for u, or points of u to ask for a"
        )
    return seen_a


def relative(guess: Field, truth: Field) -> Errors:
    r"""Computes $\|\hat f - f\|_2 / \|f\|_2$ for each image."""
    return (guess - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
