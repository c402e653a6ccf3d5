"""NumPy files of public data become files of ours, or errors."""

import json

import numpy as np
import pytest
import torch
from public import assert_holds, history, public

from prisma_lib import data, pdes
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.importers import import_files
from prisma_lib.spectral import resample

TRAINING = {
    "darcy": lambda a, u: (0.2 * a - 1.5, 115 * u - 0.9),
    "poisson": lambda a, u: (a / 2.15, 36.5 * u),
    "helmholtz": lambda a, u: (a / 2.15, u / 0.028),
    "navier_stokes": lambda a, u: (a / 1.6, u / 1.6),
}


@pytest.mark.parametrize(("order", "axis"), [("au", -1), ("ua", 0)])
@pytest.mark.parametrize("name", TRAINING)
def test_merged_samples_in_the_scale_of_training(tmp_path, name, axis, order):
    pde, a, u = public(name, 3)
    paths = [tmp_path / f"merge_{i}.npy" for i in range(3)]
    for path, *pair in zip(paths, *TRAINING[name](a, u), strict=True):
        np.save(path, np.stack(pair if order == "au" else pair[::-1], axis))

    out = import_files("merged", paths, tmp_path / "m.h5", pde, order=order)

    assert_holds(out, pde, a, u)
    with pytest.raises(DataError, match=r"are swapped|order of the channels"):
        import_files("merged", paths, tmp_path / "w", pde, order=order[::-1])


def test_merged_samples_in_physical_units_and_in_one_stack(tmp_path):
    pde, a, u = public("poisson")
    np.save(tmp_path / "all.npy", np.stack([u, a], 1))
    given = ("merged", [tmp_path / "all.npy"], tmp_path / "all.h5", pde)

    out = import_files(*given, order="ua", physical=True)

    assert_holds(out, pde, a, u)
    with pytest.raises(DataError, match="the units"):
        import_files(*given, order="ua", overwrite=True)
    assert_holds(out, pde, a, u)


def test_merged_histories_have_one_channel(tmp_path):
    pde, a, u = history()
    np.save(tmp_path / "merge_0.npy", u[0] / 1.415)

    out = import_files(
        "merged", [tmp_path / "merge_0.npy"], tmp_path / "b.h5", pde, order="au"
    )

    assert_holds(out, pde, a, u)


@pytest.mark.parametrize(
    ("array", "options", "error", "message"),
    [
        (np.ones((2, 16, 16)), {}, ConfigError, "which channel comes first"),
        (np.ones((2, 16, 16)), {"order": "xy"}, ConfigError, "order='xy'"),
        (np.ones((3, 16, 16)), {"order": "au"}, DataError, r"holds \(3, 16, 16\)"),
        (np.ones((16, 16)), {"order": "au"}, DataError, r"needs \(2, 16, 16\)"),
        (np.ones((2, 8, 8)), {"order": "au"}, DataError, "with size=16"),
        (np.ones((0, 2, 16, 16)), {"order": "au"}, DataError, "holds no problems"),
        (np.ones((2, 16, 16), int), {"order": "au"}, DataError, "int64"),
        (np.array([{}]), {"order": "au"}, DataError, "cannot be read"),
    ],
)
def test_merged_files_that_are_not_of_the_layout(
    tmp_path, array, options, error, message
):
    np.save(tmp_path / "x.npy", array)

    with pytest.raises(error, match=message):
        import_files(
            "merged", [tmp_path / "x.npy"], tmp_path / "x", pdes.load("poisson", 16),
            **options,
        )  # fmt: skip


FUNDPS = {"mean": [0, 9.67226952e-06], "std": [0.2919494, 0.00417478]}
CARD = {"name": "poisson", "__version__": "2.0", "stats": FUNDPS}


def fundps_file(folder, a, u, card):
    x = np.stack([a, u], 1)
    mean, std = (np.array(FUNDPS[k])[:, None, None] for k in ("mean", "std"))
    np.save(folder / "data.npy", (x - mean) * 0.5 / std)
    if card is not None:
        (folder / "metadata.json").write_text(json.dumps(card))
    return folder / "data.npy"


