"""Turning and reflecting: equations that do not notice, and solvers that should not."""

import itertools

import pytest
import torch

from prisma_lib import data, feeds, pdes
from prisma_lib.errors import ConfigError
from prisma_lib.observe import observation, observe
from prisma_lib.symmetry import ORDER, SymmetricSolver, moved, moved_back
from prisma_lib.training import TrainConfig, start

SIZE = 16
DIHEDRAL = [name for name in pdes.names() if pdes.load(name, size=SIZE).dihedral]


def test_the_symmetries_are_a_group_of_eight():
    x = torch.arange(16.0).view(1, 4, 4)
    images = [moved(x, g) for g in range(ORDER)]

    assert len({tuple(image.flatten().tolist()) for image in images}) == ORDER
    assert torch.equal(images[0], x)
    for g, image in enumerate(images):
        assert torch.equal(moved_back(image, g), x)
    for g, h in itertools.product(range(ORDER), repeat=2):
        both = moved(images[g], h)
        assert any(torch.equal(both, image) for image in images)


@pytest.mark.parametrize("name", DIHEDRAL)
def test_equations_that_say_so_are_symmetric(name):
    pde = pdes.load(name, size=SIZE)
    a, _ = data.problems(pde, 2)
    u = pde.solve(a)

    for g in range(ORDER):
        again = pde.solve(moved(a, g))
        assert (again - moved(u, g)).norm() < 1e-4 * u.norm(), g


@pytest.mark.parametrize("name", [n for n in pdes.names() if n not in DIHEDRAL])
def test_the_others_are_not(name, quick):
    pde = quick(name, SIZE)
    a, u = data.problems(pde, 2)

    changes = [
        (pde.solve(moved(a, g)) - moved(u, g)).norm() / u.norm() for g in range(ORDER)
    ]

    assert max(changes) > 1e-3


class FirstRow:
    """Answers with what stands in the first row, in every row; counts its draws."""

    calls = 3

    def __init__(self, pde):
        self.pde, self.asked = pde, []

    def solve(self, observation, *, samples, generator):
        self.asked.append(samples)
        key = torch.rand((), generator=generator)
        first = observation.a[..., :1, :].expand_as(observation.a)
        numbers = torch.arange(samples).view(-1, 1, 1, 1, 1) + key
        return first.repeat(samples, 1, 1, 1, 1), numbers.expand(-1, *first.shape)


def test_each_draw_sees_another_view_and_is_turned_back():
    pde = pdes.load("poisson", size=4)
    a = torch.arange(16.0).view(1, 1, 4, 4)
    plain = FirstRow(pde)
    solver = SymmetricSolver(plain)

    draws, numbers = solver.solve(
        observation(pde, a=a), samples=10, generator=torch.Generator().manual_seed(0)
    )

    assert plain.asked == [2, 2, 1, 1, 1, 1, 1, 1]
    assert solver.calls == 3
    # Whatever the view, an edge of the square was copied over all of it.
    edges = {
        tuple(sorted(edge.tolist()))
        for edge in (a[0, 0, 0], a[0, 0, -1], a[0, 0, :, 0], a[0, 0, :, -1])
    }
    found = {tuple(sorted(set(draw.flatten().tolist()))) for draw in draws}
    assert found == edges
    assert torch.equal(draws[0], draws[8])
    assert len({draw.mean().item() for draw in numbers}) == 10


def test_a_solver_of_a_moved_problem_moves_its_mean():
    pde = pdes.load("helmholtz", size=8)
    a, u = data.problems(pde, 1)
    solver = SymmetricSolver(FirstRow(pde))
    seen = observe("full_forward", a, u, index=range(1))

    def mean(g):
        turned = observation(pde, a=moved(seen.a, g))
        found, _ = solver.solve(turned, samples=8, generator=torch.Generator())
        return moved_back(found.mean(0), g)

    for g in range(1, ORDER):
        torch.testing.assert_close(mean(g), mean(0))


def test_equations_without_symmetry_are_refused():
    pde = pdes.load("burgers", size=SIZE)

    with pytest.raises(ConfigError, match="burgers changes when the square"):
        SymmetricSolver(FirstRow(pde))


def batches(**settings):
    config = TrainConfig(
        pde="poisson",
        size=SIZE,
        preset="tiny",
        images=64,
        batch=8,
        stored=8,
        **settings,
    )
    state = start(config, torch.device("cpu"))
    return config, state, feeds.batches(config, state.source, state.model, 0)


def test_repeated_problems_are_turned_in_another_way_each_time():
    _, _, plain = batches()
    config, state, turned = batches(augment=True)
    seen = set()
    for _ in range(6):
        numbers, x = next(turned)
        same, whole = next(plain)
        assert numbers == same
        for pair, other in zip(x, whole, strict=True):
            views = [g for g in range(ORDER) if torch.equal(moved(other, g), pair)]
            assert len(views) == 1
            seen |= {*views}
    assert len(seen) == ORDER

    # A step sees the same whoever shares it, and wherever a run began.
    _, late = next(feeds.batches(config, state.source, state.model, 5, range(3, 8)))
    assert torch.equal(late, x[3:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pde": "navier_stokes", "stored": 8}, "navier_stokes changes when"),
        ({"pde": "poisson"}, "each is new here"),
    ],
)
def test_what_may_not_be_turned_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        start(
            TrainConfig(size=SIZE, preset="tiny", batch=8, augment=True, **changes),
            torch.device("cpu"),
        )
