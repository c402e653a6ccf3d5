"""Notebooks as text: each `NN_name.py` (percent format) writes its `NN_name.ipynb`.

The way is one-way. The `.ipynb` holds no outputs and no versions, and its cell ids come
from their position, so that writing it again gives the same bytes. It carries a hash of
its own cells: cells that no longer match it were edited, and are not overwritten.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prisma_lib.errors import ConfigError, RunDirError
from prisma_lib.files import write_atomically

LONGEST_CELL = 25
CONVENTION = {"out": "str", "scale": "str = 'cpu'", "interactive": "bool = True"}
TO_TEXT = "python -m jupytext --to py:percent"
LEAVES = re.compile(r"(?<![\w.])(exit|quit)\s*\(")

Book = dict[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One line of a parameters cell.

    Args:
        annotation: The type as it is written, such as "int" or "list[str]".
        default: The value in the notebook.
    """

    annotation: str
    default: object

    def __str__(self) -> str:
        """Writes the parameter as it stands in the cell, without its name."""
        return f"{self.annotation} = {self.default!r}"


def read(source: Path) -> Book:
    """Converts a percent-format file to a notebook with reproducible bytes.

    Args:
        source: The `.py` file.

    Returns:
        The notebook as plain dictionaries, nbformat 4.5.

    Raises:
        ConfigError: When the file does not exist or is no notebook.
    """
    import jupytext
    from nbformat import ValidationError

    content = percent(source)
    try:
        book = jupytext.reads(content, fmt="py:percent")
    except (ValidationError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{source} is no notebook ({reason}): its header needs a kernelspec with "
            "name, language and display_name, as other notebooks have"
        ) from error
    cells = [clean(cell, position) for position, cell in enumerate(book.cells)]
    metadata: Book = {"prisma": {"cells": fingerprint(cells)}}
    if "kernelspec" in book.metadata:
        metadata["kernelspec"] = dict(book.metadata["kernelspec"])
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def percent(source: Path) -> str:
    """Returns the text of a percent-format file, which is there or a `ConfigError`."""
    if source.suffix != ".py" or not source.is_file():
        known = sorted(path.stem for path in source.parent.glob("*.py"))
        raise ConfigError(
            f"{source} is no notebook: a percent-format .py file is needed; "
            f"{source.parent} has {', '.join(known) or 'none'}"
        )
    return source.read_text("utf-8")


def clean(cell: Book, position: int) -> Book:
    """Keeps of a cell what belongs into the pair."""
    tags = cell["metadata"].get("tags", [])
    kept: Book = {
        "cell_type": cell["cell_type"],
        "id": f"cell-{position:02d}",
        "metadata": {"tags": list(tags)} if tags else {},
        "source": text(cell).splitlines(keepends=True),
    }
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept


