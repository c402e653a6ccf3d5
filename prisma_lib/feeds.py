"""Where the clean pairs of a training come from: new ones, repeated ones, a file."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from prisma_lib import data, manifests, symmetry
from prisma_lib.devices import sent
from prisma_lib.draws import as_slice, images
from prisma_lib.edm import SIGMA_DATA
from prisma_lib.errors import DataError
from prisma_lib.fields import keyed_uniform
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.trainconfig import TrainConfig
from prisma_lib.units import Normalised

BLOCK = 8  # steps whose problems are solved together: the solver is faster in bulk
LOOKED_AT = 256  # new problems whose scale is checked before the first step
TOLERANCE = 0.2

Batch = tuple[Sequence[int], Pair]


@dataclass(frozen=True)
class Source:
    """The clean pairs of a run.

    Args:
        statistics: What normalises them.
        stored: All pairs of a set that every epoch repeats, physical units; `None` when
            each pair is new.
        sha256: Content hash of the file or folder that they are from, if they are.
        parts: That of each file of the folder, by name.
    """

    statistics: Statistics
    stored: tuple[Field, Field] | None = None
    sha256: str | None = None
    parts: dict[str, str] = field(default_factory=dict)


def source(config: TrainConfig, pde: PDE) -> Source:
    """Finds the clean pairs of a run.

    Args:
        config: Settings of the run.
        pde: Its equation.

    Raises:
        ConfigError: When problems are to be turned that may not be.
        DataError: When the file is damaged, of another equation, holds test problems,
            or fewer than one batch.
    """
    if config.augment:
        symmetry.check_symmetric(pde)
    if config.data is None:
        statistics = data.statistics(pde, seed=config.seed)
        if not config.stored:
            return Source(statistics)
        pairs = data.problems(pde, config.stored, "train", config.seed)
        return Source(statistics, pairs)
    found = data.load(config.data, pde)
    if found.attributes.get("split") == "test":
        raise DataError(
            f"{config.data} holds test problems: a model that was trained on them "
            "cannot be judged; make data with split='train'"
        )
    if len(found.a) < config.batch:
        raise DataError(
            f"{config.data} holds {len(found.a)} problems, less than one batch of "
            f"{config.batch}: make more, or lower batch"
        )
    parts = {}
    if Path(config.data).is_dir():
        parts = {p.name: p.sha256 for p in manifests.read(Path(config.data))[1]}
    return Source(
        found.statistics, (found.a, found.u), found.attributes["sha256"], parts
    )


def check_scale(config: TrainConfig, source: Source, model: Normalised) -> None:
    """Refuses data whose scale is not that which the noise levels are made for.

    Args:
        config: Settings of the run.
        source: Its clean pairs.
        model: The network, which normalises them.

    Raises:
        DataError: When the standard deviation of a normalised field is not 0.5 within a
            fifth.
    """
    pde = model.pde
    a, u = source.stored or data.problems(pde, LOOKED_AT, "train", config.seed)
    x = torch.cat([a, u], 1)[~pde.outliers(a, u)]  # as in the statistics
    x = model.normalise(x.to(model.mean.device))
    for name, values in zip("au", x.split(pde.channels, 1), strict=True):
        std = values.std().item()
        if not abs(std - SIGMA_DATA) <= TOLERANCE * SIGMA_DATA:
            raise DataError(
                f"{name} has a standard deviation of {std:.3g} after normalisation, "
                f"{SIGMA_DATA} within {TOLERANCE:.0%} is needed: the statistics of "
                f"{pde.name} {model.statistics} are not those of the data"
            )


def batches(
    config: TrainConfig,
    source: Source,
    model: Normalised,
    step: int,
    part: range | None = None,
) -> Iterator[Batch]:
    """Yields the clean pairs of one step after another.

    Args:
        config: Settings of the run.
        source: Its clean pairs.
        model: The network, which normalises them; they are on its device.
        step: Where to begin; what comes from a step on depends on the step alone.
        part: Positions in the batch that are wanted, without gaps; all by default.

    Yields:
        Numbers of the problems, and the normalised pairs.
    """
    if source.stored is None:
        yield from _new(config, model, step, part)
    x = torch.cat(source.stored or (), 1).to(model.mean.device)
    for number, batch in enumerate(
        _repeated(config, model.normalise(x), step, part), start=step
    ):
        yield _turned(config, batch, number, part) if config.augment else batch


def _new(
    config: TrainConfig, model: Normalised, step: int, part: range | None
) -> Iterator[Batch]:
    """Solves new problems, several steps at once; image `n` is problem `n`."""
    for first in itertools.count(step - step % BLOCK, BLOCK):
        steps = [images(config, first + k, part) for k in range(BLOCK)]
        numbers = [number for wanted in steps for number in wanted]
        fields = data.solved(model.pde, config.seed, numbers, model.mean.device)
        x = model.normalise(torch.cat(fields, 1)).split(len(steps[0]))
        yield from list(zip(steps, x, strict=True))[max(step - first, 0) :]


def _turned(config: TrainConfig, batch: Batch, step: int, part: range | None) -> Batch:
    """Turns and reflects each pair of a batch as the number of its image says."""
    problems, x = batch
    numbers = images(config, step, part)
    dice = keyed_uniform(config.seed, numbers, (1,), "view")[:, 0]
    views = (dice * symmetry.ORDER).long().tolist()
    pairs = zip(x, views, strict=True)
    return problems, torch.stack([symmetry.moved(pair, view) for pair, view in pairs])


def _repeated(
    config: TrainConfig, x: Tensor, step: int, part: range | None
) -> Iterator[Batch]:
    """Repeats a fixed set, in a new order in every epoch."""
    per_epoch = len(x) // config.batch
    shuffled, order = -1, torch.empty(0, dtype=torch.int64)
    for number in itertools.count(step):
        epoch, position = divmod(number, per_epoch)
        if epoch != shuffled:
            dice = keyed_uniform(config.seed, [epoch], (len(x),), "epoch order")[0]
            shuffled, order = epoch, dice.argsort(stable=True)
        rows = order[position * config.batch :][: config.batch][as_slice(part)]
        yield rows.tolist(), x[sent(rows, x.device)]
