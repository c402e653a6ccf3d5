"""Everything that can be trained, by name: PRISMA and the baselines that learn."""

from typing import Any

from prisma_lib import baselines
from prisma_lib.baselines.base import Baseline
from prisma_lib.distilled import Distilled
from prisma_lib.edm import Schedule
from prisma_lib.errors import unknown_name
from prisma_lib.lifted import PrismaL
from prisma_lib.model import Prisma
from prisma_lib.solver import PrismaSolver, Solver
from prisma_lib.units import Normalised

OURS = {kind.method: kind for kind in (Prisma, PrismaL)}
# What is trained from a model that is there already.
FURTHER = {Distilled.method: Distilled}


def names() -> tuple[str, ...]:
    """Lists what can be trained from nothing."""
    return *OURS, *baselines.NETWORKS


def title(name: str) -> str:
    """Returns the name of a method in tables.

    Raises:
        ConfigError: When there is none of that name.
    """
    return OURS[name].title if name in OURS else baselines.title(name)


def network(name: str) -> type[Normalised]:
    """Returns the class of a network.

    Raises:
        ConfigError: When there is none of that name; names the nearest one.
    """
    known = OURS | FURTHER | baselines.NETWORKS
    if name not in known:
        raise unknown_name("method", name, known)
    return known[name]


def solver(model: Normalised, **settings: Any) -> Solver:
    """Makes the solver of a trained network.

    Args:
        model: PRISMA, with its 20 steps of Heun's method, or a baseline.
        **settings: Settings of a baseline's solver.

    Raises:
        ConfigError: When a setting has no meaning.
    """
    if isinstance(model, Baseline):
        return model.solver(**settings)
    assert isinstance(model, Prisma)
    return PrismaSolver(model, Schedule(**settings))
