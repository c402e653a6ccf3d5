"""Every notebook has a plan, and every plan runs at smoke size from end to end.

The runs are slow tests, some of which every check runs, others for each commit.
"""

import json
import re
from dataclasses import replace

import pytest

from prisma_lib import checkpoints, execution, pairing, pdes, plans, runs, train
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


def test_plans_state_the_minutes_that_the_cards_record():
    said = {}
    for plan in {*EVERY} - {*PLANS}:
        if found := re.search(
            r"took\n# ([\d.]+) minutes of one thread", plan.read_text()
        ):
            (training,) = plans.read_trainings(plan, "cpu").values()
            said[training["name"]] = float(found[1])

    assert {*said} == {"navier_stokes-32L", "kolmogorov-32L"}
    for name, minutes in said.items():
        card = checkpoints.read_card(ROOT / "outputs" / "models" / name)
        assert card["training"]["minutes"] == minutes
        assert card["provenance"]["device"].endswith("1 thread")


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Finds a model that ships; instead of one that does not, trains a tiny one.

    So it does of Kolmogorov flow: statistics and lift of the model that ships rest on
    trajectories that a fresh clone would be a quarter of an hour over.
    """
    folder, shipped = tmp_path_factory.mktemp("models"), checkpoints.shipped()

    def found(name):
        out = folder / name
        pde = name.rpartition("-")[0]
        if name in shipped and pde != "kolmogorov":
            return name
        if out.exists():
            return str(out)
        config = TrainConfig(
            method="prisma-l" if name.endswith("L") else "prisma",
            pde=pde,
            options=pdes.quick(pde),
            size=16,
            preset="tiny",
            images=320,
        )
        state = train.begin(config, folder / f"{name}-run")
        for _ in train.watched(state, folder / f"{name}-run"):
            pass
        return str(train.finish(state, out))

    return found


def values_of(cell):
    """The values of all parameters of a run's notebook."""
    known = pairing.parameters_of(cell.notebook)
    return {name: each.default for name, each in known.items()} | cell.parameters


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.parametrize("plan", OWN, ids=lambda path: path.stem)
def test_plan_runs_at_smoke_size(plan, tmp_path, cluster, there):
    cell = replace(plans.cells(plan, "smoke")[0], resources={"cell_minutes": 8})
    values = values_of(cell)
    if "model_name" in values:
        changes = {"model_name": there(values["model_name"])}
        cell = replace(cell, parameters=cell.parameters | changes)

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
