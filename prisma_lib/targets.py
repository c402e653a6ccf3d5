"""What the models were meant to reach, and whether the recorded rows say they do.

Targets are those of 32 x 32, for one draw of 20 steps unless a line says otherwise.
A line is open where its rows are missing. Numbers are compared as they stand: the
interval beside them says how sure a verdict is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from prisma_lib import results, tables
from prisma_lib.cells import REGIMES
from prisma_lib.comparison import EQUAL
from prisma_lib.frontier import frontiers, standing
from prisma_lib.lifted import PrismaL
from prisma_lib.model import Prisma
from prisma_lib.tables import EXACT, SOLVER, Entry, entry_of, grid_of

YES, NO, OPEN = "yes", "no", "open"
GRID = ("cpu", 32)
OURS, LIFTED, STEPS = Prisma.title, PrismaL.title, 20
BOTH = ("forward", "inverse")
FIVE = ("darcy", "poisson", "helmholtz", "navier_stokes", "kolmogorov")
ERROR = "the largest error under full observation"
# Percent, under full observation.
FULL = {
    OURS: {
        **{("darcy", "forward"): 2.5, ("darcy", "inverse"): 9},
        **{("poisson", "forward"): 3, ("poisson", "inverse"): 15},
        **{("helmholtz", "forward"): 3, ("helmholtz", "inverse"): 15},
        **{("navier_stokes", "forward"): 1.5, ("navier_stokes", "inverse"): 2},
        ("eikonal", "forward"): 6,
    },
    LIFTED: {
        **{("darcy", "forward"): 0.7, ("darcy", "inverse"): 1.6},
        **{("helmholtz", "forward"): 1, ("helmholtz", "inverse"): 1},
        **{("poisson", "forward"): 1, ("eikonal", "forward"): 3.7},
        **{("navier_stokes", "forward"): 0.3, ("navier_stokes", "inverse"): 0.6},
    },
}
# Model, cell, factor and the method whose error it multiplies.
RELATIVE = (
    (OURS, ("kolmogorov", "forward", "full"), 0.6, "persistence"),
    (LIFTED, ("kolmogorov", "forward", "full"), 1.1, SOLVER),
    *(
        (OURS, (pde, direction, "sparse"), 1.5, EXACT)
        for pde in ("poisson", "helmholtz")
        for direction in BOTH
    ),
)
CELLS = (
    *((p, d, r) for p in (*FIVE, "eikonal", "burgers") for d in BOTH for r in REGIMES),
    *(("burgers", "reconstruct", regime) for regime in ("sparse", "noisy")),
)
HALVED, COST = 2.0, 2.0  # percent: a lift's error, of the seconds of a solve
FLOOR = 1.1  # times the exact posterior's error
# Of draws with 50 steps, judged by every truth that is possible: from, to.
CALIBRATED = {
    "expected_coverage_50": (0.48, 0.52),
    "expected_coverage_90": (0.88, 0.92),
    "expected_spread_skill": (0.9, 1.1),
}

Cell = tuple[str, str, str]  # equation, direction, regime


@dataclass(frozen=True)
class Line:
    """A target and what was measured.

    Args:
        target: What is asked.
        model: Title of the model.
        pde: Equation; as direction and regime empty for a count over several cells.
        direction: Direction.
        regime: Regime.
        wanted: The number that is asked for.
        measured: The number in the rows.
        low: Lower end of its 95 % interval.
        high: Upper end.
        n: Number of problems, or of cells that were counted.
        met: `YES`, `NO` or `OPEN`.
        missed_by: By how much it was missed.
    """

    target: str
    model: str
    pde: str = ""
    direction: str = ""
    regime: str = ""
    wanted: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    n: str = ""
    met: str = OPEN
    missed_by: str = ""

    def judged(self, entry: Entry | None, most: float | None) -> "Line":
        """Compares an error in percent with the largest that is asked for."""
        if entry is None or entry.value is None or most is None:
            return replace(self, wanted=most)
        good = entry.rounding or entry.value <= most
        return replace(
            self,
            wanted=most,
            measured=entry.value,
            low=entry.low,
            high=entry.high,
            n=entry.row["n"],
            met=YES if good else NO,
            missed_by="" if good else f"{entry.value / most:.3g} times",
        )

    def counted(self, said: Sequence[bool | None], least: int) -> "Line":
        """Counts cells that are as asked; `None` is one without rows."""
        good, unknown = said.count(True), said.count(None)
        met = YES if good >= least else NO if good + unknown < least else OPEN
        return replace(
            self,
            wanted=least,
            measured=good,
            n=str(len(said) - unknown),
            met=met,
            missed_by=f"{least - good} too few" if met == NO else "",
        )


@dataclass
class Seen:
    """Errors of one draw, by method, steps and cell, and then by number of problems.

    Args:
        rows: Result rows of all sweeps.
    """

    rows: Sequence[results.Row]
    errors: dict[tuple[str, int | None, Cell], dict[str, Entry]] = field(init=False)

    def __post_init__(self) -> None:
        """Sorts the rows of benchmarks; of equal questions the last one counts."""
        self.errors = {}
        for row in self.rows:
            if row["sweep"] == row["pde"] and row["metric"] in tables.ERRORS:
                entry = entry_of(row)
                if entry.usual and grid_of(entry) == GRID:
                    known = self.errors.setdefault((*entry.who, where(entry)), {})
                    known[entry.row["n"]] = entry

    def most(
        self, method: str, cell: Cell, steps: int | None = None, n: str = ""
    ) -> Entry | None:
        """Returns the entry of the most problems, or of as many as are asked for."""
        known = self.errors.get((method, steps, cell), {})
        return known.get(n or max(known, key=int, default=""))

    def first(self, model: str, cell: Cell, rivals: Iterable[str]) -> bool | None:
        """Says whether a model errs less than every rival, on the rival's problems.

        Returns:
            `None` where the model, or all rivals, have no rows.
        """
        said = []
        for (method, steps, place), known in self.errors.items():
            if method in rivals and place == cell:
                rival = self.most(method, cell, steps)
                mine = self.most(model, cell, STEPS, max(known, key=int))
                if mine and mine.value is not None and rival and rival.value:
                    said.append(mine.value < rival.value)
        return all(said) if said else None


def where(entry: Entry) -> Cell:
    """Returns the cell of an entry."""
    return entry.pde, entry.direction, entry.regime


def targets(
    every: Sequence[Entry], rows: Sequence[results.Row]
) -> list[dict[str, object]]:
    """Judges every target.

    Args:
        every: Entries of all tables.
        rows: Result rows of all sweeps.

    Returns:
        Lines with the columns of `Line`.
    """
    seen = Seen(rows)
    lines = [*absolute(seen), *relative(seen), *counts(seen, every)]
    lines += [*over_the_lift(seen), *costs(seen), *calibration(rows)]
    return [{**vars(line)} for line in lines]


def absolute(seen: Seen) -> Iterator[Line]:
    """Judges errors under full observation by fixed numbers."""
    for model, columns in FULL.items():
        for column, most in columns.items():
            cell = *column, "full"
            yield Line(ERROR, model, *cell).judged(seen.most(model, cell, STEPS), most)


def relative(seen: Seen) -> Iterator[Line]:
    """Judges errors by another method's on the same problems and masks."""
    for model, cell, factor, name in RELATIVE:
        mine = seen.most(model, cell, STEPS)
        other = seen.most(name, cell, n=mine.row["n"] if mine else "")
        most = factor * other.value if other and other.value is not None else None
        line = Line(f"at most {factor:g} times the error of {name}", model, *cell)
        yield line.judged(mine, most)


