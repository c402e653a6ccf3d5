"""Rows of the sweep `baselines`, where every method was trained for the same time.

Some answer a question that no benchmark asks, and stand in its table under a name of
their own: guided methods with the weights and the residual that were published, and
PRISMA trained with the rivals' budget where the benchmark has no such row.
"""

from prisma_lib import results
from prisma_lib.comparison import EQUAL
from prisma_lib.model import Prisma

SWEEP = "baselines"
GUIDED = ("DiffusionPDE", "FunDPS")
WORD = "published"  # the setting `weights` of a row, and of a guided solver
PUBLISHED = {name: f"{name} ({WORD} weights)" for name in GUIDED}


def second(row: results.Row) -> results.Row | None:
    """Names a row of the sweep as tables of errors do.

    Args:
        row: A result row.

    Returns:
        The row under the name of its line, without seconds: other trainings ran beside
        them. `None` for a row of another sweep, and for one that is another row's
        question, such as that of a guided method with tuned weights.
    """
    if row["sweep"] != SWEEP:
        return None
    name = EQUAL if row["method"] == Prisma.title else None
    if results.settings(row).get("weights") == WORD:
        name = PUBLISHED.get(row["method"])
    return {**row, "method": name, "seconds_per_sample": ""} if name else None


def stands_after(method: str) -> str:
    """Names the method in whose row's neighbourhood a second row stands."""
    of = {title: name for name, title in PUBLISHED.items()} | {EQUAL: Prisma.title}
    return of.get(method, method)
