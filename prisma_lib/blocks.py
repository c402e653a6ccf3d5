"""Blocks of the README, by name: every table as Markdown."""

from collections.abc import Callable, Mapping, Sequence

from prisma_lib import pdes, targets
from prisma_lib.frontier import standing
from prisma_lib.markdown import NOTHING, Row, benchmark, number, sheet
from prisma_lib.ranks import OPEN
from prisma_lib.tables import Paper

# Metrics of the bench whose names do not say it all.
WHAT = {
    "s_per_10000": "s per 10,000 problems, drawn and solved",
    "data_over_step": "of the time of a training step",
    "ms_per_field": "ms per field",
    "ms_per_redraw": "ms per redraw",
    "s_per_sample": "s per sample",
    "over_prisma": "times PRISMA with 20 steps",
    "images_per_s": "images per s",
    "peak_mb": "MB at most",
    "factor_mb": "MB of factor",
    "percent_of_matrix_rate": "% of the matrix-product rate",
    "percent_residual": "% residual",
    "percent_network": "% network",
    "percent_rest": "% rest",
    "gflop_per_s": "GFLOP/s",
}

Maker = Callable[[Sequence[Row], Paper], str]


def listed(columns: Mapping[str, str], words: int) -> Maker:
    """Returns a maker of a plain table.

    Args:
        columns: Titles of the columns by their names in the rows.
        words: Number of columns, from the left, that hold words.
    """

    def maker(rows: Sequence[Row], _paper: Paper) -> str:
        lines = [[number(row[name]) for name in columns] for row in rows]
        return sheet([*columns.values()], lines, words)

    return maker


def judged(rows: Sequence[Row], paper: Paper) -> str:
    """Formats the claims that the rows decide, and counts the others."""
    columns = {
        **{"scale": "scale", "claim": "claim", "text": "the paper says"},
        **{"verdict": "here it", "evidence": "by"},
    }
    decided = [row for row in rows if row["verdict"] != OPEN]
    table, rest = listed(columns, 5)(decided, paper), len(rows) - len(decided)
    return (
        f"{table}\n\nOf {rest} others the recorded rows do not tell." if rest else table
    )


def speeds(rows: Sequence[Row], paper: Paper) -> str:
    """Formats the seconds per sample; only rows of one device compare."""
    columns = {"method": "method", "steps": "steps", "device": "device"}
    columns |= {"seconds_per_sample": "s/sample", "calls": "calls", "paper": "paper, s"}
    return listed({"scale": "scale", **columns}, 4)(rows, paper)


def ahead(rows: Sequence[Row], paper: Paper) -> str:
    """Counts the cells in which a method is on the frontier of error and seconds."""
    columns = {"scale": "scale", "method": "method", "device": "device"}
    columns |= {"on": "on the frontier in", "cells": "of cells"}
    return listed(columns, 3)(standing(rows), paper)


