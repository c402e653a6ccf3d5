import math

import numpy as np
import pytest
import torch
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import spsolve

from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.pdes import load


def five_point_matrix(size):
    """The matrix of the 5-point Laplacian, assembled independently of the library."""
    m = size - 2
    second = diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(m, m))
    second = second * (size - 1) ** 2
    return kron(second, eye_array(m)) + kron(eye_array(m), second)


@pytest.mark.parametrize("size", [9, 32])
def test_solution_agrees_with_a_sparse_direct_solver(size):
    pde = load("poisson", size=size)
    a = pde.draw(0, [0]).double()

    u = pde.solve(a)

    source = a[0, 0, 1:-1, 1:-1].flatten().numpy()
    expected = spsolve(five_point_matrix(size).tocsc(), source)
    error = np.abs(u[0, 0, 1:-1, 1:-1].flatten().numpy() - expected).max()
    assert error < 1e-8 * np.abs(expected).max()


def series_centre(terms=199):
    """The solution for a = 1 at the centre of the square, summed as a sine series."""
    odd = np.arange(1, terms + 1, 2)
    j, k = np.meshgrid(odd, odd)
    peak = np.sin(j * np.pi / 2) * np.sin(k * np.pi / 2)
    return -(16 / np.pi**4 * peak / (j * k * (j**2 + k**2))).sum()


def test_solution_for_a_constant_source_follows_the_analytic_series():
    errors = []
    for size in (17, 33):
        pde = load("poisson", size=size)
        u = pde.solve(torch.ones(1, 1, size, size, dtype=torch.float64))
        errors.append(abs(u[0, 0, size // 2, size // 2].item() - series_centre()))

    assert errors[1] < 1e-4
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


def test_the_edge_of_the_source_has_no_influence():
    pde = load("poisson", size=12)
    a = pde.draw(0, [0])
    cut = torch.nn.functional.pad(a[..., 1:-1, 1:-1], (1, 1, 1, 1))

    torch.testing.assert_close(pde.solve(cut), pde.solve(a))


def test_the_solution_is_linear_in_the_source():
    pde = load("poisson", size=12)
    first, second = pde.draw(0, range(2)).double().split(1)

    both = pde.solve(2 * first - second)

    torch.testing.assert_close(both, 2 * pde.solve(first) - pde.solve(second))


def test_residual_sees_signs_and_axes():
    pde = load("poisson", size=9)
    x, y = pde.grid.coordinates(torch.float64)
    u = (x + 2 * y**2 + 3 * x**2 * y)[None, None]

    r = pde.residual(torch.zeros_like(u), u)

    torch.testing.assert_close(r[0, 0], (4 + 6 * y)[1:-1, 1:-1])


def test_continuous_sources_have_the_size_of_the_public_data():
    a = load("poisson", size=64).draw(0, range(300))

    assert a.std().item() == pytest.approx(0.292, rel=0.05)


def test_binary_sources_have_two_values_and_are_judged_by_errors():
    pde = load("poisson", size=16, binary=True)

    a = pde.draw(0, range(4))

    assert a.unique().tolist() == [0.0, 1.0]
    assert pde.error("inverse") == "error_rate"
    assert pde.error("forward") == "relative_l2"
    assert pde.coefficients["binary"] is True


def test_impossible_options_are_refused():
    with pytest.raises(ConfigError, match="binary"):
        load("poisson", binary=1)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_source_that_is_not_finite_is_refused(value):
    pde = load("poisson", size=8)
    a = torch.zeros(2, 1, 8, 8)
    a[1, 0, 3, 4] = value

    with pytest.raises(DataError, match=r"\[1, 0, 3, 4\]"):
        pde.solve(a)


def test_a_source_on_another_grid_is_refused():
    with pytest.raises(ShapeError, match="poisson"):
        load("poisson", size=8).solve(torch.zeros(1, 1, 9, 9))
