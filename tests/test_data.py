"""Data files: what is written is read back, and nothing else passes."""

import h5py
import numpy as np
import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.errors import ConfigError, DataError

SIZE = 16


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture
def path(tmp_path, pde):
    return data.make(tmp_path / "poisson.h5", pde, 5, shown=False)


@pytest.fixture(params=pdes.names())
def any_pde(request, quick):
    return quick(request.param, SIZE)


def edited(path, change):
    """Applies a change to a complete file, as a careless hand or program would."""
    with h5py.File(path, "a") as file:
        change(file)
    return path


def rewritten(name, values):
    def change(file):
        del file[name]
        file[name] = values

    return change


def test_a_file_gives_back_the_problems_of_its_split(tmp_path, any_pde):
    path = data.make(tmp_path / "any.hdf5", any_pde, 3, split="test", seed=7, start=2)

    loaded = data.load(path, any_pde)

    a, u = data.problems(any_pde, 3, split="test", seed=7, start=2)
    assert torch.equal(loaded.a, a)
    assert torch.equal(loaded.u, u)
    assert loaded.numbers == range((1 << 41) + 2, (1 << 41) + 5)
    assert data.verify(path).num == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num": 0}, "num=0"),
        ({"num": True}, "num=True"),
        ({"start": -1}, "start=-1"),
        ({"start": 1 << 40}, "2\\^40"),
        ({"seed": -1}, "seed=-1"),
        ({"split": "tset"}, "did you mean 'test'"),
    ],
)
def test_impossible_requests_start_nothing(tmp_path, pde, wrong, message):
    with pytest.raises(ConfigError, match=message):
        data.make(tmp_path / "new.h5", pde, **({"num": 2} | wrong))

    assert not list(tmp_path.iterdir())


def test_a_file_says_all_about_itself(path, pde):
    with h5py.File(path) as file:
        about = dict(file.attrs)
        fields = [file["a"], file["u"]]

        assert all(field.chunks == (1, 1, SIZE, SIZE) for field in fields)
        assert all(field.fletcher32 for field in fields)
        assert all(field.dtype == np.float32 for field in fields)
    stated = {k: about[f"coefficient.{k}"] for k in pde.coefficients}
    assert stated == pde.coefficients
    wanted = "axes complete equation format lengths library mean num pde seed sha256"
    assert set(wanted.split()) <= set(about)


def test_the_same_request_gives_the_same_content(tmp_path, pde, path):
    again = data.make(tmp_path / "again.h5", pde, 5, shown=False)

    first, second = (data.load(p).attributes["sha256"] for p in (path, again))

    assert first == second


ONES = np.ones((5, 1, SIZE, SIZE), np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.attrs.pop("complete"), "unfinished"),
        (lambda f: f.attrs.update({"num": 6}), r"promise \(6, 1, 16, 16\)"),
        (lambda f: f.attrs.update({"format": 99}), "format 99"),
        (lambda f: f.move("u", "sol"), r"holds \['a', 'sol'\]: it needs .*'u'"),
        (rewritten("a", ONES[:, 0]), r"axes \(n, c, x, y\)"),
        (rewritten("a", ONES.astype("f8")), "float64.*float32"),
        (rewritten("u", ONES.transpose(0, 2, 3, 1)), r"\(n, c, x, y\)"),
        (rewritten("u", ONES[:4]), r"u \(4, 1, 16, 16\)"),
        (lambda f: f.attrs.pop("std"), "statistics are missing"),
        (lambda f: f.attrs.update({"std": [1.0, 0.0]}), "u is constant"),
        (lambda f: f.attrs.update({"mean": [0.0, np.nan]}), "not finite"),
        (lambda f: f.attrs.update({"std": [1.0, 1.0]}), "not normalised"),
        (lambda f: f.attrs.update({"coefficient.tau": 4.0}), "content hash"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(path, change, message):
    with pytest.raises(DataError, match=message):
        data.load(edited(path, change))


@pytest.mark.parametrize("honest", [True, False])
def test_normalised_data_are_refused_whatever_their_statistics_say(path, honest):
    def normalise(file):
        for name, mean, std in zip(
            "au", file.attrs["mean"], file.attrs["std"], strict=True
        ):
            file[name][:] = (file[name][:] - mean) / std * 0.5
        if honest:
            file.attrs.update({"mean": [0.0, 0.0], "std": [0.5, 0.5]})

    with pytest.raises(DataError, match="normalised"):
        data.load(edited(path, normalise))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"name": "darcy"}, "holds poisson .* darcy"),
        ({"size": 32}, r"\(16, 16\).*\(32, 32\)"),
        ({"binary": True}, "coefficient.binary"),
    ],
)
def test_the_file_of_another_equation_is_refused_naming_both(path, other, message):
    asked = pdes.load(**({"name": "poisson", "size": SIZE} | other))

    with pytest.raises(DataError, match=message):
        data.load(path, asked)


