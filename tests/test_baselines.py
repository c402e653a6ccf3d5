"""The baselines by name: where they apply, what they are rated on, their weights."""

import csv

import pytest
import torch
from rivals import untrained

from prisma_lib import baselines, comparison, data, pdes
from prisma_lib.baselines.paper import PAPER
from prisma_lib.cells import cells
from prisma_lib.errors import CheckpointError, ConfigError
from prisma_lib.provenance import ROOT

SIX = {"pinn", "fno", "pino", "deeponet", "diffusionpde", "fundps"}
TITLES = {
    "PINN": "pinn",
    "FNO": "fno",
    "PINO": "pino",
    "DeepONet": "deeponet",
    "DiffusionPDE": "diffusionpde",
    "FunDPS": "fundps",
}


def test_all_six_are_there():
    assert set(baselines.names()) == SIX
    assert {baselines.title(name): name for name in baselines.names()} == TITLES


def numbers_of_the_paper():
    """Yields method, equation, direction and regime of every error in its tables."""
    path = ROOT / "outputs" / "tables" / "paper.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        known = row["method"] in TITLES and row["pde"] in pdes.names()
        if known and row["metric"] in ("relative_l2", "error_rate"):
            # The task of Burgers' equation is to reconstruct what sensors saw.
            direction = row["direction"] or "reconstruct"
            yield TITLES[row["method"]], row["pde"], direction, row["regime"]


def test_cells_apply_where_the_paper_has_a_number():
    ours = {
        (name, pde, *cell)
        for name, equations in PAPER.items()
        for pde, found in equations.items()
        for cell in found
    }

    assert ours == set(numbers_of_the_paper())


def test_every_cell_that_applies_can_be_asked():
    for equations in PAPER.values():
        for name, found in equations.items():
            assert found <= set(cells(pdes.load(name)))


def test_unknown_baselines_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'fno'"):
        baselines.applies("fn0", "darcy", "forward", "full")
    with pytest.raises(ConfigError, match="unknown method 'fundp'"):
        baselines.load("fundp", "darcy")


def test_slow_methods_get_few_problems():
    assert baselines.limit("pinn") == 4
    assert [baselines.limit("fundps", steps) for steps in (200, 201)] == [8, 4]
    assert baselines.limit("deeponet") is None


def test_a_network_is_found_by_its_folder(tmp_path):
    kept = untrained("fundps", pdes.load("darcy", size=16), tmp_path)

    model = baselines.load("fundps", "darcy", 16, folder=tmp_path)

    assert model.method == "fundps"
    for name, value in kept.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)


def test_missing_weights_are_refused_with_the_command_that_makes_them(tmp_path):
    with pytest.raises(CheckpointError, match=r"fundps-poisson-16.*prisma_lib\.screen"):
        baselines.load("fundps", "poisson", 16, folder=tmp_path)
    with pytest.raises(ConfigError, match="PINN has no weights"):
        baselines.load("pinn", "poisson", 16)


def test_a_model_in_the_folder_of_another_is_refused(tmp_path):
    untrained("fundps", pdes.load("darcy", size=16), tmp_path)
    (tmp_path / "fundps-darcy-16").rename(tmp_path / "fundps-darcy-32")

    with pytest.raises(CheckpointError, match="name it fundps-darcy-16"):
        baselines.load("fundps", "darcy", 32, folder=tmp_path)


def test_a_model_of_other_coefficients_is_refused(tmp_path):
    untrained("fundps", pdes.load("helmholtz", size=16, k=2), tmp_path)
    asked = pdes.load("helmholtz", size=16)

    with pytest.raises(CheckpointError, match=r"'k': 2\.0.*asked for.*'k': 1\.0"):
        baselines.solver("fundps", asked, "forward", "full", folder=tmp_path)


def test_unknown_settings_are_refused(tmp_path):
    pde = pdes.load("poisson", size=16)
    untrained("fundps", pde, tmp_path)

    with pytest.raises(ConfigError, match="iteration"):
        baselines.solver("pinn", pde, "forward", "full", iteration=3)
    with pytest.raises(ConfigError, match="step"):
        baselines.solver("fundps", pde, "forward", "full", folder=tmp_path, step=3)


@pytest.mark.parametrize("name", ["prisma", "prisma-l", *baselines.NETWORKS])
def test_fields_survive_the_units_of_every_network(name, quick, tmp_path):
    pde = quick("poisson", 16)
    model = untrained(name, pde, tmp_path)
    x = torch.cat(data.problems(pde, 4, split="test"), 1)

    normalised = model.normalise(x)

    torch.testing.assert_close(
        model.denormalise(normalised), x, rtol=1e-5, atol=1e-6 * x.std().item()
    )
    assert normalised.std((0, 2, 3)) == pytest.approx([0.5, 0.5], rel=0.5)


class TestGuidanceWeights:
    """Tuned ones first, then published ones, then those of the nearest equation."""

    def test_published_ones_are_used(self, quick, tmp_path):
        model = untrained("fundps", quick("darcy", 16), tmp_path)

        solver = baselines.of_cell(model, "forward", "full", steps=2)

        assert comparison.guidance(solver) == ";weights=published"
        assert solver.residual == "published"

    def test_tuned_ones_of_the_cell_and_the_settings_come_first(self, quick, tmp_path):
        model = untrained("fundps", quick("darcy", 16), tmp_path)
        settings = {"steps": 2, "residual": "ours"}
        weights = {"a": 7.0, "u": 0.0, "pde": 0.25}
        cell = {"direction": "forward", "regime": "full", "settings": settings}
        tuned = [{**cell, "weights": weights, "error": 9.5}]

        found = {
            (regime, steps): baselines.of_cell(
                model, "forward", regime, tuned=tuned, steps=steps
            )
            for regime in ("full", "sparse")
            for steps in (2, 3)
        }

        best = found.pop(("full", 2))
        assert comparison.guidance(best) == ";weights=7/0/0.25"
        assert best.residual == "ours"
        assert {solver.weights for solver in found.values()} == {"published"}

    def test_the_better_residual_counts_where_both_were_tuned(self, quick, tmp_path):
        model = untrained("diffusionpde", quick("darcy", 16), tmp_path)
        cell = {"direction": "inverse", "regime": "full"}
        tuned = [
            cell
            | {"settings": {"steps": 2, "residual": residual}}
            | {"weights": {"a": 0.0, "u": 7.0, "pde": 1.0}, "error": error}
            for residual, error in [("ours", 9.5), ("published", 9.4)]
        ]
        tuned += [tuned[0] | {"error": None}]  # no draw was finite

        chosen = baselines.of_cell(model, "inverse", "full", tuned=tuned, steps=2)
        asked = baselines.of_cell(
            model, "inverse", "full", tuned=tuned, steps=2, residual="ours"
        )

        assert comparison.guidance(chosen) == ";weights=0/7/1;residual=published"
        assert comparison.guidance(asked) == ";weights=0/7/1"

    def test_those_of_the_nearest_equation_are_used_where_none_are(
        self, quick, tmp_path
    ):
        model = untrained("diffusionpde", quick("kolmogorov", 16), tmp_path)

        solver = baselines.of_cell(model, "inverse", "full", steps=2)

        assert solver.weights["u"] > 0
        assert solver.residual == "ours"
