"""The public Darcy recipe against an independent construction, and its outliers."""

import sys

import h5py
import numpy as np
import pytest
import torch
from scipy.interpolate import RectBivariateSpline
from test_darcy import direct_solution
from torch.nn import functional

from prisma_lib import data, pdes
from prisma_lib.diffusionpde import nodal_pressure
from prisma_lib.errors import ConfigError, DataError, NumericsError
from prisma_lib.splits import Moments


def public(size):
    return pdes.load("darcy", size=size, recipe="diffusionpde")


def moved(field, given, wanted):
    """Interpolates by the cubic spline of FITPACK, extended to the whole square."""
    spline = RectBivariateSpline(given, given, field, bbox=[0, 1, 0, 1])
    return spline(wanted, wanted)


def places(size):
    return (np.arange(size) + 0.5) / size, np.arange(size) / (size - 1)


@pytest.mark.parametrize("size", [32, 64])
def test_pressure_agrees_with_an_independent_construction(size):
    pde = public(size)
    a = pde.draw(3, range(2)).double()
    centres, nodes = places(size)

    u = pde.solve(a)

    for field, solution in zip(a[:, 0], u[:, 0], strict=True):
        on_nodes = direct_solution(moved(field.numpy(), centres, nodes))
        expected = moved(on_nodes, nodes, centres)
        error = np.linalg.norm(solution.numpy() - expected) / np.linalg.norm(expected)
        assert error < 1e-9


def test_fields_are_drawn_as_on_nodes():
    a = public(32).draw(1, range(3))

    assert torch.equal(a, pdes.load("darcy", size=32).draw(1, range(3)))


def test_turning_the_permeability_turns_the_pressure():
    pde = public(16)
    a = pde.draw(0, range(2)).double()

    u = pde.solve(a)

    for move in (lambda f: f.mT, lambda f: f.flip(-2), lambda f: f.flip(-1)):
        torch.testing.assert_close(pde.solve(move(a)), move(u), rtol=1e-9, atol=1e-12)


def test_both_recipes_agree_for_a_smooth_permeability():
    differences = []
    for size in (16, 32):
        nodal, centred = pdes.load("darcy", size=4 * size + 1), public(size)
        smooth = [
            (1 + x + 2 * y**2)[None, None]
            for x, y in (p.grid.coordinates(torch.float64) for p in (nodal, centred))
        ]
        # Centres of n cells are every fourth of 4 n + 1 nodes, from the third one on.
        expected = nodal.solve(smooth[0])[..., 2::4, 2::4]
        u = centred.solve(smooth[1])
        differences.append(((u - expected).norm() / expected.norm()).item())

    assert differences[1] < 2e-3
    assert differences[0] / differences[1] == pytest.approx(4, rel=0.15)


def test_the_spline_makes_most_permeabilities_negative_somewhere():
    size = 128
    centres, nodes = places(size)
    fields = public(size).draw(0, range(40))[:, 0].double().numpy()

    bad = [(moved(field, centres, nodes) <= 0).sum() for field in fields]

    assert np.mean(np.array(bad) > 0) > 0.8
    assert 3 < np.mean(bad) < 8


def test_the_recipe_does_not_claim_to_zero_its_residual():
    pde = public(32)

    assert pde.kind != "discrete"
    assert pdes.load("darcy", size=32).kind == "discrete"
    assert pde.resized(64).floor != pde.floor


@pytest.mark.parametrize(("size", "num"), [(16, 400), (32, 300), (64, 100)])
def test_the_residual_of_ordinary_pairs_is_the_declared_floor(size, num):
    pde = public(size)

    found = data.statistics(pde, num=num)

    assert found.residual_rms == pytest.approx(pde.floor, rel=0.15)


def test_the_residual_stands_at_interfaces_and_in_the_outermost_ring():
    pde = public(64)
    a = pde.draw(0, range(20)).double()
    r = pde.residual(a, pde.solve(a))
    span = functional.max_pool2d(a, 5, 1, 2) + functional.max_pool2d(-a, 5, 1, 2)
    special = span[..., 1:-1, 1:-1] > 0
    special |= functional.pad(torch.zeros(60, 60, dtype=torch.bool), (1,) * 4, value=1)

    energy = r.square()

    assert energy[special].sum() > 0.98 * energy.sum()
    assert r.abs().median() < 1e-3


def test_constant_materials_leave_only_the_ring():
    pde = public(32)
    a = torch.full((1, 1, 32, 32), 3.0, dtype=torch.float64)

    r = pde.residual(a, pde.solve(a))

    assert r[..., 6:-6, 6:-6].abs().max() < 1e-3
    assert r.abs().max() > 1e-2


def test_outliers_are_pressures_out_of_the_stated_range():
    pde = public(16)
    a, u = pde.pair(0, range(200))

    found = pde.outliers(a, u)

    low, high = u.amin((1, 2, 3)), u.amax((1, 2, 3))
    assert torch.equal(found, (low < -1e-4) | (high > 0.03))
    assert 0 < found.sum() < 60
    assert not pde.outliers(a, u.clamp(-0.9e-4, 0.0299)).any()


