"""Models on disk: weights as safetensors, everything else in a JSON card.

A model is a folder with `model.safetensors` and `card.json`. Loading never runs code
from a file. The card holds what is needed to rebuild the model (equation, settings,
statistics, checksum) and what a reader wants to know (training, measured errors).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from prisma_lib import devices, methods, pdes
from prisma_lib.errors import CheckpointError, PrismaError
from prisma_lib.files import write_atomically, write_json
from prisma_lib.model import Prisma
from prisma_lib.splits import checked_statistics
from prisma_lib.tensorfile import check_fit, pack, unpack
from prisma_lib.units import Normalised

FORMAT = 1
WEIGHTS, CARD = "model.safetensors", "card.json"
SHIPPED = Path(__file__).parents[1] / "outputs" / "models"

Card = dict[str, Any]


def shipped() -> tuple[str, ...]:
    """Lists the models that ship with the project."""
    return tuple(sorted(path.parent.name for path in SHIPPED.glob(f"*/{CARD}")))


def save(
    folder: Path | str,
    model: Normalised,
    notes: Card | None = None,
    dtype: torch.dtype = torch.float16,
) -> Card:
    """Writes a model.

    Args:
        folder: Where to; made if missing, replaced file by file.
        model: The model.
        notes: What the card says beside what is needed to rebuild the model.
        dtype: Type of the stored weights.

    Returns:
        The card.

    Raises:
        CheckpointError: When a weight is not finite in that type.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {k: v.detach().to(dtype) for k, v in model.state_dict().items()}
    content, entry = pack(weights, folder)
    pde = model.pde
    card: Card = {
        "format": FORMAT,
        "method": model.method,
        "pde": {
            "name": pde.name,
            "size": pde.size,
            "options": pde.options,
            "equation": pde.equation,
            "coefficients": pde.coefficients,
        },
        "model": asdict(model.config),
        "parameters": sum(p.numel() for p in model.parameters()),
        "statistics": asdict(model.statistics),
        "weights": {"dtype": str(dtype).removeprefix("torch."), **entry},
        **(notes or {}),
    }
    write_atomically(folder / WEIGHTS, content)
    write_card(folder, card)
    return card


def write_card(folder: Path | str, card: Card) -> None:
    """Writes a model's card as strict JSON."""
    write_json(Path(folder) / CARD, card)


def find(name: str | Path) -> Path:
    """Finds a model's folder by the name of a shipped model or by its path.

    Raises:
        CheckpointError: When there is none.
    """
    for folder in (SHIPPED / str(name), Path(name)):
        if (folder / CARD).is_file():
            return folder
    if Path(name).is_file():
        raise CheckpointError(
            f"{name} is a file, not a model folder: models are folders with "
            f"{WEIGHTS} and {CARD}. Pickles (.pt, .pkl) are never loaded, because "
            "they can run code; convert them to safetensors where you trust them"
        )
    raise CheckpointError(
        f"no model {str(name)!r}: shipped are {', '.join(shipped()) or 'none'}; "
        f"or give the path of a folder with {WEIGHTS} and {CARD}"
    )


def label(name: str | Path) -> str:
    """Names a model in result rows: one that does not ship after its run's folder, too.

    Raises:
        CheckpointError: When there is none.
    """
    folder = find(name).resolve()
    ships = folder.parent == SHIPPED.resolve()
    return folder.name if ships else f"{folder.parent.name}-{folder.name}"


def read_card(folder: Path | str) -> Card:
    """Reads and checks a model's card.

    Raises:
        CheckpointError: When it is damaged or of a newer format, or does not say what
            the weights are.
    """
    path = Path(folder) / CARD
    try:
        card: Card = json.loads(path.read_text())
        version = card["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"corrupt: {path} is no model card ({error})") from error
    if version != FORMAT:
        raise CheckpointError(
            f"{path} was written in format {version}, this library reads {FORMAT}: "
            "update prisma_lib"
        )
    entry = card.get("weights")
    if not isinstance(entry, dict) or not {"bytes", "sha256", "dtype"} <= {*entry}:
        raise CheckpointError(
            f"corrupt: {path} has weights={entry!r}: bytes, sha256 and dtype of "
            f"{WEIGHTS} are needed; restore the file, for example with git"
        )
    if not isinstance(getattr(torch, str(entry["dtype"]), None), torch.dtype):
        raise CheckpointError(
            f"corrupt: {path} says that weights are of dtype {entry['dtype']!r}: it is "
            "a type of torch such as 'float16'; restore the file, for example with git"
        )
    return card


def load(name: str | Path, *, pde: str | None = None, device: str = "cpu") -> Prisma:
    """Loads a PRISMA model for solving.

    Args:
        name: Name of a shipped model, such as "darcy-32", or a folder.
        pde: Refuse a model of any other equation.
        device: "cpu", "cuda" or "auto".

    Returns:
        The model in evaluation mode, float32.

    Raises:
        CheckpointError: When there is no such model, or it is damaged, of a newer
            format, of another equation, or a baseline.
        ConfigError: When the device is not there.
    """
    model = load_any(name, device=device)
    if not isinstance(model, Prisma):
        raise CheckpointError(
            f"{find(name)} is a model of {model.method}, no PRISMA: load it with "
            "prisma_lib.baselines.load"
        )
    trained = model.pde.name
    if pde is not None and pde != trained:
        raise CheckpointError(
            f"{find(name)} was trained for {trained}, asked for {pde}: load a {pde} "
            "model"
        )
    return model


def load_any(name: str | Path, *, device: str = "cpu") -> Normalised:
    """Loads a model of any method; see `load`."""
    folder = find(name)
    card = read_card(folder)
    target = devices.resolve(device)
    model = build(card, folder)
    weights = unpack(folder / WEIGHTS, card["weights"])
    stored = getattr(torch, card["weights"]["dtype"])
    check_fit(weights, model.state_dict(), folder, stored)
    model.load_state_dict({k: v.float() for k, v in weights.items()})
    return model.eval().requires_grad_(False).to(target)


def build(card: Card, source: Path) -> Normalised:
    """Builds the model that a card describes, with fresh weights.

    Raises:
        CheckpointError: When the card's settings make no model.
    """
    try:
        equation = card["pde"]
        problem = pdes.load(
            equation["name"], size=equation["size"], **equation["options"]
        )
        numbers = checked_statistics(card["statistics"], "card")
        network = methods.network(card["method"])
        return network(problem, network.settings.from_dict(card["model"]), numbers)
    except (AttributeError, KeyError, TypeError, PrismaError) as error:
        raise CheckpointError(f"{source}: the card makes no model: {error}") from error
