"""Result rows: one tidy CSV per sweep, written whole or not at all.

A row is one number with everything needed to trust it: method, cell, interval, n, time,
hardware, commit, seed. Tables and figures are made from these files only.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prisma_lib.files import write_atomically

COLUMNS = (
    *("sweep", "run", "commit", "scale", "method", "pde", "direction", "regime"),
    *("setting", "steps", "metric", "value", "low", "high", "n"),
    *("seconds_per_sample", "calls", "peak_mb", "device", "seed"),
)

Row = dict[str, Any]


def read(path: Path | str) -> list[Row]:
    """Reads the rows of a file; a file that does not exist has none."""
    path = Path(path)
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path | str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds rows to a file, in place of the rows that the same run wrote before.

    Args:
        path: The CSV file; made with its folder if missing.
        rows: Rows with the keys of `COLUMNS`; missing ones stay empty.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = [{column: row.get(column, "") for column in COLUMNS} for row in rows]
    runs = {row["run"] for row in new}
    kept = [row for row in read(path) if row["run"] not in runs]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows([*kept, *new])
    write_atomically(path, text.getvalue().encode())
