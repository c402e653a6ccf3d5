import logging
import math
from itertools import pairwise

import h5py
import pytest
import torch

from prisma_lib import flows
from prisma_lib.data import SPLITS
from prisma_lib.errors import ConfigError, DataError, NumericsError, RunDirError
from prisma_lib.pdes import load
from prisma_lib.pdes.kolmogorov import Kolmogorov
from prisma_lib.pool import place
from prisma_lib.spectral import resample

SHORT = {"resolution": 32, "spin_up": 1.0, "frames": 5, "pool": 2, "held_out": 1}


def rms(field):
    return field.double().square().mean().sqrt().item()


@pytest.fixture
def short(tmp_path):
    """Builds equations with trajectories of a moment."""

    def build(size=32, **changes):
        return load("kolmogorov", size=size, cache=tmp_path, **(SHORT | changes))

    return build


def laminar(pde):
    """The flow in which force, drag and viscosity balance."""
    _, y = pde.grid.coordinates(torch.float64)
    return (-4 / (0.1 + 16 / pde.reynolds) * (4 * y).cos())[None, None]


@pytest.mark.parametrize("reynolds", [40.0, 1000.0])
def test_the_laminar_flow_stays_as_it_is(reynolds):
    pde = load("kolmogorov", size=24, reynolds=reynolds)
    w = laminar(pde)

    assert rms(pde.residual(w, w)) < 1e-11
    torch.testing.assert_close(pde.solve(w), w)


def test_a_disturbed_laminar_flow_relaxes_at_the_linear_rate():
    """Along y alone nothing is advected: modes decay by drag and viscosity."""
    pde = load("kolmogorov", size=24, reynolds=50.0)
    _, y = pde.grid.coordinates(torch.float64)
    w, wave = laminar(pde), (3 * y).sin()[None, None]

    u = pde.solve(w + wave)

    decay = math.exp(-pde.interval * (0.1 + 9 / 50))
    torch.testing.assert_close(u, w + decay * wave)


def budget(pde, w):
    """Energy of a flow, and what force, drag and viscosity add to it per time."""
    v1, v2 = flows.velocity(w, pde.lengths)
    _, y = pde.grid.coordinates(torch.float64)
    energy = (v1.square() + v2.square()).mean() / 2
    work = (v1 * (4 * y).sin()).mean()
    return energy, work - 0.2 * energy - w.square().mean() / pde.reynolds


def test_energy_changes_by_work_drag_and_viscosity(short):
    pde = short(interval=1 / 128)
    a = pde.draw(0, [0]).double()

    u = pde.solve(a)

    before, rate = budget(pde, a)
    after, later = budget(pde, u)
    assert ((after - before) / pde.interval).item() == pytest.approx(
        (rate + later).item() / 2, rel=1e-4
    )


def test_the_time_step_is_fourth_order(short, monkeypatch):
    pde = short()
    a = pde.draw(0, [0]).double()
    fields = []

    for step in (1 / 96, 1 / 192, 1 / 384):
        monkeypatch.setattr(Kolmogorov, "longest_step", step)
        fields.append(pde.solve(a))

    changes = [rms(f - g) for f, g in pairwise(fields)]
    assert math.log2(changes[0] / changes[1]) == pytest.approx(4, abs=0.3)
    assert changes[1] < 1e-5 * rms(fields[2])


@pytest.mark.parametrize("size", [24, 32])
def test_residual_of_solved_pairs_halves_with_the_interval(short, size):
    a = short(size).draw(0, range(4)).double()
    sizes = []

    for interval in (1 / 128, 1 / 256, 1 / 512):
        pde = load("kolmogorov", size=size, interval=interval)
        sizes.append(rms(pde.residual(a, pde.solve(a))))

    assert sizes[1] / sizes[0] == pytest.approx(0.5, rel=0.1)
    assert sizes[2] / sizes[1] == pytest.approx(0.5, rel=0.1)


def test_pairs_are_neighbouring_frames_restricted_from_one_trajectory(short):
    fine, coarse = short(32), short(16)

    a, u = fine.pair(0, range(8))

    restricted = coarse.pair(0, range(8))
    torch.testing.assert_close(restricted[0], resample(a, (16, 16)), rtol=0, atol=1e-5)
    torch.testing.assert_close(restricted[1], resample(u, (16, 16)), rtol=0, atol=1e-5)
    # The three inner frames of both trajectories are an input and a solution.
    assert sum((u == row).flatten(1).all(1).any().item() for row in a) == 6


def test_a_pair_of_a_resolved_flow_is_a_step_of_the_solver(short):
    pde = short(48, resolution=48, reynolds=20.0)
    a, u = pde.pair(0, range(2))

    error = rms(pde.solve(a) - u)

    # The trajectory is dealiased on this grid, `solve` on a finer one; a viscous flow
    # hardly differs.
    assert error < 0.01 * rms(u - a)


