"""What the publications fix: weights, noise levels, scaling and residuals."""

import pytest
import torch
from priors import BOTH, network

from prisma_lib import data, pdes, solve
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fundps import FunDPS
from prisma_lib.baselines.guidance import Weights
from prisma_lib.baselines.published import published_residual
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import Statistics

STATISTICS = Statistics((0.0, 0.0), (1.0, 1.0), 1e-3)


def test_weights_and_steps_are_those_of_the_publications():
    names = ("darcy", "poisson", "helmholtz", "navier_stokes")
    first, second = (
        {
            name: network(kind, pdes.load(name, size=8), STATISTICS).solver()
            for name in names
        }
        for kind in BOTH
    )

    for inverse in (False, True):
        assert [first[name].weighting(inverse) for name in names] == [
            Weights(5, 5000, 100),
            Weights(0.8, 40, 1),
            Weights(0.8, 60, 1),
            Weights(1, 1, 1),
        ]
    forward, inverse = (
        [second[name].weighting(way) for name in names] for way in (False, True)
    )
    assert [(w.a, w.pde) for w in forward] == [
        (10000, 0),
        (10000, 0),
        (10000, 1),
        (5000, 1),
    ]
    assert [(w.u, w.pde) for w in inverse] == [
        (50000, 0),
        (20000, 0),
        (5000, 1),
        (7500, 10),
    ]
    assert first["darcy"].steps == 2000
    assert second["darcy"].steps == 200
    assert first["poisson"].noise_levels(True) == Schedule(2000, 0.002, 80.0)
    assert second["poisson"].noise_levels(False) == Schedule(200, 0.002, 80.0)
    assert second["poisson"].noise_levels(True) == Schedule(200, 0.01, 10.0)
    assert second["helmholtz"].noise_levels(True) == Schedule(200, 0.002, 80.0)


def test_published_weights_move_fields_as_far_as_in_the_published_scaling():
    darcy = pdes.load("darcy", size=8)
    usual = Statistics((7.5, 0.0057), (4.5, 0.00379), 1e-3)
    # Statistics that make our scaling the published one: 0.5 / sd = 0.2 and 115.
    same = Statistics((7.5, 0.0057), (2.5, 0.5 / 115), 1e-3)

    stretch = network(DiffusionPDE, darcy, same).solver(steps=2).stretch
    assert torch.allclose(stretch, torch.ones(1, 2, 1, 1))

    stretch = network(DiffusionPDE, darcy, usual).solver(steps=2).stretch
    expected = torch.tensor([(0.5 / 4.5 / 0.2) ** 2, (0.5 / 0.00379 / 115) ** 2])
    assert torch.allclose(stretch.flatten(), expected)


@pytest.mark.parametrize("kind", BOTH)
def test_equations_without_published_weights_start_from_the_nearest(kind):
    eikonal = pdes.load("eikonal", size=16)
    model = network(kind, eikonal, STATISTICS)
    with pytest.raises(ConfigError, match=f"{kind.title} has none for eikonal"):
        model.solver()
    with pytest.raises(ConfigError, match="residual='published': there is none"):
        model.solver(weights={})

    solver = model.solver(steps=3, weights={"u": 1, "pde": 1}, residual="ours")
    start = solver.starting_weights(True)

    if kind is FunDPS:
        share = 16**2 / 128**2
        assert start == Weights(10000 * share, 50000 * share, 0)
    else:
        assert start.u == pytest.approx(5000 / 115 * 0.5)
    _, u = data.problems(eikonal, 1)
    assert solve(solver, u=u, seed=0).a.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wieghts": {}}, "weights"),
        ({"weights": "tuned"}, "'tuned'"),
        ({"weights": {"a": 1, "v": 2}}, "'v'"),
        ({"weights": {"a": -1}}, "a=-1"),
        ({"weights": {"u": float("nan")}}, "u=nan"),
        ({"residual": "theirs"}, "'theirs'"),
        ({"steps": 0}, "steps=0"),
        ({"sigma_min": 90.0}, "sigma_min=90"),
        ({"max_batch": 0}, "max_batch=0"),
    ],
)
@pytest.mark.parametrize("kind", BOTH)
def test_settings_without_meaning_are_refused(kind, settings, message):
    model = network(kind, pdes.load("poisson", size=8), STATISTICS)

    with pytest.raises(ConfigError, match=message):
        model.solver(**settings)


