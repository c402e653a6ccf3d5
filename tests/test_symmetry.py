"""Turning and reflecting: equations that do not notice, and solvers that should not."""

import itertools

import pytest
import torch
from small import lifted_network

from prisma_lib import data, feeds, pdes, solve
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.observe import Observation, observe
from prisma_lib.philox import key_of
from prisma_lib.sample import heun
from prisma_lib.solver import PrismaSolver
from prisma_lib.symmetry import ORDER, Views, moved, moved_back
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


def test_a_mean_over_all_views_turns_with_the_problem():
    x = torch.arange(2 * 16.0).view(2, 1, 4, 4).square()
    views = Views.of_draws(range(2 * ORDER), 2)

    def mean(field):
        rows = views.of(field.repeat(ORDER, 1, 1, 1))
        found = views.back(rows[..., :1, :].expand_as(rows))  # no symmetry of its own
        return found.unflatten(0, (ORDER, 2)).mean(0)

    for g in range(ORDER):
        torch.testing.assert_close(mean(moved(x, g)), moved(mean(x), g))
    assert not torch.allclose(mean(x), x[..., :1, :].expand_as(x))


def draws_of(solver, seen, samples):
    generator = torch.Generator().manual_seed(3)
    return torch.cat(solver.solve(seen, samples=samples, generator=generator), 2)


def test_each_draw_is_that_of_its_turned_problem_from_turned_noise():
    pde = pdes.load("poisson", size=SIZE)
    model, (a, u) = lifted_network(pde), data.problems(pde, 2)
    seen = observe("sparse_forward", a, u, rate=0.1, index=range(2))
    uneven = torch.linspace(0.1, 1, 4 * SIZE**2).view(2, 2, SIZE, SIZE) * model.std
    solver = PrismaSolver(model, Schedule(3), noise_sd=uneven, symmetric=True)
    key = key_of(torch.Generator().manual_seed(3))
    noise = solver.source(seen.shape).draw(key, range(20), 2, shape=seen.shape)

    found = draws_of(solver, seen, 10)

    for s in range(10):
        parts = (moved(part, s % ORDER) for part in vars(seen).values())
        turned = Observation(*(part.contiguous() for part in parts))
        told, mask = model.condition(turned, moved(uneven, s % ORDER).contiguous())
        start = moved(noise[2 * s : 2 * s + 2], s % ORDER).contiguous()

        def denoise(x, sigma, told=told, mask=mask):
            return model(x, sigma, told, mask)

        *_, last = heun(denoise, start, solver.schedule)
        wanted = moved_back(model.denormalise(last.x), s % ORDER)
        torch.testing.assert_close(found[s], wanted, rtol=1e-3, atol=1e-3)


def test_the_first_draw_sees_its_problem_as_it_is_however_work_is_split():
    pde = pdes.load("poisson", size=SIZE)
    model, (a, u) = lifted_network(pde), data.problems(pde, 1)
    seen = observe("sparse_forward", a, u, rate=0.1, index=range(1))
    plain = draws_of(PrismaSolver(model, Schedule(2)), seen, 3)
    turned = draws_of(PrismaSolver(model, Schedule(2), symmetric=True), seen, 3)
    alone = PrismaSolver(model, Schedule(2), symmetric=True, max_batch=1)

    torch.testing.assert_close(draws_of(alone, seen, 3), turned, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(turned[0], plain[0])
    assert (turned[1:] - plain[1:]).norm() > 1e-2 * plain[1:].norm()


def test_equations_without_symmetry_are_refused():
    model = lifted_network(pdes.load("burgers", size=SIZE))
    a, _ = data.problems(model.pde, 1)

    with pytest.raises(ConfigError, match="burgers changes when the square"):
        solve(model, a, symmetric=True)


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
