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


@pytest.mark.parametrize("name", CLAIMS)
def test_without_rows_of_rivals_a_claim_is_open(name):
    rows = [row("PRISMA", 2.0, 20)]

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


@pytest.mark.parametrize(("ours", "verdict"), [(9.0, HOLDS), (11.0, FAILS)])
def test_burgers_is_judged_by_values_from_five_sensors(ours, verdict):
    cell = {"pde": "burgers", "direction": "reconstruct", "regime": "sparse"}
    cell["setting"] = "size=32;columns=5"
    rows = [row("PRISMA", ours, 20, **cell), row("DiffusionPDE", 10.0, 200, **cell)]

    found = judge("E23", rows)

    assert found["verdict"] == verdict
    said = f"PRISMA 20 {ours:g} % [{0.95 * ours:.3g}, {1.05 * ours:.3g}] (n = 128)"
    assert said in found["evidence"]


def test_burgers_is_compared_on_the_same_problems():
    cell = {"pde": "burgers", "direction": "reconstruct", "regime": "sparse"}
    cell["setting"] = "size=32;columns=5"
    few = {"n": "8", **cell}
    # By all problems PRISMA would be ahead, on those of the rival it is behind.
    rows = [row("PRISMA", 9.0, 20, **cell), row("DiffusionPDE", 10.0, 200, **few)]
    over = few | {"setting": "size=32;columns=5;over=DiffusionPDE"}
    other = few | {"setting": "size=32;columns=9;over=DiffusionPDE"}
    for about, value in ((over, 1.5), (other, 0.5)):
        rows.append(row("PRISMA", value, 20, metric="error_ratio", **about))

    for name in ("E23", "C20"):
        found = judge(name, rows)

        assert found["verdict"] == FAILS
        assert "with 20 steps 1.5 [1.42, 1.58] times the error" in found["evidence"]
        assert "on the same 8 problems" in found["evidence"]
        assert found["interval_of"] == "error over that of DiffusionPDE"
        assert (found["low"], found["high"]) == pytest.approx((1.425, 1.575))


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


def test_an_average_rank_stands_with_the_interval_of_its_lag_over_columns():
    noisy = [{"pde": pde, "regime": "noisy"} for pde in ("darcy", "poisson")]
    noisy += [{**about, "direction": "inverse"} for about in noisy]
    noisy.append({"pde": "helmholtz", "regime": "noisy"})
    rows = [row("PRISMA", 5.0, 20, **about) for about in noisy]
    rows += [row("FNO", 3.0, **about) for about in noisy[:-1]]
    rows += [row("PINO", 4.0, **about) for about in noisy[1:-1]]
    rows += [row("FNO", 9.0, **noisy[-1]), row("PINO", 9.5, **noisy[-1])]

    found = judge("C03", rows)

    # Behind FNO by 1, 2, 2, 2 ranks, and once ahead by 1.
    assert "PRISMA 20 is 1.2 ranks behind FNO [" in found["evidence"]
    assert found["evidence"].endswith("] in 5 columns")
    assert found["interval_of"] == "ranks behind the best other, noisy"
    assert -1 <= found["low"] < 1.2 < found["high"] <= 2
    alone = judge("C03", [rows[0], rows[5]])
    assert (alone["verdict"], alone["low"]) == (FAILS, None)
