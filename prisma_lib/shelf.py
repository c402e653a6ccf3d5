"""Keeps answers of slow solvers in a folder, so that a run that is cut goes on.

An answer is found again by what decides it: the solver with its settings and weights,
problems, cells, and the source of the library. Whatever of it changes, the solver is
asked again.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from prisma_lib import runs
from prisma_lib.answers import Answer
from prisma_lib.cells import Benchmark, Cell
from prisma_lib.files import write_atomically
from prisma_lib.solver import Solver

ABOUT = "answers"


@dataclass(frozen=True)
class Shelf:
    """A folder of answers, or nothing that keeps any.

    Args:
        folder: Where; made when the first answer is kept. `None` keeps nothing.
    """

    folder: Path | None = None

    def kept(
        self,
        who: str,
        solvers: Sequence[Solver],
        problems: Benchmark,
        cells: Sequence[Cell],
        samples: int,
        make: Callable[[], Iterable[Answer]],
    ) -> list[Answer]:
        """Returns the answers that are kept, or makes and keeps them.

        Args:
            who: Name of the method.
            solvers: Who answers; their settings, and weights of networks, count.
            problems: The problems, from which the answers may have chosen some.
            cells: What is asked.
            samples: Draws per problem.
            make: Makes the answers.
        """
        if self.folder is None:
            return [*make()]
        pde = problems.pde
        about = [who, pde.equation, pde.options, pde.size, cells, samples, runs.code()]
        about += [problems.seed, problems.numbers, problems.hidden]
        key = sha256(repr(about).encode())
        for field in (problems.a, problems.u):  # of a file numbers do not tell
            key.update(field.cpu().numpy().tobytes())
        for solver in solvers:
            key.update(_identity(solver))
        place = self.folder / f"{key.hexdigest()[:20]}.safetensors"
        found = _read(place, problems)
        if found is None:
            found = [*make()]
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(place, _packed(found))
        return found

    def clear(self) -> None:
        """Throws all answers away: the run is done."""
        if self.folder is not None and self.folder.is_dir():
            for place in self.folder.glob("*.safetensors"):
                place.unlink()
            self.folder.rmdir()


def _identity(solver: Solver) -> bytes:
    """Hashes a solver: what it says of itself, and the weights of its networks."""
    found = sha256(repr(solver).encode())
    for value in vars(solver).values():
        if isinstance(value, nn.Module):
            for name, weight in value.state_dict().items():
                found.update(name.encode() + weight.cpu().numpy().tobytes())
    return found.digest()


def _packed(answers: Sequence[Answer]) -> bytes:
    tensors: dict[str, Tensor] = {}
    entries = []
    for i, answer in enumerate(answers):
        for name, draws in (("a", answer.a), ("u", answer.u)):
            if draws is not None:
                tensors[f"{i}.{name}"] = draws.contiguous()
        entry = {"cell": answer.cell, "about": answer.about, "suffix": answer.suffix}
        entries.append(entry | {"numbers": [*answer.problems.numbers]})
    return save(tensors, {ABOUT: json.dumps(entries)})


def _read(place: Path, problems: Benchmark) -> list[Answer] | None:
    """Returns the answers of a file; `None` if there is none that is whole."""
    where = {number: i for i, number in enumerate(problems.numbers)}
    found = []
    try:
        with safe_open(place, "pt") as file:
            names = {*file.keys()}
            for i, entry in enumerate(json.loads(file.metadata()[ABOUT])):
                a, u = (
                    file.get_tensor(f"{i}.{name}") if f"{i}.{name}" in names else None
                    for name in "au"
                )
                mine = problems.part([where[number] for number in entry["numbers"]])
                cell = tuple(entry["cell"])
                found.append(Answer(mine, cell, a, u, entry["about"], entry["suffix"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    return found
