"""The cells of a table: which questions are asked of every method.

A cell is a direction and a regime. Test problems, masks and sensor noise depend on the
seed and the problem's number alone, so that every method answers the same questions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from prisma_lib import data
from prisma_lib.errors import ConfigError, unknown_name
from prisma_lib.observe import Observation, add_noise, observe
from prisma_lib.pdes.base import PDE, Direction, Field, Statistics
from prisma_lib.reading import Problems, equation_of

REGIMES = ("full", "sparse", "noisy")
RATE = 0.03  # share of points with a sensor
COLUMNS = 5  # columns with a sensor, where sensors stand at columns
NOISE_SD = 2.0  # in units of the field's standard deviation

Cell = tuple[Direction, str]


@dataclass(frozen=True)
class Hidden:
    """What sparse and noisy regimes hide; by default what the protocol does.

    Args:
        rate: Share of observed points.
        columns: Number of observed columns where an equation's sensors stand at them.
        layout: Where other sensors stand; one of `sensors.LAYOUTS`.
        noise: Standard deviation of the noise in units of the field's.
        fraction: Share of noisy points.
    """

    rate: float = RATE
    columns: int = COLUMNS
    layout: str = "points"
    noise: float = NOISE_SD
    fraction: float = 1.0


@dataclass(frozen=True)
class Benchmark:
    """Clean test problems of one PDE, with the statistics that scale sensor noise.

    Args:
        pde: The equation.
        a: Input fields.
        u: Solution fields.
        statistics: Statistics of the training data.
        seed: Seed of problems, masks and noise.
        hidden: What sparse and noisy regimes hide.
        index: Numbers of the problems in their split; by default from 0 on.
        source: Name of the file that holds the problems; "": none does.
        groups: Which of them are not independent; by default what the equation says.
    """

    pde: PDE
    a: Field
    u: Field
    statistics: Statistics
    seed: int
    hidden: Hidden = Hidden()
    index: tuple[int, ...] = ()
    source: str = ""
    groups: tuple[int, ...] = ()

    @property
    def n(self) -> int:
        """Number of problems."""
        return len(self.a)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of each problem in its split."""
        return self.index or tuple(range(self.n))

    @property
    def origins(self) -> list[int]:
        """Says which problems are not independent; see `PDE.origins`."""
        if self.groups:
            return list(self.groups)
        held_out = data.SPLITS["test"]
        return self.pde.origins([held_out + i for i in self.numbers])

    def part(self, places: Sequence[int]) -> "Benchmark":
        """Returns some of the problems; they are asked what all of them are asked.

        Args:
            places: Where they stand here.
        """
        rows, numbers = list(places), self.numbers
        index = tuple(numbers[place] for place in rows)
        groups = tuple(self.groups[place] for place in rows) if self.groups else ()
        a, u = self.a[rows], self.u[rows]
        return replace(self, a=a, u=u, index=index, groups=groups)

    def first(self, n: int) -> "Benchmark":
        """Returns the first `n` problems; see `part`."""
        return self.part(range(min(n, self.n)))

    def few(self, n: int) -> "Benchmark":
        """Returns `n` problems of as many origins as the first or evenly spread ones.

        Independent ones are the first `n`; times of one trajectory would say little.
        """
        if n >= self.n:
            return self
        origins, spread = self.origins, [i * self.n // n for i in range(n)]
        choices: list[Sequence[int]] = [range(n), spread]
        return self.part(max(choices, key=lambda c: len({origins[i] for i in c})))

    def hiding(self, **changes: Any) -> "Benchmark":
        """Returns the same problems with more or less hidden.

        Args:
            **changes: New values of `Hidden`.
        """
        return replace(self, hidden=replace(self.hidden, **changes))

    def noise_sd(self, regime: str, noise: float | None = None) -> tuple[float, float]:
        """Returns the standard deviation of sensor noise on `a` and on `u`.

        Args:
            regime: One of `REGIMES`; only "noisy" has any.
            noise: Standard deviation in units of the field's, by default that of
                `hidden`.

        Returns:
            Standard deviations in physical units.
        """
        sd_a, sd_u = self.statistics.std
        level = self.hidden.noise if noise is None else noise
        level = level if regime == "noisy" else 0.0
        return level * sd_a, level * sd_u


def benchmark(pde: PDE, n: int = 128, seed: int = 0, split: str = "test") -> Benchmark:
    """Draws and solves the first `n` problems of a split.

    Args:
        pde: The equation.
        n: Number of problems.
        seed: Seed of the data; training uses other sample numbers of the same seed.
        split: "test", or "validation" for choosing settings.

    Raises:
        ConfigError: When the split is unknown, or a number is impossible.
    """
    a, u = data.problems(pde, n, split=split, seed=seed)
    return Benchmark(pde, a, u, data.statistics(pde, seed=seed), seed)


def stored(path: Path | str, seed: int = 0) -> Benchmark:
    """Reads test problems from a file, such as imported public data.

    Sensor noise is scaled by the statistics of the file. Whether a model was trained on
    some of them, `data.check_unseen` tells.

    Args:
        path: File or folder that `data.make` or `importers.import_files` wrote.
        seed: Seed of masks and noise.

    Raises:
        DataError: When it cannot be used; see `data.load`.
    """
    return named(data.load(path), Path(path), seed)


def named(found: Problems, path: Path, seed: int = 0) -> Benchmark:
    """Makes test problems of what `data.load` read; see `stored`.

    Args:
        found: The problems.
        path: Where they were read.
        seed: Seed of masks and noise.

    Raises:
        DataError: When they are of no equation of the library.
    """
    pde = equation_of(found.attributes, path)
    return Benchmark(
        *(pde, found.a, found.u, found.statistics, seed),
        source=re.sub("[;=]", "-", path.stem),
        groups=tuple(found.origins(pde)),
    )


def regimes(direction: Direction) -> tuple[str, ...]:
    """Lists the regimes of a direction: all of `u` leaves nothing to reconstruct."""
    return REGIMES[1:] if direction == "reconstruct" else REGIMES


def cells(pde: PDE) -> list[Cell]:
    """Lists the cells of an equation's table, each a direction and a regime."""
    return [(d, regime) for d in pde.directions for regime in regimes(d)]


def check_cell(pde: PDE, direction: Direction, regime: str) -> None:
    """Refuses a cell that an equation's table does not have.

    Args:
        pde: The equation.
        direction: One of its directions.
        regime: One of `REGIMES`.

    Raises:
        ConfigError: When the direction or the regime is unknown, or both together ask
            for what was observed.
    """
    if direction not in pde.directions:
        raise unknown_name(f"direction of {pde.name}", direction, pde.directions)
    if regime not in REGIMES:
        raise unknown_name("regime", regime, REGIMES)
    if regime not in regimes(direction):
        raise ConfigError(
            f"direction={direction!r}, regime={regime!r}: with all of u observed "
            f"nothing is left to {direction}; choose one of {regimes(direction)}"
        )


def observation_of(
    problems: Benchmark,
    direction: Direction,
    regime: str,
    **changes: Any,
) -> Observation:
    """Hides what a cell of a table hides.

    Args:
        problems: Test problems.
        direction: "forward" observes `a`, "inverse" and "reconstruct" observe `u`.
        regime: "full", "sparse" (a share of the points, or some columns where the
            equation's sensors stand at columns) or "noisy" (every point, with Gaussian
            noise).
        **changes: New values of `Hidden`, such as `rate`.

    Raises:
        ConfigError: When the equation has no such cell.
    """
    check_cell(problems.pde, direction, regime)
    hidden = replace(problems.hidden, **changes)
    index, key = problems.numbers, problems.seed
    density = "sparse" if regime == "sparse" else "full"
    task = f"{density}_{'forward' if direction == 'forward' else 'inverse'}"
    seen = observe(
        *(task, problems.a, problems.u),
        rate=hidden.rate,
        columns=hidden.columns if problems.pde.sensors == "columns" else None,
        layout=hidden.layout,
        key=key,
        index=index,
    )
    if regime != "noisy":
        return seen
    sds = problems.noise_sd(regime, hidden.noise)
    return add_noise(seen, *sds, key=key, index=index, fraction=hidden.fraction)


def observations_of(problems: Benchmark, asked: Sequence[Cell]) -> Observation:
    """Stacks what several cells hide, all problems of one cell after the other.

    Args:
        problems: Test problems.
        asked: The cells.

    Raises:
        ConfigError: When the equation has no such cell.
    """
    seen = [observation_of(problems, *cell) for cell in asked]
    parts = (
        [getattr(each, part.name) for each in seen] for part in fields(Observation)
    )
    return Observation(*map(torch.cat, parts))


def setting(problems: Benchmark, regime: str) -> str:
    """Names the grid of a cell and what its regime hides, as result rows do."""
    pde, hidden = problems.pde, problems.hidden
    parts = [f"size={pde.size}"]
    if problems.source:
        parts.append(f"data={problems.source}")
    if regime == "sparse" and pde.sensors == "columns":
        parts.append(f"columns={hidden.columns}")
    elif regime == "sparse":
        parts.append(f"rate={hidden.rate:g}")
        if hidden.layout != Hidden.layout:
            parts.append(f"layout={hidden.layout}")
    elif regime == "noisy":
        parts.append(f"noise_sd={hidden.noise:g}")
        if hidden.fraction != Hidden.fraction:
            parts.append(f"fraction={hidden.fraction:g}")
    return ";".join(parts)
