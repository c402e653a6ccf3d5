import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from prisma_lib import flows
from prisma_lib.errors import ConfigError, DataError, NumericsError
from prisma_lib.fields import keyed_normal
from prisma_lib.grids import Grid
from prisma_lib.pdes import load
from prisma_lib.pdes.navier_stokes import NavierStokes
from prisma_lib.spectral import resample
from prisma_lib.splits import SPLITS

# Numbers of frames at t = 0.5 and later, four trajectories.
LATE = [i for i in range(40) if i % 10 >= 5]


def rms(field):
    return field.double().square().mean().sqrt().item()


def taylor_green(pde):
    x, y = (2 * math.pi * c for c in pde.grid.coordinates(torch.float64))
    w = (x.cos() * y.cos())[None, None]
    v1 = -(x.cos() * y.sin()) / (4 * math.pi)
    v2 = (x.sin() * y.cos()) / (4 * math.pi)
    return w, v1, v2


@pytest.mark.parametrize("viscosity", [1e-3, 1e-2])
def test_a_taylor_green_vortex_decays_at_the_analytic_rate(viscosity):
    pde = load("navier_stokes", size=24, viscosity=viscosity, forcing=0.0)
    w, v1, v2 = taylor_green(pde)

    u = pde.solve(w)

    decay = math.exp(-8 * math.pi**2 * viscosity * pde.interval)
    torch.testing.assert_close(u, decay * w, rtol=1e-6, atol=1e-9)
    found = flows.velocity(u[0, 0])
    torch.testing.assert_close(found[0], decay * v1, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found[1], decay * v2, rtol=1e-6, atol=1e-9)


def public_scheme(w, steps, viscosity=1e-3, interval=0.1):
    """The first-order scheme of the public data, in numpy."""
    n, dt = len(w), interval / steps
    k = 2 * np.pi * np.fft.fftfreq(n, 1 / n)
    k1, k2 = np.meshgrid(k, k, indexing="ij")
    square = k1**2 + k2**2
    square[0, 0] = 1
    x = np.arange(n) / n
    phase = 2 * np.pi * (x[:, None] + x)
    f = np.fft.fft2(0.1 * (np.sin(phase) + np.cos(phase)))
    kept = np.maximum(abs(k1), abs(k2)) <= 2 / 3 * np.pi * n

    def real(f_hat):
        return np.fft.ifft2(f_hat).real

    w_hat = np.fft.fft2(w)
    for _ in range(steps):
        psi = w_hat / square
        transport = real(1j * k2 * psi) * real(1j * k1 * w_hat)
        transport -= real(1j * k1 * psi) * real(1j * k2 * w_hat)
        damping = 0.5 * dt * viscosity * square
        right = w_hat - dt * kept * np.fft.fft2(transport) + dt * f - damping * w_hat
        w_hat = right / (1 + damping)
    return real(w_hat)


def test_steps_agree_with_the_scheme_of_the_public_data():
    pde = load("navier_stokes", size=64)
    a = pde.draw(0, [4]).double()

    u = pde.solve(a)

    expected = public_scheme(a[0, 0].numpy(), steps=400)
    assert rms(u[0, 0] - torch.from_numpy(expected)) < 1e-4 * rms(u)


def test_the_time_step_is_second_order_and_small_enough(monkeypatch):
    pde = load("navier_stokes", size=32)
    a = pde.draw(0, range(10)).double()
    fields = []

    for step in (2e-2, 1e-2, 5e-3, 2.5e-3):
        monkeypatch.setattr(NavierStokes, "longest_step", step)
        fields.append(pde.solve(a))

    changes = [rms(f - g) for f, g in pairwise(fields)]
    assert math.log2(changes[0] / changes[1]) == pytest.approx(2, abs=0.1)
    assert math.log2(changes[1] / changes[2]) == pytest.approx(2, abs=0.1)
    assert changes[2] < 1e-5 * rms(fields[3])


@pytest.mark.parametrize("size", [32, 64])
def test_residual_of_late_pairs_halves_with_the_interval(size):
    sizes = []

    for interval in (0.1, 0.05, 0.025):
        pde = load("navier_stokes", size=size, interval=interval)
        a = pde.draw(0, LATE).double()
        sizes.append(rms(pde.residual(a, pde.solve(a))))

    assert sizes[1] / sizes[0] == pytest.approx(0.5, rel=0.1)
    assert sizes[2] / sizes[1] == pytest.approx(0.5, rel=0.1)


