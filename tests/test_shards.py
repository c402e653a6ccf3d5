"""Folders of parts: whole or refused, resumed or refused, bit for bit the same."""

import json

import pytest
import torch

from prisma_lib import data, manifests, pdes
from prisma_lib.errors import ConfigError, DataError, NumericsError, RunDirError
from prisma_lib.manifests import Part
from prisma_lib.pdes.poisson import Poisson

SIZE, NUM, SHARD = 16, 11, 4
NAMES = ["manifest.json", "part-00000.h5", "part-00001.h5", "part-00002.h5"]


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture
def folder(tmp_path, pde):
    return data.make(tmp_path / "many.h5", pde, NUM, shard=SHARD, split="test", start=3)


def again(folder, pde, **changed):
    """Asks for the folder a second time."""
    asked = {"split": "test", "start": 3, "shard": SHARD} | changed
    num = asked.pop("num", NUM)
    return data.make(folder, asked.pop("other", pde), num, **asked)


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_many_problems_become_a_folder_without_suffix_that_reads_like_a_file(
    tmp_path, pde, folder
):
    a, u = data.problems(pde, NUM, split="test", start=3)
    whole = data.load(data.make(tmp_path / "one.h5", pde, NUM, split="test", start=3))

    loaded = data.load(folder, pde)

    assert folder == tmp_path / "many"
    assert listing(folder) == NAMES
    assert torch.equal(loaded.a, a)
    # The last bits of u depend on how many are solved at once.
    torch.testing.assert_close(loaded.u, u, rtol=1e-5, atol=1e-9)
    assert loaded.numbers == whole.numbers
    assert loaded.statistics.mean == pytest.approx(whole.statistics.mean, rel=1e-6)
    assert loaded.statistics.std == pytest.approx(whole.statistics.std, rel=1e-6)
    assert loaded.statistics.residual_rms == pytest.approx(
        whole.statistics.residual_rms, rel=1e-3
    )


def test_every_part_is_a_file_of_its_own_and_the_manifest_lists_them(folder):
    listed = json.loads((folder / "manifest.json").read_text())["parts"]

    parts = [data.load(folder / name) for name in NAMES[1:]]

    assert [len(part.a) for part in parts] == [4, 4, 3]
    assert [row["start"] for row in listed] == [3, 7, 11]
    assert [row["name"] for row in listed] == NAMES[1:]
    assert data.verify(folder).num == NUM


def test_a_folder_takes_part_in_the_check_of_overlap(tmp_path, pde, folder):
    test = data.load(data.make(tmp_path / "t.h5", pde, 2, split="test", start=13))

    with pytest.raises(DataError, match="overlap"):
        data.check_disjoint(data.load(folder), test)


@pytest.mark.parametrize("lost", [[], NAMES[:1], NAMES[2:3], NAMES[:2], NAMES])
def test_what_is_missing_is_made_again_bit_for_bit(folder, pde, lost):
    before = content(folder)
    for name in lost:
        (folder / name).unlink()

    again(folder, pde, resume=True)

    assert content(folder) == before


@pytest.mark.parametrize("damage", ["cut", "flip", "text"])
def test_a_damaged_part_is_named_and_made_again(folder, pde, damage, caplog):
    before, part = content(folder), folder / NAMES[2]
    raw = bytearray(part.read_bytes())
    raw[len(raw) // 2] ^= 255
    part.write_bytes({"cut": raw[:3000], "flip": raw, "text": b"none"}[damage])

    with pytest.raises(DataError, match=r"part-00001\.h5.*--resume"):
        data.load(folder)
    with pytest.raises(DataError, match=r"part-00001\.h5.*--resume"):
        data.verify(folder)
    again(folder, pde, resume=True)

    assert content(folder) == before
    assert "part-00001.h5" in caplog.text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 1}, "seed = 0, but 1"),
        ({"split": "train"}, "split = 'test', but 'train'"),
        ({"start": 4}, "start = 3, but 4"),
        ({"shard": 3}, "holds|num = 4, but 3"),
        ({"num": 7}, "part-00002.h5, which is beyond"),
        ({"other": pdes.load("helmholtz", size=SIZE)}, "pde = 'poisson', but 'helm"),
        ({"other": pdes.load("poisson", size=SIZE, binary=True)}, "binary = False"),
        ({"other": pdes.load("poisson", size=8)}, "size = 16, but 8"),
    ],
)
def test_another_request_is_refused_and_changes_nothing(folder, pde, changed, message):
    before = content(folder)

    with pytest.raises(RunDirError, match=message) as refused:
        again(folder, pde, resume=True, **changed)

    assert refused.value.exit_code == 2
    assert content(folder) == before


