"""Claims about variants, steps and trajectories: both verdicts from made-up rows."""

import csv

import pytest

from prisma_lib import ablations, claims, results
from prisma_lib.claims import Evidence
from prisma_lib.claims import ablations as judges
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN
from prisma_lib.results import COLUMNS
from prisma_lib.tables import Paper, entries

MINE = {"C08", "C09", "C13", "C14", "C15", "E16", "E17", "E18", "E19", "E20"}
CELLS = [(d, r) for d in ("forward", "inverse") for r in ("full", "noisy")]


def row(sweep, value, low=None, high=None, **more):
    given = dict.fromkeys(COLUMNS, "") | {"sweep": sweep, "scale": "cpu", "n": "128"}
    given |= {"method": "PRISMA", "pde": "helmholtz", "direction": "forward"}
    given |= {"regime": "full", "setting": "size=32", "metric": "relative_l2"}
    given |= {"value": str(value), "device": "mill", "seed": "0"}
    given["low"] = str(0.95 * value if low is None else low)
    given["high"] = str(1.05 * value if high is None else high)
    return given | more


def judge(name, rows):
    usual = [e for e in entries(rows, Paper([])) if e.usual]
    return claims.CLAIMS[name].judge(Evidence(usual, [], [], rows))


def verdict(name, rows):
    return judge(name, rows).verdict


def variants(sweep, errors, cells=CELLS):
    return [
        row(sweep, value, direction=d, regime=r, setting=f"size=32;variant={name}")
        for d, r in cells
        for name, value in errors.items()
    ]


def test_without_rows_all_are_open():
    assert {*claims.CLAIMS} >= MINE
    assert {verdict(name, []) for name in MINE} == {OPEN}


@pytest.mark.parametrize(
    ("claim", "sweep", "rivals"),
    [
        ("C08", judges.STRATEGIES, ("none", "concat")),
        ("C09", judges.VARIANTS, ("no_gate", "phase_blind", "unguided")),
    ],
)
def test_attention_must_be_ahead_beyond_the_intervals(claim, sweep, rivals):
    ahead = dict.fromkeys(rivals, 10.0) | {"sra": 5.0}
    level = dict.fromkeys(rivals, 5.2) | {"sra": 5.0}
    behind = ahead | {rivals[0]: 2.0}

    assert verdict(claim, variants(sweep, ahead)) == HOLDS
    assert verdict(claim, variants(sweep, level)) == FAILS
    assert verdict(claim, variants(sweep, behind)) == FAILS
    assert verdict(claim, variants("another", ahead)) == OPEN
    said = judge(claim, variants(sweep, level)).evidence
    assert f"{4 * len(rivals)} with overlapping" in said


@pytest.mark.parametrize(
    ("table", "claim", "loser"),
    [("E16", "C08", "none"), ("E17", "C09", "multiplicative")],
)
def test_the_table_has_attention_behind_where_its_sentence_does_not(
    table, claim, loser
):
    sweep = judges.STRATEGIES if table == "E16" else judges.VARIANTS
    forward = variants(sweep, {loser: 5.0, "sra": 10.0}, CELLS[:2])
    inverse = variants(sweep, {loser: 10.0, "sra": 5.0}, CELLS[2:])

    assert verdict(table, forward + inverse) == HOLDS
    assert verdict(claim, forward + inverse) == FAILS
    assert verdict(table, variants(sweep, {loser: 10.0, "sra": 5.0})) == FAILS


def test_where_attention_is_behind_comes_out_of_the_papers_tables():
    names = {theirs: ours for ours, theirs in ablations.PAPER.items()}
    cells = {}
    with (ROOT / "outputs" / "tables" / "paper.csv").open() as file:
        for line in csv.DictReader(file):
            if line["table"] in ("tab:main_ablation", "tab:gating_attention_ablation"):
                variant = names[results.settings(line)["variant"]]
                where = (line["table"], line["pde"], line["direction"], line["regime"])
                cells.setdefault(where, {})[variant] = float(line["value"])

    found = {
        (*where[1:], name)
        for where, cell in cells.items()
        for name, value in cell.items()
        if value < cell["sra"]
    }

    assert found == judges.BEHIND
    assert sum(len(cell) - 1 for cell in cells.values()) == 24 + 20


