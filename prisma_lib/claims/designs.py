"""The paper's sentence on six designs of attention, part by part.

The gate with its skip stabilises; a score that knows phases beats those that do not; a
residual that knows the observations helps, most for the inverse problem under noise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prisma_lib import results
from prisma_lib.ablations import (
    BETTER,
    OURS,
    UNDECIDED,
    WORSE,
    Cell,
    Gap,
    concluded,
    deviation,
    grouped,
    parts,
    scipy_stats,
    versus,
    welch,
)
from prisma_lib.claims.evidence import NO_ROWS, Evidence, Finding
from prisma_lib.ranks import FAILS, HOLDS, OPEN

# Plans of trainings: their rows, one a seed, tell what seeds leave open.
STRATEGIES, VARIANTS = "residual_strategies_train", "sra_variants_train"
GATES, SCORES = ("no_gate", "multiplicative"), ("magnitude_only", "phase_blind")
DESIGNS = (OURS, *GATES, *SCORES, "unguided")
HARDEST = ("inverse", "noisy")  # where the paper has gate and guidance help most


class Question(NamedTuple):
    """One thing that a sentence of the paper says, and what each comparison says."""

    part: str
    asked: str
    gaps: Mapping[str, Gap]

    @property
    def verdict(self) -> str:
        """See `concluded`."""
        return concluded(self.verdicts)

    @property
    def verdicts(self) -> list[str]:
        """What each comparison says."""
        return [gap.verdict for gap in self.gaps.values()]

    def __str__(self) -> str:
        """Counts them in words."""
        count = counted(self.verdicts) if self.gaps else "too few seeds"
        return f"{self.part} {self.asked}: {count}"


def in_table(rows: Iterable[results.Row]) -> list[results.Row]:
    """Lists the rows of the paper's table of designs: its equation, two regimes."""
    return [
        row
        for row in rows
        if row["pde"] == "helmholtz" and row["regime"] in ("full", "noisy")
        if parts(row)[1] in DESIGNS
    ]


def trained(found: Evidence, designs: bool) -> list[results.Row]:
    """Lists rows of trainings: of strategies, or of the six designs of attention."""
    rows = found.select(sweep=STRATEGIES)
    if not designs:
        return rows
    return in_table([*rows, *found.select(sweep=VARIANTS)])


def questions(rows: Iterable[results.Row]) -> list[Question]:
    """Splits the paper's sentence on designs of attention into what can be tested.

    Args:
        rows: Rows of the designs, one a seed; see `in_table`.
    """
    mine = list(rows)
    pairs = versus(mine)

    def errors(names: Sequence[str], *places: Cell) -> dict[str, Gap]:
        kept = (pair for pair in pairs if pair.other in names)
        return {
            " ".join((pair.other, *pair.place)): pair.gap
            for pair in kept
            if not places or pair.place in places
        }

    steady = {name: gap for name in GATES if (gap := steadier(mine, name))}
    return [
        Question("gate", "seeds differ less", steady),
        Question("gate", "helps, inverse under noise", errors(GATES, HARDEST)),
        Question("phase", "helps", errors(SCORES)),
        Question("guided residual", "helps", errors(("unguided",))),
        Question("guided residual", "most, inverse under noise", focus(mine)),
    ]


def steadier(rows: Iterable[results.Row], other: str) -> Gap | None:
    """Compares the deviation of attention over seeds with another variant's.

    A deviation is the root mean square over cells. The same networks answer all cells,
    so that the F interval has no more degrees of freedom than one cell.

    Args:
        rows: Rows of errors, one a seed.
        other: The other variant.

    Returns:
        The difference of the logarithms, or None without two seeds of both.
    """
    cells = [cell for cell in grouped(rows).values() if {OURS, other} <= {*cell}]
    both = [[cell[name] for cell in cells] for name in (OURS, other)]
    degrees = [min(map(len, runs), default=1) - 1 for runs in both]
    if min(degrees) < 1:
        return None
    ours, theirs = (sum(deviation(r) ** 2 for r in runs) for runs in both)
    if not ours or not theirs:
        return None
    gap = math.log(ours / theirs) / 2
    low, high = scipy_stats().f.ppf([0.975, 0.025], *degrees)
    return Gap(gap, gap - math.log(low) / 2, gap - math.log(high) / 2)


def focus(rows: Iterable[results.Row]) -> dict[str, Gap]:
    """Asks whether the guided residual helps most in the inverse problem under noise.

    Args:
        rows: Rows of errors, one a seed.

    Returns:
        For every other cell, in points of the error, how much less a guided network
        loses than an unguided one from that cell to the noisy inverse one.
    """
    errors: dict[str, dict[Cell, dict[str, float]]] = {OURS: {}, "unguided": {}}
    for key, cell in grouped(rows).items():
        for name in {*cell} & {*errors}:
            values = {parts(row)[2]: float(row["value"]) for row in cell[name]}
            errors[name][key[2:4]] = values
    places = [p for p in errors[OURS] if p != HARDEST and p in errors["unguided"]]
    if not all(HARDEST in mine for mine in errors.values()):
        return {}

    def rises(mine: Mapping[Cell, Mapping[str, float]], place: Cell) -> list[float]:
        hard = mine[HARDEST]
        return [hard[seed] - e for seed, e in mine[place].items() if seed in hard]

    both = {p: [rises(mine, p) for mine in errors.values()] for p in places}
    return {f"than {' '.join(p)}": welch(*b) for p, b in both.items() if all(b)}


def design_parts(found: Evidence) -> Finding:
    """C09: every part of the sentence must hold; one that does not decides."""
    rows = trained(found, designs=True)
    asked = questions(rows)
    if not any(question.gaps for question in asked):
        return Finding(OPEN, NO_ROWS)
    return Finding(together(asked), "; ".join(map(str, asked)), unique(rows))


def together(asked: Iterable[Question]) -> str:
    """Says what questions say together: all must hold, and one that fails decides."""
    verdicts = {question.verdict for question in asked}
    if FAILS in verdicts:
        return FAILS
    return HOLDS if verdicts == {HOLDS} else OPEN


def counted(verdicts: Sequence[str]) -> str:
    """Counts verdicts in words."""
    good, bad, open_ = map(verdicts.count, (BETTER, WORSE, UNDECIDED))
    return f"{good} as said, {bad} reversed, {open_} not told apart by seeds"


def unique(rows: Iterable[results.Row]) -> list[results.Row]:
    """Lists rows once each."""
    return list({id(row): row for row in rows}.values())