def test_more_of_the_same_keeps_the_full_parts(tmp_path, pde):
    folder = data.make(tmp_path / "growing", pde, 8, shard=4)
    before = content(folder)

    data.make(folder, pde, 11, shard=4, resume=True)

    assert {k: content(folder)[k] for k in NAMES[1:3]} == {
        k: before[k] for k in NAMES[1:3]
    }
    assert len(data.load(folder).a) == 11


def test_an_existing_folder_is_kept_unless_asked(folder, pde):
    before = content(folder)

    with pytest.raises(RunDirError, match=r"exists: .*--resume.*--overwrite"):
        again(folder, pde)
    with pytest.raises(ConfigError, match="choose one"):
        again(folder, pde, resume=True, overwrite=True)
    assert content(folder) == before
    again(folder, pde, overwrite=True, num=8)
    assert listing(folder) == NAMES[:3]


def test_a_folder_of_other_things_is_left_alone(tmp_path, pde):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")

    for asked in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(RunDirError, match=r"such as thesis\.tex"):
            data.make(tmp_path / "mine", pde, NUM, shard=SHARD, **asked)
    assert listing(tmp_path / "mine") == ["thesis.tex"]


def test_a_file_and_a_folder_do_not_replace_each_other(tmp_path, folder, pde):
    (tmp_path / "file").write_text("kept")

    with pytest.raises(RunDirError, match="is a folder"):
        data.make(folder, pde, 2, overwrite=True)
    with pytest.raises(RunDirError, match="is a file"):
        data.make(tmp_path / "file", pde, NUM, shard=SHARD, overwrite=True)

    assert (tmp_path / "file").read_text() == "kept"


def test_a_single_file_is_kept_by_resume_or_refused(tmp_path, pde):
    path = data.make(tmp_path / "one.h5", pde, 3, resume=True)
    before = path.read_bytes()

    data.make(path, pde, 3, resume=True)
    with pytest.raises(RunDirError, match="num = 3, but 4"):
        data.make(path, pde, 4, resume=True)

    assert path.read_bytes() == before


@pytest.mark.parametrize("shard", [0, 2.5, True])
def test_impossible_shards_are_refused(tmp_path, pde, shard, untyped):
    with pytest.raises(ConfigError, match="shard="):
        data.make(tmp_path / "none", pde, 3, shard=shard)

    assert not listing(tmp_path)


class Diverging(Poisson):
    """An equation whose solver fails on problem 9 and does not notice."""

    def pair(self, key, index, device=None):
        a, u = super().pair(key, index, device)
        u[[i == 9 for i in index]] = torch.nan
        return a, u


def test_a_failing_problem_is_not_written_and_the_parts_before_it_are_kept(tmp_path):
    with pytest.raises(NumericsError, match="problem 9 of seed 0"):
        data.make(tmp_path / "bad", Diverging(size=SIZE), NUM, shard=SHARD)

    assert listing(tmp_path / "bad") == NAMES[1:3]
    with pytest.raises(DataError, match=r"unfinished.*--resume"):
        data.load(tmp_path / "bad")


def test_too_little_space_is_found_before_a_folder_is_made(tmp_path, pde):
    with pytest.raises(RunDirError, match="no space"):
        data.make(tmp_path / "huge", pde, 1 << 39)

    assert not listing(tmp_path)


def test_a_manifest_of_another_format_is_refused(folder):
    about, parts = manifests.read(folder)
    manifests.write(folder, about | {"format": 99}, parts)

    with pytest.raises(DataError, match="format 99"):
        data.load(folder)


def test_a_manifest_that_misstates_its_parts_is_refused(folder):
    about, parts = manifests.read(folder)
    manifests.write(folder, about | {"mean": [0.1, 0.0]}, parts)

    with pytest.raises(DataError, match=r"its parts have .*manifest\.json says"):
        data.verify(folder)


def test_a_manifest_with_a_part_that_is_not_there_is_refused(folder):
    about, parts = manifests.read(folder)
    parts = (*parts, Part("part-00003.h5", 14, 4, "0" * 64))
    manifests.write(folder, about, parts)

    with pytest.raises(DataError, match=r"no file .*part-00003\.h5"):
        data.verify(folder)


def test_the_command_makes_resumes_and_verifies_a_folder(tmp_path, capfd):
    making = ["make", "poisson", "--size", "16", "--num", "7", "--shard", "3"]
    making += ["--out", str(tmp_path / "p")]

    assert data.main(making) == 0
    (tmp_path / "p" / NAMES[2]).unlink()
    assert data.main(["verify", str(tmp_path / "p")]) == 2
    assert data.main(making) == 2
    assert data.main([*making, "--resume"]) == 0
    assert data.main(["verify", str(tmp_path / "p")]) == 0

    out, err = capfd.readouterr()
    assert "7 problems of poisson, sound" in out
    assert "part-00001.h5 again with resume" in err