def text(cell: Book) -> str:
    """Returns the source of a cell, which nbformat allows as text or as lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def fingerprint(cells: list[Book]) -> str:
    """Hashes what a person edits in cells: kind, text and tags."""
    seen = [
        [cell["cell_type"], text(cell), sorted(cell["metadata"].get("tags", []))]
        for cell in cells
    ]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def render(book: Book) -> bytes:
    """Writes a notebook as JSON, always the same way."""
    lines = json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True)
    return (lines + "\n").encode()


def pair(source: Path) -> bool:
    """Writes the `.ipynb` of one `.py`.

    Args:
        source: The `.py` file.

    Returns:
        Whether the `.ipynb` changed.

    Raises:
        RunDirError: When the cells of the `.ipynb` were edited since they were written.
    """
    book = read(source)
    target = source.with_suffix(".ipynb")
    content = render(book)
    if target.exists():
        if target.read_bytes() == content:
            return False
        refuse_edited(target, book)
    write_atomically(target, content)
    return True


def refuse_edited(target: Path, book: Book) -> None:
    """Raises when `target` holds edits that writing `book` over it would lose."""
    try:
        old = json.loads(target.read_text("utf-8"))
        own = fingerprint(old["cells"])
        written = old["metadata"].get("prisma", {}).get("cells")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunDirError(
            f"{target} is no readable notebook ({error}): delete it to write it anew"
        ) from error
    if own not in (written, book["metadata"]["prisma"]["cells"]):
        source = target.with_suffix(".py")
        raise RunDirError(
            f"{target} was edited by hand, and writing {source.name} over it would "
            "lose the edit: bring it back with "
            f"`{TO_TEXT} --output {source} {target}`, or drop it with `rm {target}`; "
            "then run `make notebooks`"
        )


def parameters(book: Book, name: str = "the notebook") -> dict[str, Parameter]:
    """Reads the parameters cell: the names, types and defaults of a notebook.

    Args:
        book: A notebook, as `read` returns it.
        name: What to call it in messages.

    Returns:
        Parameters by name, in the order of the cell.

    Raises:
        ConfigError: When there is not exactly one cell with the tag `parameters`, or a
            line of it is not `name: type = literal`.
    """
    cells = [c for c in book["cells"] if "parameters" in c["metadata"].get("tags", [])]
    return from_cells([text(cell) for cell in cells], name)


def parameters_of(source: Path) -> dict[str, Parameter]:
    """Reads the parameters of a notebook from its text; see `parameters`.

    Loading jupytext takes longer than everything else that a plan's check does.

    Args:
        source: The `.py` file.

    Returns:
        Parameters by name, in the order of the cell.

    Raises:
        ConfigError: When there is no such notebook or it has no readable parameters.
    """
    cells = re.split(r"^# %%(.*)$", percent(source), flags=re.M)
    tagged = [
        text
        for head, text in zip(cells[1::2], cells[2::2], strict=True)
        if re.search(r'tags=\[[^\]]*"parameters"', head)
    ]
    return from_cells(tagged, source.name)


def from_cells(cells: list[str], name: str) -> dict[str, Parameter]:
    """Reads the cells with the tag `parameters`, of which there must be one.

    Raises:
        ConfigError: When there is none or a second one, or it cannot be read.
    """
    if len(cells) != 1:
        raise ConfigError(
            f"{name} has {len(cells)} cells with the tag `parameters`: exactly one is "
            'needed; mark it with `# %% tags=["parameters"]`'
        )
    try:
        return dict(map(parameter, ast.parse(cells[0]).body))
    except (SyntaxError, ValueError) as error:
        raise ConfigError(
            f"the parameters cell of {name} cannot be read ({error}): every line is "
            "`name: type = literal  # meaning`"
        ) from error


def parameter(line: ast.stmt) -> tuple[str, Parameter]:
    """Reads one statement of a parameters cell."""
    match line:
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=kind, value=ast.expr() as value
        ):
            return name, Parameter(ast.unparse(kind), ast.literal_eval(value))
    raise ValueError(f"`{ast.unparse(line)}`")


def faults(source: Path) -> Iterator[str]:
    """Lists what is wrong with a notebook and its pair.

    Args:
        source: The `.py` file.

    Yields:
        One sentence a fault; nothing for a notebook in order.
    """
    try:
        book = read(source)
    except ConfigError as error:
        yield str(error)
        return
    target = source.with_suffix(".ipynb")
    if not target.exists() or target.read_bytes() != render(book):
        yield f"{target} is not what {source.name} writes: run `make notebooks`"
    if "kernelspec" not in book["metadata"]:
        yield f"{source} has no kernelspec in its header: copy another notebook's"
    try:
        declared = parameters(book, source.name)
    except ConfigError as error:
        yield str(error)
    else:
        for name, wanted in CONVENTION.items():
            if name not in declared or not str(declared[name]).startswith(wanted):
                yield f"{source} lacks the parameter `{name}: {wanted}`"
    yield from cell_faults(source, book)


def cell_faults(source: Path, book: Book) -> Iterator[str]:
    """Lists the code cells that are too long or leave the kernel."""
    for position, cell in enumerate(book["cells"]):
        if cell["cell_type"] != "code":
            continue
        lines = len(cell["source"])
        if lines > LONGEST_CELL:
            yield (
                f"{source}, cell {position}: {lines} lines, {LONGEST_CELL} are "
                "allowed; move code into the library"
            )
        if LEAVES.search(text(cell)):
            yield f"{source}, cell {position}: exit() and quit() hide a failure"


def check(folder: Path) -> list[str]:
    """Lists the faults of all notebooks in a folder.

    Args:
        folder: Where the pairs are.

    Returns:
        One sentence a fault, also for an `.ipynb` without its `.py`, or none of both.
    """
    if not any(folder.glob("*.py")) and not any(folder.glob("*.ipynb")):
        return [f"{folder} holds no notebooks: start this in the project's folder"]
    found = [fault for path in sorted(folder.glob("*.py")) for fault in faults(path)]
    found += [
        f"{path} has no .py beside it: make one with `{TO_TEXT} {path}`"
        for path in sorted(folder.glob("*.ipynb"))
        if not path.with_suffix(".py").exists()
    ]
    return found
