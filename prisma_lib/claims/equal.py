"""Claims on equal terms: PRISMA trained with the budget that its rivals had.

The models that ship have seen more problems than the priors of guided methods. What
compares PRISMA with those is decided by the network of equal budget; what the shipped
models would have said stands beside it.
"""

from collections.abc import Callable
from dataclasses import replace

from prisma_lib.claims.evidence import NO_ROWS, OURS, Evidence, Finding
from prisma_lib.comparison import EQUAL
from prisma_lib.ranks import FAILS, OPEN, orders
from prisma_lib.results import Row
from prisma_lib.tables import ERRORS, Entry, entry_of, identity

Judge = Callable[[Evidence], Finding]

TRAININGS = "baselines"  # the sweep whose trainings have one budget


def equal_entries(found: Evidence) -> list[Entry]:
    """Lists the entries of PRISMA with the baselines' budget.

    Where the benchmark of an equation has none, the rows that its training wrote stand
    for them: they are on the same problems.
    """
    own = [entry for entry in found.entries if entry.method == EQUAL]
    sizes = {entry.size for entry in found.entries}
    trained = {
        identity(entry): entry
        for row in found.rows
        if of_training(row) and row["pde"] not in {entry.pde for entry in own}
        if (entry := replace(entry_of(row), method=EQUAL)).usual and entry.size in sizes
    }
    return [*own, *trained.values()]


def of_training(row: Row) -> bool:
    """Says whether the training of PRISMA with the baselines' budget wrote an error."""
    run = (row["sweep"], row["run"], row["method"])
    mine = run == (TRAININGS, f"prisma-{row['pde']}", OURS)
    return mine and row["metric"] in ERRORS and bool(row["regime"])


def with_equal_budget(found: Evidence) -> Evidence:
    """Puts PRISMA with the baselines' budget in the place of the models that ship."""
    rest = [entry for entry in found.entries if entry.method not in (OURS, EQUAL)]
    mine = [replace(entry, method=OURS) for entry in equal_entries(found)]
    every = [*mine, *rest]
    known = orders(every, found.paper, found.rows)
    return replace(found, entries=every, orders=known)


def on_equal_terms(judge: Judge) -> Judge:
    """Judges a claim by PRISMA with equal budget, and says what the shipped one tells.

    Args:
        judge: Judges the claim by whatever entries there are of PRISMA.

    Returns:
        The judge: without rows of equal budget a claim cannot hold.
    """

    def claim(found: Evidence) -> Finding:
        shipped, alike = judge(found), judge(with_equal_budget(found))
        if shipped.evidence == NO_ROWS:
            return shipped
        said = f"with the models that ship: {shipped.evidence}"
        if alike.evidence == NO_ROWS:
            verdict = FAILS if shipped.verdict == FAILS else OPEN
            text = f"{said}; no rows with equal budget"
            return replace(shipped, verdict=verdict, evidence=text)
        text = f"with equal budget: {alike.evidence}, so that it {alike.verdict}; "
        text += f"{said}, so that it {shipped.verdict}"
        return replace(alike, evidence=text, rows=[*alike.rows, *shipped.rows])

    return claim