def test_nodes_have_no_outliers():
    pde = pdes.load("darcy", size=16)

    assert not pde.outliers(*pde.pair(0, range(200))).any()


def test_statistics_leave_outliers_out_and_say_so(caplog):
    pde = public(16)
    a, u = data.problems(pde, 300, split="train")
    odd = pde.outliers(a, u)

    found = data.statistics(pde, num=300)

    assert f"{int(odd.sum())} of 300 problems are outliers" in caplog.text
    kept = [field[~odd].double() for field in (a, u)]
    assert found.mean == pytest.approx([f.mean().item() for f in kept], rel=1e-9)
    assert found.std == pytest.approx(
        [f.std(correction=0).item() for f in kept], rel=1e-6
    )
    r = pde.residual(a[~odd], u[~odd]).double()
    assert found.residual_rms == pytest.approx(r.square().mean().sqrt().item())


def test_statistics_of_nothing_but_outliers_are_refused():
    pde = public(16)
    odd = pde.outliers(*data.problems(pde, 300, split="train")).nonzero()[0].item()
    moments = Moments(pde)
    moments.add(*data.problems(pde, 1, split="train", start=odd))

    with pytest.raises(DataError, match="all 1 problems are outliers"):
        moments.statistics()


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("recipe", ["diffusionpd", "Nodes", "", None, 3])
def test_an_unknown_recipe_is_refused(recipe):
    with pytest.raises(ConfigError, match=r"unknown recipe.*diffusionpde, nodes"):
        pdes.load("darcy", recipe=recipe)


@pytest.mark.parametrize("bad", [0.0, -3.0, np.nan, np.inf])
def test_a_permeability_that_is_not_positive_is_refused(bad):
    pde = public(16)
    a = pde.draw(0, range(2))
    a[1, 0, 4, 7] = bad

    with pytest.raises(DataError, match=r"1 value.*\[1, 0, 4, 7\]"):
        pde.solve(a)


def test_a_singular_system_spoils_no_other():
    nodal = torch.ones(3, 8, 8, dtype=torch.float64)
    nodal[1] = 0

    u = nodal_pressure(nodal, 1.0)

    assert u[1, 1:-1, 1:-1].isnan().all()
    assert torch.equal(u[0], u[2])
    assert u[0].isfinite().all()


def test_a_pressure_that_is_not_finite_is_refused_with_its_number():
    pde = public(16)
    a = pde.draw(0, range(3)).double()
    a[1] = 1e-320

    with pytest.raises(NumericsError, match="sample 1 of 3"):
        pde.solve(a)


def test_without_scipy_the_way_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    pde = public(16)

    with pytest.raises(ConfigError, match="pip install") as caught:
        pde.solve(pde.draw(0, [0]))

    assert caught.value.exit_code == 4


@pytest.fixture
def folder(tmp_path):
    """A folder of two files, and the equation."""
    pde = public(16)
    path = data.make(tmp_path / "darcy", pde, 90, shard=60, shown=False)
    return path, pde


def test_files_say_where_their_points_are_and_how_many_outliers_they_hold(folder):
    path, pde = folder
    odd = pde.outliers(*data.problems(pde, 90, split="train"))

    with h5py.File(path / "part-00000.h5") as file:
        about = dict(file.attrs)

    assert about["option.recipe"] == about["coefficient.recipe"] == "diffusionpde"
    assert about["centred"]
    assert about["outliers"] == odd[:60].sum() > 0
    loaded = data.load(path, pde)
    assert loaded.attributes["outliers"] == odd.sum() > odd[:60].sum()
    assert pde.outliers(loaded.a, loaded.u).equal(odd)


def test_an_audit_agrees_on_outliers_and_on_statistics_without_them(folder):
    path, pde = folder

    report = data.verify(path)

    stated = data.load(path).statistics
    direct = data.statistics(pde, num=90)
    for found in (report.statistics, stated):
        assert found.mean == pytest.approx(direct.mean, rel=1e-9)
        assert found.std == pytest.approx(direct.std, rel=1e-9)
        assert found.residual_rms == pytest.approx(direct.residual_rms, rel=1e-9)
    assert report.outliers == data.load(path).attributes["outliers"]


def test_a_wrong_number_of_outliers_is_found(tmp_path):
    path = data.make(tmp_path / "darcy.h5", public(16), 60, shown=False)
    with h5py.File(path, "a") as file:
        stated = file.attrs["outliers"]
        file.attrs["outliers"] = stated - 1

    with pytest.raises(DataError, match=f"{stated} outliers, stated {stated - 1}"):
        data.verify(path)


def test_the_file_of_one_recipe_is_not_the_file_of_another(tmp_path):
    path = data.make(tmp_path / "darcy.h5", public(16), 8, shown=False)

    with pytest.raises(DataError, match=r"coefficient\.recipe"):
        data.load(path, pdes.load("darcy", size=16))
