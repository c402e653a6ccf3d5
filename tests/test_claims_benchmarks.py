"""Claims about the benchmarks' tables and figures, from made-up rows."""

import pytest
from test_tables import PAPER, row

from prisma_lib import claims, tables
from prisma_lib.claims.benchmarks import CLAIMS
from prisma_lib.ranks import FAILS, HOLDS, OPEN


def judge(name, rows):
    found = claims.claims(tables.entries(rows, PAPER), rows, PAPER)
    (line,) = [line for line in found if line["claim"] == name]
    return line


def spectral(method, value, direction="inverse", steps=20, **more):
    given = {"metric": "spectral_power_error", "regime": "noisy", **more}
    return row(method, value, steps, direction=direction, **given)


@pytest.mark.parametrize("name", CLAIMS)
def test_without_rows_of_rivals_a_claim_is_open(name):
    rows = [row("PRISMA", 2.0, 20), spectral("PRISMA", 3.0)]

    found = judge(name, rows)

    assert found["verdict"] == OPEN


@pytest.mark.parametrize(("regime", "name"), [("noisy", "E02"), ("full", "E03")])
def test_a_table_is_in_order_when_most_of_its_decided_columns_are(regime, name):
    right = [
        row("PRISMA", 1.0, 20, regime=regime),
        row("FNO", 9.0, regime=regime),
    ]
    inverse = {"regime": regime, "direction": "inverse"}
    wrong = [row("PRISMA", 9.0, 20, **inverse), row("FNO", 1.0, **inverse)]
    open_ = [
        row("PRISMA", 5.0, 20, pde="poisson", regime=regime),
        row("FNO", 5.1, pde="poisson", regime=regime),
    ]

    assert judge(name, right + open_)["verdict"] == HOLDS
    assert judge(name, right + wrong)["verdict"] == FAILS
    found = judge(name, wrong + open_)
    assert found["verdict"] == FAILS
    assert "0 of 1 columns in the paper's order, 1 undecided" in found["evidence"]
    assert "average ranks" in found["evidence"]


def test_errors_stand_with_their_seconds():
    rows = [row("PRISMA", 1.5, 20, seconds_per_sample="0.1"), row("FNO", 6.0)]

    found = judge("E01", rows)

    assert found["verdict"] == HOLDS
    assert "PRISMA 20 1.5 % in 0.1 s, FNO 6 % in 0.5 s" in found["evidence"]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ({"value": 5.0, "seconds_per_sample": "0.1"}, HOLDS),  # faster, worse
        ({"value": 1.0, "seconds_per_sample": "9"}, HOLDS),  # better, slower
        ({"value": 1.0, "seconds_per_sample": "0.1"}, FAILS),  # both
        ({"value": 1.0, "seconds_per_sample": ""}, OPEN),
        ({"value": 1.0, "seconds_per_sample": "0.1", "device": "other"}, OPEN),
    ],
)
def test_nobody_is_faster_and_better(other, verdict):
    rows = [row("PRISMA", 2.0, 20), row("FNO", **other)]

    assert judge("E05", rows)["verdict"] == verdict


def test_spectra_are_compared_on_the_same_problems_with_the_fewest_steps():
    rivals = [spectral("FunDPS", 5.0, n="8")]
    rivals += [spectral("FunDPS", 5.0, "forward", n="8")]
    ours = [spectral("PRISMA", 4.0, n="8"), spectral("PRISMA", 9.0)]
    worse = [spectral("PRISMA", 6.0, "forward", n="8")]
    longer = [spectral("PRISMA", 9.0, n="8", steps=50)]

    assert judge("E10", [row("PRISMA", 1.0, 20), *rivals, *ours])["verdict"] == HOLDS
    every = [row("PRISMA", 1.0, 20), *longer, *rivals, *ours, *worse]
    found = judge("E09", every)
    assert judge("E10", every)["verdict"] == HOLDS
    assert found["verdict"] == FAILS
    assert "1 of 2 cells" in found["evidence"]
    assert "darcy inverse 4 % against 5 % of FunDPS (n = 8)" in found["evidence"]


@pytest.mark.parametrize(("ours", "verdict"), [(6.0, HOLDS), (8.0, FAILS)])
def test_the_shapes_overlap_stands_with_the_order_of_distances(ours, verdict):
    rows = [row("PRISMA", ours, 20, pde="eikonal")]
    rows += [row("FunDPS", 7.0, 200, pde="eikonal")]
    rows += [row("PRISMA", 97.5, 20, pde="eikonal", metric="iou", n="128")]
    rows += [row("PRISMA", 99.0, 20, pde="eikonal", metric="iou", n="8")]

    found = judge("E22", rows)

    assert found["verdict"] == verdict
    assert found["evidence"].endswith("in this order, 0 open; overlap PRISMA 20 97.5 %")