def counts(seen: Seen, every: Sequence[Entry]) -> Iterator[Line]:
    """Counts cells in which a model is first, or that nothing learned beats."""
    ten = [(pde, direction) for pde in FIVE for direction in BOTH]
    others = [name for name in tables.METHODS if name != OURS]
    said = [seen.first(OURS, (*column, "noisy"), others) for column in ten]
    what = "noisy: below every other learned method of the paper, columns"
    yield Line(what, OURS).counted(said, 8)
    thirty = [(*column, regime) for column in ten for regime in REGIMES]
    said = [seen.first(LIFTED, cell, (*tables.METHODS, EQUAL)) for cell in thirty]
    what = "below every other learned method, cells"
    yield Line(what, LIFTED).counted(said, 27)
    mine = [e for e in every if grid_of(e) == GRID]
    best = [row for row in standing(frontiers(mine)) if row["method"] == LIFTED]
    cells = sum(row["cells"] for row in best)
    on = sum(row["on"] for row in best)
    told: Sequence[bool | None] = [*[True] * on, *[False] * (cells - on)] or [None]
    what = "an answer, of any number of calls, that nothing learned beats, cells"
    yield Line(what, LIFTED).counted(told, len(told))


def over_the_lift(seen: Seen) -> Iterator[Line]:
    """Judges every cell of PRISMA-L by its lift, or by the exact posterior."""
    for cell in CELLS:
        mine = seen.most(LIFTED, cell, STEPS)
        n = mine.row["n"] if mine else ""
        lift, exact = (seen.most(name, cell, n=n) for name in ("lift", EXACT))
        most = None
        if lift and lift.value is not None:
            most = lift.value / (2 if lift.value > HALVED else 1)
            floor = exact.value if exact and exact.value is not None else 0.0
            most = max(most, FLOOR * floor)
        what = "at most the lift's error, half of it above 2 %, or 1.1 times the floor"
        yield Line(what, LIFTED, *cell).judged(mine, most)