def gain(value, start, steps=500):
    more = {"metric": "gain", "setting": f"from={start}", "steps": str(steps)}
    return row(judges.STEPS, value, value - 1, value + 1, **more)


def test_little_is_gained_when_the_longest_draw_gains_little():
    small = [gain(4, 50), gain(15, 20)]
    large = [gain(6, 50), gain(25, 20)]

    assert (verdict("C13", small), verdict("E18", small)) == (HOLDS, HOLDS)
    assert (verdict("C13", large), verdict("E18", large)) == (FAILS, FAILS)
    # What a shorter draw gains does not count.
    assert verdict("C13", [gain(4, 50), gain(40, 50, steps=100)]) == HOLDS
    assert "from 20 to 500 steps: 15.0 %" in judge("C13", small).evidence


def rivals(at_twenty, ours=1.0, long=2.0):
    cell = {"pde": "darcy", "setting": "size=32"}
    rows = [row("darcy", long, method="FunDPS", steps="200", **cell)]
    rows += [row(judges.STEPS, ours, steps="20", n="8", **cell)]
    shorter = {**cell, "method": "FunDPS", "steps": "20", "n": "8"}
    bounds = {} if at_twenty != "" else {"low": "", "high": ""}
    shown = row(judges.STEPS, at_twenty or 1.0, **shorter) | bounds
    return [*rows, shown | {"value": str(at_twenty)}]


def test_baselines_are_compared_at_twenty_steps():
    assert verdict("C14", rivals(8.0)) == HOLDS
    assert verdict("C14", rivals(2.1)) == FAILS
    assert verdict("E19", rivals(8.0)) == HOLDS
    assert verdict("E19", rivals(8.0, ours=9.0)) == FAILS
    assert verdict("E19", rivals(1.02)) == FAILS
    # A draw that went to infinity has degraded, but has no number to be ahead of.
    assert verdict("C14", rivals("")) == HOLDS
    assert verdict("E19", rivals("")) == OPEN


def test_the_ladder_of_steps_is_not_the_comparison_with_baselines():
    rows = rivals(8.0)
    rows.append(row(judges.STEPS, 99.0, steps="20", setting="size=32;sampler=heun"))

    assert verdict("E19", rows) == HOLDS
    assert len(entries(rows, Paper([]))) == 1


def trajectory(r, fall, after, of="estimate"):
    given = {"steps": "20", "setting": f"size=32;of={of}"}
    values = {"pearson_r": r, "fall": fall, "fall_after": after}
    return [
        row(judges.TRAJECTORIES, value, metric=metric, **given)
        for metric, value in values.items()
    ]


def test_error_and_residual_of_the_estimate_must_fall_together_and_early():
    assert verdict("C15", trajectory(0.995, 80, 5)) == HOLDS
    assert verdict("C15", trajectory(0.995, 80, 30)) == FAILS
    assert verdict("C15", trajectory(0.995, -20, -5)) == FAILS
    assert verdict("C15", trajectory(0.987, 80, 5)) == FAILS


def test_the_picture_is_judged_by_the_state_and_the_claim_is_not():
    state = trajectory(0.987, 99, 1, of="state")

    assert verdict("E20", state) == HOLDS
    assert verdict("E20", trajectory(0.95, 99, 1, of="state")) == FAILS
    assert verdict("C15", state) == OPEN
    assert verdict("E20", trajectory(0.995, 80, 5)) == OPEN
    both = [*state, *trajectory(0.3, -20, -5)]
    assert (verdict("E20", both), verdict("C15", both)) == (HOLDS, FAILS)
