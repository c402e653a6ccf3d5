"""Wrong types at the doors of the library: one clear error each, never torch's."""

import numpy as np
import pytest
import torch

from prisma_lib import data, pdes, solve
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.pdes.base import Statistics

pytestmark = pytest.mark.usefixtures("untyped")


@pytest.fixture(scope="module")
def model():
    statistics = Statistics((7.5, 0.005), (4.5, 0.004), 1e-5)
    pde = pdes.load("darcy", size=16)
    return Prisma(pde, ModelConfig.preset("tiny"), statistics).eval()


@pytest.fixture(scope="module")
def a(model):
    return model.pde.draw(0, [0])


@pytest.mark.parametrize("steps", [1.5, "20", True, None])
def test_steps(model, a, steps):
    with pytest.raises(ConfigError, match="steps="):
        Schedule(steps)
    if steps is not None:  # which is the default
        with pytest.raises(ConfigError, match="steps="):
            solve(model, a=a, steps=steps)


@pytest.mark.parametrize("value", ["1", None, True, [1.0]])
@pytest.mark.parametrize("name", ["sigma_min", "sigma_max", "rho"])
def test_noise_levels(model, a, name, value):
    with pytest.raises(ConfigError, match=f"{name}="):
        solve(model, a=a, **{name: value})


@pytest.mark.parametrize("name", ["sampler", "noise_grid", "precision"])
@pytest.mark.parametrize("value", [None, 3])
def test_names_of_settings(model, a, name, value):
    with pytest.raises(ConfigError, match=f"unknown {name} {value}"):
        solve(model, a=a, **{name: value})


@pytest.mark.parametrize("max_batch", [0, -1, 2.0, "all", True, None])
def test_max_batch(model, a, max_batch):
    with pytest.raises(ConfigError, match="max_batch="):
        solve(model, a=a, max_batch=max_batch)


@pytest.mark.parametrize("seed", ["42", 1.5, True, -1, 2**64])
def test_seed(model, a, seed):
    with pytest.raises(ConfigError, match="seed"):
        solve(model, a=a, seed=seed)


@pytest.mark.parametrize("samples", [2.0, "3", True, 0])
def test_samples(model, a, samples):
    with pytest.raises(ConfigError, match="samples="):
        solve(model, a=a, samples=samples)


@pytest.mark.parametrize("name", ["Darcy ", "darcyy", None, 3])
def test_pde_name(name):
    with pytest.raises(ConfigError, match=r"unknown PDE .* known are .*darcy"):
        pdes.load(name)


@pytest.mark.parametrize("size", [32.0, "32", True, None])
def test_pde_size(size):
    with pytest.raises(ConfigError, match="size="):
        pdes.load("darcy", size=size)


def test_an_unknown_coefficient_is_named():
    with pytest.raises(ConfigError, match="viscosity"):
        pdes.load("darcy", viscosity=1.0)


@pytest.mark.parametrize("values", [[[1.0, 2.0]], "field", 3.0])
def test_what_is_no_array(model, values):
    with pytest.raises(DataError):
        solve(model, a=values)


def test_complex_values(model, a):
    with pytest.raises(DataError, match="complex"):
        solve(model, a=a.to(torch.complex64))


@pytest.mark.parametrize("axes", [1, 3, 5])
def test_fields_of_another_rank(model, a, axes):
    field = a.reshape((1,) * (axes - 2) + (16, 16)) if axes > 1 else a.flatten()
    with pytest.raises(ShapeError):
        solve(model, a=field)


def test_numbers_of_problems(model):
    with pytest.raises(ConfigError):
        data.problems(model.pde, "3")


@pytest.mark.parametrize("other", ["darcy-32", None, pdes.load("darcy", 16)])
def test_what_is_no_model(a, other):
    with pytest.raises(ConfigError, match="is no model: load one first"):
        solve(other, a=a, steps=2)


def test_numpy_counts_are_counts(model, a):
    mine = solve(model, a=a, steps=np.int64(2), samples=np.int32(2), seed=0)
    same = solve(model, a=a, steps=2, samples=2, seed=0)

    torch.testing.assert_close(mine.u, same.u, rtol=0, atol=0)
    assert type(Schedule(np.int64(3)).steps) is int


def test_a_masked_array_has_to_say_what_it_hides(model, a):
    hidden = np.ma.masked_array(a[0, 0].numpy(), mask=a[0, 0].numpy() > 5)

    with pytest.raises(DataError, match="masked array"):
        solve(model, a=hidden, steps=1)
    found = solve(model, a=hidden.astype(float).filled(np.nan), steps=1, seed=0)
    assert found.observation.mask_a.sum() == (a <= 5).sum()


@pytest.mark.parametrize("problem", [1, -1])
def test_a_problem_that_is_not_there_cannot_be_drawn(model, a, problem):
    with pytest.raises(ConfigError, match="from 0 to 0"):
        solve(model, a=a, steps=1, seed=0).plot(problem)
