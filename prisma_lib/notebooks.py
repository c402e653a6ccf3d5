"""Notebooks from the command line: `python -m prisma_lib.notebooks COMMAND`.

- `pair` writes every `notebooks/*.ipynb` from its `.py`.
- `check` says what is wrong with the notebooks, for CI.
- `demo` executes the tour and prints its small table.
- `gallery NAME...` executes notebooks and keeps a copy and a thumbnail of each.

Every notebook has the parameters `out: str`, `scale: str` and `interactive: bool`, and
writes `metrics.json`, a list of result rows, into `out`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prisma_lib import board, exports, pairing, plans, runs
from prisma_lib.errors import DataError, exit_status
from prisma_lib.execution import execute
from prisma_lib.files import write_atomically

__all__ = ["check", "demo", "execute", "gallery", "main", "pair"]

ROOT = Path()
TOUR = "00_tour"
FAILED = 3
SHOWN = {
    "method": "method",
    "direction": "direction",
    "regime": "regime",
    "metric": "metric",
    "value": "value",
    "n": "n",
    "seconds_per_sample": "s/sample",
}


def pair(root: Path = ROOT) -> int:
    """Writes the `.ipynb` of every notebook.

    Args:
        root: Folder of the project.

    Returns:
        Exit code.
    """
    sources = sorted((root / "notebooks").glob("*.py"))
    changed = [source.stem for source in sources if pairing.pair(source)]
    print(
        f"{len(sources)} notebooks, {len(changed)} written {' '.join(changed)}".strip()
    )
    return 0


def check(root: Path = ROOT) -> int:
    """Prints what is wrong with the notebooks.

    Args:
        root: Folder of the project.

    Returns:
        Exit code: 1 when something is wrong.
    """
    found = pairing.check(root / "notebooks")
    print("\n".join(found) or "all notebooks are in step with their .py")
    return 1 if found else 0


def at_scale(name: str, scale: str, root: Path) -> dict[str, Any]:
    """Returns the values with which a notebook runs at a scale.

    Args:
        name: Name of the notebook.
        scale: Name of the scale.
        root: Folder of the project.

    Returns:
        Values by name: those of the scale file that the notebook declares.
    """
    sizes = plans.scale_values(root / "params" / "scales", scale)
    declared = pairing.parameters(pairing.read(root / "notebooks" / f"{name}.py"), name)
    fitting = {key: value for key, value in sizes.items() if key in declared}
    return {**fitting, "scale": scale}


def demo(scale: str = "cpu", root: Path = ROOT) -> int:
    """Executes the tour and prints its table.

    Args:
        scale: Name of the scale.
        root: Folder of the project.

    Returns:
        Exit code: 3 when the tour failed.

    Raises:
        DataError: When the tour left no picture.
    """
    folder = root / "outputs" / "demo"
    source = root / "notebooks" / f"{TOUR}.py"
    print(f"running {source} at {scale} scale", flush=True)
    run = execute(source, folder, at_scale(TOUR, scale, root))
    exports.page(folder / "notebook.ipynb", folder / "notebook.html")
    if run.status != "done":
        print(f"{run.status}: {run.error}\nsee {folder / 'notebook.html'}")
        return FAILED
    found = sorted(folder.glob("*.png"))
    if not found:
        raise DataError(f"{source} left no picture in {folder}: save one as .png")
    print(table(runs.rows(folder)))
    page, book = folder / "notebook.html", folder / "notebook.ipynb"
    print(f"\ndone in {run.seconds:.0f} s, picture in {found[0]}")
    print(f"to look at it:      open {page} in a browser")
    print(f"to work with it:    make lab, then open {book}")
    print(f"to try other values: make lab, then open {source.with_suffix('.ipynb')}")
    return 0


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Sets rows as a text table.

    Args:
        rows: Result rows.

    Returns:
        One line a row, under a line of names; columns that no row has are left out.
    """
    names = [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    lines = [[SHOWN[name] for name in names]]
    lines += [[entry(row.get(name)) for name in names] for row in rows]
    return board.aligned(lines)


def entry(value: object) -> str:
    """Writes one entry of a table."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def gallery(names: Sequence[str], scale: str = "cpu", root: Path = ROOT) -> int:
    """Keeps an executed copy and a thumbnail of notebooks, executing them if need be.

    Args:
        names: Names of the notebooks; all of them when empty.
        scale: Name of the scale.
        root: Folder of the project.

    Returns:
        Exit code: 3 when a notebook failed; the others are kept.
    """
    known = [path.stem for path in sorted((root / "notebooks").glob("*.py"))]
    kept = root / "outputs" / "gallery"
    kept.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in [Path(name).stem for name in names] or known:
        run, folder = planned(name, scale, root)
        print(f"{name} {run.status} {run.seconds:.0f} s {run.error}", flush=True)
        if run.status != "done":
            failed += 1
            continue
        book = exports.load(folder / "notebook.ipynb")
        write_atomically(kept / f"{name}.ipynb", exports.copy(book))
        write_atomically(kept / f"{name}.png", exports.thumbnail(book))
    return FAILED if failed else 0


def planned(name: str, scale: str, root: Path) -> tuple[runs.Run, Path]:
    """Makes the first run that a plan wants of a notebook, unless it is done already.

    Args:
        name: Name of the notebook; without a plan it runs with the scale's values.
        scale: Name of the scale.
        root: Folder of the project.

    Returns:
        The verdict and the run's folder.
    """
    out = root / "outputs"
    for path in plans.with_notebooks(root / "params"):
        for cell in plans.cells(path, scale):
            if cell.notebook.stem == name:
                folder = out / cell.plan / cell.name
                return execute(
                    cell.notebook, folder, cell.parameters, keep=True
                ), folder
    folder = out / "scratch" / name
    source = root / "notebooks" / f"{name}.py"
    return execute(source, folder, at_scale(name, scale, root)), folder


def parser() -> argparse.ArgumentParser:
    """Describes the command line."""
    options = argparse.ArgumentParser("python -m prisma_lib.notebooks")
    commands = options.add_subparsers(dest="command", required=True)
    commands.add_parser("pair", help="write every .ipynb from its .py")
    commands.add_parser("check", help="say what is wrong with the notebooks")
    tour = commands.add_parser("demo", help="execute the tour")
    shown = commands.add_parser("gallery", help="execute notebooks for the gallery")
    shown.add_argument("names", nargs="*", help="such as 00_tour; all by default")
    for command in (tour, shown):
        command.add_argument("--scale", default="cpu", help="smoke, cpu, gpu or paper")
    return options


def _run(given: argparse.Namespace) -> int:
    """Does what one of the commands says."""
    match given.command:
        case "pair":
            return pair()
        case "check":
            return check()
        case "demo":
            return demo(given.scale)
    return gallery(given.names, given.scale)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command in the project's folder.

    Args:
        arguments: Words of the command line; those of the process by default.

    Returns:
        Exit code.
    """
    given = parser().parse_args(arguments)
    return exit_status(lambda: _run(given))


if __name__ == "__main__":
    sys.exit(main())
