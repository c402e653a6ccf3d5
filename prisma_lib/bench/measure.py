"""How every bench measures: time, memory, work done, and the machine's own pace."""

import importlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from prisma_lib import results
from prisma_lib.intervals import Number


class Network(NamedTuple):
    """A network in use: preset, points per axis, and samples at once."""

    preset: str
    size: int
    batch: int

    @property
    def setting(self) -> str:
        """Says so in a row."""
        return f"preset={self.preset};size={self.size};batch={self.batch}"


@dataclass(frozen=True)
class Scale:
    """How much the benches measure.

    Args:
        runs: Timed runs of each work.
        matrix: Rows of the square matrices whose product sets the machine's pace.
        networks: What the model bench runs.
        compared: Of those, the one that is built from other spectral convolutions too.
        trained: Networks whose training step the generation of data is compared with.
        noise_grids: Points per axis of the noise.
        bulk: Fields of the equations with a direct solver that are made in one go.
        direct: Darcy fields that a sparse direct solver gets.
    """

    runs: int
    matrix: int
    networks: tuple[Network, ...]
    compared: Network
    trained: tuple[Network, ...]
    noise_grids: tuple[int, ...]
    bulk: int
    direct: int


def _scale(runs: int, matrix: int, bulk: int, batches: tuple[int, int, int]) -> Scale:
    small, base, paper = map(
        Network, ("small", "base", "paper"), (32, 64, 128), batches
    )
    grids = (64, 128, 256, 512)
    nets = (small, base, paper)
    return Scale(runs, matrix, nets, base, (small, base), grids, bulk, direct=10)


_TINY = Network("tiny", 16, 2)
SCALES = {
    "smoke": Scale(2, 128, (_TINY,), _TINY, (_TINY,), (16,), bulk=64, direct=1),
    "cpu": _scale(10, 2048, 50_000, (32, 16, 2)),
    "gpu": _scale(30, 8192, 50_000, (256, 128, 32)),
}


@dataclass(frozen=True)
class Setup:
    """Where and how much to measure."""

    device: torch.device
    scale: Scale

    def seconds(self, work: Callable[[], object]) -> float:
        """Returns the median seconds of `work`."""
        return timed(work, self.device, self.scale.runs)

    def seconds_in_turn(
        self, works: Mapping[str, Callable[[], object]]
    ) -> dict[str, float]:
        """Returns the median seconds of each work, run in turn."""
        return timed_in_turn(works, self.device, self.scale.runs)

    def runs_in_turn(
        self, works: Mapping[str, Callable[[], object]]
    ) -> dict[str, list[float]]:
        """Returns the seconds of each run of each work, run in turn."""
        return runs_in_turn(works, self.device, self.scale.runs)

    def matrix_rate(self) -> float:
        """Returns the machine's matrix-product rate, FLOP/s."""
        return _matrix_rate(self.device, self.scale.matrix, self.scale.runs)


def timed(
    work: Callable[[], object], device: torch.device, runs: int = 10, warm_up: int = 2
) -> float:
    """Returns the median seconds of `work`.

    Args:
        work: What to time; it is waited for on the device.
        device: Where it computes.
        runs: Runs that count.
        warm_up: Runs before them that do not.
    """
    return timed_in_turn({"": work}, device, runs, warm_up)[""]


def timed_in_turn(
    works: Mapping[str, Callable[[], object]],
    device: torch.device,
    runs: int = 10,
    warm_up: int = 2,
) -> dict[str, float]:
    """Returns the median seconds of each work, to compare them.

    Every round runs each once, so that a machine that slows down for a while slows all
    of them.

    Args:
        works: What to time, by name.
        device: Where it computes.
        runs: Rounds that count.
        warm_up: Rounds before them that do not.
    """
    times = runs_in_turn(works, device, runs, warm_up)
    return {name: statistics.median(taken) for name, taken in times.items()}


def runs_in_turn(
    works: Mapping[str, Callable[[], object]],
    device: torch.device,
    runs: int = 10,
    warm_up: int = 2,
) -> dict[str, list[float]]:
    """Returns the seconds of each run of each work, in the order of the rounds.

    Args:
        works: What to time, by name.
        device: Where it computes.
        runs: Rounds that count.
        warm_up: Rounds before them that do not.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(warm_up + runs):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times[name].append(time.perf_counter() - began)
    return {name: taken[warm_up:] for name, taken in times.items()}


def median_interval(times: Sequence[float]) -> Number:
    """Returns the median of runs with the order statistics that hold it.

    They are the k-th smallest and the k-th largest, with the largest k that holds the
    median of all possible runs with a probability of at least 95 %; of ten runs those
    are the second ones. The ends are NaN where not even the extremes do: of fewer than
    six runs.

    Args:
        times: One number of each run.

    Raises:
        StatisticsError: When there is no run.
    """
    ordered, num = sorted(times), len(times)
    left_out, rank, missed = 0.0, 0, 1
    while left_out + missed <= 0.025 * 2**num:
        left_out += missed
        rank += 1
        missed = math.comb(num, rank)
    held = (ordered[rank - 1], ordered[-rank]) if rank else (math.nan, math.nan)
    return Number(statistics.median(ordered), *held)


def columns(times: Sequence[float]) -> results.Row:
    """Returns the columns `value`, `low`, `high` and `n` of a row, to four digits.

    Args:
        times: One number of each run; an interval of too few has empty ends.
    """
    ends = zip(("value", "low", "high"), median_interval(times), strict=True)
    found: results.Row = {
        name: "" if math.isnan(end) else f"{end:.4g}" for name, end in ends
    }
    return found | {"n": len(times)}


def peak_megabytes(work: Callable[[], object], device: torch.device) -> float:
    """Returns the most memory that tensors took during `work`, in 10^6 bytes.

    What was allocated before, such as the weights of a network, does not count, nor do
    the scratch buffers of mathematical libraries.
    """
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 1e6
    with (
        _silent_stderr(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen,
    ):
        work()
    assert seen.profiler is not None
    events = seen.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    taken = peak = 0
    for _, change in sorted(changes, key=lambda event: event[0]):
        taken += change
        peak = max(peak, taken)
    return peak / 1e6


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drops what compiled code writes: the profiler announces itself at each start."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def operations(work: Callable[[], object]) -> int:
    """Counts the floating-point operations of matrix products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


@cache
def _matrix_rate(device: torch.device, num: int, runs: int) -> float:
    """Measures the product of two square float32 matrices."""
    matrix = torch.randn(num, num, device=device)
    return 2 * num**3 / timed(lambda: matrix @ matrix, device, runs)


def optional(module: str) -> ModuleType | None:
    """Imports a module of the extra `bench`; without it says that rows are left out."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"left out: what needs {module} ({error}); pip install prisma-lib[bench]")
        return None


def row(method: str, pde: str, setting: str, metric: str, value: float) -> results.Row:
    """Makes a row, with the value to three digits."""
    return {
        "method": method,
        "pde": pde,
        "setting": setting,
        "metric": metric,
        "value": f"{value:.3g}",
    }
