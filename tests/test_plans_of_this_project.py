"""Every notebook has a plan, and every plan runs at smoke size from end to end.

The runs are slow tests, all of which every check runs.
"""

import json
from dataclasses import replace

import pytest

from prisma_lib import execution, plans, runs
from prisma_lib.clusters import Where
from prisma_lib.provenance import ROOT
from prisma_lib.sweep import sweep
from prisma_lib.training import TrainConfig

EVERY = sorted((ROOT / "params").glob("*.yaml"))
PLANS = plans.with_notebooks(ROOT / "params")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
OWN = [path for path in PLANS if plans.cells(path, "smoke")[0].plan == path.stem]


@pytest.mark.parametrize("scale", plans.SCALES)
@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_plan_is_sound_at_every_scale(plan, scale):
    assert plans.cells(plan, scale)


@pytest.mark.parametrize("scale", plans.SCALES)
@pytest.mark.parametrize(
    "plan", sorted({*EVERY} - {*PLANS}), ids=lambda path: path.stem
)
def test_plan_of_trainings_is_sound_at_every_scale(plan, scale):
    trainings = plans.read_trainings(plan, scale)

    assert {TrainConfig.from_dict(each).name for each in trainings.values()} == {
        *trainings
    }


def test_every_notebook_has_a_plan():
    planned = {cell.notebook for plan in PLANS for cell in plans.cells(plan, "smoke")}

    assert planned == set(NOTEBOOKS)


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.parametrize("plan", OWN, ids=lambda path: path.stem)
def test_plan_runs_at_smoke_size(plan, tmp_path, cluster):
    cell = replace(plans.cells(plan, "smoke")[0], resources={"cell_minutes": 4})

    sweep([cell], tmp_path, Where(scheduler=cluster))

    folder = tmp_path / cell.plan / cell.name
    run = runs.load(folder)
    assert run.status == "done", run.error
    rows = json.loads((folder / "metrics.json").read_text())
    assert all(row["value"] != "" for row in rows)
    assert list(folder.glob("*.png"))
    book = json.loads((folder / "notebook.ipynb").read_text())
    outputs = [out for cell in book["cells"] for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert not any("widget-view" in str(out.get("data", {})) for out in outputs)


@pytest.mark.slow
@pytest.mark.notebook
def test_a_notebook_trains_in_two_processes(tmp_path):
    (cell,) = plans.cells(ROOT / "params" / "train_darcy.yaml", "smoke")

    given = {**cell.parameters, "processes": 2}
    run = execution.execute(cell.notebook, tmp_path, given, timeout=240)

    assert run.status == "done", run.error
    assert list((tmp_path / "run").glob("step-*.safetensors"))
