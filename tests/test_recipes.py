"""What recipes choose between: loss weights and optimisers."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from prisma_lib.errors import ConfigError
from prisma_lib.recipes import optimiser, weight

SIGMA = torch.tensor([0.002, 0.05, 0.3, 0.5, 2.0, 80.0])


def test_min_snr_caps_the_signal_to_noise_ratio_at_five():
    ratio = [(0.5 / s) ** 2 for s in SIGMA.tolist()]
    wanted = torch.tensor([min(r, 5.0) / 0.25 for r in ratio])

    torch.testing.assert_close(weight("min_snr", SIGMA), wanted)


def test_edm_weighs_every_level_alike_in_units_of_the_output():
    c_out = SIGMA * 0.5 / (SIGMA**2 + 0.25).sqrt()

    torch.testing.assert_close(weight("edm", SIGMA) * c_out**2, torch.ones(6))


@pytest.mark.parametrize(
    ("call", "kind"), [(weight, "snr"), (optimiser, "sgd")], ids=["weight", "optimiser"]
)
def test_unknown_recipes_are_refused(call, kind):
    arguments = (SIGMA,) if call is weight else (nn.Linear(2, 2), 1e-3, 0.0)
    with pytest.raises(ConfigError, match="known are"):
        call(kind, *arguments)


class Net(nn.Module):
    """A weight of each kind that Muon tells apart."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.conv = nn.Conv2d(2, 4, 3)
        self.spectral = nn.Parameter(torch.randn(3, 4, 4))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def stepped(net, kind, rate=0.1, decay=0.0):
    """Returns what one step of random gradients adds to each weight."""
    moves = optimiser(kind, net, rate, decay)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    moves.zero_grad()
    for p in net.parameters():
        p.grad = torch.randn_like(p)
    moves.step(rate)
    return {name: p.detach() - before[name] for name, p in net.named_parameters()}


def test_adamw_moves_every_weight_by_the_learning_rate_at_first(net):
    for change in stepped(net, "adamw").values():
        torch.testing.assert_close(change.abs(), torch.full_like(change, 0.1))


def test_muon_moves_the_matrices_that_the_network_uses_along_orthogonal_directions(net):
    changes = stepped(net, "muon")

    for name in ("linear.weight", "conv.weight"):
        matrix = changes[name].flatten(1)
        found = torch.linalg.svdvals(matrix)
        # Newton-Schulz leaves singular values between 0.7 and 1.2 of a common size,
        # which makes the root mean square that of AdamW, 0.2 of the learning rate.
        size = 0.1 * 0.2 * max(matrix.shape) ** 0.5
        assert (found / size).min() > 0.6
        assert (found / size).max() < 1.3
    for name in ("linear.bias", "conv.bias", "spectral"):
        torch.testing.assert_close(
            changes[name].abs(), torch.full_like(changes[name], 0.1)
        )


def test_muon_is_adamw_where_there_is_no_matrix():
    net = nn.Conv1d(3, 4, 1)  # how FNO writes its linear layers
    grad = [torch.randn_like(p) for p in net.parameters()]
    moved = []
    for kind in ("adamw", "muon"):
        copied = deepcopy(net)
        moves = optimiser(kind, copied, 0.1, 0.5)
        for p, g in zip(copied.parameters(), grad, strict=True):
            p.grad = g
        moves.step(0.1)
        moved.append(list(copied.parameters()))

    for one, other in zip(*moved, strict=True):
        assert torch.equal(one, other)


def test_weight_decay_shrinks_every_weight_with_either_optimiser(net):
    for kind in ("adamw", "muon"):
        moves = optimiser(kind, net, 0.1, 0.5)
        for p in net.parameters():
            p.grad = torch.zeros_like(p)
        before = [p.detach().clone() for p in net.parameters()]
        moves.step(0.1)
        for old, new in zip(before, net.parameters(), strict=True):
            torch.testing.assert_close(new.detach(), 0.95 * old)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_optimiser_that_was_restored_goes_on_bitwise(net, kind):
    other = Net()
    moves, again = (optimiser(kind, n, 0.1, 0.01) for n in (net, other))

    def advance(moves, net, seed):
        torch.manual_seed(seed)
        moves.zero_grad()
        for p in net.parameters():
            p.grad = torch.randn_like(p)
        moves.step(0.1)

    advance(moves, net, 1)
    other.load_state_dict(net.state_dict())
    again.restore({name: value.clone() for name, value in moves.tensors().items()})
    advance(moves, net, 2)
    advance(again, other, 2)

    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
    assert len(moves.tensors()) == len(again.tensors()) > 0