def bench(rows: Sequence[Row], _paper: Paper) -> str:
    """Formats the rows of the machine benchmark, a folded table each."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        values: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if row["device"] == device:
                what = f"{row['method']} {row['pde']}".strip()
                unit = WHAT.get(row["metric"], row["metric"].replace("_", " "))
                key = what, row["setting"].replace(";", ", ")
                values.setdefault(key, []).append(f"{row['value']} {unit}")
        table = [[*key, "; ".join(found)] for key, found in values.items()]
        lines += [
            f"<details><summary>On {device}:</summary>\n",
            sheet(["what", "setting", "measured"], table, 3),
            "\n</details>\n",
        ]
    return "\n".join(lines).rstrip()


def models(rows: Sequence[Row], _paper: Paper) -> str:
    """Formats what the cards of models say of one draw, and the lift beside it."""
    names = {row["model"]: row["images_seen"] for row in rows}
    ours = ("PRISMA", "PRISMA-L")
    value = {
        (r["model"], r["method"], (r["direction"], r["regime"])): r["value"]
        for r in rows
    }
    heads = dict.fromkeys(cell for _, method, cell in value if method in ours)

    def said(model: str, cell: tuple[str, str]) -> str:
        own = next((v for m in ours if (v := value.get((model, m, cell)))), None)
        lift = value.get((model, "lift", cell))
        return NOTHING if own is None else f"{own} ({lift or NOTHING})"

    lines = [
        [name, str(seen), *(said(name, cell) for cell in heads)]
        for name, seen in names.items()
    ]
    return sheet(["model", "problems seen", *(", ".join(c) for c in heads)], lines)


def budgets(rows: Sequence[Row], _paper: Paper) -> str:
    """Formats the problems and minutes of every training, and those of tuning."""
    parts = []
    for scale in dict.fromkeys(row["scale"] for row in rows):
        mine = [row for row in rows if row["scale"] == scale]
        known = {row["pde"] for row in mine}
        heads = [name for name in pdes.names() if name in known]
        found = {(row["method"], row["pde"]): trained(row) for row in mine}
        lines = [
            [name, *(found.get((name, pde), NOTHING) for pde in heads)]
            for name in dict.fromkeys(row["method"] for row in mine)
        ]
        devices = "; ".join(dict.fromkeys(row["device"] for row in mine))
        title = f"Problems / minutes, scale `{scale}`, on {devices}:"
        parts += [title, sheet(["method", *heads], lines), *tuning(mine)]
    return "\n\n".join(parts)


def trained(row: Row) -> str:
    """Writes the problems that a method was trained on, and the minutes."""
    images, minutes = row["images"], row["minutes"]
    first = NOTHING if images is None else f"{images:,}"
    return f"{first} / {NOTHING if minutes is None else f'{minutes:.0f}'}"


def tuning(rows: Sequence[Row]) -> list[str]:
    """Says in lines what tuning of guidance took; nothing where there was none."""
    found: dict[tuple[int, ...], list[str]] = {}
    for row in rows:
        if row["searches"]:
            each = row["searches"], row["tries"], row["problems"]
            minutes = f"{row['method']} {row['pde']} {row['tuning_minutes']:.0f}"
            found.setdefault(each, []).append(minutes)
    return [
        "Guidance was tuned besides. Searches for an equation, one a cell and residual:"
        f" {count}, of {tries} tries on {problems} validation problems each; minutes in"
        f" all: {', '.join(minutes)}."
        for (count, tries, problems), minutes in found.items()
    ]


def reached(rows: Sequence[Row], _paper: Paper) -> str:
    """Formats targets: how many of a kind were met, and each that was missed."""
    lines = []
    for kind in dict.fromkeys((row["model"], row["target"]) for row in rows):
        mine = [row for row in rows if (row["model"], row["target"]) == kind]
        said = [row["met"] for row in mine]
        missed = [short(row) for row in mine if row["met"] == targets.NO]
        counts = [f"{said.count(targets.YES)} of {len(mine)}"]
        counts += [str(said.count(targets.OPEN))]
        lines.append([*kind, *counts, "; ".join(missed) or NOTHING])
    said = [row["met"] for row in rows]
    met, lost, rest = (said.count(v) for v in (targets.YES, targets.NO, targets.OPEN))
    head = ["model", "target", "met", "open", "missed"]
    return (
        f"Of {len(said)} targets {met} are met and {lost} are missed; {rest} are open: "
        f"they have no rows yet.\n\n{sheet(head, lines, len(head))}"
    )


def short(row: Row) -> str:
    """Says by how much a target was missed."""
    cell = " ".join(row[key] for key in ("pde", "direction", "regime") if row[key])
    wanted = "" if row["wanted"] is None else f" instead of {row['wanted']:.3g}"
    return f"{cell} {row['measured']:.3g}{wanted}, {row['missed_by']}".strip()


BLOCKS: dict[str, Maker] = {
    **dict.fromkeys(pdes.names(), benchmark),
    "models": models,
    "bench": bench,
    "ranks": listed(
        {
            **{"scale": "scale", "regime": "regime", "method": "method"},
            **{"steps": "steps", "rank": "rank", "columns": "columns"},
            "n": "smallest n",
            "paper_in_these_columns": "paper, same columns",
            **{"paper": "paper", "ties": "ties take the rank"},
        },
        3,
    ),
    "latency": speeds,
    "frontier": ahead,
    "budgets": budgets,
    "targets": reached,
    "order": listed(
        {
            **{"scale": "scale", "regime": "regime", "pde": "equation"},
            **{"direction": "direction", "verdict": "order of methods"},
            **{"methods": "methods", "same": "pairs as in the paper"},
            **{"reversed": "reversed", "open": "undecided"},
        },
        5,
    ),
    "claims": judged,
}
