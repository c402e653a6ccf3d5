"""The command that evaluates: what it refuses, and whose rows it keeps."""

import pytest

from prisma_lib import checkpoints, data, evaluate, pdes, results
from prisma_lib.model import ModelConfig, Prisma


def test_what_cannot_be_written_is_refused_before_anything_is_solved(tmp_path, capsys):
    assert evaluate.main(["darcy-32", "--n=1", f"--results={tmp_path}"]) == 4
    assert f"cannot write {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--pde=poisson", "--size=64", "--scale=foo"])
def test_options_that_a_model_has_no_use_for_are_refused(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        evaluate.main(["darcy-32", option])

    assert stopped.value.code == 2
    assert option.split("=")[0] in capsys.readouterr().err


def test_models_of_two_trainings_keep_their_rows(tmp_path, capsys):
    pde = pdes.load("darcy", size=16)
    model = Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=64))
    rows = tmp_path / "rows.csv"
    for name in ("A", "B"):
        checkpoints.save(tmp_path / name / "model", model)
        command = [str(tmp_path / name / "model"), "--n=1", "--steps=1", "--alone"]
        assert evaluate.main([*command, f"--results={rows}"]) == 0

    assert {row["run"] for row in results.read(rows)} == {
        "A-model-1-1-0",
        "B-model-1-1-0",
    }
    capsys.readouterr()
