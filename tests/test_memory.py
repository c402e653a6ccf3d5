"""Work is split so that it fits, and a real shortage of memory costs nothing."""

import os
import subprocess
import sys
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from prisma_lib import memory, pdes
from prisma_lib.errors import ConfigError
from prisma_lib.fields import GRFNoise
from prisma_lib.grids import Grid
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.pdes.base import Statistics

STATISTICS = Statistics((7.5, 0.005), (4.5, 0.004), 1e-5)

# Solves once freely and once with little more address space than it has by then.
LIMITED = """
import logging, resource, sys, torch
from prisma_lib import pdes, solve
from prisma_lib.errors import ConfigError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.pdes.base import Statistics

logging.basicConfig(format="%(message)s", stream=sys.stdout)
torch.set_num_threads(1)
torch.manual_seed(0)
size, room, draws = map(int, sys.argv[1:])
statistics = Statistics((7.5, 0.005), (4.5, 0.004), 1e-5)
model = Prisma(pdes.load("darcy", size=16), ModelConfig.preset("tiny"), statistics)
torch.nn.init.normal_(model.eval().requires_grad_(False).backbone.project.weight)
a = torch.full((size, size), 3.0)
settings = {"a": a, "steps": 1, "samples": draws, "seed": 0, "max_batch": draws}
free = solve(model, **settings | {"max_batch": 1})
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + room * 2**20
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
try:
    tight = solve(model, **settings)
    print("off by", ((tight.u - free.u).norm() / free.u.norm()).item())
except ConfigError as error:
    print("error", error.exit_code, error)
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print("alive", solve(model, a=a, steps=1, seed=0).u.isfinite().all().item())
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")


def limited(size, room, draws):
    command = [sys.executable, "-c", LIMITED, *map(str, (size, room, draws))]
    # What is freed goes back at once: memory that is kept would be room, too.
    ran = subprocess.run(
        command,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@linux
def test_a_shortage_of_memory_halves_the_batch_and_changes_no_draw():
    said = limited(size=128, room=30, draws=12)

    assert "out of memory with max_batch=12: now 6" in said
    assert "out of memory with max_batch=6: now 3" in said
    assert float(said.split("off by")[1].split()[0]) < 1e-6
    assert "alive True" in said


@linux
def test_a_draw_that_does_not_fit_alone_is_an_error_that_says_what_would():
    said = limited(size=256, room=10, draws=2)

    assert "out of memory with max_batch=2: now 1" in said
    assert "error 4 out of memory for one draw of 256 x 256 points on cpu" in said
    assert "with max_batch=2 to begin with" in said
    assert "use a grid of 128 points" in said
    assert "alive True" in said


def test_parts_cover_all_rows_in_order_and_done_ones_are_kept():
    tried = []

    def work(rows):
        tried.append(rows)
        if len(rows) > 3 and rows.start:
            raise torch.OutOfMemoryError("no room")
        return rows

    parts = memory.in_parts(work, 17, 6, "a row", "buy some")

    assert [row for part in parts for row in part] == list(range(17))
    assert [len(rows) for rows in parts] == [6, 3, 3, 3, 2]
    assert tried.count(range(6)) == 1


def test_another_error_is_not_taken_for_a_shortage():
    def work(rows):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        memory.in_parts(work, 4, 4, "a row", "buy some")


def test_no_room_at_all_ends_with_the_status_of_the_environment():
    def work(rows):
        raise MemoryError

    with pytest.raises(ConfigError, match=r"a row \(MemoryError\): buy some") as caught:
        memory.in_parts(work, 4, 4, "a row", "buy some")
    assert caught.value.exit_code == 4


class Peak(TorchDispatchMode):
    """Keeps the largest number of bytes that new tensors hold at once."""

    def __init__(self):
        super().__init__()
        self.sizes, self.now, self.peak = {}, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor.untyped_storage())
        return result

    def count(self, storage):
        if storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, storage._cdata)

    def forget(self, address):
        self.now -= self.sizes.pop(address)


@pytest.mark.parametrize(
    ("name", "preset", "size"),
    [
        ("darcy", "tiny", 256),
        ("darcy", "small", 128),
        ("navier_stokes", "tiny", 256),  # periodic: another layout of its features
        ("navier_stokes", "small", 128),
    ],
)
def test_estimate_is_above_the_measured_peak_but_not_far(name, preset, size):
    pde = pdes.load(name, size=32).resized(size)
    model = Prisma(pde, ModelConfig.preset(preset), STATISTICS)
    x, levels = torch.randn(2, 2, size, size), torch.ones(2)
    with torch.no_grad():
        model(x, levels, x, x)
        with Peak() as measured:
            model(x, levels, x, x)

    estimate = 2 * memory.per_draw(model.config.widths[0], (size, size))

    assert measured.peak < estimate < 3 * measured.peak


@pytest.mark.parametrize("preset", ["base", "paper"])
def test_512_points_stay_within_ten_gigabytes(preset):
    width = ModelConfig.preset(preset).widths[0]
    draw = memory.per_draw(width, (512, 512))

    size = memory.fitting(draw, torch.device("cpu"))

    assert size == 1 or size * draw <= 10e9


def test_noise_of_512_points_takes_less_than_twenty_megabytes_to_build():
    with Peak() as measured:
        GRFNoise(Grid((512, 512)))

    assert measured.peak < 20e6


def test_small_problems_come_in_large_parts():
    assert memory.fitting(10**6, torch.device("cpu")) == memory.LARGEST
