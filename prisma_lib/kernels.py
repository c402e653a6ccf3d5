"""A kernel manager for notebooks that nobody watches.

It differs from the stock one in four things. The kernel talks over IPC sockets in a
private folder: TCP ports are chosen before they are bound, so kernels that start side
by side can collide, and the stock IPC name is the same in every process. No reply is
awaited without a limit: when a cell owns an `ipywidgets.Output`, nbclient can miss the
wake-up for a reply (nbclient issue 312) and then waits for ever; asking again finds it.
And the kernel is always the running Python with a neutral profile, whatever kernels and
start-up files the user has installed; it ends when the process that started it does.
"""

import math
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from queue import Empty
from time import monotonic
from types import MappingProxyType
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

LONGEST_FOLDER = 80  # with the name of a socket it must fit into 108 bytes
PATIENCE = 1.0  # seconds
HEADLESS = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "TQDM_DISABLE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}

THREADS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)
# ipykernel too watches its parent, but misses a death while it starts, and leaves the
# processes that a cell has started.
KERNEL = """
import os, runpy, signal, threading, time

def watch(parent=int(os.environ["JPY_PARENT_PID"])):
    while os.getppid() == parent:
        time.sleep(0.5)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)

threading.Thread(target=watch, daemon=True).start()
runpy.run_module("ipykernel_launcher", run_name="__main__")
"""

Receive = Callable[..., Awaitable[dict[str, Any]]]


class QuietKernelManager(AsyncKernelManager):
    """Starts one kernel of the running Python in a private folder.

    Attributes:
        folder_of_work: Working folder of the kernel; the caller's by default.
        variables: What its environment has beside the caller's.
    """

    folder_of_work: str | None = None
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = private_folder()
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.connection_file = str(self.folder / "kernel.json")
        if os.name != "nt":
            self.transport = "ipc"
            self.ip = str(self.folder / "k")

    @property
    def kernel_spec(self) -> KernelSpec:
        """The running Python, also where no kernel was ever installed."""
        argv = [sys.executable, "-c", KERNEL, "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")

    async def start_kernel(  # type: ignore[override]
        self, **kwargs: Any
    ) -> None:
        """Starts the kernel in an environment that is the same for everybody."""
        kwargs.setdefault("cwd", self.folder_of_work)
        profile = {"IPYTHONDIR": str(self.folder / "ipython")}
        extra = {**self.variables, **HEADLESS, **profile}
        env = {**os.environ, **kwargs.pop("env", {}), **extra}
        await super().start_kernel(env=env, **kwargs)

    def client(self, **kwargs: Any) -> AsyncKernelClient:  # type: ignore[override]
        """Makes a client whose replies cannot be missed."""
        client: AsyncKernelClient = super().client(**kwargs)
        channel: Any = client.shell_channel
        channel.get_msg = persistent(channel.get_msg)
        return client


def private_folder() -> Path:
    """Makes a folder for this user alone, with a path that is short enough for IPC."""
    folder = Path(tempfile.mkdtemp(prefix="prisma-"))
    if len(str(folder)) > LONGEST_FOLDER and Path("/tmp").is_dir():
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="prisma-", dir="/tmp"))
    return folder


def persistent(receive: Receive) -> Receive:
    """Cuts a wait for a message, which ends in `Empty`, into waits of a second."""

    async def get_msg(timeout: float | None = None) -> dict[str, Any]:
        end = math.inf if timeout is None else monotonic() + timeout
        while True:
            left = min(PATIENCE, end - monotonic())
            try:
                return await receive(timeout=max(0.0, left))
            except Empty:
                if monotonic() >= end:
                    raise

    return get_msg


def manager(folder: Path, threads: int | None = None) -> type[QuietKernelManager]:
    """Makes the class of a kernel manager for one run.

    Args:
        folder: Working folder of the kernel.
        threads: CPU threads of torch and of BLAS; by default they decide themselves.

    Returns:
        A class that nbclient can make a manager of.
    """
    limits = {} if threads is None else dict.fromkeys(THREADS, str(threads))
    settings = {"folder_of_work": str(folder), "variables": limits}
    return type("RunKernelManager", (QuietKernelManager,), settings)
