"""The settings of a training run, checked before anything starts."""

import math
from dataclasses import dataclass
from typing import Any

from prisma_lib import methods, plans
from prisma_lib.checks import check_count, check_names, check_number, check_seed
from prisma_lib.errors import ConfigError
from prisma_lib.precision import PRECISIONS
from prisma_lib.recipes import OPTIMISERS, WEIGHTINGS
from prisma_lib.sensors import LAYOUTS
from prisma_lib.settings import built, check_types
from prisma_lib.tasks import (
    TASK_PROBABILITIES,
    check_probabilities,
    check_rates,
)

COUNTS = {"size": 8, "images": 1, "batch": 1, "warmup": 0, "ema_half_life": 1}
# Name -> largest value and an example; all lie above 0.
NUMBERS = {
    "learning_rate": (1.0, 1e-3),
    "clip": (math.inf, 1.0),
    "p_std": (10.0, 1.2),
}


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run.

    Args:
        method: Name of what is trained, "prisma" or a baseline.
        pde: Name of the equation.
        size: Points per axis.
        options: Options of the equation that differ from its defaults.
        preset: Name of a model preset.
        model: Model settings that differ from the preset, such as dropout.
        name: Name of the model; its folder under outputs/models. By default
            "PDE-SIZE".
        weights: Model to go on from, of the same equation and network: a name or a
            folder. Its units are kept. By default weights start at random.
        images: Training problems in all; the learning rate falls to 0 over them.
        minutes: Train as many problems as fit into this time instead of `images`; the
            number is measured at the first start of a run and kept from then on.
        batch: Problems per step.
        learning_rate: Peak of the learning rate, at most 1.
        warmup: Images over which the learning rate rises linearly.
        weight_decay: Decoupled weight decay, in [0, 1].
        ema_half_life: Half-life of the weight average, in images.
        clip: Largest norm of the gradient.
        optimiser: "muon" or "adamw"; see `recipes.optimiser`.
        precision: "float32", or "bf16": matrix products and convolutions in bfloat16;
            weights, residual, Fourier transforms and loss stay in float32.
        weighting: "edm" or "min_snr": how noise levels count in the loss.
        data: File or folder of problems made by `data.make`, which every epoch repeats.
        stored: Number of problems that every epoch repeats; 0: each is new.
        augment: Turn and reflect problems that are repeated, at random.
        p_mean: Mean of ln sigma.
        p_std: Standard deviation of ln sigma.
        task_probabilities: One for each of `tasks.TASKS`.
        p_min: Smallest share of observed points of a sparse task, above 0.
        p_max: Largest share of observed points of a sparse task, at most 1.
        mask_mixture: "paper" or "sparse": how observation rates are drawn.
        layouts: Where the sensors of a sparse task may stand, some of
            `sensors.LAYOUTS`, each as likely as the others.
        both: Probability that a sparse task observes some of the other field, too.
        noise_max: Largest standard deviation of sensor noise in units of the field's.
            Half of all fields have none, the others any level up to it.
        noise_maps: Probability that the level differs from point to point: at each it
            is any share of the field's.
        group: Images in a row that share task, mask and noise level of the sensors, and
            so the expensive part of a lift; divides the batch.
        seed: Seed of everything.

    Raises:
        ConfigError: When a value is out of range or of another type.
    """

    method: str = "prisma"
    pde: str = "darcy"
    size: int = 32
    options: dict[str, Any] | None = None
    preset: str = "small"
    model: dict[str, Any] | None = None
    name: str = ""
    weights: str | None = None
    images: int = 200_000
    minutes: float | None = None
    batch: int = 32
    learning_rate: float = 4e-3
    warmup: int = 3_200
    weight_decay: float = 1e-4
    ema_half_life: int = 10_000
    clip: float = 1.0
    optimiser: str = "muon"
    precision: str = "float32"
    weighting: str = "edm"
    data: str | None = None
    stored: int = 0
    augment: bool = False
    p_mean: float = 0.0
    p_std: float = 1.6
    task_probabilities: tuple[float, ...] = TASK_PROBABILITIES
    p_min: float = 0.01
    p_max: float = 0.5
    mask_mixture: str = "paper"
    layouts: tuple[str, ...] = ("points",)
    both: float = 0.0
    noise_max: float = 0.0
    noise_maps: float = 0.0
    group: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(TrainConfig, vars(self))
        if not self.name:
            object.__setattr__(self, "name", f"{self.pde}-{self.size}")
        object.__setattr__(self, "task_probabilities", tuple(self.task_probabilities))
        for name, low in COUNTS.items():
            check_count(name, getattr(self, name), low, getattr(TrainConfig, name))
        for name, (high, example) in NUMBERS.items():
            check_number(name, getattr(self, name), 0, high, example)
        if not 0 <= self.weight_decay <= 1:
            raise ConfigError(f"weight_decay={self.weight_decay} must lie in [0, 1]")
        if self.minutes is not None:
            check_number("minutes", self.minutes, 0, 60 * 24 * 365, 30)
        check_probabilities(self.task_probabilities)
        check_rates(self.p_min, self.p_max, self.mask_mixture)
        self._check_sensors()
        check_seed(self.seed)
        self._check_choices()

    def _check_sensors(self) -> None:
        object.__setattr__(self, "layouts", tuple(self.layouts))
        check_names("layout of sensors", self.layouts, LAYOUTS)
        if not self.layouts:
            raise ConfigError(f"layouts=() is empty: name some of {LAYOUTS}")
        limits = {"both": 1.0, "noise_max": math.inf, "noise_maps": 1.0}
        for name, high in limits.items():
            value = getattr(self, name)
            if not 0 <= value <= high:
                raise ConfigError(f"{name}={value} must lie in [0, {high:g}]")
        if self.noise_maps and not self.noise_max:
            raise ConfigError(
                f"noise_maps={self.noise_maps} says how often noise is uneven, but "
                "there is none: give noise_max, such as 2, too"
            )
        if check_count("group", self.group, 1, 16) and self.batch % self.group:
            raise ConfigError(
                f"group={self.group} does not divide batch={self.batch}: images of one "
                "group share a step"
            )

    def _check_choices(self) -> None:
        if not plans.SLUG.fullmatch(self.name):  # it names a folder
            raise ConfigError(
                f"name={self.name!r}: give at most 60 letters, digits, - and _, no path"
            )
        methods.network(self.method)
        check_names("optimiser", [self.optimiser], OPTIMISERS)
        check_names("precision", [self.precision], PRECISIONS)
        check_names("loss weighting", [self.weighting], WEIGHTINGS)
        if self.images < self.batch:
            raise ConfigError(
                f"images={self.images} is less than one batch of {self.batch}"
            )
        if self.augment and not (self.stored or self.data):
            raise ConfigError(
                "augment=True turns problems that are repeated, but each is new here: "
                "leave it out, or give stored or data"
            )
        if self.stored and self.data:
            raise ConfigError(
                f"stored={self.stored} and data={self.data!r} both name the problems "
                "to repeat: give one of them"
            )
        if check_count("stored", self.stored, 0, 8000) and self.stored < self.batch:
            raise ConfigError(
                f"stored={self.stored} is less than one batch of {self.batch}: store "
                "more problems, or 0 for new ones in every step"
            )

    @property
    def steps(self) -> int:
        """Number of optimiser steps."""
        return self.images // self.batch

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "TrainConfig":
        """Builds the settings from plain values.

        Raises:
            ConfigError: When a name is unknown, or a value out of range or of another
                type.
        """
        return built(cls, "training setting", settings)
