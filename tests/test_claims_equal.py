"""What compares PRISMA with guided priors is decided by networks of equal budget."""

import pytest
from test_claims_benchmarks import judge
from test_tables import PAPER, row

from prisma_lib import tables
from prisma_lib.claims import equal
from prisma_lib.claims.evidence import Evidence
from prisma_lib.comparison import EQUAL
from prisma_lib.ranks import FAILS, HOLDS, OPEN


def ratio(value, direction="forward", method="PRISMA"):
    given = {"metric": "error_ratio", "direction": direction, "n": "8"}
    return row(method, value, 20, setting="size=32;over=FunDPS", **given)


def rivals(steps=200):
    cells = ({"direction": d} for d in ("forward", "inverse"))
    return [row("FunDPS", 5.0, steps, n="8", **cell) for cell in cells]


def ours(forward, inverse, method="PRISMA"):
    rows = [row(method, forward, 20), row(method, inverse, 20, direction="inverse")]
    return [each for each in rows if each["value"] != "None"]


@pytest.mark.parametrize(
    ("inverse", "steps", "verdict"),
    [(0.5, 200, HOLDS), (2.0, 200, FAILS), (0.5, 100, OPEN), (1.02, 200, HOLDS)],
)
def test_a_tenth_of_the_steps_must_be_better_in_most_decided_cells(
    inverse, steps, verdict
):
    rows = [*ours(4.0, 4.0), *rivals(steps), ratio(0.8)]
    rows += [ratio(9.0, "inverse"), ratio(inverse, "inverse")]
    rows += ours(4.0, 4.0, EQUAL)  # by its own intervals: no row has its ratio

    found = judge("C01", rows)

    assert found["verdict"] == (OPEN if verdict == OPEN else HOLDS)
    if verdict == OPEN:
        return
    assert (
        "with equal budget: 2 better, 0 worse, 0 open of 2 cells" in found["evidence"]
    )
    assert "most of the decided ones must be better" in found["evidence"]
    assert found["evidence"].endswith(f"so that it {verdict}")
    assert f"{inverse == 1.02:d} open of 2" in found["evidence"].split("ship")[1]


@pytest.mark.parametrize(
    ("forward", "inverse", "verdict", "counts"),
    [
        (4.0, 4.0, HOLDS, "2 better, 0 worse, 0 open"),
        (6.0, 6.0, FAILS, "0 better, 2 worse, 0 open"),
        (4.0, 6.0, FAILS, "1 better, 1 worse, 0 open"),
        (5.1, 4.9, FAILS, "0 better, 0 worse, 2 open"),
    ],
)
def test_the_network_of_equal_budget_decides(forward, inverse, verdict, counts):
    rows = [*ours(4.0, 4.0), *rivals(), ratio(0.8), ratio(0.8, "inverse")]

    found = judge("C01", rows + ours(forward, inverse, EQUAL))

    assert found["verdict"] == verdict
    said, shipped = found["evidence"].split("; with the models that ship: ")
    assert said.startswith(f"with equal budget: {counts} of 2 cells")
    assert said.endswith(f"so that it {verdict}")
    assert shipped.startswith("2 better, 0 worse, 0 open of 2 cells")
    assert shipped.endswith("so that it holds")


def test_a_ratio_on_the_same_problems_decides_for_equal_budget_too():
    rows = [*ours(4.0, 4.0), *rivals(), *ours(5.1, 4.9, EQUAL)]
    paired = [ratio(0.9, method=EQUAL), ratio(0.9, "inverse", EQUAL)]

    assert judge("C01", rows)["verdict"] == FAILS
    assert judge("C01", rows + paired)["verdict"] == HOLDS


@pytest.mark.parametrize(("value", "verdict"), [(4.0, OPEN), (6.0, FAILS)])
def test_without_equal_budget_a_claim_cannot_hold(value, verdict):
    found = judge("C01", [*ours(value, value), *rivals()])

    assert found["verdict"] == verdict
    assert found["evidence"].endswith("; no rows with equal budget")


def test_a_rival_that_diverged_is_beaten():
    rows = [row("PRISMA", 4.0, 20), row(EQUAL, 4.0, 20)]
    rows += [row("FunDPS", "", 200, setting="size=32;diverged;weights=published")]

    assert judge("C01", rows)["verdict"] == HOLDS


def eikonal(method, value, steps=20, **more):
    return row(method, value, steps, pde="eikonal", **more)


def trained(value, **more):
    given = {"sweep": "baselines", "run": "prisma-eikonal", **more}
    return eikonal("PRISMA", value, **given)


@pytest.mark.parametrize("claim", ["C19", "E22"])
@pytest.mark.parametrize(
    ("shipped", "alike", "verdict"),
    [(6.0, 6.0, HOLDS), (6.0, 7.1, FAILS), (6.0, 9.0, FAILS), (9.0, 6.0, HOLDS)],
)
def test_the_training_of_equal_budget_stands_for_a_benchmark_without_rows(
    claim, shipped, alike, verdict
):
    rows = [eikonal("PRISMA", shipped), eikonal("FunDPS", 7.0, 200), trained(alike)]
    rows += [eikonal("PRISMA", 97.5, metric="iou", n="128")]
    rows += [eikonal("PRISMA", 99.0, metric="iou", n="8")]

    found = judge(claim, rows)
    own = judge(claim, [*rows[:2], eikonal(EQUAL, alike), trained(99.0)])

    assert (found["verdict"], own["verdict"]) == (verdict, verdict)
    assert "with equal budget: " in found["evidence"]
    ship = found["evidence"].split("; with the models that ship: ")[1]
    assert f"so that it {HOLDS if shipped < 7 else FAILS}" in ship
    if claim == "E22":
        assert found["evidence"].endswith("; overlap PRISMA 20 97.5 % [92.6, 102]")


def test_only_errors_of_the_equations_own_training_count():
    rows = [trained(6.0, run="prisma-darcy"), trained(6.0, metric="minutes")]
    rows += [trained(6.0, sweep="recipes"), trained(6.0, setting="size=64")]
    rows += [trained(6.0, regime="sparse", setting="size=32;rate=0.1")]
    mine = [eikonal("PRISMA", 6.0)]
    entries = tables.entries(mine, PAPER)

    assert equal.equal_entries(Evidence(entries, [], [], [*mine, *rows])) == []
    (entry,) = equal.equal_entries(Evidence(entries, [], [], [*rows, trained(5.0)]))
    assert (entry.method, entry.value) == (EQUAL, 5.0)


def test_names_of_the_overlap_are_single_spaced():
    rows = [eikonal("PRISMA", 6.0), eikonal("FunDPS", 7.0, 200), trained(6.0)]
    rows += [eikonal("numerical solver", 100.0, "", metric="iou")]

    found = judge("E22", rows)

    assert "overlap numerical solver 100 %" in found["evidence"]
    assert "  " not in found["evidence"]
