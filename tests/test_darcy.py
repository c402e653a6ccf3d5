"""Darcy flow against independent solvers and bad inputs."""

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import spsolve

from prisma_lib import pdes
from prisma_lib.errors import ConfigError, DataError, NumericsError, ShapeError
from prisma_lib.stencils import interior


def direct_solution(a, forcing=1.0):
    """Solves one field node by node with a sparse direct method."""
    n = len(a)
    number = {
        (i, j): k
        for k, (i, j) in enumerate(np.ndindex(n, n))
        if 0 < i < n - 1 and 0 < j < n - 1
    }
    order = {node: row for row, node in enumerate(number)}
    entries = []
    for (i, j), row in order.items():
        for node in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            weight = (a[i, j] + a[node]) / 2 * (n - 1) ** 2
            entries.append((weight, row, row))
            if node in order:
                entries.append((-weight, row, order[node]))
    values, rows, columns = zip(*entries, strict=True)
    matrix = csc_matrix((values, (rows, columns)))
    u = np.zeros((n, n))
    u[1:-1, 1:-1] = spsolve(matrix, np.full(len(order), forcing)).reshape(n - 2, -1)
    return u


def relative(difference, reference):
    return (difference.norm() / reference.norm()).item()


def bumpy(size, num=3, seed=0):
    """Coefficients that are far from two-valued, of contrast about 1000."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num, 1, size, size)
    return torch.randn(shape, generator=generator, dtype=torch.float64).exp()


@pytest.mark.parametrize("size", [5, 16, 33])
def test_solution_agrees_with_a_sparse_direct_solver(size):
    pde = pdes.load("darcy", size=size)
    a = pde.draw(3, range(3)).double()

    u = pde.solve(a)

    for field, solution in zip(a[:, 0], u[:, 0], strict=True):
        reference = torch.from_numpy(direct_solution(field.numpy()))
        assert relative(solution - reference, reference) < 1e-10


def test_a_rough_coefficient_is_solved_as_accurately():
    a = bumpy(24)

    u = pdes.load("darcy", size=24).solve(a)

    reference = torch.from_numpy(direct_solution(a[1, 0].numpy()))
    assert relative(u[1, 0] - reference, reference) < 1e-8


def test_a_constant_coefficient_gives_the_sine_series_of_the_unit_square():
    size, c = 65, 3.0
    pde = pdes.load("darcy", size=size)
    x, y = pde.grid.coordinates(torch.float64)

    u = pde.solve(torch.full((1, 1, size, size), c, dtype=torch.float64))

    series = torch.zeros_like(x)
    for k1 in range(1, 100, 2):
        for k2 in range(1, 100, 2):
            amplitude = 16 / (math.pi**4 * k1 * k2 * (k1**2 + k2**2) * c)
            series += amplitude * (math.pi * k1 * x).sin() * (math.pi * k2 * y).sin()
    # The stencil errs at second order: h² / 12 times fourth derivatives of order 1.
    assert relative(u[0, 0] - series, series) < 5e-4


def test_the_solver_converges_at_second_order_for_a_smooth_coefficient():
    centre = []
    for size in (17, 33, 65):
        pde = pdes.load("darcy", size=size)
        x, y = pde.grid.coordinates(torch.float64)
        u = pde.solve((1 + x + 2 * y**2)[None, None])
        centre.append(u[0, 0, size // 2, size // 4].item())

    coarse, fine = centre[1] - centre[0], centre[2] - centre[1]
    assert math.log2(coarse / fine) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("size", [32, 64, 128])
def test_relative_residual_of_the_solution_is_below_the_tolerance(size):
    pde = pdes.load("darcy", size=size)
    a = pde.draw(0, range(2)).double()

    r = pde.residual(a, pde.solve(a))

    assert r.square().mean((1, 2, 3)).sqrt().max() <= 2e-11 * pde.forcing


def test_a_looser_tolerance_is_kept_as_well():
    pde = pdes.load("darcy", size=32)
    a = pde.draw(0, range(4)).double()

    r = pde.residual(a, pde.solve(a, tolerance=1e-5))

    assert r.square().mean((1, 2, 3)).sqrt().max() <= 1e-5


def test_coefficients_are_three_or_twelve_and_both_occur():
    a = pdes.load("darcy", size=32).draw(0, range(20))

    assert a.unique().tolist() == [3.0, 12.0]
    assert 0.3 < (a == 12).float().mean() < 0.7


def test_pressure_is_positive_inside_zero_on_the_edge_and_of_the_known_size():
    pde = pdes.load("darcy", size=32)

    u = pde.solve(pde.draw(0, range(50)))

    assert interior(u).min() > 0
    for edge in (u[..., 0, :], u[..., -1, :], u[..., 0], u[..., -1]):
        assert (edge == 0).all()
    assert 0.008 < u.max() < 0.025


def test_doubling_the_coefficient_halves_the_pressure():
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0]).double()

    torch.testing.assert_close(pde.solve(2 * a), pde.solve(a) / 2, rtol=1e-10, atol=0)


@pytest.mark.parametrize("turn", ["transpose", "flip_x", "flip_y"])
def test_turning_the_coefficient_turns_the_pressure(turn):
    pde = pdes.load("darcy", size=20)
    a = pde.draw(1, range(2)).double()
    move = {
        "transpose": lambda f: f.mT,
        "flip_x": lambda f: f.flip(-2),
        "flip_y": lambda f: f.flip(-1),
    }[turn]

    torch.testing.assert_close(
        pde.solve(move(a)), move(pde.solve(a)), rtol=1e-9, atol=1e-13
    )


def test_a_sample_does_not_depend_on_the_batch_or_the_chunk_it_is_solved_in():
    pde = pdes.load("darcy", size=128)
    a = pde.draw(0, range(10)).double()

    together = pde.solve(a)

    for i in (0, 7, 9):
        alone = pde.solve(a[i : i + 1])
        assert relative(together[i] - alone[0], alone) < 1e-12


def test_an_easy_sample_keeps_its_solution_beside_a_hard_one():
    pde = pdes.load("darcy", size=24)
    easy = pde.draw(0, [0]).double()

    both = pde.solve(torch.cat([easy, bumpy(24, 1)]))

    assert relative(both[0] - pde.solve(easy)[0], both[0]) < 1e-10


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_coefficients_of_any_scale_are_solved(factor):
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0]).double()

    u = pde.solve(factor * a)

    torch.testing.assert_close(factor * u, pde.solve(a), rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_solution_has_the_dtype_of_the_input_and_double_accuracy_inside(dtype):
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0])

    u = pde.solve(a.to(dtype))

    assert u.dtype == dtype
    assert torch.equal(u, pde.solve(a.double()).to(dtype))


def test_views_of_any_stride_are_solved_and_left_as_they_were():
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0]).double()
    view = a.mT.expand(3, 1, 16, 16)
    before = view.clone()

    u = pde.solve(view)

    torch.testing.assert_close(u, pde.solve(before.contiguous()))
    assert torch.equal(view, before)
    assert not pde.solve(a.requires_grad_()).requires_grad


@pytest.mark.parametrize("bad", [0.0, -3.0, math.nan, math.inf])
def test_a_coefficient_that_is_not_positive_is_refused_with_its_place(bad):
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, range(2))
    a[1, 0, 4, 7] = bad

    with pytest.raises(DataError, match=r"1 value.*\[1, 0, 4, 7\]"):
        pde.solve(a)


def test_a_field_of_another_grid_is_refused_with_both_sizes():
    a = pdes.load("darcy", size=20).draw(0, [0])

    with pytest.raises(ShapeError, match=r"20.*16"):
        pdes.load("darcy", size=16).solve(a)


def test_an_empty_batch_is_refused():
    pde = pdes.load("darcy", size=16)

    with pytest.raises(ShapeError):
        pde.solve(torch.ones(0, 1, 16, 16))


@pytest.mark.parametrize("tolerance", [0.0, -1e-3, 1.0, math.nan])
def test_an_impossible_tolerance_is_refused(tolerance):
    pde = pdes.load("darcy", size=16)

    with pytest.raises(ConfigError, match="tolerance"):
        pde.solve(pde.draw(0, [0]), tolerance=tolerance)


def test_a_sample_that_does_not_converge_is_named():
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, range(3)).double()
    a[2] = bumpy(16, 1)[0] ** 40  # a contrast of 1e104

    with pytest.raises(NumericsError, match="sample 2 of 3"):
        pde.solve(a)


def test_recovered_coefficients_are_judged_by_their_share_of_wrong_points():
    pde = pdes.load("darcy")

    assert pde.error("inverse") == "error_rate"
    assert pde.error("forward") == "relative_l2"


def test_snapping_decides_in_the_middle_and_keeps_valid_coefficients():
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0])

    assert torch.equal(pde.snap(a), a)
    levels = torch.tensor([-1.0, 7.49, 7.5, 40.0]).expand(1, 1, 4, 4)
    assert pde.snap(levels)[0, 0, 0].tolist() == [3.0, 3.0, 12.0, 12.0]


def test_the_residual_of_a_scaled_pressure_is_the_missing_share_of_the_forcing():
    pde = pdes.load("darcy", size=16)
    a = pde.draw(0, [0]).double()

    r = pde.residual(a, 0.9 * pde.solve(a))

    torch.testing.assert_close(r, torch.full_like(r, 0.1), rtol=0, atol=1e-10)


def test_every_constant_is_listed():
    assert pdes.load("darcy").coefficients == {
        "recipe": "nodes",
        "forcing": 1.0,
        "low": 3.0,
        "high": 12.0,
        "alpha": 2.0,
        "tau": 3.0,
    }


@pytest.mark.parametrize("name", ["darcyy", "Darcy ", "DARCY"])
def test_a_misspelt_name_points_to_the_right_one(name):
    with pytest.raises(ConfigError, match="did you mean 'darcy'"):
        pdes.load(name)


def test_an_unknown_coefficient_is_refused():
    with pytest.raises(ConfigError, match="darcy"):
        pdes.load("darcy", viscosity=0.1)
