"""Tuning guidance: a recorded budget, on problems that test nothing."""

import json
import math

import pytest
import torch
from priors import BOTH, exact, network

from prisma_lib import checkpoints, data, evaluate, pdes, results, tune
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fundps import FunDPS
from prisma_lib.cells import benchmark, observation_of
from prisma_lib.errors import ConfigError
from prisma_lib.pdes.base import Statistics

STATISTICS = Statistics((0.0, 0.0), (0.3, 0.004), 1e-3)


@pytest.fixture(scope="module")
def poisson():
    return pdes.load("poisson", size=8)


def test_validation_problems_are_no_test_problems(poisson):
    model = network(FunDPS, poisson, STATISTICS)
    problems, tests = tune.validation(model, 4), benchmark(poisson, 4)

    for a in problems.a:
        assert (tests.a - a).abs().amax((1, 2, 3)).min() > 0.1
    mine, theirs = (
        observation_of(p, "forward", "sparse", rate=0.5).mask for p in (problems, tests)
    )
    assert not torch.equal(mine, theirs)
    assert problems.statistics == STATISTICS


@pytest.mark.parametrize("kind", BOTH)
def test_tuned_weights_are_the_best_tried_and_solve(kind, poisson):
    model, _ = exact(kind, poisson)
    problems = tune.validation(model, 6)
    cell = [("forward", "full")]
    settings = {"steps": 30, "residual": "ours"}

    (record,) = tune.tune(model, problems, cell, 8, **settings)

    json.dumps(record, allow_nan=False)
    assert record["settings"] == settings
    assert record["split"] == "validation"
    assert (record["n"], len(record["tries"])) == (6, 8)
    errors = [math.inf if e is None else e for _, e, _ in record["tries"]]
    numbers = [n for *_, n in record["tries"]]
    assert {4, 6} == {*numbers}  # some were hopeless
    assert numbers[errors.index(min(errors))] == 6
    assert record["error"] == min(errors) < 20
    factors, *_ = record["tries"][errors.index(min(errors))]
    assert record["weights"]["a"] == record["starting_weights"]["a"] * factors[0]
    solver = model.solver(**settings, weights=record["weights"])
    again = []
    for part in (problems.part(range(4)), problems.part(range(4, 6))):
        a, u = solver.solve(
            observation_of(part, *cell[0]),
            samples=1,
            generator=torch.Generator().manual_seed(problems.seed),
        )
        again += evaluate.errors(part, "forward", a[0], u[0]).tolist()
    assert sum(again) / 6 == pytest.approx(record["error"], rel=1e-3)


def test_the_command_keeps_what_it_found_and_judges_it(
    poisson, tmp_path, capsys, monkeypatch
):
    folder, rows = tmp_path / "prior", tmp_path / "rows.csv"
    usual = data.statistics(poisson, num=64)
    checkpoints.save(folder, network(FunDPS, poisson, usual), {"note": "kept"})
    command = [str(folder), "--steps=3", "--tries=2", "--problems=2"]

    assert tune.main([*command, "--cells", "inverse/noisy"]) == 0
    (first,) = checkpoints.read_card(folder)["guidance"]
    assert (first["direction"], first["regime"]) == ("inverse", "noisy")
    assert tune.main(command) == 0
    card = checkpoints.read_card(folder)
    monkeypatch.delattr(tune, "validation")  # problems that nobody needs are not solved
    assert tune.main([*command, "--n=2", f"--results={rows}"]) == 0

    assert card["note"] == "kept"
    assert len(card["guidance"]) == 4  # that the tables ask for
    assert card["guidance"][0] == first
    assert checkpoints.read_card(folder) == card  # nothing was tuned again
    found = results.read(rows)
    assert {(row["method"], row["steps"], row["n"]) for row in found} == {
        ("FunDPS", "3", "2")
    }
    assert len({(row["direction"], row["regime"]) for row in found}) == 4
    capsys.readouterr()


def test_cells_that_no_table_asks_for_are_tuned_by_name_only(tmp_path, capsys):
    burgers = pdes.load("burgers", size=8)
    usual = data.statistics(burgers, num=4)
    checkpoints.save(tmp_path, network(DiffusionPDE, burgers, usual), {})
    command = [str(tmp_path), "--steps=2", "--tries=1", "--problems=1"]
    command += ["--residual=ours"]

    assert tune.main(command) == 0
    (first,) = checkpoints.read_card(tmp_path)["guidance"]
    assert tune.main([*command, "--cells", "forward/full"]) == 0
    second = checkpoints.read_card(tmp_path)["guidance"][1]

    assert (first["direction"], first["regime"]) == ("reconstruct", "sparse")
    assert (second["direction"], second["regime"]) == ("forward", "full")
    capsys.readouterr()


def test_both_residuals_are_tuned_where_the_published_one_pulls(tmp_path, capsys):
    kinds = {"diffusionpde": DiffusionPDE, "fundps": FunDPS}
    found = {}
    for equation, method in [
        ("darcy", "diffusionpde"),
        ("darcy", "fundps"),  # its published weight of the equation is 0
        ("eikonal", "diffusionpde"),  # that has no published residual
    ]:
        pde = pdes.load(equation, size=8)
        usual = data.statistics(pde, num=4)
        folder = tmp_path / f"{method}-{equation}"
        checkpoints.save(folder, network(kinds[method], pde, usual), {})
        command = [str(folder), "--steps=2", "--tries=1", "--problems=1"]

        assert tune.main([*command, "--cells", "forward/full"]) == 0

        records = checkpoints.read_card(folder)["guidance"]
        found[folder.name] = [r["settings"]["residual"] for r in records]
    assert found == {
        "diffusionpde-darcy": ["ours", "published"],
        "fundps-darcy": ["ours"],
        "diffusionpde-eikonal": ["ours"],
    }
    capsys.readouterr()


def test_what_cannot_be_tuned_is_refused(poisson, tmp_path, capsys):
    model = network(FunDPS, poisson, STATISTICS)
    problems = tune.validation(model, 1)

    with pytest.raises(ConfigError, match="tries=0"):
        list(tune.tune(model, problems, [("forward", "full")], 0))
    with pytest.raises(ConfigError, match="reconstruct"):
        list(tune.tune(model, problems, [("reconstruct", "sparse")], 1, steps=2))
    assert tune.main(["darcy-32"]) == 2
    assert "takes no guidance" in capsys.readouterr().err
    checkpoints.save(tmp_path / "prior", model, {})
    assert tune.main([str(tmp_path / "prior"), "--cells", "forwards/full"]) == 2
    assert "forward/full" in capsys.readouterr().err
