"""Files under attack: kills, full disks, locks, damage."""

import logging
import signal
import subprocess
import sys
import time

import h5py
import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.errors import DataError, NumericsError, RunDirError
from prisma_lib.pdes.poisson import Poisson

SIZE = 16


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture
def path(tmp_path, pde):
    return data.make(tmp_path / "poisson.h5", pde, 5, shown=False)


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(path, pde):
    before = path.read_bytes()

    with pytest.raises(RunDirError, match="exists"):
        data.make(path, pde, 2)
    assert path.read_bytes() == before
    data.make(path, pde, 2, overwrite=True)
    assert len(data.load(path).a) == 2


class Diverging(Poisson):
    """An equation whose solver fails on one problem and does not notice."""

    def solve(self, a):
        u = super().solve(a)
        u[3, 0, 2, 2] = torch.nan
        return u


def test_a_failure_keeps_the_old_file_and_leaves_nothing_new(path):
    before = path.read_bytes()

    with pytest.raises(NumericsError, match="problem 3 of seed 0"):
        data.make(path, Diverging(size=SIZE), 5, overwrite=True)

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


class Failing(Poisson):
    """An equation whose solver gives up."""

    def solve(self, a):
        raise NumericsError("no convergence")


def test_a_solver_that_gives_up_writes_nothing_and_names_problems_and_seed(tmp_path):
    with pytest.raises(NumericsError, match=r"problems 7 to 8, seed 5"):
        data.make(tmp_path / "x.h5", Failing(size=SIZE), 2, seed=5, start=7)

    assert not list(tmp_path.iterdir())


def test_too_little_space_is_found_before_anything_is_written(tmp_path, pde):
    with pytest.raises(RunDirError, match="no space"):
        data.make(tmp_path / "huge.h5", pde, 1 << 39)

    assert not list(tmp_path.iterdir())


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, **options
    )


def test_a_full_disk_ends_with_an_error_and_without_a_file(tmp_path):
    code = """
import resource, signal, sys
from prisma_lib import data
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.exit(data.main(["make", "poisson", "--size", "16", "--num", "1000",
                    "--out", sys.argv[1]]))
"""
    ended = python("-c", code, tmp_path / "full.h5")

    assert ended.returncode == 4, ended.stderr
    assert "space" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_killing_the_generator_leaves_no_incomplete_file(tmp_path):
    path = tmp_path / "killed.h5"
    command = ["make", "poisson", "--size", "16", "--num", "4000", "--overwrite"]
    outcomes = []

    for pause in (0, 0.3):
        running = subprocess.Popen(
            [sys.executable, "-m", "prisma_lib.data", *command, "--out", path],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        part = path.with_name(f"killed.h5.partial-{running.pid}")
        while running.poll() is None and not part.exists():
            time.sleep(0.01)
        time.sleep(pause)
        running.send_signal(signal.SIGKILL)
        outcomes.append(running.wait())
        if path.exists():
            data.verify(path)

    assert -signal.SIGKILL in outcomes
    assert len(list(tmp_path.glob("*.partial-*"))) <= 1


def test_a_partial_file_of_a_killed_process_is_removed_with_one_line(
    tmp_path, pde, caplog
):
    (tmp_path / "new.h5.partial-1").write_bytes(b"half")

    with caplog.at_level(logging.WARNING):
        path = data.make(tmp_path / "new.h5", pde, 2)

    assert list(tmp_path.iterdir()) == [path]
    assert len(caplog.records) == 1
    assert "new.h5.partial-1" in caplog.text


OWNER = """
import h5py, sys
with h5py.File(sys.argv[1], "a"):
    print("open", flush=True)
    sys.stdin.read()
"""
WRITER = """
import sys
from pathlib import Path
from prisma_lib import storage
with storage.created(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locked(monkeypatch):
    """Returns a function that lets another process hold a file open."""
    monkeypatch.delenv("HDF5_USE_FILE_LOCKING", raising=False)
    holders = []

    def hold(code, path):
        holder = subprocess.Popen(
            [sys.executable, "-c", code, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        holders.append(holder)
        assert holder.stdout.readline() == b"open\n"

    yield hold
    for holder in holders:
        holder.communicate()


def test_a_locked_file_is_refused_naming_the_way_out(path, locked):
    locked(OWNER, path)

    with pytest.raises(RunDirError, match=r"poisson.h5 is locked.*locking=False"):
        data.load(path)
    assert len(data.load(path, locking=False).a) == 5


def test_a_locked_part_is_refused_at_once(tmp_path, pde, locked):
    folder = data.make(tmp_path / "many", pde, 4, shard=2)
    locked(OWNER, folder / "part-00001.h5")

    for read in (data.load, data.verify):
        with pytest.raises(RunDirError, match=r"part-00001\.h5 is locked"):
            read(folder)


def test_a_folder_that_a_living_process_writes_is_left_alone(tmp_path, pde, locked):
    folder = data.make(tmp_path / "many", pde, 4, shard=2)
    before = sorted(folder.iterdir())
    locked(WRITER, folder / "part-00001.h5")

    for asked in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(RunDirError, match="being written by another process"):
            data.make(folder, pde, 4, shard=2, **asked)

    assert [path for path in sorted(folder.iterdir()) if path in before] == before


def test_a_partial_file_of_a_living_process_is_left_alone(tmp_path, pde, locked):
    path = tmp_path / "new.h5"
    locked(WRITER, path)

    with pytest.raises(RunDirError, match="being written by another process"):
        data.make(path, pde, 2)

    assert len(list(tmp_path.glob("new.h5.partial-*"))) == 1


@pytest.mark.parametrize("keep", [0, 100, 3000, -1])
def test_a_truncated_file_is_refused_with_its_path(path, keep):
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DataError, match=r"poisson.h5"):
        data.verify(path)


def test_text_and_missing_files_are_refused(tmp_path):
    (tmp_path / "text.h5").write_text("not a data file")

    for name in ("text.h5", "absent.h5"):
        with pytest.raises(DataError, match=f"{name}.*data make"):
            data.load(tmp_path / name)


def test_a_flipped_bit_is_found_on_load(path):
    with h5py.File(path) as file:
        place = file["u"].id.get_chunk_info(3).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 40] ^= 1
    path.write_bytes(content)

    with pytest.raises(DataError, match="damaged"):
        data.load(path)
