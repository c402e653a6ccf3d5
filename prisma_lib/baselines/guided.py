"""What the guided solvers have in common: settings, published or chosen, and draws."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import sample
from prisma_lib.baselines.guidance import (
    Losses,
    Moment,
    Target,
    Weights,
    guided_heun,
)
from prisma_lib.baselines.prior import Prior
from prisma_lib.checks import check_names
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.fields import GRFNoise
from prisma_lib.observe import Observation, Pair
from prisma_lib.pdes.base import PDE, Field, Interior
from prisma_lib.sample import State
from prisma_lib.solver import DiffusionSolver, check_max_batch
from prisma_lib.units import Told

PUBLISHED, OURS = "published", "ours"
RESIDUALS = (PUBLISHED, OURS)
PROBLEMS = 8  # solved to find the scale of a residual

Guided = TypeVar("Guided", bound="GuidedSolver")


@dataclass(frozen=True)
class GuidedSolver(DiffusionSolver):
    """An unconditional model with guidance: a `Solver`.

    Args:
        model: The denoiser.
        steps: Number of sampler steps.
        weights: "published", or a mapping from "a", "u" and "pde" to numbers in the
            units of the publication; what is not named does not pull.
        residual: "published", or "ours": that of the equation, divided by its root mean
            square where the solution is twice the true one.
        sigma_min: Smallest positive noise level; `None`: the published one.
        sigma_max: Largest noise level; `None`: the published one.
        max_batch: Largest number of draws computed at once; "auto" takes what should
            fit into memory. It is halved when memory runs out.
        watch: Called with every sampler state, for progress bars and trajectories. When
            memory ran out, the states of the smaller part start over.

    Raises:
        ConfigError: When a setting has no meaning, or nothing was published for the
            equation.
    """

    model: Prior
    steps: int = 20
    weights: str | Mapping[str, float] = PUBLISHED
    residual: str = PUBLISHED
    sigma_min: float | None = None
    sigma_max: float | None = None
    max_batch: int | str = "auto"
    watch: Callable[[State], None] | None = None

    def __post_init__(self) -> None:
        if self.residual not in RESIDUALS:
            raise unknown_name("residual", self.residual, RESIDUALS)
        check_max_batch(self.max_batch)
        for inverse in (False, True):
            self.weighting(inverse)
            self.noise_levels(inverse)
        if self.residual == PUBLISHED:
            self.published_residual(self.pde)

    @abstractmethod
    def published_weights(self, inverse: bool) -> Weights | None:
        """Returns the weights of the publication, if it has this equation."""

    @abstractmethod
    def published_residual(self, pde: PDE) -> Callable[[Field, Field], Interior]:
        """Returns the residual of the public code.

        Raises:
            ConfigError: When it has none for this equation.
        """

    @abstractmethod
    def starting_weights(self, inverse: bool) -> Weights:
        """Returns weights to start tuning from.

        They are the published ones, or else those of the nearest equation that has
        some, as far as known for this grid.
        """

    @abstractmethod
    def loss(self, moment: Moment, denoised: Pair, target: Target) -> Losses | None:
        """Computes what pulls each draw.

        Args:
            moment: Where the sampler stands.
            denoised: The last denoised estimate of the step, normalised.
            target: What the draws are pulled towards.

        Returns:
            The weighted sum of losses, for each draw; `None`: nothing pulls.
        """

    @property
    def stretch(self) -> Float[Tensor, "1 c 1 1"] | float:
        """Factor of the gradient, for each channel."""
        return 1.0

    @property
    def calls(self) -> int:
        """Denoiser calls for one draw; each is differentiated, too."""
        return sample.calls("heun", self.steps)

    def weighting(self, inverse: bool) -> Weights:
        """Returns the weights to use.

        Args:
            inverse: Whether any value of `u` was observed.

        Raises:
            ConfigError: When none were published, or they are no weights.
        """
        if isinstance(self.weights, Mapping):
            check_names("weight", self.weights, Weights.__annotations__)
            return Weights(**self.weights)
        if self.weights != PUBLISHED:
            raise ConfigError(
                f"weights={self.weights!r}: give 'published', or numbers such as "
                "weights={'a': 100, 'u': 100, 'pde': 0}"
            )
        found = self.published_weights(inverse)
        if found is None:
            raise ConfigError(
                f"weights='published': {self.model.title} has none for {self.pde.name};"
                " find some with python -m prisma_lib.tune, or give weights={'a': ..., "
                "'u': ..., 'pde': ...}"
            )
        return found

    def noise_levels(self, inverse: bool) -> Schedule:
        """Returns the noise levels to visit.

        Args:
            inverse: Whether any value of `u` was observed.
        """
        low, high = self.published_range(inverse)
        low = low if self.sigma_min is None else self.sigma_min
        high = high if self.sigma_max is None else self.sigma_max
        return Schedule(self.steps, low, high)

    def published_range(self, inverse: bool) -> tuple[float, float]:
        """Returns the smallest positive and the largest published noise level."""
        return 0.002, 80.0

    def levels(self, observation: Observation) -> Schedule:
        """Returns the noise levels to visit."""
        return self.noise_levels(bool(observation.mask_u.any()))

    def need(self, shape: tuple[int, int]) -> int:
        """Returns the bytes that one draw takes on a grid."""
        return self.model.per_draw(shape)

    def source(self, shape: tuple[int, int]) -> GRFNoise:
        """Returns the noise of the training."""
        return self.model.noise

    def condition(self, observation: Observation) -> tuple[Told, Pair]:
        """Returns the normalised observed values, 0 where unobserved, and the mask."""
        return self.model.condition(observation)

    def states(
        self,
        noise: Pair,
        told: Told,
        mask: Pair,
        observation: Observation,
        rows: range,
    ) -> Iterator[State]:
        """Yields the state after each guided step; see `DiffusionSolver`."""
        with torch.inference_mode(False):  # whose tensors no gradient goes through
            told, mask = told.clone(), mask.clone()
        inverse = bool(observation.mask_u.any())
        pde = self.model.pde_on(observation.shape)
        target = Target(told, mask, pde, self.weighting(inverse), inverse)
        return guided_heun(
            self.model,
            noise,
            self.noise_levels(inverse),
            lambda moment, denoised: self.loss(moment, denoised, target),
            self.stretch,
        )

    def mismatch(self, x: Pair, pde: PDE) -> Interior:
        """Evaluates the chosen residual.

        Args:
            x: Pairs in physical units.
            pde: The equation on their grid.
        """
        a, u = x.split(pde.channels, 1)
        if self.residual == PUBLISHED:
            return self.published_residual(pde)(a, u)
        return pde.residual(a, u) / self.residual_scale

    @cached_property
    def residual_scale(self) -> float:
        """Residual, as root mean square, of solutions that are off by 100 per cent."""
        a, u = self.pde.pair(0, range(PROBLEMS))  # of the training data
        return self.pde.residual(a, 2 * u).square().mean().sqrt().item()


def guided(kind: type[Guided], model: Prior, settings: Mapping[str, Any]) -> Guided:
    """Makes a guided solver.

    Args:
        kind: The method.
        model: Its denoiser.
        settings: Arguments of the solver.

    Raises:
        ConfigError: When a setting is unknown or has no meaning.
    """
    known = [entry.name for entry in fields(kind) if entry.name != "model"]
    check_names(f"setting of {model.title}", settings, known)
    return kind(model, **settings)
