"""Every line of the table of claims has an interval and n, or says why not."""

import math

import pytest

from prisma_lib.ablations import BETTER, UNDECIDED, WORSE
from prisma_lib.claims import CLAIMS, claims
from prisma_lib.claims.evidence import Finding, decided, untimed
from prisma_lib.claims.shares import interval_of, share_of, wilson
from prisma_lib.claims.tallies import Tally, ahead_of_all, compared
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN
from prisma_lib.report import Report

# What issue 9 lets the rows leave open.
MAY_BE_OPEN = {"C06", "C07", "C22", "C23", "C24", "C25"}
EQUAL_TERMS = {"C01", "C19", "E22"}


@pytest.fixture(scope="module")
def lines():
    report = Report.read(ROOT / "outputs")
    rows = [row for each in report.rows.values() for row in each]
    found = claims(report.entries, rows, report.paper)
    return {line["claim"]: line for line in found if line["scale"] == "cpu"}


def test_every_line_has_an_interval_or_says_why_not(lines):
    assert lines.keys() == CLAIMS.keys()
    for name, line in lines.items():
        if line["low"] is None:
            assert "no interval: " in line["evidence"], name
            assert line["interval_of"] == "", name
        else:
            assert line["low"] <= line["high"], name
            assert line["interval_of"], name
            assert "no interval" not in line["evidence"], name
        assert line["n"], name
        assert line["device"], name
        assert "  " not in line["evidence"], name


def test_every_line_decides_but_those_that_may_be_open(lines):
    open_ = {name for name, line in lines.items() if line["verdict"] == OPEN}

    assert open_ <= MAY_BE_OPEN


def test_what_compares_with_guided_priors_says_both_verdicts(lines):
    for name in EQUAL_TERMS:
        line = lines[name]
        said, shipped = line["evidence"].split("; with the models that ship: ")
        assert said.startswith("with equal budget: ")
        assert said.endswith(f"so that it {line['verdict']}")
        assert any(f"so that it {verdict}" in shipped for verdict in (HOLDS, FAILS))


@pytest.mark.parametrize(
    ("good", "count", "low", "high"),
    # By scipy.stats.binomtest(good, count).proportion_ci(method="wilson").
    [(20, 34, 0.4222, 0.7363), (0, 6, 0.0, 0.3903), (6, 6, 0.6097, 1.0)],
)
def test_shares_have_wilsons_interval(good, count, low, high):
    ends = wilson(good, count)

    assert ends == pytest.approx((low, high), abs=1e-4)
    assert share_of(good, count)[1:] == pytest.approx([100 * end for end in ends])


def test_wilsons_ends_solve_its_equation():
    z = 1.959964
    for good, count in ((1, 7), (12, 19), (3, 3)):
        for end in wilson(good, count):
            root = z * math.sqrt(end * (1 - end) / count)
            assert abs(good / count - end) == pytest.approx(root, abs=1e-6)


def test_cases_that_are_open_decide_nothing():
    def verdict(good, bad, undecided, share=0.0):
        return Tally(good, bad, undecided).judge("", (), share=share).verdict

    assert verdict(0, 0, 0) == OPEN
    assert verdict(0, 0, 6) == FAILS
    assert verdict(1, 1, 6) == FAILS
    assert verdict(2, 1, 9) == HOLDS
    assert (verdict(9, 1, 0, 0.9), verdict(8, 2, 0, 0.9)) == (HOLDS, FAILS)
    assert Tally(2, 1, 9).interval == share_of(2, 3, "decided cases")
    assert Tally(0, 0, 6).interval == share_of(0, 6)
    assert Tally.of([BETTER, UNDECIDED, WORSE, BETTER]) == Tally(2, 1, 1)
    assert Tally(2, 1, 1) + Tally(2, 1, 1).reversed == Tally(3, 3, 2)


def test_behind_one_is_behind_and_ahead_is_ahead_of_all():
    assert ahead_of_all([BETTER, BETTER]) == BETTER
    assert ahead_of_all([BETTER, UNDECIDED]) == UNDECIDED
    assert ahead_of_all([BETTER, UNDECIDED, WORSE]) == WORSE


def test_rows_that_no_run_has_recorded_are_compared_by_their_intervals():
    ours, other = ({"value": v, "low": v, "high": v, "setting": ""} for v in "12")

    assert compared(ours, other, {}) == BETTER
    assert compared(other, ours, {}) == WORSE
    assert compared(ours, other | {"low": ""}) == UNDECIDED


def test_times_have_no_interval_and_say_so():
    finding = decided(True, "4 of 4", [{"n": "10"}], share_of(4, 4))

    assert untimed(finding).interval is None
    assert untimed(finding).evidence.startswith("4 of 4; no interval: ")
    assert untimed(Finding(OPEN, "nothing")) == Finding(OPEN, "nothing")
    row = {"low": "1", "high": ""}
    assert interval_of(row, "it") is None
    assert interval_of(row | {"high": "2"}, "it") == ("it", 1.0, 2.0)
