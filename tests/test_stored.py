"""Models are judged on the problems of a file, none of which they may know."""

import logging

import pytest
import torch

from prisma_lib import checkpoints, data, evaluate, pdes, results
from prisma_lib.cells import cells
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.solve import PrismaSolver

SIZE = 16
NOT_IN_BOTH = ("setting", "run", "seconds_per_sample", "peak_mb")


@pytest.fixture(scope="module")
def pde():
    return pdes.load("helmholtz", size=SIZE)


@pytest.fixture(scope="module")
def model(pde):
    torch.manual_seed(0)
    return Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=64)).eval()


@pytest.fixture(scope="module")
def path(tmp_path_factory, pde):
    place = tmp_path_factory.mktemp("files") / "public;set=1.h5"
    return data.make(place, pde, 6, split="test")


@pytest.fixture
def folder(tmp_path, model):
    notes = {"training": {"pde": "helmholtz", "seed": 0, "data_sha256": None}}
    checkpoints.save(tmp_path / "tiny", model, notes)
    return tmp_path / "tiny"


def told(rows):
    kept = (row for row in rows if row["regime"] != "noisy")
    return [{k: str(v) for k, v in r.items() if k not in NOT_IN_BOTH} for r in kept]


def test_test_problems_from_a_file_give_the_rows_of_the_protocol(model, path):
    rows = evaluate.table(model, 6, 2, problems=evaluate.stored(path))

    assert len(rows) == len(evaluate.table(model, 6, 2)) > 20
    assert told(rows) == told(evaluate.table(model, 6, 2))  # noise has their own scale
    assert {results.settings(row)["data"] for row in rows} == {"public-set-1"}


def test_the_first_problems_of_a_file_are_asked(model, path):
    rows = evaluate.table(model, 3, 2, problems=evaluate.stored(path))

    assert told(rows) == told(evaluate.table(model, 3, 2))


def test_a_model_is_told_the_coefficients_and_the_grid_of_a_file(tmp_path):
    model = checkpoints.load("helmholtz-32")
    other = pdes.load("helmholtz", size=40, k=2.0)
    problems = evaluate.stored(data.make(tmp_path / "k.h5", other, 2, split="test"))
    cell = ("inverse", "full")

    (row,) = (
        row
        for row in evaluate.table(model, 2, 8, problems=problems)
        if (row["method"], row["direction"], row["regime"]) == ("PRISMA", *cell)
    )

    aware = model.with_equation(pdes.load("helmholtz", size=32, k=2.0))
    knowing, guessing = (
        evaluate.evaluate(PrismaSolver(each, Schedule(8)), problems, *cell)[0]
        for each in (aware, model)
    )
    assert row["value"] == knowing["value"] != guessing["value"]


def test_a_file_of_another_equation_is_refused(tmp_path, model):
    path = data.make(tmp_path / "p.h5", pdes.load("poisson", size=SIZE), 2)

    with pytest.raises(ConfigError, match="trained for helmholtz"):
        evaluate.table(model, 2, 2, problems=evaluate.stored(path))


def test_what_streams_were_trained_on_is_refused(tmp_path, pde):
    files = {
        (split, seed): data.load(
            data.make(tmp_path / f"{split}{seed}", pde, 2, split=split, seed=seed)
        )
        for split, seed in [("train", 0), ("train", 1), ("test", 0)]
    }
    training = {"pde": "helmholtz", "seed": 0, "data": "fresh", "data_sha256": None}

    with pytest.raises(DataError, match="training problems of seed 0"):
        data.check_unseen(training, files.pop(("train", 0)))
    for file in files.values():
        data.check_unseen(training, file)


def test_what_a_file_held_in_training_is_refused(tmp_path, pde, path, caplog):
    trained = {"data": str(path), "data_sha256": "of some file"}
    later = data.make(tmp_path / "later.h5", pde, 2, split="test", start=6)

    with pytest.raises(DataError, match=r"range\(0, 6\)|overlap"):
        data.check_unseen(trained, data.load(path))
    data.check_unseen(trained, data.load(later))
    assert not caplog.records
    gone, fresh = trained | {"data": "gone.h5"}, data.make(tmp_path / "fresh", pde, 2)
    with caplog.at_level(logging.WARNING):
        data.check_unseen(gone, data.load(path))  # of the test split
        assert not caplog.records
        data.check_unseen(gone, data.load(fresh))
    assert "gone.h5" in caplog.text


def test_the_command_keeps_rows_of_files_apart(tmp_path, folder, path, capsys):
    table = tmp_path / "rows.csv"
    command = [str(folder), "--n", "2", "--steps", "2", "--results", str(table)]

    assert evaluate.main([*command, "--alone", "--data", str(path)]) == 0
    assert "exact posterior" not in capsys.readouterr().out
    assert evaluate.main([*command, "--alone"]) == 0

    found = [results.settings(row).get("data") for row in results.read(table)]
    assert found == 6 * ["public-set-1"] + 6 * [None]


def test_the_command_judges_what_learns_nothing_on_a_file(path, capsys):
    assert evaluate.main(["--anchors", "--data", str(path), "--n", "2"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("lift") for line in lines) == len(
        cells(pdes.load("helmholtz", size=SIZE))
    )


def test_the_command_needs_weights_for_the_grid_of_a_file(path, capsys):
    assert evaluate.main(["--data", str(path), "--methods", "fno"]) == 2
    assert "there is no fno-helmholtz-16" in capsys.readouterr().err


def test_the_command_refuses_known_problems(tmp_path, folder, pde, capsys):
    path = data.make(tmp_path / "train.h5", pde, 2)

    assert evaluate.main([str(folder), "--data", str(path)]) == 2
    assert "was trained on the training problems" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [(["--card"], "without --data"), (["--pde", "darcy"], "leave out --pde")],
)
def test_options_that_a_file_rules_out(folder, path, extra, message, capsys):
    with pytest.raises(SystemExit):
        evaluate.main([str(folder), "--data", str(path), *extra])
    assert message in capsys.readouterr().err
