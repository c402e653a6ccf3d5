"""Every table from result rows, never by hand.

    python -m prisma_lib.report [--check]

From `outputs/results/*.csv`, the cards of models and the paper's numbers,
`outputs/tables/paper.csv`, it writes each table of `COLUMNS` as
`outputs/tables/NAME.csv`, and in the README the block between `<!-- NAME:start -->` and
`<!-- NAME:end -->` for every NAME that `blocks.BLOCKS` has.
"""

import argparse
import csv
import dataclasses
import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from prisma_lib import (
    blocks,
    checkpoints,
    markdown,
    pdes,
    results,
    screened,
    targets,
)
from prisma_lib.cells import REGIMES
from prisma_lib.checkpoints import CARD
from prisma_lib.claims import claims
from prisma_lib.errors import ConfigError, exit_status, unknown_name
from prisma_lib.files import write_atomically
from prisma_lib.frontier import frontiers, latencies
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import orders, ranks
from prisma_lib.tables import Entry, Paper, entries

CELL = (
    *("scale", "size", "pde", "direction", "method", "steps", "draws", "hidden"),
    *("metric", "value", "low", "high", "n", "paper", "anchor", "ratio"),
    *("seconds_per_sample", "calls", "device", "commit", "run", "note"),
)
# The columns of each table: a table without rows keeps its head.
COLUMNS = dict.fromkeys(REGIMES, CELL) | {
    "ranks": (
        *("scale", "size", "regime", "method", "steps", "rank", "columns", "n"),
        *("ties", "paper_in_these_columns", "paper", "paper_steps"),
    ),
    "latency": (
        *("scale", "size", "method", "steps", "seconds_per_sample", "paper", "calls"),
        *("cells", "device"),
    ),
    "frontier": (
        *("scale", "size", "regime", "pde", "direction", "method", "steps", "value"),
        *("n", "seconds_per_sample", "frontier", "beaten_by", "device"),
    ),
    "order": (
        *("scale", "size", "regime", "pde", "direction", "methods", "same"),
        *("reversed", "open", "verdict"),
    ),
    "budgets": (
        *("scale", "method", "pde", "model", "images", "minutes", "device"),
        *screened.NOT_TUNED,
    ),
    "targets": tuple(each.name for each in dataclasses.fields(targets.Line)),
    "claims": (
        *("scale", "size", "claim", "text", "notebook", "paper", "verdict", "evidence"),
        *("interval_of", "low", "high", "n", "device"),
    ),
}

Table = list[dict[str, object]]


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything that tables are made of.

    Args:
        rows: Result rows of all sweeps, by the name of their file.
        paper: The paper's numbers.
        entries: Entries of the tables of errors.
        models: Rows of errors in the cards of the models that ship, with the columns
            `model` and `images_seen`.
        cards: Cards of these models, and of the baselines that ship.
    """

    rows: Mapping[str, Sequence[results.Row]]
    paper: Paper
    entries: Sequence[Entry]
    models: Sequence[results.Row] = ()
    cards: Sequence[checkpoints.Card] = ()

    @classmethod
    def read(cls, folder: Path) -> "Report":
        """Reads all results.

        Args:
            folder: Holds `results/*.csv`, `tables/paper.csv` and `models/*/card.json`.

        Raises:
            CheckpointError: When a model's card is damaged.
            DataError: When a file cannot be used.
        """
        paths = sorted((folder / "results").glob("*.csv"))
        rows = {path.stem: results.read(path) for path in paths}
        paper = Paper.read(folder / "tables" / "paper.csv")
        every = entries((r for f in rows.values() for r in f), paper)
        own, others = (
            [checkpoints.read_card(path.parent) for path in sorted(folder.glob(where))]
            for where in (f"models/*/{CARD}", f"models/baselines/*/{CARD}")
        )
        return cls(rows, paper, every, [*_in_cards(own)], [*own, *others])

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table, by the name of its file."""
        every = [row for rows in self.rows.values() for row in rows]
        found: dict[str, Table] = {
            regime: [line(entry) for entry in self.entries if entry.regime == regime]
            for regime in REGIMES
        }
        return found | {
            "ranks": ranks(self.entries, self.paper),
            "latency": latencies(self.entries, self.paper),
            "frontier": frontiers(self.entries),
            "order": [
                {**dataclasses.asdict(order), "verdict": order.verdict}
                for order in orders(self.entries, self.paper, every)
            ],
            "budgets": screened.budgets(every, self.cards),
            "targets": targets.targets(self.entries, every),
            "claims": claims(self.entries, every, self.paper),
        }


