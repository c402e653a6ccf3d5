"""How a network runs: in which precision, and whether it is compiled.

Only the backbone changes. Preconditioning and the PDE residual stay outside of it, in
float32, and inside it the score of spectral residual attention is float32 whatever
surrounds it.
"""

import copy
import logging
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from prisma_lib.errors import ConfigError, NumericsError, unknown_name
from prisma_lib.memory import is_shortage
from prisma_lib.model import Prisma
from prisma_lib.nn import spectral

log = logging.getLogger(__name__)

# Name -> how far the compiled network may be from the plain one, relative to its norm.
PRECISIONS = {"float32": 1e-3, "bf16": 5e-2}


class Runner:
    """Runs a backbone in another precision or compiled, with the same weights.

    The first compiled result is compared with that of the plain backbone. Where it is
    another one, or where compiling fails, the backbone runs as it is from then on, and
    `execution` says so.

    Args:
        backbone: The network.
        precision: "float32" or "bf16": matrix products and convolutions in bfloat16
            (autocast), what they add up to in float32.
        compile: True: `torch.compile` with its own backend, with CUDA graphs on a GPU;
            or the name of another of its backends.

    Raises:
        ConfigError: When the precision or the backend is unknown.
    """

    def __init__(
        self, backbone: nn.Module, precision: str, compile: bool | str
    ) -> None:
        if precision not in PRECISIONS:
            raise unknown_name("precision", precision, PRECISIONS)
        if not isinstance(compile, bool | str):
            raise ConfigError(
                f"compile={compile!r}: give True, False or the name of a backend of "
                "torch.compile, such as compile='aot_eager'"
            )
        self.backbone, self.precision = backbone, precision
        self.how, self.proven = "eager", False
        self.compiled: Any = self._compile(compile) if compile else None

    @property
    def execution(self) -> str:
        """Precision and way of running, such as "bf16, eager"."""
        return f"{self.precision}, {self.how}"

    def __call__(self, *inputs: Any) -> Tensor:
        """Evaluates the backbone; its output is float32."""
        device = inputs[0].device.type
        bf16 = self.precision == "bf16"
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            return self._run(inputs).float()

    def _run(self, inputs: Any) -> Tensor:
        if self.compiled is not None:
            try:
                return self._run_compiled(inputs)
            except Exception as error:
                if is_shortage(error):
                    raise
                self._fall_back(error)
        return self.backbone(*inputs)

    def _run_compiled(self, inputs: Any) -> Tensor:
        # Copies: a CUDA graph overwrites its output in the next call.
        if self.proven:
            return self.compiled(*inputs).clone()
        with warnings.catch_warnings():  # the compiler thinks aloud
            warnings.simplefilter("ignore")
            out = self.compiled(*inputs).clone()
        plain = self.backbone(*inputs)
        distance = ((out - plain).norm() / plain.norm().clamp(min=1e-12)).item()
        if not distance <= PRECISIONS[self.precision]:
            raise NumericsError(f"its result is off by {distance:.1e}")
        self.proven = True
        return out

    def _compile(self, compile: bool | str) -> Any:
        from torch import compiler

        backend = "inductor" if compile is True else str(compile)
        if backend not in compiler.list_backends(exclude_tags=()):
            known = compiler.list_backends()
            raise unknown_name("backend of torch.compile", backend, known)
        for function in vars(spectral).values():
            # Cached tables are constants; traced, each call would compute them anew.
            if hasattr(function, "cache_info"):
                compiler.assume_constant_result(function.__wrapped__)
        on_gpu = next(self.backbone.parameters()).is_cuda
        graphs = backend == "inductor" and on_gpu
        self.how = f"compiled by {backend}" + (" with CUDA graphs" if graphs else "")
        mode = "reduce-overhead" if graphs else None
        return torch.compile(self.backbone, backend=backend, mode=mode, dynamic=False)

    def _fall_back(self, error: Exception) -> None:
        reason = " ".join(str(error).splitlines()[:2])
        self.how = f"eager, for compiling failed: {type(error).__name__}: {reason}"
        self.compiled = None
        log.warning("the network runs %s", self.how)


def run_as(
    model: Prisma, precision: str = "float32", compile: bool | str = False
) -> Prisma:
    """Returns the same model with a backbone that runs in another way.

    The weights are shared, and the model that was given is left as it is.

    Args:
        model: The denoiser.
        precision: "float32" or "bf16".
        compile: False, True, or the name of a backend of `torch.compile`.

    Raises:
        ConfigError: When the precision or the backend is unknown.
    """
    backbone = copy.copy(model.backbone)
    runner = Runner(model.backbone, precision, compile)
    backbone.forward = runner  # type: ignore[method-assign, assignment]
    other = copy.copy(model)
    other._modules = {**model._modules, "backbone": backbone}
    return other


def execution(model: Prisma) -> str:
    """Says how a model's backbone runs, such as "float32, eager"."""
    return getattr(model.backbone.forward, "execution", "float32, eager")
