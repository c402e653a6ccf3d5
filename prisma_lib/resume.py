"""What a run needs to go on, and what must not have changed in between."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prisma_lib import generations
from prisma_lib.draws import STREAM
from prisma_lib.errors import CheckpointError
from prisma_lib.tensorfile import check_fit
from prisma_lib.training import TrainConfig, TrainState

FREE = ("name", "minutes", "data")  # settings that a run may change
ABSENT = "nothing"

Settings = dict[str, Any]


def save(folder: Path, state: TrainState) -> None:
    """Writes everything that a run needs to go on, as a new generation.

    Raises:
        CheckpointError: When a weight is not finite; nothing was written then.
        RunDirError: When the folder cannot be written.
    """
    about = {"settings": settings(state), "seconds": state.seconds}
    generations.save(folder, state.step, tensors(state), about)


def tensors(state: TrainState) -> dict[str, Tensor]:
    """Returns the weights, their average and the optimiser's moments, by name."""
    parts = {
        "model": state.model.state_dict(),
        "average": state.average.state_dict(),
        "optimiser": state.optimiser.tensors(),
    }
    return {
        f"{part}.{name}": value
        for part, content in parts.items()
        for name, value in content.items()
    }


def settings(state: TrainState) -> Settings:
    """Returns all that decides what a run computes, under one name each."""
    config, model, pde = state.config, state.model, state.model.pde
    found = {
        **_plain(config, model.config),
        "pde.equation": pde.equation,
        **{f"pde.{key}": value for key, value in pde.options.items()},
        **{f"pde.{key}": value for key, value in pde.coefficients.items()},
        "data.stream": STREAM,
        "data.sha256": state.source.sha256,
        **{f"data.{name}": sha256 for name, sha256 in state.source.parts.items()},
        "data.mean": model.statistics.mean,
        "data.std": model.statistics.std,
    }
    return json.loads(json.dumps(found))


def _plain(config: TrainConfig, network: Any) -> Settings:
    given = {
        key: value
        for key, value in asdict(config).items()
        if key not in (*FREE, "model", "options")
    }
    found = given | {f"model.{key}": value for key, value in asdict(network).items()}
    return json.loads(json.dumps(found))


def load(folder: Path, state: TrainState) -> bool:
    """Continues a fresh state from the newest whole checkpoint of a run.

    Args:
        folder: The run's folder.
        state: State made by `training.start` from the same settings; changed in place.

    Returns:
        Whether there was a checkpoint.

    Raises:
        CheckpointError: When no checkpoint is whole, or the run that wrote it had other
            settings or data.
    """
    found = generations.load(folder)
    if found is None:
        return False
    card, content = found
    source = folder / f"step {card['step']}"
    # An older version did not know settings that came later: it did as they do unset.
    unset = _plain(TrainConfig(), type(state.model.config)())
    written, given = unset | card["settings"], settings(state)
    if state.config.minutes is not None:  # they were fitted at the first start
        given["images"] = written["images"]
    check_same(written, given, folder)
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimiser": {}}
    for key, value in content.items():
        part, _, name = key.partition(".")
        parts.setdefault(part, {})[name] = value
    for part, network in (("model", state.model), ("average", state.average)):
        check_fit(parts[part], network.state_dict(), f"{source}, {part}")
        network.load_state_dict(parts[part])
    state.optimiser.restore(parts["optimiser"])
    state.config = replace(state.config, images=written["images"])
    state.step, state.seconds = card["step"], card["seconds"]
    return True


def check_same(written: Settings, given: Settings, source: object) -> None:
    """Refuses to go on with other settings or data.

    Args:
        written: Settings of the run that wrote the checkpoint.
        given: Settings of the run that wants it.
        source: Where the checkpoint is, for messages.

    Raises:
        CheckpointError: With a line for each difference.
    """
    changed = list(_differences(written, given))
    if changed:
        raise CheckpointError(
            f"{source} belongs to a run with other settings:\n  "
            + "\n  ".join(changed)
            + "\nUse another folder or the old settings. Only these may change: "
            + "name, minutes, the path of the same data, the device and the time "
            + "between checkpoints."
        )


def _differences(written: Settings, given: Settings) -> Iterator[str]:
    for key in dict.fromkeys([*written, *given]):
        old, new = written.get(key, ABSENT), given.get(key, ABSENT)
        if old != new and not _rounding(key, written, given):
            yield f"{key}: {old!r} -> {new!r}"


def _rounding(key: str, written: Settings, given: Settings) -> bool:
    """Whether statistics differ no more than between two machines."""
    if key not in ("data.mean", "data.std") or key not in written:
        return False
    scale = torch.tensor(given["data.std"])
    difference = torch.tensor(written[key]) - torch.tensor(given[key])
    return bool((difference.abs() <= 1e-4 * scale).all())