def told_apart(pde, spaced):
    """Returns the rms residual of true pairs, and of pairs that know no solution."""
    a, u = data.problems(pde, 4)
    r = published_residual(pde, spaced=spaced)
    rms = [r(a, field).square().mean().sqrt().item() for field in (u, 0 * u)]
    return r(a, u), *rms


def test_darcy_without_its_spacing_tells_nothing_apart():
    """The public form of DiffusionPDE is 1 at the truth and 1 at no flow at all."""
    darcy = pdes.load("darcy", size=32)

    blind, truth, none = told_apart(darcy, spaced=False)
    assert (blind - 1).abs().max() < 0.02
    assert truth == pytest.approx(none, rel=0.01)

    _, truth, none = told_apart(darcy, spaced=True)
    a, u = data.problems(darcy, 4)
    own = darcy.residual(a, u).square().mean().sqrt()
    assert none == 1
    assert truth > 100 * own  # it sees a wide stencil at interfaces


def by_hand(name, a, u, h):
    """Evaluates a published residual at every point, with zeros beyond the grid."""
    n = len(u)

    def at(f, i, j):
        return f[i, j].item() if 0 <= i < n and 0 <= j < n else 0.0

    def d(f, axis):
        out = torch.zeros_like(f)
        for i in range(n):
            for j in range(n):
                up, down = (
                    ((i + 1, j), (i - 1, j))
                    if axis == 0
                    else (
                        (i, j + 1),
                        (i, j - 1),
                    )
                )
                out[i, j] = (at(f, *up) - at(f, *down)) / 2
        return out

    if name == "darcy":
        return (d(a * d(u, 0), 0) + d(a * d(u, 1), 1)) / h**2 + 1
    if name == "navier_stokes":
        return d(u, 0) + d(u, 1)
    return d(u, 0) + u * d(u, 1) - 0.01 * d(d(u, 1), 1)


@pytest.mark.parametrize(
    ("name", "crop"), [("darcy", 2), ("navier_stokes", 1), ("burgers", 2)]
)
def test_published_residuals_are_those_of_their_tables(name, crop):
    pde = pdes.load(name, size=8)
    a, u = torch.randn(2, 1, 1, 8, 8, dtype=torch.float64)
    inner = slice(crop, -crop)

    theirs = published_residual(pde, spaced=False)(a, u)[0, 0]
    spaced = published_residual(pde, spaced=True)(a, u)[0, 0]

    assert torch.allclose(theirs, by_hand(name, a[0, 0], u[0, 0], 1.0))
    cut = by_hand(name, a[0, 0], u[0, 0], 1 / 7)[inner, inner]
    assert torch.allclose(spaced, cut)


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
def test_published_residuals_of_linear_equations_vanish_at_the_truth(name):
    pde = pdes.load(name, size=16)
    a = pde.draw(0, range(2)).double()
    u = pde.solve(a)

    for spaced in (False, True):
        assert published_residual(pde, spaced=spaced)(a, u).abs().max() < 1e-10
        assert published_residual(pde, spaced=spaced)(a, 2 * u).abs().max() > 0.1


@pytest.mark.parametrize("name", ["poisson", "darcy", "helmholtz", "eikonal"])
def test_our_residual_is_about_one_where_the_solution_is_off_by_itself(name):
    pde = pdes.load(name, size=16)
    model = network(FunDPS, pde, STATISTICS)
    solver = model.solver(steps=2, weights={}, residual="ours")
    a, u = data.problems(pde, 16)

    def rms(field):
        x = torch.cat([a, field], 1)
        return solver.mismatch(x, pde).square().mean().sqrt().item()

    assert rms(2 * u) == pytest.approx(1, rel=0.25)
    assert rms(u) < 0.2
