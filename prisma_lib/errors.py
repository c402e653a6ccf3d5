"""The errors a user of the library can meet.

Every message says what was given, what is needed, and one way out. Commands turn an
error into its `exit_code`: 2 for bad input (nothing was started), 4 for an environment
that cannot do what was asked (no GPU, no disk space, no permission).
"""

import difflib
import sys
from collections.abc import Callable, Iterable


class PrismaError(Exception):
    """Base of all errors that the library raises on purpose.

    Args:
        message: What was given, what is needed, and one way to fix it.
        exit_code: Exit status of a command that ends with this error; the default is
            that of the class.
    """

    exit_code: int = 2

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(PrismaError, ValueError):
    """A setting that has no meaning: unknown name, wrong type, value out of range."""


class ShapeError(PrismaError, ValueError):
    """A tensor or grid whose shape does not fit."""


class DataError(PrismaError, ValueError):
    """Field values or a data file that cannot be used."""


class CheckpointError(PrismaError, ValueError):
    """A model file that is damaged, unsafe, or made for something else."""


class NumericsError(PrismaError, ArithmeticError):
    """A computation that did not converge or became non-finite."""


class RunDirError(PrismaError, OSError):
    """A folder or file that cannot be written or is in use."""

    exit_code = 4


class WorkerError(PrismaError, RuntimeError):
    """One of several processes that train together ended before its time."""

    exit_code = 4


def unknown_name(kind: str, given: object, known: Iterable[str]) -> ConfigError:
    """Makes the error for a name that is not in a list.

    Args:
        kind: What the name stands for, such as "PDE".
        given: The unknown name.
        known: The names that exist.

    Returns:
        An error that lists the names and points to the nearest one.
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(given).strip().lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {kind} {given!r}: known are {', '.join(names)}{hint}")


def exit_status(command: Callable[[], int], interrupted: str = "interrupted") -> int:
    """Runs a command and turns how it ends into an exit status.

    Args:
        command: Does the work and returns its status.
        interrupted: What to say after Ctrl-C.

    Returns:
        The command's own status; the exit code of an error of this library, whose
        message goes to the standard error; 130 after Ctrl-C.
    """
    try:
        return command()
    except PrismaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130
