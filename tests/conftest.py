"""What every test needs: no windows, and no GPU tests where there is none."""

import os
import signal

import pytest
import torch
from jaxtyping import config
from tiny import NOTEBOOK, project

os.environ["MPLBACKEND"] = "agg"
# A shell that runs the tests in the background lets them, and all that they start,
# ignore what Ctrl-C sends.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs CUDA"))


@pytest.fixture
def untyped(monkeypatch):
    """Lets wrong types and shapes through to the library, as outside of tests."""
    monkeypatch.setattr(config, "jaxtyping_disable", True)


@pytest.fixture
def field():
    """Three fields of white noise, of one channel and 8 x 8 points."""
    return torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def mask():
    """Half of the points of such fields."""
    draws = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    return (draws < 0.5).float()


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def quick(kept, monkeypatch):
    """Builds equations that are cheap to draw; what they keep on disk is shared."""
    # Not at the top: the import hook that checks shapes comes after this file.
    from prisma_lib import pdes

    monkeypatch.chdir(kept)

    def build(name, size, **options):
        return pdes.load(name, size=size, **pdes.quick(name), **options)

    return build


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Saves a tiny model of an equation with random weights; returns its folder."""
    # Not at the top: the import hook that checks shapes comes after this file.
    from small import network

    from prisma_lib import checkpoints, pdes

    root = tmp_path_factory.mktemp("models")

    def build(name):
        if not (root / name).exists():
            pde = pdes.load(name, size=16, **pdes.quick(name))
            checkpoints.save(root / name, network(pde))
        return str(root / name)

    return build


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with the notebook 10_tiny, which is the working folder."""
    monkeypatch.chdir(project(tmp_path))
    (tmp_path / "notebooks" / "10_tiny.py").write_text(NOTEBOOK)
    return tmp_path


@pytest.fixture(scope="session")
def cluster():
    """Address of a Dask cluster of two workers, which all sweeps of a session share."""
    from prisma_lib import clusters

    clusters.configure()
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address="127.0.0.1:0",
    ) as made:
        yield made.scheduler_address


@pytest.fixture
def plan(root):
    """Writes the plan params/tiny.yaml of the project."""

    def write(text):
        path = root / "params" / "tiny.yaml"
        path.write_text(text)
        return path

    return write
