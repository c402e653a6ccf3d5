"""Wrong types at the doors of the library: one clear error each, never torch's."""

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
