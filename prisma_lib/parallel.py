"""Several processes that train one model: each takes a part of every batch.

A launcher starts them, on one machine or several, and each enters `joined`:

    torchrun --nproc-per-node 2 -m prisma_lib.train PLAN
    accelerate launch --multi_gpu --num_processes 2 -m prisma_lib.train PLAN

Or a process starts the others on its own machine: see `teams`. Outside of both, all
that is here acts as for one process.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, distributed, nn

from prisma_lib import devices
from prisma_lib.checks import check_count
from prisma_lib.errors import ConfigError, PrismaError, WorkerError

LONGEST = timedelta(minutes=10)  # that a process waits for another
GO_ON = "the last checkpoint is whole: start the same training again to go on from it"
# How the loss of another process reads in the words of gloo and NCCL.
_SIGNS = ("Connection closed", "Connection reset", "Broken pipe", "remote process")

Result = TypeVar("Result")


def size() -> int:
    """Returns how many processes train together."""
    return distributed.get_world_size() if _together() else 1


def rank() -> int:
    """Returns the number of this process; the main one is 0."""
    return distributed.get_rank() if _together() else 0


def is_main() -> bool:
    """Whether this is the process that writes files and shows progress."""
    return rank() == 0


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def check_batch(batch: int, processes: int) -> None:
    """Refuses a batch that cannot be shared evenly.

    Raises:
        ConfigError: Naming the nearest batches that can.
    """
    check_count("processes", processes, 1, 2)
    if batch % processes:
        below = batch - batch % processes
        valid = f"{below} or {below + processes}" if below else f"{processes}"
        raise ConfigError(
            f"batch={batch} cannot be shared evenly by {processes} processes: "
            f"give batch={valid}"
        )


def part(batch: int) -> range:
    """Returns the positions in a batch that are this process's.

    Raises:
        ConfigError: When the batch cannot be shared evenly.
    """
    check_batch(batch, size())
    share = batch // size()
    return range(rank() * share, (rank() + 1) * share)


def device(name: str) -> torch.device:
    """Returns the device of this process; every process has a GPU of its own.

    Args:
        name: "auto", "cpu" or "cuda", as `devices.resolve` takes it.

    Raises:
        ConfigError: When the name is unknown or there are fewer GPUs than processes.
    """
    found = devices.resolve(name)
    if size() == 1 or found.type != "cuda":
        return found
    here = distributed.get_node_local_rank(fallback_rank=rank())
    if here >= torch.cuda.device_count():
        raise ConfigError(
            f"process {here} of this machine needs a GPU of its own, and there are "
            f"{torch.cuda.device_count()}: start fewer processes, or use device: cpu",
            exit_code=4,
        )
    torch.cuda.set_device(here)
    return torch.device("cuda", here)


def shared(network: nn.Module) -> nn.Module:
    """Wraps a network so that every gradient becomes the mean over all processes."""
    if size() == 1:
        return network
    # Said of 1 x 1 kernels, for whose strides there are two right values.
    warnings.filterwarnings("ignore", "Grad strides do not match")
    return nn.parallel.DistributedDataParallel(network)


def gathered(values: Float[Tensor, " b"]) -> Float[Tensor, " all"]:
    """Joins the values of all processes, in the order of their parts of the batch."""
    if size() == 1:
        return values
    parts = [torch.empty_like(values) for _ in range(size())]
    distributed.all_gather(parts, values)
    return torch.cat(parts)


def told(function: Callable[[], Result], teller: int = 0) -> Result:
    """Calls a function in one process and returns its result in all.

    Args:
        function: What to call.
        teller: Number of the process that calls it.

    Raises:
        PrismaError: In all processes, what the function raised.
    """
    if size() == 1:
        return function()
    answer: list[Any] = [None, None]
    if rank() == teller:
        try:
            answer[0] = function()
        except PrismaError as error:
            answer[1] = error
    distributed.broadcast_object_list(answer, src=teller)
    if answer[1] is not None:
        raise answer[1]
    return answer[0]


def is_loss(error: RuntimeError) -> bool:
    """Whether an error says that another process is gone."""
    return size() > 1 and any(sign in str(error) for sign in _SIGNS)


def meet(**settings: Any) -> None:
    """Waits for the others; `settings` say where, if the environment does not."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    distributed.init_process_group(backend, timeout=LONGEST, **settings)


@contextmanager
def joined() -> Iterator[None]:
    """Trains together with the other processes of a launcher, if one started this.

    Raises:
        WorkerError: When another process ended.
    """
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    meet()
    try:
        yield
    except RuntimeError as error:
        if not is_loss(error):
            raise
        raise WorkerError(f"another process of this training ended; {GO_ON}") from error
    finally:
        distributed.destroy_process_group()
