"""Numbered problems: fresh from the equation, whoever asks and however."""

import hashlib
import itertools
import json
from dataclasses import asdict

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.errors import DataError
from prisma_lib.pdes.poisson import Poisson
from prisma_lib.splits import checked_statistics

SIZE = 16


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture(params=pdes.names())
def any_pde(request, quick):
    return quick(request.param, SIZE)


def test_solved_problems_have_the_residual_that_the_statistics_state(any_pde):
    a, u = data.problems(any_pde, 40, split="train")
    r = any_pde.residual(a, u)

    found = data.statistics(any_pde, num=40)

    assert found.residual_rms == pytest.approx(
        r.double().square().mean().sqrt().item(), rel=1e-5
    )
    std, mean = zip(
        *(torch.std_mean(f.double(), correction=0) for f in (a, u)), strict=True
    )
    assert found.mean == pytest.approx([m.item() for m in mean], abs=1e-9)
    assert found.std == pytest.approx([s.item() for s in std], rel=1e-9)


def test_a_problem_does_not_depend_on_how_it_was_asked_for(any_pde):
    a, u = data.problems(any_pde, 5, split="train", seed=3)

    alone = data.problems(any_pde, 1, split="train", seed=3, start=4)
    steps = itertools.islice(data.stream(any_pde, 2, seed=3, step=1), 1)

    torch.testing.assert_close(alone[0], a[4:5], rtol=0, atol=0)
    torch.testing.assert_close(alone[1], u[4:5], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(next(steps)[0], a[2:4], rtol=0, atol=0)


def test_splits_and_seeds_share_no_problem(pde):
    drawn = [
        data.problems(pde, 4, split=split, seed=seed)[0]
        for split in data.SPLITS
        for seed in (0, 1)
    ]

    digests = {hashlib.sha256(a.numpy().tobytes()).digest() for a in torch.cat(drawn)}

    assert len(digests) == 4 * 6


def test_a_stream_never_repeats_a_problem(pde):
    steps = itertools.islice(data.stream(pde, 8), 20)

    digests = {
        hashlib.sha256(row.numpy().tobytes()).digest() for a, _ in steps for row in a
    }

    assert len(digests) == 160


def test_statistics_survive_json(pde):
    found = data.statistics(pde, num=8)

    read = checked_statistics(json.loads(json.dumps(asdict(found))), "card")

    assert read == found


class Constant(Poisson):
    """An equation whose inputs are all the same."""

    def draw(self, key, index):
        return torch.ones(len(index), 1, *self.grid.shape)


def test_a_constant_field_has_no_statistics():
    with pytest.raises(DataError, match="a is constant"):
        data.statistics(Constant(size=SIZE), num=8)