def test_a_step_on_a_coarse_grid_agrees_with_a_fine_one():
    coarse, fine = load("navier_stokes", size=32), load("navier_stokes", size=128)
    a = coarse.draw(0, LATE[:5]).double()

    expected = resample(fine.solve(resample(a, (128, 128))), (32, 32))

    assert rms(coarse.solve(a) - expected) < 1e-4 * rms(expected)


def test_advection_without_aliasing_keeps_enstrophy_and_energy():
    noise = keyed_normal(0, range(2), (15, 17)).double()
    w = noise - noise.mean((-2, -1), keepdim=True)
    lengths = (1.0, 3.0)

    transport = flows.advection(w, lengths)

    v1, v2 = flows.velocity(w, lengths)
    bound = 1e-12 * (w.abs() * transport.abs()).sum()
    assert (w * transport).sum((-2, -1)).abs().max() < bound
    # The energy of a flow changes with the product of stream function and vorticity.
    psi = -flows.solve_periodic(w, lengths)
    assert (psi * transport).sum((-2, -1)).abs().max() < bound
    assert v1.shape == v2.shape == w.shape


def test_a_stepper_drops_aliases_of_its_product():
    grid = Grid((24, 24), periodic=(True, True))
    w = resample(keyed_normal(0, [0], (15, 15)).double(), (24, 24))
    tendency = flows.Transport(grid, torch.zeros(24, 24, dtype=torch.float64))

    found = torch.fft.irfft2(tendency(torch.fft.rfft2(w)), s=(24, 24))

    expected = resample(-flows.advection(w), (15, 15))
    torch.testing.assert_close(resample(found, (15, 15)), expected)


def test_starts_have_the_size_of_the_public_data():
    a = load("navier_stokes", size=64).draw(0, range(0, 2000, 10))

    assert a.std().item() == pytest.approx(0.262, rel=0.05)


@pytest.mark.parametrize("first", [20, *SPLITS.values(), SPLITS["test"] + 10])
def test_ten_numbers_of_a_split_are_one_trajectory(first):
    pde = load("navier_stokes", size=16)
    a = pde.draw(0, range(first, first + 10)).double()

    frames = pde.trajectory(a[:1], 9)

    torch.testing.assert_close(frames[0], a[1:, 0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(pde.solve(a[4:5]), a[5:6], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first", [10, SPLITS["validation"], SPLITS["test"]])
def test_the_number_before_a_trajectory_is_on_another_one(first):
    pde = load("navier_stokes", size=16)
    a = pde.draw(0, [first - 1, first]).double()

    assert rms(pde.solve(a[:1]) - a[1:]) > 0.5 * rms(a[1:])


def test_inputs_do_not_depend_on_the_interval():
    a = load("navier_stokes", size=16).draw(0, [0, 7])
    again = load("navier_stokes", size=16, interval=0.03).draw(0, [0, 7])

    assert torch.equal(a, again)


def test_the_floor_is_the_residual_of_pairs():
    pde = load("navier_stokes", size=32)
    a = pde.draw(0, range(64)).double()

    r = pde.residual(a, pde.solve(a))

    sizes = r.square().mean((1, 2, 3)).sqrt()
    assert sizes.mean().item() == pytest.approx(pde.floor, rel=0.05)


def test_a_nearly_inviscid_flow_stays_finite():
    pde = load("navier_stokes", size=32, viscosity=1e-5)

    frames = pde.trajectory(pde.draw(0, [0, 10]), 10)

    assert frames.abs().max() < 2


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", ["viscosity", "interval"])
@pytest.mark.parametrize("value", [-1e-3, 0.0, None, math.nan, math.inf, True, "1e-3"])
def test_impossible_constants_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}=.*above 0 and at most"):
        load("navier_stokes", **{name: value})


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_an_impossible_forcing_is_refused(value):
    with pytest.raises(ConfigError, match="forcing="):
        load("navier_stokes", forcing=value)


def test_no_frames_are_refused():
    pde = load("navier_stokes", size=8)

    with pytest.raises(ConfigError, match="frames=0"):
        pde.trajectory(pde.draw(0, [0]), 0)


def test_a_flow_that_is_too_fast_is_refused():
    pde = load("navier_stokes", size=16)
    a = pde.draw(0, [0, 10])
    a[1] *= 1000

    with pytest.raises(NumericsError, match="sample 1 of 2"):
        pde.solve(a)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_vorticity_with_gaps_is_refused(value):
    pde = load("navier_stokes", size=8)
    a = torch.zeros(2, 1, 8, 8)
    a[1, 0, 3, 4] = value

    with pytest.raises(DataError, match=r"\[1, 0, 3, 4\]"):
        pde.solve(a)
