"""Attention against other strategies, and the sentence on its six designs by parts.

The gate with its skip stabilises; a score that knows phases beats those that do not; a
residual that knows the observations helps in the inverse problem, most under noise.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prisma_lib import results
from prisma_lib.ablations import (
    BETTER,
    OURS,
    PAPER,
    UNDECIDED,
    WORSE,
    Cell,
    Gap,
    Versus,
    concluded,
    deviation,
    grouped,
    parts,
    scipy_stats,
    versus,
    welch,
)
from prisma_lib.claims.evidence import NO_ROWS, Evidence, Finding
from prisma_lib.claims.shares import Interval
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import FAILS, HOLDS, OPEN
from prisma_lib.tables import ABLATIONS, Paper

# Plans of trainings: their rows, one a seed, tell what seeds leave open.
STRATEGIES, VARIANTS = "residual_strategies_train", "sra_variants_train"
GATES, SCORES = ("no_gate", "multiplicative"), ("magnitude_only", "phase_blind")
DESIGNS = (OURS, *GATES, *SCORES, "unguided")
HARDEST = ("inverse", "noisy")  # where the paper has gate and guidance help most
INVERSE = (("inverse", "full"), HARDEST)  # forward guidance is "competitive" only
NOTHING = Gap(math.nan, math.nan, math.nan)


class Question(NamedTuple):
    """One thing that a sentence of the paper says, and what each comparison says.

    Args:
        part: What of the design it is about.
        asked: What it says.
        gaps: The comparisons.
        overall: Their mean, each network with its mean over cells.
        printed: The same mean of the paper's own numbers; NaN without any.
    """

    part: str
    asked: str
    gaps: Mapping[str, Gap]
    overall: Gap = NOTHING
    printed: float = math.nan

    @property
    def verdict(self) -> str:
        """What comparisons say, see `concluded`; if nothing, whether it is little.

        An effect whose interval ends before that of the paper's numbers is not the
        paper's.
        """
        found = concluded(self.verdicts)
        return FAILS if found == OPEN and self.less else found

    @property
    def less(self) -> bool:
        """Whether an effect of the paper's size is ruled out."""
        return self.printed < 0 and smaller(self.overall, self.printed)

    @property
    def verdicts(self) -> list[str]:
        """What each comparison says."""
        return [gap.verdict for gap in self.gaps.values()]

    def __str__(self) -> str:
        """Counts them in words."""
        count = counted(self.verdicts) if self.gaps else "too few seeds"
        said = f"{self.part} {self.asked}: {count}"
        if math.isnan(self.overall.low + self.printed):
            return said
        mean, low, high = self.overall.ratio
        said += f", on average {mean:.3f} [{low:.3f}, {high:.3f}] times the error"
        return f"{said}, in the paper {math.exp(self.printed):.2f}"


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


def questions(rows: Iterable[results.Row], paper: Paper) -> list[Question]:
    """Splits the paper's sentence on designs of attention into what can be tested.

    Args:
        rows: Rows of the designs, one a seed; see `in_table`.
        paper: The paper's numbers.
    """
    mine = list(rows)
    pairs = versus(mine)

    def helps(part: str, asked: str, names: Sequence[str], *places: Cell) -> Question:
        kept = [
            pair
            for pair in pairs
            if pair.other in names and (not places or pair.place in places)
        ]
        gaps = {" ".join((pair.other, *pair.place)): pair.gap for pair in kept}
        theirs = [printed(paper, pair) for pair in kept]
        mean = sum(theirs) / len(theirs) if theirs else math.nan
        return Question(part, asked, gaps, overall(kept), mean)

    steady = {name: gap for name in GATES if (gap := steadier(mine, name))}
    return [
        Question("gate", "seeds differ less", steady),
        helps("gate", "helps, inverse under noise", GATES, HARDEST),
        helps("phase", "helps", SCORES),
        helps("guided residual", "helps, inverse", ("unguided",), *INVERSE),
        Question("guided residual", "most, inverse under noise", focus(mine)),
    ]


def printed(paper: Paper, pair: Versus) -> float:
    """Returns the logarithm of the paper's ratio of a comparison; NaN without one."""
    table = ABLATIONS[pair.other in DESIGNS]
    place = (table, *(pair.cell[key] for key in ("pde", "direction", "regime")))
    ours, theirs = (
        paper.variants.get((*place, PAPER[name]), math.nan)
        for name in (OURS, pair.other)
    )
    return math.log(ours / theirs)


def overall(pairs: Sequence[Versus]) -> Gap:
    """Compares attention with other designs over all cells at once.

    Cells of one network are not independent: its mean over them is one value.

    Args:
        pairs: Comparisons of attention with one or more designs in some cells.
    """
    logs: dict[tuple[str, str], dict[Cell, float]] = {}
    for pair in pairs:
        for row in pair.rows:
            name, seed = parts(row)[1:]
            network = logs.setdefault((name, seed), {})
            network[pair.place] = math.log(float(row["value"]))
    means = {who: statistics.fmean(mine.values()) for who, mine in logs.items()}
    ours = [mean for (name, _), mean in means.items() if name == OURS]
    theirs = [mean for (name, _), mean in means.items() if name != OURS]
    return welch(ours, theirs) if pairs else NOTHING


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
    asked = questions(rows, found.paper)
    if not any(question.gaps for question in asked):
        return Finding(OPEN, NO_ROWS)
    said = "; ".join(map(str, asked))
    return Finding(together(asked), said, unique(rows), deciding(asked))


def deciding(asked: Sequence[Question]) -> Interval | None:
    """Returns the interval of the part that decides: the first with that verdict.

    Of parts that fail since an effect of the paper's size is ruled out it is that of
    the mean effect, of others that of the share of decided comparisons.
    """
    verdict = together(asked)
    mine = [question for question in asked if question.verdict == verdict]
    if not mine:
        return None
    first = mine[0]
    if concluded(first.verdicts) == OPEN and first.less:
        return Interval(f"{first.part}: times the error", *first.overall.ratio[1:])
    return Tally.of(first.verdicts).interval


def smaller(gap: Gap, theirs: float) -> bool:
    """Whether the interval of an effect ends before the paper's effect.

    Args:
        gap: Difference of logarithms, with its interval.
        theirs: Logarithm of the paper's ratio; NaN without one.
    """
    return gap.low > theirs if theirs < 0 else gap.high < theirs


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