def costs(seen: Seen) -> Iterator[Line]:
    """Judges the seconds of the lift by those of a whole solve, in percent."""
    for cell in (cell for cell in CELLS if cell[2] != "noisy"):
        line = Line("the lift in percent of a solve of 20 steps", LIFTED, *cell)
        pair = seen.most("lift", cell), seen.most(LIFTED, cell, STEPS)
        lift, solve = (
            results.number(entry.row, "seconds_per_sample") if entry else None
            for entry in pair
        )
        if not lift or not solve:
            yield replace(line, wanted=COST)
            continue
        share = 100 * lift / solve
        good = share <= COST
        yield replace(
            line,
            wanted=COST,
            measured=share,
            met=YES if good else NO,
            missed_by="" if good else f"{share / COST:.3g} times",
        )


def calibration(rows: Iterable[results.Row]) -> Iterator[Line]:
    """Judges the calibration of PRISMA-L where the exact posterior is known."""
    known = {
        (row["metric"], row["pde"], row["direction"], row["regime"]): row
        for row in rows
        if row["sweep"] == "posterior" and row["scale"] == GRID[0]
        if row["method"] == LIFTED and row["metric"] in CALIBRATED
        if results.settings(row).get("size") == str(GRID[1])
    }
    for metric, (low, high) in CALIBRATED.items():
        for cell in CELLS:
            if cell[0] not in ("poisson", "helmholtz") or cell[2] == "full":
                continue
            row = known.get((metric, *cell))
            line = Line(f"{metric} from {low:g} to {high:g}, 50 steps", LIFTED, *cell)
            value = results.number(row) if row else None
            if not row or value is None:
                yield line
                continue
            off = max(low - value, value - high)
            yield replace(
                line,
                measured=value,
                low=results.number(row, "low"),
                high=results.number(row, "high"),
                n=row["n"],
                met=NO if off > 0 else YES,
                missed_by=f"{off:.2g} outside" if off > 0 else "",
            )
