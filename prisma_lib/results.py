"""Result rows: one tidy CSV per sweep, written whole or not at all.

A row is one number with everything needed to trust it: method, cell, interval, n, time,
hardware, commit, seed. Tables and figures are made from these files only.

Two rules keep a number from standing twice: the rows of a run replace those that the
same run wrote before, and of rows that answer the same question (`QUESTION`) the last
one counts.
"""

import csv
import fcntl
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prisma_lib.checks import check_names
from prisma_lib.errors import DataError
from prisma_lib.files import write_atomically, write_json, writing

COLUMNS = (
    *("sweep", "run", "commit", "scale", "method", "pde", "direction", "regime"),
    *("setting", "steps", "metric", "value", "low", "high", "n"),
    *("seconds_per_sample", "calls", "peak_mb", "device", "seed"),
)
QUESTION = (
    *("sweep", "run", "scale", "method", "pde", "direction", "regime"),
    *("setting", "steps", "metric", "n", "device", "seed"),
)
RUN = ("sweep", "run", "scale")
SCALES = ("smoke", "cpu", "gpu", "paper")

Row = dict[str, Any]


def read(path: Path | str) -> list[Row]:
    """Reads the rows of a file; a file that does not exist has none.

    Args:
        path: The CSV file.

    Returns:
        Rows of text by the names in `COLUMNS`.

    Raises:
        DataError: When the file has other columns, or a line with more or fewer.
    """
    path = Path(path)
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        try:
            rows = list(reader)
        except (csv.Error, UnicodeError) as error:
            raise DataError(f"{path} is no table of results: {error}") from error
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise DataError(
            f"{path} has the columns {reader.fieldnames}, needed are {COLUMNS}: bring "
            "it back from the last commit"
        )
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise DataError(
                f"{path}, row {number} is not {len(COLUMNS)} columns wide: it was "
                "edited by hand; bring it back from the last commit"
            )
    return rows


def append(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows to a file, in place of those that the same run wrote at the same scale.

    A crash leaves the old file or the new one, and of several writers at once none
    loses the other's rows.

    Args:
        path: The CSV file; made with its folder if missing.
        rows: Rows with the keys of `COLUMNS`; missing ones stay empty.

    Raises:
        ConfigError: When a row has a column that is not in `COLUMNS`.
        DataError: When the file that is there cannot be read.
    """
    path = Path(path)
    new = {}
    for row in rows:
        check_names("result column", row, COLUMNS)
        full = {column: row.get(column, "") for column in COLUMNS}
        new[question(full)] = full
    runs = {tuple(str(row[key]) for key in RUN) for row in new.values()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        kept = [r for r in read(path) if tuple(r[key] for key in RUN) not in runs]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *new.values()])
        write_atomically(path, text.getvalue().encode())


def check(path: Path | str | None) -> None:
    """Refuses a file that cannot take rows, before they are computed.

    Args:
        path: The CSV file; None where no rows are wanted.

    Raises:
        DataError: When the file that is there is no table of results.
        RunDirError: When it cannot be written.
    """
    if path is None:
        return
    path = Path(path)
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path):
            read(path)


def question(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what a row answers: two rows of one question cannot both count."""
    return tuple(str(row[column]) for column in QUESTION)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keeps other writers of a file waiting, and removes what killed ones left."""
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for part in path.parent.glob(f".{path.name}.*.part"):
            part.unlink(missing_ok=True)
        yield


def show(rows: Sequence[Row]) -> str:
    """Formats rows as a small text table."""
    head = f"{'method':18} {'direction':9} {'regime':7} {'error %':>8}  95% interval"
    lines = [f"{head}   n  s/sample"]
    lines += [
        f"{row['method']:18} {row['direction']:9} {row['regime']:7} {row['value']:>8}  "
        f"[{row['low']}, {row['high']}]  {row['n']}  {row['seconds_per_sample']}"
        for row in rows
    ]
    return "\n".join(lines)


def number(row: Mapping[str, Any], column: str = "value") -> float | None:
    """Returns a number of a row, or `None` where there is none; see `missing`."""
    try:
        found = float(row[column])
    except (KeyError, TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def settings(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns the parts of a row's setting by name, such as `{"size": "32"}`."""
    parts = filter(None, str(row["setting"]).split(";"))
    return dict(part.partition("=")[::2] for part in parts)


def spoken(row: Mapping[str, Any]) -> str:
    """Writes a row's number of percent with its interval, as in a sentence."""
    if missing(row):
        return missing(row)
    value, low, high = (number(row, name) for name in ("value", "low", "high"))
    if low is None or high is None:  # of problems that share a trajectory
        return f"{value:.3g} %"
    return f"{value:.3g} % [{low:.3g}, {high:.3g}]"


def missing(row: Mapping[str, Any]) -> str:
    """Says why a row has no number; an empty text where it has one."""
    if number(row) is not None:
        return ""
    given = str(row.get("value", "")).strip()
    return f"value is {given}" if given else "no value was recorded"


def write_metrics(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as strict JSON, as a notebook does into its `metrics.json`.

    JSON has no numbers that are not finite: they are written as text, so that one of
    them costs no run and every table can say what it was.

    Args:
        path: The file.
        rows: Rows with the keys of `COLUMNS`.
    """

    def strict(value: object) -> object:
        whole = not isinstance(value, float) or math.isfinite(value)
        return value if whole else str(value)

    write_json(path, [{k: strict(v) for k, v in row.items()} for row in rows])
