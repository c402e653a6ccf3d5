"""PINN: fits of problems whose solution is known, one after the other or at once."""

import pytest
import torch

from prisma_lib import cells, data, metrics, pdes
from prisma_lib.baselines.pinn import PINN
from prisma_lib.errors import ConfigError, NumericsError, ShapeError
from prisma_lib.observe import Observation, observation
from prisma_lib.solver import Solver


@pytest.fixture(scope="module")
def pde():
    return pdes.load("poisson", size=16)


@pytest.fixture(scope="module")
def statistics(pde):
    return data.statistics(pde, num=64)


@pytest.fixture
def quick(pde, statistics):
    """Makes a PINN too small to solve anything."""

    def make(**settings):
        few = {"iterations": 3, "width": 8, "depth": 2, "features": 4}
        return PINN(pde, statistics, **few | settings)

    return make


def solved(solver, seen, samples=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return solver.solve(seen, samples=samples, generator=generator)


@pytest.fixture(scope="module")
def wave(pde):
    """A source that varies along one axis, and the solution of the stencil."""
    x, _ = pde.grid.coordinates(torch.float64)
    a = 0.5 * torch.sin(2 * torch.pi * x)[None, None]
    return a.float(), pde.solve(a).float()


def test_the_solution_of_a_wave_is_found_to_a_per_cent(pde, statistics, wave):
    a, u = wave

    given, found = solved(PINN(pde, statistics, 300, width=32), observation(pde, a=a))

    assert metrics.relative_l2(found[0], u).item() < 0.01
    torch.testing.assert_close(given[0], a, rtol=0, atol=0)


def test_the_source_of_a_wave_is_found_inside(pde, statistics, wave):
    a, u = wave

    found, fitted = solved(PINN(pde, statistics, 300, width=32), observation(pde, u=u))

    assert metrics.relative_l2(fitted[0], u).item() < 0.02
    inner = [field[..., 1:-1, 1:-1] for field in (found[0], a)]
    assert metrics.relative_l2(*inner).item() < 0.1


@pytest.mark.slow
def test_the_jumps_of_a_permeability_are_no_obstacle():
    pde = pdes.load("darcy", size=16)
    problems = cells.benchmark(pde, 2)
    solver = PINN(pde, problems.statistics, 600)

    seen = cells.observation_of(problems, "forward", "full")
    _, found = solved(solver, seen)

    assert metrics.relative_l2(found[0], problems.u).max() < 0.05


def test_iterations_are_its_calls(quick):
    solver = quick(iterations=7)

    assert isinstance(solver, Solver)
    assert solver.calls == 7


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_problems_at_once_are_fitted_as_if_each_were_alone(pde, quick, direction):
    problems = cells.benchmark(pde, 3)
    solver = quick(iterations=20)
    sparse = cells.observation_of(problems, direction, "sparse")

    every = solved(solver, sparse)
    first = solved(solver, cells.observation_of(problems.first(1), direction, "sparse"))

    for many, one in zip(every, first, strict=True):
        torch.testing.assert_close(many[:, :1], one, rtol=1e-4, atol=1e-6)


def test_draws_begin_with_weights_of_their_own_and_repeat_with_the_seed(quick, wave):
    seen = observation(quick().pde, a=wave[0])

    _, u = solved(quick(), seen, samples=2, seed=1)
    _, again = solved(quick(), seen, samples=2, seed=1)
    _, other = solved(quick(), seen, samples=2, seed=2)

    assert u.shape == (2, 1, 1, 16, 16)
    assert torch.equal(u, again)
    assert not torch.allclose(u[0], u[1])
    assert not torch.allclose(u, other)


def test_what_is_fitted_is_no_longer_part_of_a_graph(quick, wave):
    with torch.no_grad():
        a, u = solved(quick(), observation(quick().pde, a=wave[0]))

    assert not a.requires_grad
    assert not u.requires_grad


def test_without_features_the_coordinates_enter(quick):
    inputs = quick(features=0).inputs

    assert inputs.shape == (256, 2)
    assert inputs.min() == -1
    assert inputs.max() == 1
    assert quick(features=5).inputs.shape == (256, 10)


def test_other_equations_are_refused(statistics):
    with pytest.raises(ConfigError, match=r"cannot solve eikonal.*darcy, helmholtz"):
        PINN(pdes.load("eikonal", size=16), statistics)
    with pytest.raises(ConfigError, match="darcy on cell centres"):
        PINN(pdes.load("darcy", size=128, recipe="diffusionpde"), statistics)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("iterations", 0),
        ("width", 2.5),
        ("depth", True),
        ("features", -1),
        ("learning_rate", 0),
        ("learning_rate", "fast"),
        ("data_weight", float("nan")),
    ],
)
def test_impossible_settings_are_refused(quick, untyped, setting, value):
    with pytest.raises(ConfigError, match=f"{setting}="):
        quick(**{setting: value})


def test_observations_on_another_grid_are_refused(quick):
    wrong = Observation(*torch.ones(4, 1, 1, 20, 20))

    with pytest.raises(ShapeError, match="build the PDE with the size"):
        solved(quick(), wrong)


def test_a_fit_that_becomes_non_finite_is_refused(quick):
    huge = Observation(*torch.full((4, 1, 1, 16, 16), torch.inf))

    with pytest.raises(NumericsError, match="1 of 1 fitted networks"):
        solved(quick(), huge)
