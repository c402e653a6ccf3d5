"""Checkpoints of a run survive kills, damage and full disks."""

import json
import logging
import multiprocessing
import random
import resource
import shutil
import time

import pytest
import torch

from prisma_lib import generations
from prisma_lib.errors import CheckpointError, RunDirError

# Forks from a process that has loaded the library and does nothing else.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["prisma_lib.generations"])


def content(step):
    return {"model.weight": torch.full((300, 100), float(step))}


def save(folder, step):
    generations.save(folder, step, content(step), {"settings": {"step": step}})


def save_for_ever(folder, step, pipe):
    while True:
        save(folder, step)
        pipe.send(step)
        step += 1


@pytest.fixture
def folder(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    return tmp_path


def test_a_generation_comes_back_and_two_are_kept(folder):
    save(folder, 3)

    card, tensors = generations.load(folder)

    assert card["step"] == card["settings"]["step"] == 3
    assert torch.equal(tensors["model.weight"], content(3)["model.weight"])
    assert {path.stem for path in folder.glob("step-*")} == {
        "step-0000000002",
        "step-0000000003",
    }


@pytest.mark.parametrize("trials", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_a_generation_at_most_one_save_old(
    trials, tmp_path
):
    dice, last = random.Random(0), 0
    save(tmp_path, 0)
    for _ in range(trials):
        reader, writer = SERVER.Pipe(duplex=False)
        process = SERVER.Process(
            target=save_for_ever, args=(tmp_path, last + 1, writer), daemon=True
        )
        process.start()
        writer.close()
        last = reader.recv()  # it runs
        time.sleep(dice.uniform(0, 0.03))
        process.kill()
        process.join()
        while reader.poll():
            try:
                last = reader.recv()
            except EOFError:
                break
        reader.close()

        generations.claim(tmp_path)
        card, tensors = generations.load(tmp_path)

        assert last <= card["step"] <= last + 1
        assert torch.equal(
            tensors["model.weight"], content(card["step"])["model.weight"]
        )
        names = {path.name for path in tmp_path.iterdir()}
        last = card["step"]
        assert not [name for name in names if name.endswith(".part")]
        assert all(
            name.replace(".safetensors", ".json") in names
            for name in names
            if name.startswith("step")
        )


def damage(path, dice):
    whole = bytearray(path.read_bytes())
    if dice.random() < 0.5:
        whole = whole[: dice.randrange(len(whole))]
    else:
        whole[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
    path.write_bytes(whole)


@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_a_damaged_generation_is_refused_and_the_older_one_is_used(
    trials, folder, tmp_path_factory, caplog
):
    dice = random.Random(1)
    caplog.set_level(logging.WARNING)
    for trial in range(trials):
        copy = tmp_path_factory.mktemp("copy") / "run"
        shutil.copytree(folder, copy)
        suffix = ("json", "safetensors")[trial % 2]
        damage(copy / f"step-0000000002.{suffix}", dice)
        caplog.clear()

        card, tensors = generations.load(copy)

        assert card["step"] == 1
        assert torch.equal(tensors["model.weight"], content(1)["model.weight"])
        assert "going on from" in caplog.text
        assert "corrupt" in caplog.text
        assert generations.load(copy)[0]["step"] == 1
        save(copy, 3)
        kept = {path.stem for path in copy.glob("step-*")}
        assert kept == {"step-0000000001", "step-0000000003"}


@pytest.mark.parametrize("pointer", [None, "", "step-0000000009", "no text \udcff"])
def test_a_missing_or_wrong_pointer_falls_back_and_says_so(folder, pointer, caplog):
    (folder / "latest").unlink()
    if pointer is not None:
        (folder / "latest").write_bytes(pointer.encode("utf-8", "surrogateescape"))

    card, _ = generations.load(folder)

    assert card["step"] == 2
    assert "no latest that names a file" in caplog.text


def test_when_every_generation_is_damaged_each_is_named(folder):
    for path in folder.glob("*.safetensors"):
        path.write_bytes(b"text")

    with pytest.raises(CheckpointError, match=r"(?s)step-.*2\.safe.*step-.*1\.safe"):
        generations.load(folder)


def test_an_empty_folder_has_no_generation(tmp_path):
    assert generations.load(tmp_path) is None


def test_another_format_is_refused(folder):
    for path in folder.glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))

    with pytest.raises(CheckpointError, match="format 99, this library reads 2"):
        generations.load(folder)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_is_not_finite_is_not_written(folder, value):
    with pytest.raises(CheckpointError, match="weight a has NaN or Inf"):
        generations.save(folder, 3, {"a": torch.tensor([1, value])}, {})

    assert generations.load(folder)[0]["step"] == 2


def test_a_full_disk_keeps_the_generation_before(folder):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(RunDirError, match=r"too large.* goes on from step-0+2"):
            save(folder, 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert generations.load(folder)[0]["step"] == 2
    assert not list(folder.glob(".*.part"))


def hold(folder, pipe):
    generations.claim(folder)
    pipe.send("held")
    time.sleep(60)


def test_a_folder_belongs_to_one_process(tmp_path):
    reader, writer = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=hold, args=(tmp_path, writer), daemon=True)
    process.start()
    assert reader.recv() == "held"

    with pytest.raises(RunDirError, match="another process trains in"):
        generations.claim(tmp_path)
    process.kill()
    process.join()

    generations.claim(tmp_path)