@pytest.mark.parametrize(("ours", "verdict"), [(9.0, HOLDS), (11.0, FAILS)])
def test_burgers_is_judged_by_values_from_five_sensors(ours, verdict):
    cell = {"pde": "burgers", "direction": "reconstruct", "regime": "sparse"}
    cell["setting"] = "size=32;columns=5"
    rows = [row("PRISMA", ours, 20, **cell), row("DiffusionPDE", 10.0, 200, **cell)]

    assert judge("E23", rows)["verdict"] == verdict


def test_operators_fall_further_than_prisma_when_sensors_are_few():
    full = [row("PRISMA", 2.0, 20), row("FNO", 2.0)]
    sparse = [row("PRISMA", 10.0, 20, regime="sparse")]
    falls = [row("FNO", 30.0, regime="sparse")]
    stays = [row("FNO", 4.0, regime="sparse")]

    assert judge("E06", full + sparse + falls)["verdict"] == HOLDS
    assert judge("E06", full + sparse + stays)["verdict"] == FAILS


@pytest.mark.parametrize(("ours", "verdict"), [(1.0, HOLDS), (40.0, FAILS)])
def test_the_sparse_table_has_an_order_too(ours, verdict):
    rows = [row("PRISMA", ours, 20, regime="sparse"), row("FNO", 20.0, regime="sparse")]

    assert judge("E04", rows)["verdict"] == verdict


def ratio(value, direction="forward"):
    given = {"metric": "error_ratio", "direction": direction, "n": "8"}
    return row("PRISMA", value, 20, setting="size=32;over=FunDPS", **given)


@pytest.mark.parametrize(
    ("inverse", "steps", "verdict"),
    [(0.5, 200, HOLDS), (2.0, 200, FAILS), (0.5, 100, OPEN), (1.02, 200, HOLDS)],
)
def test_a_tenth_of_the_steps_must_be_better_in_most_decided_cells(
    inverse, steps, verdict
):
    rows = [row("PRISMA", 4.0, 20), row("FunDPS", 5.0, steps, n="8"), ratio(0.8)]
    rows += [row("PRISMA", 4.0, 20, direction="inverse")]
    rows += [row("FunDPS", 5.0, steps, direction="inverse", n="8")]

    found = judge("C01", [*rows, ratio(9.0, "inverse"), ratio(inverse, "inverse")])

    assert found["verdict"] == verdict
    assert ("1 more are open" in found["evidence"]) == (inverse == 1.02)


def test_a_rival_that_diverged_is_beaten():
    rows = [row("PRISMA", 4.0, 20)]
    rows += [row("FunDPS", "", 200, setting="size=32;diverged;weights=published")]

    assert judge("C01", rows)["verdict"] == HOLDS


def test_operators_are_said_to_fall_sharply_by_themselves():
    full = [row("PRISMA", 2.0, 20), row("FNO", 2.0), row("PINN", 1.0)]
    sparse = [row("PRISMA", 40.0, 20, regime="sparse")]
    sparse += [row("PINN", 1.0, regime="sparse")]  # no operator

    falls = judge("C05", [*full, *sparse, row("FNO", 12.0, regime="sparse")])
    stays = judge("C05", [*full, *sparse, row("FNO", 8.0, regime="sparse")])

    assert (falls["verdict"], stays["verdict"]) == (HOLDS, FAILS)
    assert "1 of 1" in falls["evidence"]


@pytest.mark.parametrize(
    ("claim", "asked"), [("C03", ["noisy"]), ("C04", ["full", "sparse"])]
)
def test_the_first_rank_is_needed_in_every_table_of_a_claim(claim, asked):
    first = [row("PRISMA", 1.0, 20, regime=r) for r in asked]
    first += [row("FNO", 3.0, regime=r) for r in asked]
    last = [row("PRISMA", 9.0, 20, regime=asked[-1])]

    assert judge(claim, first)["verdict"] == HOLDS
    assert judge(claim, first + last)["verdict"] == FAILS
    assert judge(claim, first[:1])["verdict"] == OPEN


@pytest.mark.parametrize(("ours", "verdict"), [(4.0, HOLDS), (6.0, FAILS)])
def test_spectra_under_noise_are_nearer_than_every_baseline(ours, verdict):
    rows = [row("PRISMA", 1.0, 20), spectral("PRISMA", ours), spectral("FunDPS", 5.0)]
    rows += [spectral("FunDPS", 1.0, regime="full")]
    again = [spectral("FunDPS", 5.0, sweep="spectra")]

    found = judge("C16", rows + again)

    assert found["verdict"] == verdict
    assert "of 1 spectra" in found["evidence"]


def test_of_several_baselines_the_nearest_is_named():
    rows = [row("PRISMA", 1.0, 20), spectral("PRISMA", 4.0)]
    rows += [spectral("DiffusionPDE", 5.0)]

    found = judge("E10", [*rows, spectral("FunDPS", 9.0)])
    beaten = judge("E10", [*rows, spectral("FunDPS", 3.0)])

    assert (found["verdict"], beaten["verdict"]) == (HOLDS, FAILS)
    assert "4 % against 5 % of DiffusionPDE" in found["evidence"]
    assert "9 %" not in found["evidence"]
