"""Explorers: what a model sees and makes, under the hand.

Each is one line in a notebook, such as `explore.residuals("darcy")`: with sliders in
JupyterLab and Voilà, a still picture elsewhere. Behind it stands a pure function: the
same state gives the same figure, without any widget.

    from prisma_lib.explore import residual
    residual.draw(residual.State(direction="inverse", step=4))
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.explore import playground, posteriors, residual, spectrum
from prisma_lib.explore.controls import settled
from prisma_lib.explore.explorer import Explorer
from prisma_lib.explore.question import named

__all__ = ["posterior", "residuals", "sensors", "spectra"]


def residuals(
    model: str | Path = "darcy-32", *, interactive: bool = True, **state: Any
) -> Any:
    """Explores how an estimate and its residual settle along the trajectory.

    Args:
        model: Name of a shipped model or of its equation, or a model's folder.
        interactive: Offer sliders; without them one figure.
        **state: Where to begin; see `residual.State`.

    Returns:
        Widgets, or a matplotlib figure.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When a setting has no meaning, or widgets are not installed.
    """
    return _opened(residual.EXPLORER, residual.State, model, interactive, state)


def spectra(
    model: str | Path = "darcy-32", *, interactive: bool = True, **state: Any
) -> Any:
    """Explores what spectral residual attention makes of every mode.

    Args:
        model: Name of a shipped model or of its equation, or a model's folder.
        interactive: Offer sliders; without them one figure.
        **state: Where to begin; see `spectrum.State`.

    Returns:
        Widgets, or a matplotlib figure.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When the model has no attention, a setting has no meaning, or
            widgets are not installed.
    """
    return _opened(spectrum.EXPLORER, spectrum.State, model, interactive, state)


def posterior(
    model: str | Path = "darcy-32", *, interactive: bool = True, **state: Any
) -> Any:
    """Explores where draws agree, beside the exact posterior where it is known.

    Args:
        model: Name of a shipped model or of its equation, or a model's folder.
        interactive: Offer sliders; without them one figure.
        **state: Where to begin; see `posteriors.State`.

    Returns:
        Widgets, or a matplotlib figure.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When a setting has no meaning, or widgets are not installed.
    """
    return _opened(posteriors.EXPLORER, posteriors.State, model, interactive, state)


def sensors(
    model: str | Path = "darcy-32", *, interactive: bool = True, **state: Any
) -> Any:
    """Lets a person put sensors onto a field, and shows what they are worth.

    Args:
        model: Name of a shipped model or of its equation, or a model's folder.
        interactive: Offer sliders and the brush; without them one figure.
        **state: Where to begin; see `playground.State`.

    Returns:
        Widgets, or a matplotlib figure.

    Raises:
        CheckpointError: When there is no such model.
        ConfigError: When a setting has no meaning, or widgets are not installed.
    """
    return _opened(playground.EXPLORER, playground.State, model, interactive, state)


def _opened(
    explorer: Explorer[Any, Any],
    kind: Any,
    model: str | Path,
    interactive: bool,
    state: dict[str, Any],
) -> Any:
    first = kind(model=named(model))
    for name in state:
        if not hasattr(first, name):
            raise unknown_name("setting of the explorer", name, vars(first))
    first = settled(replace(first, **state), explorer.controls)
    if not interactive:
        return explorer.draw(first)
    try:
        from prisma_lib.explore.shell import Shell
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, which the sliders need: pip install "
            "'prisma-lib[notebooks]', or give interactive=False for a still figure",
            exit_code=4,
        ) from error
    return Shell(explorer, first)
