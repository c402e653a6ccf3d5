"""Tables from result rows: the README's numbers are written by this, never by hand.

    python -m prisma_lib.report [--check]

A block of the README between `<!-- NAME:start -->` and `<!-- NAME:end -->` is replaced
by the table NAME, made from `outputs/results/*.csv`; the paper's numbers come from
`outputs/tables/paper.csv`.
"""

import argparse
import csv
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from prisma_lib import results
from prisma_lib.errors import ConfigError, exit_status
from prisma_lib.files import write_atomically
from prisma_lib.provenance import ROOT

ORDER = ("full", "sparse", "noisy")
# Metrics of the bench whose names do not say it all.
WHAT = {
    "s_per_10000": "s per 10,000 problems, drawn and solved",
    "data_over_step": "of the time of a training step",
    "ms_per_field": "ms per field",
    "s_per_sample": "s per sample",
    "images_per_s": "images per s",
    "peak_mb": "MB at most",
    "factor_mb": "MB of factor",
    "percent_of_matrix_rate": "% of the matrix-product rate",
    "percent_residual": "% residual",
    "percent_network": "% network",
    "percent_rest": "% rest",
    "gflop_per_s": "GFLOP/s",
}


def benchmark_table(rows: Sequence[results.Row], paper: Sequence[results.Row]) -> str:
    """Formats the rows of one benchmark at one scale as Markdown.

    Args:
        rows: Result rows of one PDE.
        paper: The paper's numbers.

    Returns:
        A table with a line per method and the cells as columns, errors in percent with
        their 95 % intervals; then the paper's line, and what ours were measured on.
    """
    cells = [
        (direction, regime)
        for direction in ("forward", "inverse", "reconstruct")
        for regime in ORDER
        if any((r["direction"], r["regime"]) == (direction, regime) for r in rows)
    ]
    lines = [
        "| method | " + " | ".join(f"{d}, {r}" for d, r in cells) + " | s/sample |",
        "|---|" + "---:|" * (len(cells) + 1),
    ]
    for name in dict.fromkeys(label(row) for row in rows):
        mine = {
            (row["direction"], row["regime"]): row for row in rows if label(row) == name
        }
        entries = [entry(mine.get(cell)) for cell in cells]
        seconds = sorted(float(row["seconds_per_sample"]) for row in mine.values())
        lines.append(
            f"| {name} | "
            + " | ".join(entries)
            + f" | {seconds[len(seconds) // 2]:.2g} |"
        )
    first = rows[-1]
    lines += [
        published(paper, first["pde"], cells),
        "",
        f"n = {first['n']}, seed {first['seed']}, scale `{first['scale']}`, "
        f"{first['setting'].split(';')[0]}, commit {first['commit']}, "
        f"on {first['device']}.",
    ]
    return "\n".join(lines)


def published(
    paper: Sequence[results.Row], pde: str, cells: Sequence[tuple[str, str]]
) -> str:
    """Formats the paper's PRISMA row of the same cells: another grid, another size."""
    found = {
        (row["direction"], row["regime"]): row["value"]
        for row in paper
        if (row["method"], row["steps"], row["pde"]) == ("PRISMA", "20", pde)
        and row["table"] == f"tab:{row['regime']}_main"
    }
    entries = [found.get(cell, "–") for cell in cells]
    name = "*paper: PRISMA, 20 steps, 128 × 128, 64 M parameters*"
    return f"| {name} | " + " | ".join(entries) + " | |"


def label(row: results.Row) -> str:
    """Names a method with its steps and how many draws were averaged."""
    name = str(row["method"])
    if row["steps"]:
        name += f", {row['steps']} steps"
    found = re.search(r"mean_of=(\d+)", row["setting"])
    return name + (f", mean of {found[1]}" if found else "")


def entry(row: results.Row | None) -> str:
    """Formats an error with its interval, or a dash where there is none."""
    if row is None or row["value"] == "":
        return "–"
    low, high = (f"{float(row[key]):.3g}" for key in ("low", "high"))
    return f"{float(row['value']):.3g} [{low}, {high}]"


def bench_table(rows: Sequence[results.Row], _paper: Sequence[results.Row]) -> str:
    """Formats the rows of the machine benchmark as Markdown, a folded table each."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        lines += [
            "",
            f"<details><summary>On {device}:</summary>",
            "",
            "| what | setting | measured |",
            "|---|---|---|",
        ]
        values: dict[str, list[str]] = {}
        for row in rows:
            if row["device"] == device:
                setting = row["setting"].replace(";", ", ")
                what = f"{row['method']} {row['pde']}".strip()
                line = f"| {what} | {setting} | "
                unit = WHAT.get(row["metric"], row["metric"].replace("_", " "))
                values.setdefault(line, []).append(f"{row['value']} {unit}")
        lines += [f"{line}{'; '.join(found)} |" for line, found in values.items()]
        lines += ["", "</details>"]
    return "\n".join(lines[1:])


Maker = Callable[[Sequence[results.Row], Sequence[results.Row]], str]
TABLES: dict[str, Maker] = {
    "darcy": benchmark_table,
    "bench": bench_table,
}


def filled(text: str, folder: Path) -> str:
    """Replaces the blocks of a text by their tables.

    Args:
        text: Markdown with blocks.
        folder: Holds `results/*.csv` and `tables/paper.csv`.

    Returns:
        The text with current tables.

    Raises:
        ConfigError: When a block names no table, or its results are missing.
    """
    with (folder / "tables" / "paper.csv").open(newline="") as file:
        paper = list(csv.DictReader(file))

    def table(block: re.Match[str]) -> str:
        name = block[1]
        rows = results.read(folder / "results" / f"{name}.csv")
        if name not in TABLES or not rows:
            raise ConfigError(
                f"no results for the block {name!r}: {folder}/results/{name}.csv"
            )
        body = TABLES[name](rows, paper)
        return f"<!-- {name}:start -->\n{body}\n<!-- {name}:end -->"

    return re.sub(r"<!-- (\w+):start -->.*?<!-- \1:end -->", table, text, flags=re.S)


def _run(options: argparse.Namespace) -> int:
    """Writes the README, or compares it."""
    readme = options.root / "README.md"
    old = readme.read_text()
    new = filled(old, options.root / "outputs")
    if options.check and new != old:
        raise ConfigError(
            "README.md is not what the results say: run python -m prisma_lib.report"
        )
    if new != old:
        write_atomically(readme, new.encode())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.report")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--root", type=Path, default=ROOT, help="project folder")
    options = parser.parse_args(arguments)
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
