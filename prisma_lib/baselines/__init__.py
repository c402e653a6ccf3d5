"""The published systems that PRISMA is compared with, behind the same door.

Each file implements one publication. What is trained is a `Baseline` network: the
plans, the training engine and the model cards are those of PRISMA. What solves is a
`Solver`, and `evaluate` judges it like any other, by its name too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prisma_lib.baselines.base import Baseline
from prisma_lib.baselines.deeponet import DeepONet
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fno import FNO
from prisma_lib.baselines.fundps import FunDPS
from prisma_lib.baselines.guided import GuidedSolver
from prisma_lib.baselines.paper import PAPER
from prisma_lib.baselines.pinn import PINN
from prisma_lib.baselines.pino import PINO
from prisma_lib.baselines.prior import Prior
from prisma_lib.errors import CheckpointError, ConfigError, unknown_name
from prisma_lib.pdes.base import PDE, Direction
from prisma_lib.solver import Solver
from prisma_lib.units import Normalised

# Makes the solver of a direction and a regime; cells that can be asked at once have
# equal ones.
Answers = Callable[[Direction, str], Solver]

NETWORKS: dict[str, type[Baseline]] = {
    FNO.method: FNO,
    PINO.method: PINO,
    DeepONet.method: DeepONet,
    DiffusionPDE.method: DiffusionPDE,
    FunDPS.method: FunDPS,
}
WEIGHTS = Path(__file__).parents[2] / "outputs" / "models" / "baselines"
# How the weights are made that do not ship.
COMMAND = (
    "python -m prisma_lib.screen params/baselines.yaml "
    "--models outputs/models/baselines"
)
# What guided methods run at laptop scale: seconds a sample instead of a minute.
GUIDED_STEPS = 200


def names() -> tuple[str, ...]:
    """Lists the baselines."""
    return "pinn", *NETWORKS


def title(name: str) -> str:
    """Returns the name of a baseline in tables."""
    _check(name)
    return PINN.title if name == "pinn" else NETWORKS[name].title


def applies(name: str, pde: str, direction: Direction, regime: str) -> bool:
    """Says whether the paper of PRISMA has a number for a baseline in a cell.

    Where it has none, tables say "not applicable".

    Args:
        name: One of `names()`.
        pde: Name of an equation.
        direction: One of its directions.
        regime: One of `cells.REGIMES`.

    Raises:
        ConfigError: When there is no baseline of that name.
    """
    _check(name)
    return (direction, regime) in PAPER[name].get(pde, ())


def guided(name: str) -> bool:
    """Says whether a method guides a diffusion prior, for many steps.

    Args:
        name: One of `names()`, or "prisma", which is not guided.

    Raises:
        ConfigError: When there is no baseline of that name.
    """
    if name == "prisma":
        return False
    _check(name)
    return name in NETWORKS and issubclass(NETWORKS[name], Prior)


def folder_name(name: str, pde: str, size: int) -> str:
    """Returns what the folder of a model is called where methods lie side by side.

    Args:
        name: Name of the method.
        pde: Name of the equation.
        size: Points per axis.
    """
    return f"{name}-{pde}-{size}"


def limit(name: str, steps: int | None = None) -> int | None:
    """Returns how many problems a laptop has time for; None: all that there are.

    Args:
        name: One of `names()`.
        steps: Steps of a guided method.
    """
    if name == "pinn":
        return 4
    if not guided(name):
        return None
    return 8 if (steps or GUIDED_STEPS) <= GUIDED_STEPS else 4


def load(
    name: str,
    pde: str,
    size: int = 32,
    *,
    folder: Path | str = WEIGHTS,
    device: str = "cpu",
) -> Normalised:
    """Loads the network of a baseline, or PRISMA as trained with the same budget.

    Args:
        name: Name of a baseline that is trained, or "prisma".
        pde: Name of the equation.
        size: Points per axis.
        folder: Holds models NAME-PDE-SIZE.
        device: "cpu", "cuda" or "auto".

    Returns:
        The network in evaluation mode, float32.

    Raises:
        ConfigError: When no network has that name.
        CheckpointError: When the folder has no such model, or it is damaged or of
            another method or equation.
    """
    # Not at the top: checkpoints know the methods, and those know this module.
    from prisma_lib import checkpoints, methods

    if name == "pinn":
        raise ConfigError("PINN has no weights: ask for its solver, which fits anew")
    methods.network(name)
    place = Path(folder) / folder_name(name, pde, size)
    if not (place / checkpoints.CARD).is_file():
        where = "outputs/models/baselines" if folder == WEIGHTS else folder
        raise CheckpointError(
            f"there is no {place.name} in {where}: train it with `{COMMAND}`, or name "
            "the folder that holds it"
        )
    model = checkpoints.load_any(place, device=device)
    found = (model.method, model.pde.name, model.pde.size)
    if found != (name, pde, size):
        raise CheckpointError(
            f"{place} holds {found[0]} for {found[1]} at {found[2]} points: name it "
            f"{folder_name(*found)}"
        )
    return model


def solver(
    name: str,
    pde: PDE,
    direction: Direction,
    regime: str,
    *,
    folder: Path | str = WEIGHTS,
    **settings: Any,
) -> Solver:
    """Makes the solver of a baseline for a cell; see `solvers`."""
    return solvers(name, pde, folder=folder, **settings)(direction, regime)


def solvers(
    name: str, pde: PDE, *, folder: Path | str = WEIGHTS, **settings: Any
) -> Answers:
    """Makes the solvers of a baseline, or of PRISMA as trained with the same budget.

    Args:
        name: One of `names()`, or "prisma".
        pde: The equation.
        folder: Holds models NAME-PDE-SIZE; PINN needs none.
        **settings: Settings of the method, such as `steps` or `iterations`.

    Raises:
        ConfigError: When the name or a setting is unknown.
        CheckpointError: When there are no weights, or they are those of an equation
            with other coefficients.
    """
    # Not at the top: they know this module.
    from prisma_lib import checkpoints, data

    if name == "pinn":
        try:
            pinn = PINN(pde, data.statistics(pde), **settings)
        except TypeError as error:
            raise ConfigError(f"PINN cannot be set up: {error}") from error
        return lambda direction, regime: pinn
    model = load(name, pde.name, pde.size, folder=folder)
    if model.pde.coefficients != pde.coefficients:
        raise CheckpointError(
            f"{name} was trained for {pde.name} with {model.pde.coefficients}, asked "
            f"for {pde.coefficients}: train it for those, or hand in the solver itself"
        )
    place = Path(folder) / folder_name(name, pde.name, pde.size)
    card = checkpoints.read_card(place)
    return partial(of_cell, model, tuned=card.get("guidance", ()), **settings)


def of_cell(
    model: Normalised,
    direction: Direction,
    regime: str,
    *,
    tuned: Sequence[Mapping[str, Any]] = (),
    **settings: Any,
) -> Solver:
    """Makes the solver of a network for a cell.

    A guided one takes the weights that were tuned for the cell and the settings; of
    those with several residuals the ones with the smallest error on validation
    problems. If there are none it takes the published ones, and where those are missing
    the weights of the nearest equation with our residual.

    Args:
        model: The network.
        direction: What is asked.
        regime: How it was observed.
        tuned: What `prisma_lib.tune` found.
        **settings: Settings of the method; given `weights` are used as they are.

    Raises:
        ConfigError: When a setting is unknown.
    """
    # Not at the top: they know this module.
    from prisma_lib import methods

    if not isinstance(model, Prior):
        return methods.solver(model, **settings)
    settings.setdefault("steps", GUIDED_STEPS)
    if "weights" in settings:
        return model.solver(**settings)
    mine = [
        found
        for found in tuned
        if settings.items() <= found["settings"].items()
        and (found["direction"], found["regime"]) == (direction, regime)
        and found["error"] is not None
    ]
    if mine:
        best = min(mine, key=lambda found: found["error"])
        return model.solver(**best["settings"], weights=best["weights"])
    plain = model.solver(**{"residual": "ours", **settings, "weights": {}})
    assert isinstance(plain, GuidedSolver)
    inverse = direction != "forward"
    if plain.published_weights(inverse):
        return model.solver(**settings)
    weights = asdict(plain.starting_weights(inverse))
    return model.solver(**{"residual": "ours", **settings, "weights": weights})


def _check(name: str) -> None:
    if name not in names():
        raise unknown_name("baseline", name, names())