def test_coarse_pairs_lack_the_stress_of_lost_modes(short):
    pde = short(16)
    a, u = pde.pair(0, range(8))

    stress = rms(pde.residual(a, u)) / rms((u - a) / pde.interval)

    assert stress > 0.2


def test_trajectories_are_made_once(short, tmp_path, caplog):
    with caplog.at_level(logging.INFO, "prisma_lib.pool"):
        first = short().draw(0, range(4))
        made = len(caplog.records)
        again = short(16).resized(32).draw(0, range(4))

    assert torch.equal(first, again)
    assert made == len(caplog.records) == len(list(tmp_path.iterdir())) == 2


def spoil(path):
    with h5py.File(path) as file:
        start = file["frames"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[start + 100] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize("damage", [spoil, cut])
def test_a_damaged_trajectory_is_made_again(short, tmp_path, caplog, damage):
    expected = short().draw(0, range(8))
    for path in tmp_path.iterdir():
        damage(path)

    found = short().draw(0, range(8))

    assert torch.equal(found, expected)
    assert "damaged" in caplog.text
    caplog.clear()
    assert torch.equal(short().draw(0, range(8)), expected)
    assert not caplog.text


def test_other_constants_have_other_trajectories(short, tmp_path):
    short().draw(0, [0])
    other = short(reynolds=900.0).draw(0, [0])

    assert len(list(tmp_path.iterdir())) == 2
    assert not torch.equal(other, short().draw(0, [0]))


def test_a_cache_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").touch()
    pde = load("kolmogorov", size=8, cache=tmp_path / "file" / "folder", **SHORT)

    with pytest.raises(RunDirError, match="choose another folder"):
        pde.draw(0, [0])


def test_every_pair_comes_once_before_one_comes_again():
    pools, pairs = (36, 4), 319

    places = [place(i, pools, pairs) for i in range(36 * pairs)]

    assert len(set(places)) == len(places)
    assert place(len(places), pools, pairs) == places[0]


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 10, 318])
def test_short_trajectories_are_used_up_too(pairs):
    places = {place(i, (3, 1), pairs) for i in range(3 * pairs)}

    assert len(places) == 3 * pairs
    assert {frame for _, frame in places} == set(range(pairs))


def test_splits_share_no_trajectory():
    numbers = [
        {place(start + i, (36, 4), 319)[0] for i in range(2000)}
        for start in SPLITS.values()
    ]

    assert [len(n) for n in numbers] == [36, 4, 4]
    assert len(set.union(*numbers)) == 44


@pytest.mark.slow
def test_the_floor_is_the_residual_of_restricted_pairs(tmp_path):
    pde = load("kolmogorov", size=32, pool=1, cache=tmp_path)

    a, u = pde.pair(0, range(64))

    r = pde.residual(a, u)
    sizes = r.square().mean((1, 2, 3)).sqrt()
    assert sizes.mean().item() == pytest.approx(pde.floor, rel=0.25)
    assert 0.3 < rms(r) / rms((u - a) / pde.interval) < 0.7


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", ["reynolds", "interval", "spin_up"])
@pytest.mark.parametrize("value", [-1.0, 0, None, math.nan, math.inf, True, "1"])
def test_impossible_constants_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}=.*above 0 and at most"):
        load("kolmogorov", **{name: value})


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", ["resolution", "frames", "pool", "held_out"])
@pytest.mark.parametrize("value", [0, -1, 2.0, None, True, "36"])
def test_impossible_counts_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}=.*whole number of at least"):
        load("kolmogorov", **{name: value})


def test_a_resolution_below_the_size_is_refused():
    with pytest.raises(ConfigError, match="give resolution=128"):
        load("kolmogorov", size=64, resolution=48)


@pytest.mark.usefixtures("untyped")
def test_a_cache_that_is_no_folder_is_refused():
    with pytest.raises(ConfigError, match="cache=None"):
        load("kolmogorov", cache=None)


def test_a_flow_that_is_too_fast_is_refused():
    pde = load("kolmogorov", size=16)
    w = laminar(pde).repeat(2, 1, 1, 1)
    w[1] *= 1000

    with pytest.raises(NumericsError, match="sample 1 of 2"):
        pde.solve(w)


def test_a_flow_that_grows_too_fast_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Kolmogorov, "forcing", 1e6)
    pde = load("kolmogorov", size=16, cache=tmp_path, **SHORT)

    with pytest.raises(NumericsError, match=r"infinite|radians"):
        pde.draw(0, [0])

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_vorticity_with_gaps_is_refused(value):
    pde = load("kolmogorov", size=8)
    a = torch.zeros(2, 1, 8, 8)
    a[1, 0, 3, 4] = value

    with pytest.raises(DataError, match=r"\[1, 0, 3, 4\]"):
        pde.solve(a)
