"""Claims about variants, steps and trajectories: both verdicts from made-up rows."""

import csv
import math

import pytest

from prisma_lib import ablations, claims, results
from prisma_lib.claims import Evidence, designs
from prisma_lib.claims import ablations as judges
from prisma_lib.nn.sra import ATTENTION
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


def variants(sweep, errors, cells=CELLS, spread=0.01):
    """Three seeds of each; attention is trained in the plan of the strategies."""
    seeds = list(enumerate((1 - spread, 1, 1 + spread)))
    return [
        row(
            designs.STRATEGIES if (name, sweep) == ("sra", designs.VARIANTS) else sweep,
            value * factor,
            **{"direction": d, "regime": r, "run": f"helmholtz-{name}-{i}"},
        )
        for d, r in cells
        for name, value in errors.items()
        for i, factor in seeds
    ]


def test_without_rows_all_are_open():
    assert {*claims.CLAIMS} >= MINE
    assert {verdict(name, []) for name in MINE} == {OPEN}


@pytest.mark.parametrize(
    ("claim", "sweep", "rivals"),
    [
        ("C08", designs.STRATEGIES, ("none", "concat")),
        ("E17", designs.VARIANTS, ("no_gate", "phase_blind", "unguided")),
    ],
)
def test_attention_must_be_ahead_by_more_than_seeds_differ(claim, sweep, rivals):
    ahead = dict.fromkeys(rivals, 5.2) | {"sra": 5.0}
    behind = ahead | {rivals[0]: 4.8}

    assert verdict(claim, variants(sweep, ahead, spread=0.01)) == HOLDS
    assert verdict(claim, variants(sweep, ahead, spread=0.1)) == OPEN
    assert verdict(claim, variants(sweep, behind, spread=0.01)) == FAILS
    assert verdict(claim, variants("another", ahead)) == OPEN
    said = judge(claim, variants(sweep, ahead, spread=0.1)).evidence
    assert f"{4 * len(rivals)} not told apart" in said


# Error in full and in noisy cells, and how far seeds differ, of each design.
SIX = {
    "sra": (5.0, 50.0, 0.001),
    "no_gate": (6.0, 60.0, 0.05),
    "multiplicative": (6.0, 60.0, 0.05),
    "magnitude_only": (6.0, 60.0, 0.001),
    "phase_blind": (6.0, 60.0, 0.001),
    "unguided": (6.0, 60.0, 0.001),
}


def six(changes):
    rows = []
    for name, (full, noisy, spread) in (SIX | changes).items():
        for cell in CELLS:
            value = full if cell[1] == "full" else noisy
            value *= 1.2 if name == "unguided" and cell == designs.HARDEST else 1
            given = {name: value}
            rows += variants(designs.VARIANTS, given, [cell], spread)
    return rows


@pytest.mark.parametrize(
    ("changes", "part", "answer"),
    [
        ({}, "", HOLDS),
        ({"sra": (5.0, 50.0, 0.05)}, "gate", OPEN),
        ({"no_gate": (6.0, 60.0, 0.0001)}, "gate", FAILS),
        ({"multiplicative": (6.0, 40.0, 0.01)}, "gate", FAILS),
        ({"phase_blind": (5.0, 50.0, 0.001)}, "phase", OPEN),
        ({"magnitude_only": (4.0, 60.0, 0.001)}, "phase", FAILS),
        ({"unguided": (4.0, 60.0, 0.001)}, "guided residual", FAILS),
        ({"unguided": (6.0, 45.0, 0.001)}, "guided residual", FAILS),
    ],
)
def test_each_part_of_the_sentence_on_designs_has_its_own_verdict(
    changes, part, answer
):
    rows = six(changes)
    asked = designs.questions(designs.in_table(rows))

    found = {
        name: designs.together([q for q in asked if q.part == name])
        for name in ("gate", "phase", "guided residual")
    }

    assert found.pop(part, answer) == answer
    assert {*found.values()} == {HOLDS}
    assert verdict("C09", rows) == answer


def test_guidance_is_most_where_points_are_gained_not_where_errors_are_large():
    even = [r for r in six({}) if "unguided" not in r["run"]]
    for cell in CELLS:
        value = 5.5 if cell[1] == "full" else 50.5
        even += variants(designs.VARIANTS, {"unguided": value}, [cell], 1e-5)

    asked = {(q.part, q.asked): q for q in designs.questions(even)}

    helps, most = (q for key, q in asked.items() if key[0] == "guided residual")
    assert (helps.verdict, most.verdict) == (HOLDS, OPEN)
    assert len(most.gaps) == 3


