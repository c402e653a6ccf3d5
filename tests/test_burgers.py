import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from prisma_lib.errors import ConfigError, DataError, NumericsError
from prisma_lib.fields import keyed_normal
from prisma_lib.grids import Grid
from prisma_lib.pdes import load
from prisma_lib.pdes.burgers import cole_hopf, history, space_time_residual


def rms(field):
    return field.double().square().mean().sqrt().item()


def grid_of(shape, lengths=(1.0, 1.0)):
    return Grid(shape, lengths, axes=("t", "x"), periodic=(False, True))


@pytest.mark.parametrize("viscosity", [0.003, 0.01, 0.1])
def test_solutions_agree_with_cole_and_hopf(viscosity):
    pde = load("burgers", size=64, viscosity=viscosity)
    a, u = pde.exact()

    assert rms(pde.solve(a) - u) < 1e-7 * rms(u)


@pytest.mark.parametrize("shape", [(33, 64), (64, 33)])
def test_histories_on_rectangles_agree_with_cole_and_hopf(shape):
    grid = grid_of(shape, lengths=(0.5, 2.0))
    expected = cole_hopf(grid, 0.02)

    found = history(expected[:1], grid, 0.02)

    assert rms(found[0] - expected) < 1e-6 * rms(expected)


def method_of_lines(start, times, viscosity):
    """The advective form with a dense differentiation matrix, stepped by scipy."""
    n = len(start)
    k = 2j * np.pi * np.fft.fftfreq(n, 1 / n)
    if n % 2 == 0:
        k[n // 2] = 0
    first = np.fft.ifft(k[:, None] * np.fft.fft(np.eye(n), axis=0), axis=0).real
    second = first @ first

    def rate(_, u):
        return -u * (first @ u) + viscosity * (second @ u)

    options = {"method": "RK45", "rtol": 1e-9, "atol": 1e-9}
    return solve_ivp(rate, (0, times[-1]), start, t_eval=times, **options).y.T


def test_a_steepening_wave_agrees_with_a_method_of_lines():
    pde = load("burgers", size=16)
    x = np.arange(128) / 128
    fine = 0.5 * np.sin(2 * np.pi * x) + 0.1 * np.cos(4 * np.pi * x)
    a = torch.from_numpy(fine[::8]).repeat(1, 1, 16, 1)

    u = pde.solve(a)

    expected = method_of_lines(fine, np.linspace(0, 1, 16), 0.01)[:, ::8]
    assert rms(u[0, 0] - torch.from_numpy(expected)) < 1e-5 * rms(u)


@pytest.mark.parametrize("space", [48, 64])
def test_residual_is_second_order_in_time_on_rectangles(space):
    sizes = []

    for times in (33, 65, 129):
        grid = grid_of((times, space))
        r = space_time_residual(cole_hopf(grid, 0.01), grid, 0.01)
        assert r.shape == (times - 2, space)
        sizes.append(rms(r))

    assert math.log2(sizes[0] / sizes[1]) == pytest.approx(2, abs=0.1)
    assert math.log2(sizes[1] / sizes[2]) == pytest.approx(2, abs=0.1)


def test_residual_sees_signs_and_axes():
    grid = grid_of((33, 64), lengths=(2.0, 3.0))
    t, x = grid.coordinates(torch.float64)
    kappa = 2 * math.pi / 3
    wave = (kappa * x).sin()
    u = (5 * t + wave)[None, None]

    r = space_time_residual(u, grid, 0.1)

    expected = 5 + u * kappa * (kappa * x).cos() + 0.1 * kappa**2 * wave
    torch.testing.assert_close(r, expected[..., 1:-1, :])


def test_residual_does_not_see_the_input_nor_alternating_rows_at_rest():
    pde = load("burgers", size=8)
    rest = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    rows = (1 - 2 * torch.arange(8).remainder(2)).double()[:, None].expand_as(rest)

    assert pde.residual(rest + 1, rest).abs().max() == 0
    assert pde.residual(rest, rows).abs().max() == 0


def test_starts_have_the_size_of_the_public_data_and_no_mean():
    a = load("burgers", size=64).draw(0, range(1000))

    assert a.std().item() == pytest.approx(0.274, rel=0.05)
    assert a.mean(-1).abs().max() < 1e-6
    assert torch.equal(a, a[:, :, :1].expand_as(a))


def test_a_start_is_the_same_on_every_grid():
    fine = torch.fft.rfft(load("burgers", size=64).draw(0, [3])[0, 0, 0])
    coarse = torch.fft.rfft(load("burgers", size=16).draw(0, [3])[0, 0, 0])

    torch.testing.assert_close(coarse[:8] / 16, fine[:8] / 64, rtol=1e-5, atol=1e-6)


def test_solutions_start_at_the_input_and_keep_within_it():
    pde = load("burgers", size=24)
    a = pde.draw(0, range(4)).double()

    u = pde.solve(a)

    torch.testing.assert_close(u[:, :, 0], a[:, :, 0])
    largest = u.abs().amax(-1)
    assert (largest[..., 1:] <= largest[..., :-1] + 1e-9).all()


def test_a_predicted_start_is_averaged_over_its_copies():
    pde = load("burgers", size=16)
    a = pde.draw(0, [0])
    noise = keyed_normal(0, [0], (1, 16, 16))

    snapped = pde.snap(a + noise)

    torch.testing.assert_close(snapped, a + noise.mean(-2, keepdim=True))


@pytest.mark.parametrize(("size", "floor"), [(32, None), (64, 0.0043)])
def test_the_floor_is_the_residual_of_solutions(size, floor):
    pde = load("burgers", size=size)
    a = pde.draw(0, range(64)).double()

    r = pde.residual(a, pde.solve(a))

    sizes = r.square().mean((1, 2, 3)).sqrt()
    assert sizes.mean().item() == pytest.approx(floor or pde.floor, rel=0.05)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("value", [-0.01, 0.0, None, math.nan, math.inf, True, "0.01"])
def test_an_impossible_viscosity_is_refused(value):
    with pytest.raises(ConfigError, match=r"viscosity=.*above 0.0005 and at most 1"):
        load("burgers", viscosity=value)


def test_a_start_that_is_too_fast_is_refused():
    pde = load("burgers", size=8)
    a = pde.draw(0, [0, 1])
    a[1] *= 100

    with pytest.raises(NumericsError, match="sample 1 of 2"):
        pde.solve(a)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_start_with_gaps_is_refused(value):
    pde = load("burgers", size=8)
    a = torch.zeros(2, 1, 8, 8)
    a[1, 0, 3, 4] = value

    with pytest.raises(DataError, match=r"\[1, 0, 3, 4\]"):
        pde.solve(a)


def test_sensors_stand_at_places_and_the_history_may_be_wanted():
    pde = load("burgers", size=8)

    assert pde.sensors == "columns"
    assert pde.directions == ("forward", "inverse", "reconstruct")
    assert pde.grid.axes[1] == "x"
    assert pde.error("reconstruct") == "relative_l2"
