"""Navier-Stokes with several frames in the solution: a rollout and its residual."""

import itertools
import math

import numpy as np
import pytest
import torch

from prisma_lib import pdes
from prisma_lib.errors import ConfigError

SIZE = 16
# Numbers of frames at t = 0.5 and later, two trajectories.
LATE = [i for i in range(20) if i % 10 >= 5]


def rms(field):
    return field.double().square().mean().sqrt().item()


@pytest.fixture(scope="module")
def pde():
    return pdes.load("navier_stokes", size=SIZE, frames=3)


def test_three_frames_are_three_chained_steps(pde):
    one = pdes.load("navier_stokes", size=SIZE)
    a, u = pde.pair(5, range(10))

    chain = [a.double()]
    for _ in range(3):
        chain.append(one.solve(chain[-1]))

    torch.testing.assert_close(pde.solve(a.double()), torch.cat(chain[1:], dim=1))
    torch.testing.assert_close(u.double(), torch.cat(chain[1:], 1), rtol=0, atol=1e-7)
    assert torch.equal(a, one.draw(5, range(10)))


def test_frames_are_the_inputs_of_the_next_numbers(pde):
    a, u = pde.pair(0, range(10))

    torch.testing.assert_close(u[:7, 2], a[3:, 0], rtol=1e-5, atol=1e-6)


def test_each_channel_of_the_residual_is_one_step(pde):
    one = pdes.load("navier_stokes", size=SIZE)
    a, u = (f.double() for f in pde.pair(0, range(3)))
    u = u.roll(1, 0)  # of other inputs, so that nothing is small
    states = [a, *u.split(1, dim=1)]

    r = pde.residual(a, u)

    steps = [one.residual(w, later) for w, later in itertools.pairwise(states)]
    torch.testing.assert_close(r, torch.cat(steps, dim=1))


def test_residual_of_late_frames_halves_with_the_interval():
    sizes = []

    for interval in (0.1, 0.05, 0.025):
        pde = pdes.load("navier_stokes", size=32, interval=interval, frames=4)
        a = pde.draw(0, LATE).double()
        sizes.append([rms(c) for c in pde.residual(a, pde.solve(a)).unbind(1)])

    for coarse, fine in itertools.pairwise(np.array(sizes)):
        # Every second frame of the one is at the same time as a frame of the other.
        assert fine[1::2] / coarse[:2] == pytest.approx(0.5, rel=0.05)


def test_frames_and_residual_move_with_the_flow(pde):
    """The forcing is the same along x - y."""
    a, u = (f.double() for f in pde.pair(0, range(3)))
    u = u.roll(1, 0)  # of other inputs, so that nothing is small
    r = pde.residual(a, u)

    def moved(field, along_y=-5):
        return field.roll((5, along_y), (-2, -1))

    torch.testing.assert_close(pde.solve(moved(a)), moved(pde.solve(a)))
    torch.testing.assert_close(pde.residual(moved(a), moved(u)), moved(r))
    elsewhere = pde.residual(moved(a, 0), moved(u, 0))
    assert rms(elsewhere - moved(r, 0)) > 0.1


def rate(modes, viscosity=1e-3, forcing=0.1):
    """Advection less diffusion and forcing of a trigonometric polynomial.

    Modes are those of exp(2 pi i (p x + q y)). The velocity of one is perpendicular to
    its wave vector, so that it moves another by their cross product.
    """
    result = dict.fromkeys([(1, 1), (-1, -1)], 0j)
    for (p, c), (q, d) in itertools.product(modes.items(), repeat=2):
        total = (p[0] + q[0], p[1] + q[1])
        moved = (p[0] * q[1] - p[1] * q[0]) / (p[0] ** 2 + p[1] ** 2) * c * d
        result[total] = result.get(total, 0) + moved
    for p, c in modes.items():
        square = 4 * math.pi**2 * (p[0] ** 2 + p[1] ** 2)
        result[p] = result.get(p, 0) + viscosity * square * c
    for sign in (1, -1):
        result[sign, sign] -= forcing * (0.5 - 0.5j * sign)
    return {p: c for p, c in result.items() if abs(c) > 1e-14}


def values(modes, n):
    x = np.arange(n)[:, None] / n
    y = np.arange(n) / n
    waves = (c * np.exp(2j * np.pi * (p * x + q * y)) for (p, q), c in modes.items())
    return torch.from_numpy(sum(waves).real)


def test_the_exact_frames_are_those_of_analytic_steps():
    pde = pdes.load("navier_stokes", size=32, frames=3)
    # sin 2 pi x + cos 2 pi (x + 2 y)
    modes = {(1, 0): -0.5j, (-1, 0): 0.5j, (1, 2): 0.5, (-1, -2): 0.5}
    states = [values(modes, 32)]

    for _ in range(3):
        added = rate(modes)
        modes = {
            p: modes.get(p, 0) + 0.1 * added.get(p, 0) for p in modes.keys() | added
        }
        states.append(values(modes, 32))

    a, u = pde.exact()
    found = torch.cat([a, u], dim=1)[0]
    torch.testing.assert_close(found, torch.stack(states[::-1]), rtol=0, atol=1e-11)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("frames", [0, 11, -1, True, 3.0, "3", None])
def test_an_impossible_number_of_frames_is_refused(frames):
    with pytest.raises(ConfigError, match=f"frames={frames!r}"):
        pdes.load("navier_stokes", frames=frames)