def test_deviations_are_compared_with_the_degrees_of_one_cell():
    rows = variants(designs.VARIANTS, {"sra": 5.0}, spread=0.01)
    rows += variants(designs.VARIANTS, {"no_gate": 5.0}, spread=0.05)

    gap = designs.steadier(rows, "no_gate")

    low, high = (math.exp(end) for end in gap[1:])
    assert math.exp(gap.value) == pytest.approx(0.2, rel=0.01)
    assert high / math.exp(gap.value) == pytest.approx(math.sqrt(39), rel=1e-3)
    assert low * high == pytest.approx(math.exp(2 * gap.value), rel=1e-6)
    assert gap.verdict == ablations.UNDECIDED
    assert designs.steadier(rows[:1], "no_gate") is None


def test_the_six_designs_are_those_of_the_network():
    assert {*designs.DESIGNS} == {strategy.value for strategy in ATTENTION}


@pytest.mark.parametrize(
    ("table", "claim", "loser"),
    [("E16", "C08", "none"), ("E17", None, "multiplicative")],
)
def test_the_table_has_attention_behind_where_its_sentence_does_not(
    table, claim, loser
):
    sweep = designs.STRATEGIES if table == "E16" else designs.VARIANTS
    forward = variants(sweep, {loser: 5.0, "sra": 10.0}, CELLS[:2])
    inverse = variants(sweep, {loser: 10.0, "sra": 5.0}, CELLS[2:])

    assert verdict(table, forward + inverse) == HOLDS
    assert claim is None or verdict(claim, forward + inverse) == FAILS
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


TUNED, PUBLISHED = "size=32;weights=1/2/0", "size=32;weights=published"


def rivals(at_twenty, ours=1.0, long=2.0, weights=TUNED, method="FunDPS", beyond=TUNED):
    cell = {"pde": "darcy", "setting": "size=32", "n": "8"}
    guided = {**cell, "setting": beyond, "method": method}
    rows = [row("darcy", long, steps="200", **guided)]
    rows += [row("darcy", 9 * long, steps="100", **guided)]
    rows += [row(judges.STEPS, ours, steps="20", **cell)]
    weights += ";diverged" if at_twenty == "" else ""
    shorter = {**guided, "setting": weights, "steps": "20"}
    bounds = {} if at_twenty != "" else {"low": "", "high": ""}
    shown = row(judges.STEPS, at_twenty or 1.0, **shorter) | bounds
    return [*rows, shown | {"value": str(at_twenty)}]


def test_baselines_are_compared_at_twenty_steps():
    assert verdict("C14", rivals(8.0)) == HOLDS
    assert verdict("C14", rivals(2.1)) == FAILS
    assert verdict("E19", rivals(8.0)) == HOLDS
    assert verdict("E19", rivals(8.0, ours=9.0)) == FAILS
    assert verdict("E19", rivals(1.02)) == FAILS
    # A draw that went to infinity has degraded, and whoever answered is ahead of it.
    assert (verdict("C14", rivals("")), verdict("E19", rivals(""))) == (HOLDS, HOLDS)


def test_untuned_weights_count_only_where_none_are_tuned():
    given = {"weights": PUBLISHED, "method": "DiffusionPDE"}
    bare = rivals(30.0, **given)
    mixed = [*rivals(2.1), *bare]

    # Fewer steps and no tuning are two things, and their errors no comparison.
    assert verdict("C14", bare) == OPEN
    assert verdict("C14", rivals(30.0, **given, beyond=PUBLISHED)) == HOLDS
    assert verdict("C14", mixed) == FAILS
    assert "0 of 1 errors" in judge("C14", mixed).evidence
    assert "with tuned weights" in judge("C14", mixed).evidence
    # Either order of the rows of one cell and method.
    both = rivals(2.1), rivals(30.0, weights=PUBLISHED)
    assert {verdict("C14", a + b) for a, b in (both, both[::-1])} == {FAILS}
    assert "with tuned weights" in judge("E19", mixed).evidence
    assert "with published weights" in judge("E19", bare).evidence


def test_the_ladder_of_steps_is_not_the_comparison_with_baselines():
    rows = rivals(8.0)
    rows.append(row(judges.STEPS, 99.0, steps="20", setting="size=32;sampler=heun"))

    assert verdict("E19", rows) == HOLDS
    assert len(entries(rows, Paper([]))) == 2


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
