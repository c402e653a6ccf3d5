import math

import numpy as np
import pytest
import torch
from scipy.sparse import diags_array, eye_array, kron
from scipy.sparse.linalg import spsolve

from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.pdes import load


def helmholtz_matrix(size, k):
    """The matrix of the discrete equation, assembled independently of the library."""
    m = size - 2
    second = diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(m, m))
    second = second * (size - 1) ** 2
    return (
        kron(second, eye_array(m))
        + kron(eye_array(m), second)
        + k**2 * eye_array(m * m)
    )


def first_resonance(size):
    """The wavenumber of the slowest mode of the 5-point Laplacian."""
    h = 1 / (size - 1)
    return math.sqrt(8) / h * math.sin(math.pi * h / 2)


@pytest.mark.parametrize("size", [9, 32])
@pytest.mark.parametrize("k", [1, 2.0, 4.0, 6.0])
def test_solution_agrees_with_a_sparse_direct_solver(size, k):
    pde = load("helmholtz", size=size, k=k)
    a = pde.draw(0, [0]).double()

    u = pde.solve(a)

    source = a[0, 0, 1:-1, 1:-1].flatten().numpy()
    expected = spsolve(helmholtz_matrix(size, k).tocsc(), source)
    error = np.abs(u[0, 0, 1:-1, 1:-1].flatten().numpy() - expected).max()
    assert error < 1e-8 * np.abs(expected).max()


def test_inputs_are_those_of_poisson_with_a_zero_edge():
    a = load("helmholtz", size=16).draw(5, range(3))

    free = load("poisson", size=16).draw(5, range(3))

    assert torch.equal(a[..., 1:-1, 1:-1], free[..., 1:-1, 1:-1])
    assert a.count_nonzero() == a[..., 1:-1, 1:-1].count_nonzero()
    assert free[..., 0, :].abs().min() > 0


def test_without_a_wavenumber_it_is_poisson():
    pde, poisson = load("helmholtz", size=16, k=0), load("poisson", size=16)
    a = pde.draw(0, range(3)).double()

    u = pde.solve(a)

    torch.testing.assert_close(u, poisson.solve(a), rtol=1e-12, atol=0)
    torch.testing.assert_close(pde.residual(a, u + a), poisson.residual(a, u + a))


def test_residual_sees_signs_and_axes():
    pde = load("helmholtz", size=9, k=2.0)
    x, y = pde.grid.coordinates(torch.float64)
    u = (x + 2 * y**2 + 3 * x**2 * y)[None, None]

    r = pde.residual(5 * u, u)

    torch.testing.assert_close(r[0, 0], (4 + 6 * y - u[0, 0])[1:-1, 1:-1])


def test_solutions_grow_towards_the_first_resonance():
    a = load("helmholtz").draw(0, range(4)).double()

    sizes = [load("helmholtz", k=k).solve(a).std().item() for k in (0, 2, 3, 4)]

    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


def test_sources_have_the_size_of_the_public_data():
    a = load("helmholtz", size=128).draw(0, range(200))

    assert a.std().item() == pytest.approx(0.2845, rel=0.05)


@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("share", [0.9955, 1.0, 1.0045])
def test_a_wavenumber_near_a_resonance_is_refused(size, share):
    k = first_resonance(size)

    with pytest.raises(ConfigError, match="within one per cent of the eigenvalue 19"):
        load("helmholtz", size=size, k=share * k)


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_a_wavenumber_away_from_resonances_is_accepted(share):
    pde = load("helmholtz", size=32, k=share * first_resonance(32))

    u = pde.solve(pde.draw(0, [0]))

    assert u.isfinite().all()


def test_a_wavenumber_that_resonates_on_another_grid_is_refused_there():
    pde = load("helmholtz", size=6, k=first_resonance(16))

    with pytest.raises(ConfigError, match="on 16 nodes"):
        pde.resized(16)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("k", [-1, 1e3, math.nan, math.inf, None, "1", True, 1j])
def test_impossible_wavenumbers_are_refused_with_their_range(k):
    with pytest.raises(ConfigError, match=r"k=.* from 0 to 48\.69"):
        load("helmholtz", size=32, k=k)


def test_the_wavenumber_is_stated():
    pde = load("helmholtz", size=16, k=3)

    assert pde.options == {"k": 3.0}
    assert pde.coefficients["k"] == 3.0
    assert pde.resized(32).k == 3.0


def test_a_source_that_is_not_finite_is_refused():
    a = torch.zeros(2, 1, 8, 8)
    a[1, 0, 3, 4] = math.nan

    with pytest.raises(DataError, match=r"helmholtz.*\[1, 0, 3, 4\]"):
        load("helmholtz", size=8).solve(a)


def test_a_source_on_another_grid_is_refused():
    with pytest.raises(ShapeError, match="helmholtz"):
        load("helmholtz", size=8).solve(torch.zeros(1, 1, 9, 9))
