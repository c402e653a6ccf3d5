"""Folders of parts under kills, flipped bits and cuts."""

import multiprocessing
import random
import signal
import time

import pytest

from prisma_lib import data, pdes
from prisma_lib.errors import DataError

SIZE = 16


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def damages(paths, num):
    """Yields each damage: the file and its bytes after one flip or one cut."""
    luck = random.Random(0)
    for k in range(2 * num):
        path = luck.choice(paths)
        raw = bytearray(path.read_bytes())
        place = luck.randrange(len(raw))
        if k % 2:
            raw[place] ^= 1 << luck.randrange(8)
        yield path, raw if k % 2 else raw[:place]


def test_each_of_a_hundred_flips_and_cuts_is_refused(tmp_path):
    pde = pdes.load("poisson", size=SIZE)
    folder = data.make(tmp_path / "many", pde, 11, shard=4)
    for path, damaged in damages(sorted(folder.iterdir()), 100):
        sound = path.read_bytes()
        path.write_bytes(damaged)

        with pytest.raises(DataError, match=path.name.replace(".", r"\.")):
            data.load(folder)
        path.write_bytes(sound)

    assert data.verify(folder).num == 11


def generate(path):
    """Makes twelve parts; runs in a process that is killed."""
    pde = pdes.load("poisson", size=SIZE)
    data.make(path, pde, 600, shard=50, resume=True, shown=False)


@pytest.fixture(scope="module")
def processes():
    """Starts processes that have imported the library, so that kills hit its work."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["prisma_lib.data"])
    return context


@pytest.mark.parametrize("kills", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_kills_at_any_moment_lose_one_part_and_leave_nothing_half(
    tmp_path, processes, kills
):
    luck, folder, outcomes = random.Random(kills), tmp_path / "killed", []
    generate(tmp_path / "whole")

    while outcomes.count(-signal.SIGKILL) < kills:
        running = processes.Process(target=generate, args=(folder,))
        running.start()
        while running.is_alive() and not folder.exists():
            time.sleep(0.001)
        time.sleep(luck.uniform(0, 0.1))
        running.kill()
        running.join()
        outcomes.append(running.exitcode)
        for part in folder.glob("*.h5"):
            assert len(data.load(part).a) == 50
        if (folder / "manifest.json").exists():
            assert content(folder) == content(tmp_path / "whole")
            folder = tmp_path / f"killed-{len(outcomes)}"
        else:
            with pytest.raises(DataError, match=r"unfinished|no file"):
                data.load(folder)
    generate(folder)

    assert set(outcomes) <= {0, -signal.SIGKILL}
    assert content(folder) == content(tmp_path / "whole")
