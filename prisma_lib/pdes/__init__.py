"""The equations, found by the files in this folder.

`names()` lists the modules; `load(name)` imports one and builds its PDE. Nothing keeps
a list: a new file is a new equation. `register` makes one known that is written
elsewhere, such as in a notebook, for as long as the process lives.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.pdes.base import PDE

__all__ = ["PDE", "load", "names", "quick", "register", "with_options"]

_REGISTERED: dict[str, type[PDE]] = {}


@cache
def names() -> tuple[str, ...]:
    """Lists the equations that exist, in alphabetical order."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in modules if name != "base"))


def register(equation: type[PDE]) -> type[PDE]:
    """Makes an equation that is written elsewhere known by its name in this process.

    A class decorator, for trying an equation out in a notebook. To keep it, move it to
    a file of its own in this folder: then the contract tests find it, too.

    Args:
        equation: The class; it replaces one that was registered under the same name.

    Returns:
        The class.

    Raises:
        ConfigError: When an equation of this folder has its name.
    """
    if equation.name in names():
        raise ConfigError(
            f"{equation.name} is the name of an equation that exists: choose another"
        )
    _REGISTERED[equation.name] = equation
    return equation


def load(name: str, size: int = 32, **coefficients: Any) -> PDE:
    """Builds an equation by name.

    Args:
        name: One of `names()`.
        size: Points per axis.
        **coefficients: Constants of the equation; see its docstring.

    Returns:
        The PDE.

    Raises:
        ConfigError: When the name or a coefficient is unknown, or a value impossible.
        ShapeError: When the grid is too small.
    """
    try:
        pde: PDE = _factory(name)(size=size, **coefficients)
    except TypeError as error:
        raise ConfigError(
            f"{name} cannot be built from {sorted(coefficients)}: {error}"
        ) from error
    return pde


def with_options(name: str, size: int, options: Mapping[str, Any]) -> PDE:
    """Builds an equation with options that somebody wrote, in a plan or a command.

    Args:
        name: One of `names()`.
        size: Points per axis.
        options: Constants of the equation; see its docstring.

    Raises:
        ConfigError: When the name or an option is unknown, or a value impossible.
        ShapeError: When the grid is too small.
    """
    for key in options:
        if not isinstance(key, str) or key in ("name", "size"):
            raise ConfigError(
                f"{key!r} is no option of an equation: name and size are given by "
                "themselves; take it out of the options"
            )
    return load(name, size, **options)


def quick(name: str) -> dict[str, float | int | bool | str]:
    """Returns coefficients that make inputs cheap to draw, for tests and smoke runs.

    Most equations need none.

    Raises:
        ConfigError: When the name is unknown.
    """
    return dict(_factory(name).quick)


def _factory(name: str) -> Any:
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in names():
        raise unknown_name("PDE", name, names())
    module = importlib.import_module(f"{__name__}.{name}")
    return getattr(module, module.__all__[0])