def test_verify_names_the_problems_that_are_all_zero(path):
    def blank(file):
        file["u"][1] = file["u"][4] = 0

    with pytest.raises(DataError, match=r"\[1, 4\].*content hash"):
        data.verify(edited(path, blank))


def test_verify_finds_a_solution_of_another_input(path):
    def swap(file):
        file["a"][[0, 1, 2, 3, 4]] = file["a"][:][::-1]

    with pytest.raises(DataError, match="residual"):
        data.verify(edited(path, swap))


def test_verify_rebuilds_the_equation_with_its_options(tmp_path):
    pde = pdes.load("poisson", size=SIZE, binary=True)

    report = data.verify(data.make(tmp_path / "binary.h5", pde, 3))

    assert report.pde == "poisson"


def test_overlapping_train_and_test_problems_are_refused_with_their_ranges(
    tmp_path, pde, path
):
    train = data.load(path)
    others = {
        "overlapping": {"start": 4},
        "later": {"start": 5},
        "test": {"split": "test"},
        "seed": {"seed": 1},
    }
    files = {
        name: data.load(data.make(tmp_path / name, pde, 3, **origin))
        for name, origin in others.items()
    }

    with pytest.raises(DataError, match=r"range\(0, 5\) and range\(4, 7\)"):
        data.check_disjoint(train, files.pop("overlapping"))
    for file in files.values():
        data.check_disjoint(train, file)


def test_the_command_makes_and_verifies_a_file(tmp_path, capfd):
    path = tmp_path / "deep" / "poisson.h5"
    making = ["make", "poisson", "--size", "16", "--num", "3", "--set", "binary=true"]

    made = data.main([*making, "--out", str(path)])
    checked = data.main(["verify", str(path)])

    out, err = capfd.readouterr()
    assert (made, checked) == (0, 0)
    assert "3 problems of poisson, sound" in out
    assert not err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["make", "darcyy"], 2),
        (["make", "poisson", "--num", "0"], 2),
        (["make", "poisson", "--size", "1"], 2),
        (["make", "poisson", "--set", "binary"], 2),
        (["make", "poisson", "--set", "depth=3"], 2),
        (["make", "helmholtz", "--num", "3", "--set", "size=16"], 2),
        (["make", "helmholtz", "--set", "name=darcy"], 2),
        (["make", "poisson", "--out", "/proc/none/x.h5"], 4),
        (["make", "poisson", "--shard", "9", "--out", "/proc/none/x"], 4),
        (["make", "poisson", "--shard", "9", "--out", "/proc/none"], 4),
        (["verify", "absent.h5"], 2),
        (["import", "diffusionpde", "absent.mat", "--pde", "poisson"], 2),
    ],
)
def test_the_command_ends_with_the_status_of_its_error(words, status, capsys):
    assert data.main(words) == status
    assert capsys.readouterr().err.startswith("error: ")


def test_shuffled_reads_of_single_problems_give_the_same_rows(path):
    whole = data.load(path)

    with h5py.File(path) as file:
        rows = {i: torch.from_numpy(file["u"][i]) for i in (3, 0, 4, 1, 2)}

    assert all(torch.equal(row, whole.u[i]) for i, row in rows.items())
