"""Starts the processes that train together on this machine, and ends them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import (
    ProcessException,
    ProcessExitedException,
    start_processes,
)

from prisma_lib import parallel
from prisma_lib.errors import ConfigError, WorkerError

HOST = "localhost"


@contextmanager
def team(
    processes: int, work: Callable[..., object], *arguments: object
) -> Iterator[None]:
    """Makes this process the first of several on this machine, for a while.

    On a CPU each gets its share of the threads. The others end with the block, or with
    this process however that ends.

    Args:
        processes: How many in all; with one nothing happens.
        work: What the others do: the same collective calls as this one in the block.
        *arguments: For `work`.

    Raises:
        ConfigError: When this process is one of several already.
        WorkerError: When another process ended.
    """
    if processes == 1:
        yield
        return
    if parallel.size() > 1:
        raise ConfigError(
            f"processes={processes}, but a launcher has started {parallel.size()}: "
            "give the number to one of them only"
        )
    threads = torch.get_num_threads()
    share = max(1, threads // processes)
    store = _store(0, first=True)
    settings = (store.port, processes, share, work, arguments)
    others = start_processes(
        _other, settings, nprocs=processes - 1, join=False, daemon=True
    )
    torch.set_num_threads(share)
    try:
        with _explained(others):
            while not store.check([str(k) for k in range(1, processes)]):
                others.join(timeout=0.1)
            parallel.meet(store=store, rank=0, world_size=processes)
            yield
    finally:
        _end(others)
        torch.set_num_threads(threads)


def _other(
    index: int,
    port: int,
    processes: int,
    threads: int,
    work: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    """Is one of the other processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the first, which ends
    threading.Thread(target=_end_with_the_first, daemon=True).start()
    torch.set_num_threads(threads)
    store = _store(port, first=False)
    store.set(str(index + 1), "here")
    parallel.meet(store=store, rank=index + 1, world_size=processes)
    try:
        work(*arguments)
    finally:
        distributed.destroy_process_group()


def _end_with_the_first() -> None:
    first = multiprocessing.parent_process()
    if first is not None:
        first.join()
    os._exit(1)


def _store(port: int, first: bool) -> Any:
    """Where the processes find each other; port 0 is a free one."""
    return distributed.TCPStore(  # type: ignore[attr-defined]
        HOST, port, is_master=first, wait_for_workers=False
    )


@contextmanager
def _explained(others: Any) -> Iterator[None]:
    """Says which process was lost and how, instead of that a connection broke."""
    try:
        yield
    except ProcessException as failure:
        raise _lost(failure) from failure
    except RuntimeError as error:
        if not parallel.is_loss(error):
            raise
        try:
            others.join(timeout=parallel.LONGEST.total_seconds())
        except ProcessException as failure:
            raise _lost(failure) from error
        raise


def _lost(failure: ProcessException) -> WorkerError:
    how = f"failed: {failure.msg.strip().splitlines()[-1]}"
    if isinstance(failure, ProcessExitedException):
        how = f"ended with {failure.signal_name or f'status {failure.exit_code}'}"
        if failure.signal_name == "SIGKILL":
            how += ", which often means that memory ran out"
    return WorkerError(f"process {failure.error_index + 1} {how}; {parallel.GO_ON}")


def _end(others: Any) -> None:
    for process in others.processes:
        process.terminate()
        process.join()
    if parallel.size() > 1:
        distributed.destroy_process_group()
