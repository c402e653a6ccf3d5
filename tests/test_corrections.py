"""Newton steps: what they make of a wrong state."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.errors import ConfigError
from prisma_lib.lifts.corrections import corrected
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.pdes.base import Statistics

SIZE = 16
WITH = ("darcy", "helmholtz", "navier_stokes", "poisson")


def solved(name, size=SIZE, **options):
    pde = pdes.load(name, size=size, **options)
    return pde, *(field.double() for field in data.problems(pde, 4))


def relative(found, truth):
    return ((found - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).max()


def inner(field):
    return field[..., 1:-1, 1:-1]


@pytest.mark.parametrize("name", ["poisson", "helmholtz"])
def test_linear_equations_are_solved_whatever_the_other_field_is(name):
    pde, a, u = solved(name)

    assert relative(corrected(pde, a, torch.randn_like(u))[1], u) < 1e-5
    source = corrected(pde, torch.randn_like(a), u)[0]
    assert relative(inner(source), inner(pde.stencil(u))) < 1e-10


def test_darcy_pressures_come_nearer_to_their_solution():
    pde, a, u = solved("darcy", 32)
    flat = torch.zeros_like(u)

    once = corrected(pde, a, flat)[1]
    twice = corrected(pde, a, once)[1]

    assert relative(once, u) < 0.6
    assert relative(twice, u) < 0.8 * relative(once, u)
    assert relative(corrected(pde, a, u)[1], u) < 1e-4


def test_darcy_permeabilities_are_found_inside_one_material():
    pde, a, u = solved("darcy", 32)

    found = corrected(pde, torch.ones_like(a), u)[0]

    same = torch.ones_like(a, dtype=torch.bool)
    for shift in (-1, 1):
        for axis in (-2, -1):
            same &= a.roll(shift, axis) == a
    same = inner(same)
    assert (inner(found)[same] / inner(a)[same] - 1).abs().max() < 1e-3


def test_flows_step_to_and_fro():
    pde, a, u = solved("navier_stokes", 32)

    later = corrected(pde, a, a.expand_as(u))[1]
    before = corrected(pde, u[:, :1], u)[0]

    assert relative(later, u) < 0.5 * relative(a.expand_as(u), u)
    assert relative(before, pde.stencil(u)) < 1e-6


@pytest.mark.parametrize("name", WITH)
def test_solved_pairs_stay_as_they_are(name):
    pde, a, u = solved(name, 32)
    r = pde.residual(a, u)
    a_new, u_new = corrected(pde, a, u)

    assert r.isfinite().all()
    assert relative(u_new, u) < 0.02
    if name != "darcy":  # whose interfaces are of no material
        assert relative(inner(a_new), inner(a)) < 0.05


@pytest.mark.parametrize("name", ["burgers", "eikonal"])
def test_equations_without_a_newton_step_say_so(name):
    pde = pdes.load(name, size=SIZE)
    fields = torch.zeros(1, 1, SIZE, SIZE)

    with pytest.raises(ConfigError, match=f"{name} has no Newton step"):
        corrected(pde, fields, fields)


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 80.0])
@pytest.mark.parametrize("name", WITH)
def test_a_network_sees_corrections_that_are_bounded_at_all_noise_levels(name, sigma):
    pde = pdes.load(name, size=SIZE)
    statistics = Statistics((0.1, 0.0), (1.0, 0.01), 1e-3)
    if name == "navier_stokes":
        statistics = Statistics((0.0, 0.0), (0.5, 0.5), 1e-3)
    model = Prisma(pde, ModelConfig.preset("tiny", strategy="newton"), statistics)
    model.requires_grad_(False)
    a, u = data.problems(pde, 2)
    x = model.normalise(torch.cat([a, u], 1))
    x = x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros_like(x)

    seen = model.newton(x, nothing, nothing)

    assert seen.shape == x.shape
    assert seen.square().mean((2, 3)).max() <= 1 + 1e-5
    out = model(x, torch.full((2,), sigma), nothing, nothing)
    assert out.isfinite().all()