def _in_cards(cards: Iterable[checkpoints.Card]) -> Iterator[results.Row]:
    for card in cards:
        about = {"model": card["name"]}
        about["images_seen"] = card.get("training", {}).get("images_seen", "")
        for row in card.get("errors", []):
            yield {**row, **about}


def line(entry: Entry) -> dict[str, object]:
    """Returns an entry as a line of its table."""
    known = {**entry.row, **dataclasses.asdict(entry), "note": entry.note}
    return {name: known[name] for name in CELL}


def as_csv(name: str, table: Iterable[Mapping[str, object]]) -> bytes:
    """Writes a table as CSV, numbers with four digits.

    Args:
        name: Name of the table.
        table: Its rows.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS[name], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: plain(v) for k, v in row.items()} for row in table)
    return text.getvalue().encode()


def plain(value: object) -> str:
    """Writes one value of a table."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def filled(text: str, report: Report) -> str:
    """Replaces the blocks of a text by their tables.

    Args:
        text: Markdown with blocks.
        report: All results.

    Returns:
        The text with current tables.

    Raises:
        ConfigError: When a block names no table, or its results are missing.
    """
    tables = report.tables

    def table(block: re.Match[str]) -> str:
        name = block[1]
        if name in REGIMES:
            body = markdown.regime([e for e in report.entries if e.regime == name])
        elif name in blocks.BLOCKS:
            rows = report.rows.get(name) or tables.get(name, [])
            rows = report.models if name == "models" else rows
            if name in pdes.names() and rows:
                second = (report.rows.get(file, []) for file in screened.FILES)
                rows = [*rows, *itertools.chain(*second)]
            body = blocks.BLOCKS[name](rows, report.paper) if rows else ""
        else:
            raise unknown_name("block", name, [*blocks.BLOCKS, *REGIMES])
        if not body:
            raise ConfigError(
                f"no results for the block {name!r}: outputs/results/*.csv must have "
                "rows of it; run its sweep, or take the block out"
            )
        return f"<!-- {name}:start -->\n{body}\n<!-- {name}:end -->"

    return re.sub(r"<!-- (\w+):start -->.*?<!-- \1:end -->", table, text, flags=re.S)


def build(report: Report, folder: Path) -> list[Path]:
    """Writes every table.

    Args:
        report: All results.
        folder: Where the files go; made if missing.

    Returns:
        The files that changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [path for path, text in files(report, folder) if renewed(path, text)]


def files(report: Report, folder: Path) -> list[tuple[Path, bytes]]:
    """Lists the files of all tables and what is in them."""
    made = report.tables
    return [(folder / f"{n}.csv", as_csv(n, table)) for n, table in made.items()]


def renewed(path: Path, content: bytes) -> bool:
    """Writes a file and says whether it changed."""
    if path.exists() and path.read_bytes() == content:
        return False
    write_atomically(path, content)
    return True


def behind(report: Report, root: Path) -> list[str]:
    """Lists the tables and texts that are not what the results say."""
    readme = root / "README.md"
    wanted = files(report, root / "outputs" / "tables")
    wanted.append((readme, filled(readme.read_text("utf-8"), report).encode()))
    return [
        str(path.relative_to(root))
        for path, content in wanted
        if not path.exists() or path.read_bytes() != content
    ]


def _run(options: argparse.Namespace) -> int:
    """Writes the tables and the README, or compares them."""
    if not (options.root / "README.md").is_file():
        raise ConfigError(
            f"--root {options.root} has no README.md: give the folder of the project"
        )
    report = Report.read(options.root / "outputs")
    if options.check:
        if old := behind(report, options.root):
            raise ConfigError(
                f"{', '.join(old)}: not what the results say; run "
                "python -m prisma_lib.report"
            )
        return 0
    readme = options.root / "README.md"
    text = filled(readme.read_text("utf-8"), report)
    changed = build(report, options.root / "outputs" / "tables")
    changed += [readme] if renewed(readme, text.encode()) else []
    print(f"{len(changed)} files changed", *(path.name for path in changed))
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
