"""Screening recipes: every variant once, and what was cut goes on."""

import shutil

import pytest
import torch

from prisma_lib import (
    baselines,
    cells,
    data,
    plans,
    provenance,
    results,
    resume,
    screen,
    train,
)
from prisma_lib.errors import ConfigError
from prisma_lib.training import TrainConfig, start

PLAN = """\
base: {pde: darcy, size: 16, preset: tiny, images: 64, batch: 8}
scales:
  smoke: {size: 16, preset: tiny, images: 64}
zip:
  name: [one, two]
  optimiser: [adamw, muon]
"""


@pytest.fixture
def plan(root, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", root)
    path = root / "params" / "try.yaml"
    path.write_text(PLAN)
    return path


def test_variants_go_on_where_they_were_cut_and_are_judged_once(plan, root):
    settings = plans.read_trainings(plan, "smoke")["one"]
    folder = root / "outputs" / "train" / "try" / "one"
    begun = train.begin(TrainConfig.from_dict(settings), folder)
    for state in train.run(begun, folder):
        if state.step == 3:
            break
    state.seconds = 6000.0  # a mark that only this checkpoint carries
    resume.save(folder, state)
    out = root / "rows.csv"
    first = screen.screen(plan, "smoke", out, "cpu", 1)

    name, rows = next(first)
    first.close()  # the second variant was never begun
    rest = [name for name, _ in screen.screen(plan, "smoke", out, "cpu", 1)]

    assert [name, *rest] == ["one", "two"]
    found = results.read(out)
    assert {row["run"] for row in found} == {"one", "two"}
    assert len(found) == 2 * len(rows)
    spent = {row["metric"]: float(row["value"]) for row in rows}
    assert spent["images"] == 64
    assert 100 < spent["minutes"] < 101
    # Both directions in every regime, and what was spent.
    regimes = {(row["direction"], row["regime"]) for row in rows if row.get("regime")}
    assert len(regimes) == len(rows) - 2
    assert not list(screen.screen(plan, "smoke", out, "cpu", 1))


def test_rows_of_another_scale_or_split_are_not_taken_for_these(plan, root, capsys):
    out, command = root / "rows.csv", [str(plan), "--n=1", "--only=one"]
    command += [f"--results={out}"]
    plan.write_text(PLAN.replace("scales:", "scales:\n  cpu: {images: 8}"))
    for scale in ("smoke", "cpu"):
        shutil.rmtree(root / "outputs", ignore_errors=True)
        assert screen.main([*command, f"--scale={scale}"]) == 0
        assert capsys.readouterr().out.startswith("one: ")

    assert {row["scale"] for row in results.read(out)} == {"smoke", "cpu"}
    assert screen.main([*command, "--scale=cpu"]) == 0
    assert capsys.readouterr().out.endswith("rows.csv has their rows: one\n")
    assert screen.main([*command, "--scale=cpu", "--split=validation"]) == 2
    assert "rows of the test split" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "status", "said"),
    [
        ("--n=0", 2, "n=0"),
        ("--models=/proc/nowhere", 4, "cannot write /proc/nowhere"),
        ("--results=/proc/x.csv", 4, "cannot write /proc/x.csv"),
        ("--results=/tmp", 4, "cannot write /tmp"),
    ],
)
def test_what_cannot_be_written_is_refused_before_training(
    plan, root, option, status, said, capsys
):
    plan.write_text(PLAN.replace("[one, two]", "[one, two]\n  pde: [darcy, poisson]"))

    assert screen.main([str(plan), "--scale=smoke", option]) == status

    assert said in capsys.readouterr().err
    assert not (root / "outputs" / "train").exists()


def test_every_variant_is_checked_before_the_first_is_trained(plan, root):
    plan.write_text(PLAN.replace("[one, two]", "[one, two]\n  pde: [darcy, poisso]"))

    with pytest.raises(ConfigError, match="did you mean 'poisson'"):
        next(screen.screen(plan, "smoke", root / "rows.csv", "cpu", 1))

    assert not (root / "outputs").exists()


RIVALS = """\
base: {pde: helmholtz, method: fundps, batch: 8}
scales:
  smoke: {size: 16, preset: tiny, images: 16}
"""


def test_a_baseline_is_judged_where_it_applies_and_kept_where_it_is_found(
    plan, root, monkeypatch
):
    monkeypatch.setattr(baselines, "GUIDED_STEPS", 2)
    plan.write_text(RIVALS)
    models = root / "models"

    ((_, rows),) = screen.screen(
        *(plan, "smoke", root / "rows.csv", "cpu", 9), models=models
    )

    judged = [row for row in rows if row.get("regime")]
    assert len(judged) == 6
    assert {(row["method"], row["n"], row["steps"]) for row in judged} == {
        ("FunDPS", 8, 2)
    }
    assert all("weights=published" in row["setting"] for row in judged)
    model = baselines.load("fundps", "helmholtz", 16, folder=models)
    assert model.method == "fundps"


def test_a_variant_with_rows_but_without_its_model_is_trained_for_the_model(plan, root):
    plan.write_text(RIVALS.replace("fundps", "deeponet"))
    given = (plan, "smoke", root / "rows.csv", "cpu", 2)

    def again():
        return [*screen.screen(*given, models=root / "models")]

    assert len(again()) == 1
    assert not again()
    rows = results.read(root / "rows.csv")
    shutil.rmtree(root / "models")
    # As in a clone: rows are there, neither models nor trainings are.
    shutil.rmtree(root / "outputs")
    assert len(again()) == 1
    assert len(results.read(root / "rows.csv")) == len(rows)
    assert baselines.load("deeponet", "helmholtz", 16, folder=root / "models")


def test_two_models_of_one_name_are_refused(plan, root):
    with pytest.raises(ConfigError, match="one model would replace the other"):
        next(screen.screen(plan, "smoke", root / "x", "cpu", 1, models=root))


def test_what_no_cell_asks_for_is_not_trained(plan, root):
    plan.write_text(RIVALS.replace("helmholtz", "burgers"))

    with pytest.raises(ConfigError, match=r"not applicable.*FunDPS in burgers"):
        list(screen.screen(plan, "smoke", root / "rows.csv", "cpu", 1))

    assert not (root / "outputs").exists()


def test_settings_are_chosen_on_other_problems_than_those_of_tables():
    config = TrainConfig("deeponet", size=16, preset="tiny", images=8, batch=8)
    state = start(config, torch.device("cpu"))

    found = {split: screen.judged(state, 2, split) for split in ("test", "validation")}

    settings = {
        split: {row["setting"] for row in rows if "setting" in row}
        for split, rows in found.items()
    }
    assert settings["validation"] == {f"{s};split=validation" for s in settings["test"]}
    values = [[row["value"] for row in rows] for rows in found.values()]
    assert values[0] != values[1]
    a = cells.benchmark(state.model.pde, 2, split="validation").a
    wanted, _ = data.problems(state.model.pde, 2, split="validation")
    assert torch.equal(a, wanted)


def test_a_pattern_chooses_variants_and_a_folder_takes_their_trainings(plan, root):
    given = (plan, "smoke", root / "rows.csv", "cpu", 1)

    found = dict(screen.screen(*given, only="t*", folder=root / "here"))

    assert {*found} == {"two"}
    assert (root / "here" / "two" / "model" / "card.json").exists()
    with pytest.raises(ConfigError, match=r"fits none of 2 variants.* one, two"):
        next(screen.screen(*given, only="three"))
