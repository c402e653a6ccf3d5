"""Our numbers beside the paper's: the entries of every table, from result rows alone.

The rows of an equation's benchmark are those of the sweep with the equation's name; a
few of the sweep `baselines` stand beside them (`screened`). Of rows that answer the
same question the last one counts. Scales and grids are never mixed: they are part of
every entry.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prisma_lib import results, screened
from prisma_lib.answers import ROUNDING
from prisma_lib.cells import COLUMNS, NOISE_SD, RATE, REGIMES
from prisma_lib.comparison import EQUAL
from prisma_lib.errors import DataError
from prisma_lib.lifted import PrismaL

METHODS = ("PINN", "FNO", "DeepONet", "PINO", "DiffusionPDE", "FunDPS", "PRISMA")
DIRECTIONS = ("forward", "inverse", "reconstruct")
ERRORS = ("relative_l2", "error_rate")
# What a regime hides in the protocol.
HIDDEN = {
    "full": ("",),
    "sparse": (f"rate={RATE:g}", f"columns={COLUMNS}"),
    "noisy": (f"noise_sd={NOISE_SD:g}",),
}
LEARNED = (*METHODS, EQUAL, PrismaL.title, *screened.PUBLISHED.values())
MEAN, EXACT, SOLVER = "mean field", "exact posterior", "numerical solver"
ABLATIONS = ("tab:main_ablation", "tab:gating_attention_ablation")
# Where the paper prints the errors of a regime.
PRINTED = {f"tab:{regime}_main": regime for regime in REGIMES} | {
    "tab:eikonal_full_forward": "full",
    "text:appendix:spatio-temporal": "sparse",
}

Who = tuple[str, int | None]
Column = tuple[str, str]
Grid = tuple[str, int]


@dataclass(frozen=True)
class Entry:
    """One number of a table.

    Args:
        scale: Name of the scale.
        size: Points along an axis.
        regime: One of "full", "sparse", "noisy".
        pde: Name of the equation.
        direction: "forward", "inverse" or "reconstruct".
        method: Name of the method.
        steps: Sampler steps, where it has any.
        draws: Number of draws whose mean is judged.
        hidden: What is hidden, such as "rate=0.03"; empty where all is seen.
        value: Error in percent, `None` when there is no number.
        low: Lower end of its 95 % interval.
        high: Upper end.
        row: The result row.
        anchor: The honest baseline it is measured by.
        ratio: Its value over the anchor's.
        paper: The paper's number, in percent.
    """

    scale: str
    size: int
    regime: str
    pde: str
    direction: str
    method: str
    steps: int | None
    draws: int
    hidden: str
    value: float | None
    low: float | None
    high: float | None
    row: results.Row
    anchor: str = ""
    ratio: float | None = None
    paper: float | None = None

    @property
    def who(self) -> Who:
        """The method with its steps."""
        return self.method, self.steps

    @property
    def column(self) -> Column:
        """Equation and direction."""
        return self.pde, self.direction

    @property
    def usual(self) -> bool:
        """Whether it is one draw, of what the regime hides in the protocol.

        Published weights are a second row: figures, ranks and claims take the first.
        """
        main = self.method not in screened.PUBLISHED.values()
        return main and self.draws == 1 and self.hidden in HIDDEN[self.regime]

    @property
    def rounding(self) -> bool:
        """Whether the error is only that of rounding."""
        return self.value is not None and self.value < ROUNDING

    @property
    def note(self) -> str:
        """Why there is no number, where there is none."""
        why = results.missing(self.row)
        return "diverged" if why and "diverged" in results.settings(self.row) else why


Found = dict[tuple[object, ...], Entry]  # by the questions that they answer


class Paper:
    """The numbers that the paper prints.

    Args:
        rows: Rows of `outputs/tables/paper.csv`.
    """

    def __init__(self, rows: Iterable[Mapping[str, str]]) -> None:
        self.errors: dict[tuple[str, Column], dict[Who, float]] = {}
        self.ranked: set[tuple[str, Column]] = set()
        self.ranks: dict[tuple[str, Who], float] = {}
        self.seconds: dict[Who, float] = {}
        # By table, equation, direction, regime and the paper's name of a variant.
        self.variants: dict[tuple[str, ...], float] = {}
        for row in rows:
            who = row["method"], int(row["steps"]) if row["steps"] else None
            regime = PRINTED.get(row["table"], "")
            if row["metric"] in ERRORS and regime:
                column = row["pde"], row["direction"] or "reconstruct"
                found = self.errors.setdefault((regime, column), {})
                found[who] = float(row["value"])
                if row["table"].endswith("_main"):
                    self.ranked.add((regime, column))
            elif row["metric"] in ERRORS and row["table"] in ABLATIONS:
                cell = (row["table"], row["pde"], row["direction"], row["regime"])
                variant = results.settings(row)["variant"]
                self.variants[*cell, variant] = float(row["value"])
            elif row["metric"] == "avg_rank" and regime:
                self.ranks[regime, who] = float(row["value"])
            elif row["metric"] == "seconds_per_sample" and row["table"].startswith(
                ("tab:paradigm", "tab:noisy_main", "tab:full_main")
            ):
                self.seconds[who] = float(row["value"])

    def error(self, regime: str, column: Column, who: Who) -> float | None:
        """Returns the error of a method; where no steps are stated, any will do."""
        printed = self.errors.get((regime, column), {})
        return printed.get(who, printed.get((who[0], None)))

    @classmethod
    def read(cls, path: Path) -> "Paper":
        """Reads `paper.csv`.

        Raises:
            DataError: When it is not there.
        """
        try:
            with path.open(newline="", encoding="utf-8") as file:
                return cls(csv.DictReader(file))
        except FileNotFoundError as error:
            raise DataError(
                f"{path} does not exist: it holds the paper's numbers and comes with "
                "the repository; name the project's folder with --root"
            ) from error


def entries(rows: Iterable[results.Row], paper: Paper) -> list[Entry]:
    """Makes the entries of all tables.

    Args:
        rows: Result rows of all sweeps; those of other sweeps than benchmarks are left
            out.
        paper: The paper's numbers.

    Returns:
        Entries in the order of their first rows, with anchors and the paper's numbers.
    """
    found, others = Found(), Found()
    for row in rows:
        if row["regime"] not in REGIMES or row["metric"] not in ERRORS:
            continue
        if row["sweep"] == row["pde"]:
            entry = entry_of(row)
            found[identity(entry)] = entry
        elif another := screened.second(row):
            entry = entry_of(another)
            others[identity(entry)] = entry
    every = with_second(found, others)
    return [beside(entry, every, paper) for entry in every]


def with_second(main: Found, others: Found) -> list[Entry]:
    """Puts second rows behind the first rows of their methods.

    Args:
        main: Entries of benchmarks by their questions.
        others: Second rows likewise; see `screened`.

    Returns:
        The benchmarks' entries, with the second rows of the same equations and grids.
    """
    ordered, places = list(main.values()), dict[tuple[object, ...], int]()
    for number, entry in enumerate(ordered):
        places.setdefault((*grid_of(entry), entry.pde), number)
        places.setdefault((*grid_of(entry), entry.pde, entry.method), number)
    found = list(enumerate(ordered))
    for question, entry in others.items():
        about = *grid_of(entry), entry.pde
        if question not in main and about in places:
            near = *about, screened.stands_after(entry.method)
            found.append((places.get(near, places[about]), entry))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def entry_of(row: results.Row) -> Entry:
    """Reads one result row."""
    setting = results.settings(row)
    size, draws = int(setting.pop("size", 0)), int(setting.pop("mean_of", 1))
    for of_the_method in ("weights", "residual", "diverged", "sampler"):
        setting.pop(of_the_method, None)
    value, low, high = (results.number(row, name) for name in ("value", "low", "high"))
    return Entry(
        *(row["scale"], size, row["regime"], row["pde"], row["direction"]),
        method=row["method"],
        steps=int(row["steps"]) if row["steps"] else None,
        draws=draws,
        hidden=";".join(f"{name}={text}" for name, text in setting.items()),
        value=value,
        low=low,
        high=high,
        row=row,
    )


def identity(entry: Entry) -> tuple[object, ...]:
    """Returns the question that an entry answers."""
    return (*place(entry), entry.hidden, *entry.who, entry.draws)


def place(entry: Entry) -> tuple[object, ...]:
    """Returns the cell of a table in which an entry stands."""
    return (*grid_of(entry), entry.regime, *entry.column)


def grid_of(entry: Entry) -> Grid:
    """Returns scale and size of an entry: tables of two grids are never mixed."""
    return entry.scale, entry.size


def beside(entry: Entry, every: Sequence[Entry], paper: Paper) -> Entry:
    """Puts the anchor and the paper's number beside an entry.

    The anchor is the exact posterior, judged by as many draws, where it is known, and
    the best other baseline elsewhere, on as many problems. The mean field answers every
    regime alike, and the solver that made the truth is none. Where another baseline
    errs by rounding alone there is no ratio to the best of them.
    """
    cell, grid = (*place(entry), entry.hidden), (*grid_of(entry), entry.column)
    rivals = {
        other.method: other
        for other in every
        if (
            (*place(other), other.hidden) == cell
            or (other.method == MEAN and (*grid_of(other), other.column) == grid)
        )
        and other.method not in LEARNED
        and other.value is not None
        and not (other.rounding and other.method == SOLVER)
        and other.row["n"] == entry.row["n"]
        and other.draws == (entry.draws if other.method == EXACT else 1)
    }
    if entry.usual:
        printed = paper.error(entry.regime, entry.column, entry.who)
        entry = replace(entry, paper=printed)
    if not rivals or entry.value is None or entry.method not in LEARNED:
        return entry
    best = min(rivals.values(), key=lambda e: (e.method != EXACT, e.value or 0.0))
    if best.rounding:
        return replace(entry, anchor=best.method)
    return replace(entry, anchor=best.method, ratio=entry.value / (best.value or 1.0))
