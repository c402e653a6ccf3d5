"""How a training step weighs errors and moves weights: what recipes choose between."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from prisma_lib.edm import SIGMA_DATA, Levels, loss_weight
from prisma_lib.errors import CheckpointError, unknown_name
from prisma_lib.muon import SinglePrecisionMuon

OPTIMISERS = ("adamw", "muon")
WEIGHTINGS = ("edm", "min_snr")
BETAS = (0.9, 0.99)
MIN_SNR = 5.0


def weight(kind: str, sigma: Levels) -> Levels:
    r"""Weighs the squared error of the denoiser at noise levels `sigma`.

    Args:
        kind: "edm" gives every level the same weight in units of the network's output;
            "min_snr" caps the signal-to-noise ratio, $\min(\sigma_d^2 / \sigma^2, 5) /
            \sigma_d^2$, and so trusts the lowest levels less.
        sigma: Noise levels, positive.

    Raises:
        ConfigError: When the kind is unknown.

    Reference:
        Karras et al. (2022), table 1, arXiv 2206.00364; Hang et al. (2023), Efficient
        diffusion training via min-SNR weighting, arXiv 2303.09556.
    """
    if kind == "edm":
        return loss_weight(sigma)
    if kind == "min_snr":
        return (SIGMA_DATA / sigma).square().clamp(max=MIN_SNR) / SIGMA_DATA**2
    raise unknown_name("loss weighting", kind, WEIGHTINGS)


class Optimisers:
    """One or several optimisers that step together.

    Args:
        parts: The optimisers, over disjoint weights.
        shared: Pairs of a weight and a matrix that shares its memory: an optimiser of
            matrices holds the latter.
    """

    def __init__(
        self,
        parts: list[torch.optim.Optimizer],
        shared: list[tuple[nn.Parameter, nn.Parameter]],
    ) -> None:
        self._parts, self._shared = parts, shared

    def step(self, learning_rate: float) -> None:
        """Moves the weights against their gradients."""
        for weight_, matrix in self._shared:
            if weight_.grad is not None:
                matrix.grad = weight_.grad.view_as(matrix)
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.step()

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=True)
        for weight_, _ in self._shared:
            weight_.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Returns the moments and step counts of every weight, by name."""
        return {
            f"{number}.{weight_}.{name}": value
            for number, part in enumerate(self._parts)
            for weight_, entry in part.state_dict()["state"].items()
            for name, value in entry.items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes back what `tensors` returned.

        Raises:
            CheckpointError: When a weight lacks a moment that others have.
        """
        for number, part in enumerate(self._parts):
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors.items():
                owner, weight_, name = key.split(".", 2)
                if int(owner) == number:
                    state.setdefault(int(weight_), {})[name] = value
            if len({frozenset(entry) for entry in state.values()}) > 1:
                raise CheckpointError(
                    f"optimiser {number} lacks moments of some weights: the checkpoint "
                    "is incomplete; use an earlier one"
                )
            part.load_state_dict({**part.state_dict(), "state": state})


def optimiser(
    kind: str, model: nn.Module, learning_rate: float, weight_decay: float
) -> Optimisers:
    """Makes the optimiser of a recipe.

    Args:
        kind: "adamw"; or "muon", which orthogonalises the updates of linear layers and
            of local convolutions, flattened to one matrix each, and leaves biases,
            norms and the stacked spectral weights to AdamW.
        model: The network.
        learning_rate: Peak; Muon's steps have the size of AdamW's at the same rate.
        weight_decay: Decoupled weight decay.

    Raises:
        ConfigError: When the kind is unknown.

    Reference:
        Jordan et al. (2024), Muon; Liu et al. (2025), arXiv 2502.16982, for the size of
        its steps.
    """
    if kind not in OPTIMISERS:
        raise unknown_name("optimiser", kind, OPTIMISERS)
    settings: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay}
    weights = list(model.parameters())
    shared = [(p, _matrix(p)) for p in weights if kind == "muon" and _is_matrix(p)]
    held = {id(p) for p, _ in shared}
    rest = [p for p in weights if id(p) not in held]
    parts: list[torch.optim.Optimizer] = []
    parts.append(torch.optim.AdamW(rest, betas=BETAS, **settings))
    # Some networks, such as FNO, have no matrix of their own, which Muon refuses.
    if shared:
        matrices = [matrix for _, matrix in shared]
        settings["adjust_lr_fn"] = "match_rms_adamw"
        on_gpu = matrices[0].is_cuda
        make = torch.optim.Muon if on_gpu else SinglePrecisionMuon
        parts.append(make(matrices, **settings))
    return Optimisers(parts, shared)


def _is_matrix(p: Tensor) -> bool:
    return p.ndim in (2, 4) and len(p) > 1


def _matrix(p: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(p.detach().view(len(p), -1))
