"""Screening recipes: every variant once, and what was cut goes on."""

import pytest

from prisma_lib import plans, provenance, results, resume, screen, train
from prisma_lib.training import TrainConfig

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
