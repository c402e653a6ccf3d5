"""Rows of the sweep `baselines`, where every method was trained for the same time.

Some answer a question that no benchmark asks, and stand in its table under a name of
their own: guided methods with the weights and the residual that were published, and
PRISMA trained with the rivals' budget where the benchmark has no such row. How many
problems a method was trained on, and in how many minutes, are rows of the sweep, too.
With another number of steps, as many as were published, guided methods are asked by
`python -m prisma_lib.evaluate --methods`, whose rows join.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prisma_lib import methods, results
from prisma_lib.comparison import EQUAL
from prisma_lib.model import Prisma

SWEEP, ASKED = "baselines", "evaluate"
FILES = (SWEEP, ASKED)  # names of their rows' files
GUIDED = ("DiffusionPDE", "FunDPS")
WORD = "published"  # the setting `weights` of a row, and of a guided solver
PUBLISHED = {name: f"{name} ({WORD} weights)" for name in GUIDED}

# What is empty where no guidance was tuned.
NOT_TUNED = dict.fromkeys(("searches", "tries", "problems", "tuning_minutes"))


def second(row: results.Row) -> results.Row | None:
    """Names a row of the sweep as tables of errors do.

    Args:
        row: A result row.

    Returns:
        The row under the name of its line, without seconds: other trainings ran beside
        them. `None` for a row of another sweep, and for one that is another row's
        question, such as that of a guided method with tuned weights, or one about the
        problems of a file.
    """
    setting = results.settings(row)
    if row["sweep"] not in FILES or "data" in setting:
        return None
    equal = (row["sweep"], row["method"]) == (SWEEP, Prisma.title)
    name = EQUAL if equal else None
    if setting.get("weights") == WORD:
        name = PUBLISHED.get(row["method"])
    return {**row, "method": name, "seconds_per_sample": ""} if name else None


def stands_after(method: str) -> str:
    """Names the method in whose row's neighbourhood a second row stands."""
    of = {title: name for name, title in PUBLISHED.items()} | {EQUAL: Prisma.title}
    return of.get(method, method)


def budgets(
    rows: Iterable[results.Row], cards: Iterable[Mapping[str, Any]]
) -> list[dict[str, object]]:
    """Lists what every method was trained with.

    Args:
        rows: Result rows of the sweep.
        cards: Cards of models that ship; one of an equation with other fields than
            those of its table is left out.

    Returns:
        A row for each training of the sweep, with the number of problems and the
        minutes on its device, and for each model of PRISMA and PRISMA-L that ships. A
        guided method's row says in how many cells guidance was tuned, with how many
        tries and problems a cell, and in how many minutes together.
    """
    plain = [card for card in cards if not card["training"].get("options")]
    tuned = {
        (methods.title(card["method"]), card["pde"]["name"]): tuning(card["guidance"])
        for card in plain
        if card.get("guidance")
    }
    found: dict[tuple[str, str], dict[str, object]] = {}
    for row in rows:
        if row["sweep"] == SWEEP and row["metric"] in ("images", "minutes"):
            name = EQUAL if row["method"] == Prisma.title else row["method"]
            line = found.setdefault(
                (row["scale"], row["run"]),
                {
                    **{"scale": row["scale"], "method": name, "pde": row["pde"]},
                    **{"model": row["run"], "images": None, "minutes": None},
                    **{"device": row["device"]},
                    **tuned.get((row["method"], row["pde"]), NOT_TUNED),
                },
            )
            value = results.number(row)
            whole = value is not None and row["metric"] == "images"
            line[row["metric"]] = int(value or 0) if whole else value
    ours = [shipped(card) for card in plain if card.get("errors")]
    return [*found.values(), *ours]


def tuning(cells: list[Mapping[str, Any]]) -> dict[str, object]:
    """Sums up how guidance was tuned for the longest draws, those of tables.

    Args:
        cells: What `tune.tune` found, from a card.
    """
    most = max(cell["settings"]["steps"] for cell in cells)
    mine = [cell for cell in cells if cell["settings"]["steps"] == most]
    return {
        "searches": len(mine),
        "tries": max(len(cell["tries"]) for cell in mine),
        "problems": max(cell["n"] for cell in mine),
        "tuning_minutes": sum(cell["seconds"] for cell in mine) / 60,
    }


def shipped(card: Mapping[str, Any]) -> dict[str, object]:
    """Reads from its card what a model that ships was trained with."""
    training = card["training"]
    return {
        "scale": card["errors"][0]["scale"],
        "method": methods.title(card["method"]),
        **{"pde": card["pde"]["name"], "model": card["name"]},
        "images": training["images_seen"],
        "minutes": training.get("minutes"),
        "device": card.get("provenance", {}).get("device", ""),
        **NOT_TUNED,
    }
