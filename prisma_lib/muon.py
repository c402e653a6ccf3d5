"""Muon in single precision.

PyTorch's own orthogonalises in bfloat16, which processors without such instructions
(every desktop's and most laptops') emulate: there it took much of a step of this
project's networks, which single precision does not.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Matrix = Float[Tensor, "m n"]


class SinglePrecisionMuon(torch.optim.Muon):
    """PyTorch's Muon with steps of AdamW's size, but for the precision.

    Reference:
        Jordan et al. (2024), Muon; Liu et al. (2025), arXiv 2502.16982.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Moves every matrix that has a gradient, and returns the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)
        return loss

    def _move(self, p: Matrix, grad: Matrix, group: dict[str, Any]) -> None:
        state, momentum = self.state[p], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(grad)
        average = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = grad.lerp(average, momentum) if group["nesterov"] else average
        update = orthogonal(
            update, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(update, alpha=-group["lr"] * 0.2 * math.sqrt(max(p.shape)))


def orthogonal(
    x: Matrix, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Matrix:
    """Moves the singular values of a matrix near one, by Newton and Schulz's method.

    Args:
        x: The matrix.
        coefficients: Those of the odd polynomial of degree five.
        steps: How often it is applied.
        eps: Least norm to divide by.
    """
    a, b, c = coefficients
    wide = x if x.shape[0] <= x.shape[1] else x.T
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(
            wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a
        )
    return wide if x.shape[0] <= x.shape[1] else wide.T
