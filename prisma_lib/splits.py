"""Which problems there are: numbered, split, solved, and summed up.

Problem `i` of a split is `pde.pair(seed, [offset + i])`, with the offset of the split
in `SPLITS`, so that splits never share a problem.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.checks import check_count, check_seed
from prisma_lib.errors import ConfigError, DataError, NumericsError, unknown_name
from prisma_lib.pdes.base import BLOCK, PDE, Field, Interior, Statistics

log = logging.getLogger(__name__)
Device = torch.device | str | None

SPLITS = {"train": 0, "validation": BLOCK, "test": 2 * BLOCK}
BATCH = 256  # problems that are drawn, solved, read or hashed at once


def sample_numbers(split: str, num: int, start: int = 0) -> range:
    """Returns the numbers of problems in the stream of a seed; see `problems`.

    Raises:
        ConfigError: When the split is unknown, or the problems are none or too many.
    """
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    check_count("num", num, 1, 1000)
    if start < 0 or start + num > BLOCK:
        raise ConfigError(
            f"start={start}, num={num}: a split holds the problems 0 to 2^40 - 1; "
            "choose numbers in that range"
        )
    first = SPLITS[split] + start
    return range(first, first + num)


def problems(
    pde: PDE, num: int, split: str = "test", seed: int = 0, start: int = 0
) -> tuple[Field, Field]:
    """Draws and solves problems of a split.

    Args:
        pde: The equation.
        num: Number of problems, at least 1.
        split: One of `SPLITS`.
        seed: Names the random stream.
        start: First problem, counted within the split.

    Returns:
        Inputs and solutions, physical units, float32, on the CPU.

    Raises:
        ConfigError: When a number or the split is impossible.
        NumericsError: When a solution is not finite.
    """
    a, u = zip(*batches(pde, seed, sample_numbers(split, num, start)), strict=True)
    return torch.cat(a), torch.cat(u)


def batches(pde: PDE, seed: int, numbers: range) -> Iterator[tuple[Field, Field]]:
    """Yields numbered problems of a stream, a few hundred at a time; see `solved`.

    Raises:
        ConfigError: When the seed is none.
    """
    check_seed(seed)
    for lower in range(0, len(numbers), BATCH):
        yield solved(pde, seed, numbers[lower : lower + BATCH])


def stream(
    pde: PDE, batch: int, seed: int = 0, step: int = 0, device: Device = None
) -> Iterator[tuple[Field, Field]]:
    """Yields fresh training problems without end; none comes twice.

    Args:
        pde: The equation.
        batch: Problems per step, at least 1.
        seed: Names the random stream.
        step: Where to start: the stream from step `k` on is the same whether or not
            the steps before were drawn.
        device: Where to solve; inputs are drawn on the CPU.

    Yields:
        Inputs and solutions of problems `step * batch` and following of the training
        split, float32.

    Raises:
        ConfigError: When the seed, the batch or the step is impossible.
        NumericsError: When a solution is not finite, with the number of its problem.
    """
    check_seed(seed)
    while True:
        numbers = sample_numbers("train", batch, step * batch)
        yield solved(pde, seed, numbers, device)
        step += 1


def solved(
    pde: PDE, seed: int, numbers: Sequence[int], device: Device = None
) -> tuple[Field, Field]:
    """Draws and solves numbered problems of a stream, all at once.

    Returns:
        Inputs and solutions, float32, on `device`; inputs are drawn on the CPU.

    Raises:
        NumericsError: When a solution is not finite, with the number of its problem.
    """
    try:
        a, u = pde.pair(seed, numbers, device)
    except NumericsError as error:
        raise NumericsError(
            f"{error} (a batch of problems {numbers[0]} to {numbers[-1]}, seed {seed})"
        ) from error
    finite = a.isfinite().all(dim=(1, 2, 3)) & u.isfinite().all(dim=(1, 2, 3))
    if not finite.all():
        worst = numbers[int((~finite).nonzero()[0])]
        raise NumericsError(
            f"{pde.name}: problem {worst} of seed {seed} has a solution that is not "
            "finite; a finer grid or milder coefficients may help"
        )
    return a, u


class Moments:
    """Sums up problems batch by batch into `Statistics`, without outliers.

    `outliers` lists the problems that `pde.outliers` marks, counted from the first one
    that was added; `num` counts all.
    """

    def __init__(self, pde: PDE) -> None:
        self._pde = pde
        self.num, self.outliers = 0, list[int]()
        self._points, self._sum, self._square = torch.zeros(3, 2, dtype=torch.float64)
        self._residuals, self._residual_square = 0, 0.0

    def add(self, a: Field, u: Field) -> None:
        """Takes in a batch; its residual is computed in the dtype of the fields."""
        odd = self._pde.outliers(a, u)
        self.outliers += (odd.nonzero()[:, 0] + self.num).tolist()
        self.num += len(a)
        if odd.all():
            return
        if odd.any():
            a, u = a[~odd], u[~odd]
        x = torch.cat([a, u], dim=1).double().cpu()
        self._sum += self._per_field(x)
        self._square += self._per_field(x.square())
        self._points += torch.tensor([a.numel(), u.numel()])
        r: Interior = self._pde.residual(a, u).double()
        self._residual_square += r.square().sum().item()
        self._residuals += r.numel()

    def _per_field(self, x: Tensor) -> Float[Tensor, "2"]:
        """Sums over everything but the two fields."""
        channels = x.sum(dim=(0, 2, 3)).split(self._pde.channels)
        return torch.stack([channel.sum() for channel in channels])

    def statistics(self) -> Statistics:
        """Returns the statistics of everything so far; logs how many were left out.

        Raises:
            DataError: When a field is constant and cannot be normalised, or when all
                problems are outliers.
        """
        name, odd = self._pde.name, len(self.outliers)
        if odd:
            text = "%s: %d of %d problems are outliers, left out of the statistics"
            log.warning(text, name, odd, self.num)
        if odd == self.num:
            raise DataError(
                f"{name}: all {odd} problems are outliers: there is nothing to "
                "normalise by; use more problems or another recipe"
            )
        mean = self._sum / self._points
        std = (self._square / self._points - mean.square()).clamp(min=0).sqrt()
        rms = math.sqrt(self._residual_square / self._residuals)
        found = {"mean": mean.tolist(), "std": std.tolist(), "residual_rms": rms}
        return checked_statistics(found, name)


def statistics(
    pde: PDE, num: int = 1024, seed: int = 0, split: str = "train"
) -> Statistics:
    """Computes what normalises the fields of an equation, from some `problems` of it.

    Returns:
        Mean and standard deviation over points and problems, and the residual that the
        float32 truth has, all without outliers, whose number is logged.

    Raises:
        ConfigError: When a number or the split is impossible.
        DataError: When a field is constant or all problems are outliers.
    """
    moments = Moments(pde)
    for a, u in batches(pde, seed, sample_numbers(split, num)):
        moments.add(a, u)
    return moments.statistics()


def combined(parts: Sequence[tuple[int, Statistics]]) -> Statistics:
    """Combines numbers of problems, without outliers, and their statistics.

    All are of one equation on one grid. The result is what `Moments` would have found
    for all problems, up to rounding.
    """
    total = sum(num for num, _ in parts)

    def average(values: Iterable[float]) -> float:
        weighted = zip(parts, values, strict=True)
        return math.fsum(num * value for (num, _), value in weighted) / total

    mean_a, mean_u = mean = [average(s.mean[i] for _, s in parts) for i in range(2)]
    std_a, std_u = (
        math.sqrt(average(s.std[i] ** 2 + (s.mean[i] - mean[i]) ** 2 for _, s in parts))
        for i in range(2)
    )
    rms = math.sqrt(average(s.residual_rms**2 for _, s in parts))
    return Statistics((mean_a, mean_u), (std_a, std_u), rms)


def checked_statistics(values: Mapping[str, Any], source: object) -> Statistics:
    """Makes statistics of plain values, such as those of the file `source`.

    Raises:
        DataError: When one is missing or not finite, or a field is constant.
    """
    try:
        (mean_a, mean_u), (std_a, std_u) = values["mean"], values["std"]
        found = Statistics(
            (float(mean_a), float(mean_u)),
            (float(std_a), float(std_u)),
            float(values["residual_rms"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{source}: statistics are missing or damaged ({error!r}): mean and std of "
            "a and u and residual_rms are needed; make it again"
        ) from error
    if not all(map(math.isfinite, (*found.mean, *found.std, found.residual_rms))):
        raise DataError(f"{source}: statistics are not finite; make it again")
    # float32 rounding of a constant field leaves about 1e-7 of its mean.
    for name, mean, std in zip("au", found.mean, found.std, strict=True):
        if std <= 1e-6 * abs(mean):
            raise DataError(
                f"{source}: {name} is constant (mean {mean:g}, std {std:g}) and cannot "
                "be normalised; use more varied problems"
            )
    return found
