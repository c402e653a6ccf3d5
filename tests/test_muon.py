"""Muon in single precision does what PyTorch's does, with fewer rounding errors."""

from itertools import pairwise

import pytest
import torch

from prisma_lib.muon import SinglePrecisionMuon, orthogonal
from prisma_lib.recipes import optimiser

SHAPES = [(4, 6), (6, 4), (5, 5), (16, 144)]
COEFFICIENTS = (3.4445, -4.775, 2.0315)


def moved(make, steps=4):
    """Matrices after each of some steps with the same gradients."""
    generator = torch.Generator().manual_seed(0)
    weights = [
        torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES
    ]
    mover = make(weights, lr=0.1, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")
    seen = [[p.detach().clone() for p in weights]]
    for _ in range(steps):
        for p in weights:
            p.grad = torch.randn(p.shape, generator=generator)
        mover.step()
        seen.append([p.detach().clone() for p in weights])
    return seen


def test_each_step_is_that_of_pytorch_but_for_its_rounding():
    one, other = moved(SinglePrecisionMuon), moved(torch.optim.Muon)

    for (old, new), (was, then) in zip(pairwise(one), pairwise(other), strict=True):
        for a, b, c, d in zip(old, new, was, then, strict=True):
            step, wanted = b - a, d - c
            # Fifteen products, each rounded to 2^-8; their errors add up as if random.
            assert (step - wanted).norm() <= 15**0.5 * 2**-8 * 2 * wanted.norm()
            assert not torch.equal(step, wanted)


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_follow_the_polynomial(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator())
    a, b, c = COEFFICIENTS
    left, values, right = torch.linalg.svd(x, full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = a * values + b * values**3 + c * values**5

    found = orthogonal(x.float(), COEFFICIENTS, 5, 1e-7)

    assert found.dtype == torch.float32
    wanted = left @ torch.diag(values) @ right
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)


def test_a_matrix_without_a_gradient_stays():
    one, other = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    mover = SinglePrecisionMuon([one, other], lr=0.1)
    one.grad = torch.ones(2, 3)
    mover.step()

    assert not torch.equal(one, torch.ones(2, 3))
    assert torch.equal(other, torch.ones(2, 3))


def test_recipes_use_it_on_processors():
    net = torch.nn.Linear(6, 4)
    mover, start = optimiser("muon", net, 0.1, 0.0), net.weight.detach().clone()
    net.weight.grad = torch.randn(4, 6)
    alone = torch.nn.Parameter(start.clone())
    alone.grad = net.weight.grad.clone()

    mover.step(0.1)
    settings = {"lr": 0.1, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}
    SinglePrecisionMuon([alone], **settings).step()

    assert torch.equal(net.weight, alone)