def test_normalised_fields_of_fundps(tmp_path):
    pde, a, u = public("poisson")
    path = fundps_file(tmp_path, a, u, CARD)

    out = import_files("fundps", [path], tmp_path / "f.h5", pde)

    assert_holds(out, pde, a, u)


def test_the_name_that_fundps_has_for_navier_stokes(tmp_path):
    pde, a, u = public("navier_stokes", 3)
    path = fundps_file(tmp_path, a, u, CARD | {"name": "ns-nonbounded"})

    out = import_files("fundps", [path], tmp_path / "f.h5", pde)

    assert_holds(out, pde, a, u)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (None, r"there is no file .*metadata\.json"),
        (CARD | {"name": "helmholtz"}, "about 'helmholtz', but poisson"),
        (CARD | {"__version__": "1.0"}, "version '1.0'"),
        ({k: v for k, v in CARD.items() if k != "__version__"}, "version None"),
        ({k: v for k, v in CARD.items() if k != "stats"}, "two numbers each"),
        (CARD | {"stats": FUNDPS | {"std": [1.0, 0.0]}}, "std positive"),
        (CARD | {"stats": FUNDPS | {"std": [4.5, 0.0038]}}, "the units"),
        ([], "cannot be read"),
    ],
)
def test_statistics_of_fundps_that_cannot_be_used(tmp_path, card, message):
    pde, a, u = public("poisson")
    path = fundps_file(tmp_path, a, u, card)

    with pytest.raises(DataError, match=message):
        import_files("fundps", [path], tmp_path / "f.h5", pde)


@pytest.fixture(scope="module")
def turbulence():
    """Four trajectories of three frames in the layout of Shu et al., 24 points."""
    pde = pdes.load("kolmogorov", size=24, resolution=256)
    frames = [20 * pdes.load("navier_stokes", size=24).draw(0, range(0, 40, 10))]
    for _ in range(2):
        frames.append(pde.solve(frames[-1]))
    return torch.cat(frames, 1).numpy()


@pytest.mark.parametrize("size", [24, 16])
def test_trajectories_give_neighbouring_frames_and_two_splits(
    tmp_path, turbulence, size
):
    pde = pdes.load("kolmogorov", size=size, resolution=256)
    np.save(tmp_path / "kf.npy", turbulence)
    coarse = resample(torch.from_numpy(turbulence).double(), (size, size))

    train, test = (
        import_files("kolmogorov", [tmp_path / "kf.npy"], tmp_path / s, pde, split=s)
        for s in ("train", "test")
    )

    assert_holds(train, pde, coarse[:3, :-1], coarse[:3, 1:])
    assert_holds(test, pde, coarse[3:, :-1], coarse[3:, 1:])
    data.check_disjoint(data.load(train), data.load(test))
    assert data.load(train).origins(pde) == [0, 0, 1, 1, 2, 2]


def test_frames_that_run_backwards_are_refused(tmp_path, turbulence):
    pde = pdes.load("kolmogorov", size=16, resolution=256)
    np.save(tmp_path / "kf.npy", turbulence[:, ::-1])

    with pytest.raises(DataError, match="no pairs of kolmogorov"):
        import_files(
            "kolmogorov", [tmp_path / "kf.npy"], tmp_path / "x", pde, split="test"
        )


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        ((4, 6, 16, 16), {}, ConfigError, "split='train'"),
        ((4, 6, 16, 16), {"split": "validation"}, ConfigError, "split='validation'"),
        ((4, 6, 8, 8), {"split": "test"}, DataError, r"\(4, 6, 8, 8\).*16 points"),
        ((4, 16, 16), {"split": "test"}, DataError, "trajectories, frames, x, y"),
        ((4, 1, 16, 16), {"split": "test"}, DataError, "2 frames"),
        ((4, 16, 16, 6), {"split": "test"}, DataError, "trajectories, frames, x, y"),
    ],
)
def test_trajectories_of_another_layout(tmp_path, shape, options, error, message):
    pde = pdes.load("kolmogorov", size=16, resolution=256)
    np.save(tmp_path / "kf.npy", np.ones(shape, np.float32))

    with pytest.raises(error, match=message):
        import_files(
            "kolmogorov", [tmp_path / "kf.npy"], tmp_path / "x", pde, **options
        )
