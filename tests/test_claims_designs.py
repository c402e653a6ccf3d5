"""Claims about attention: its designs and rivals, from made-up rows and the paper's."""

import csv
import math

import pytest
from test_claims_ablations import CELLS, NOTHING, PAPER, judge, row, verdict

from prisma_lib import ablations, results
from prisma_lib.claims import ablations as judges
from prisma_lib.claims import designs
from prisma_lib.nn.sra import ATTENTION
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN


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


@pytest.mark.parametrize(
    # Half an interval is 2.776 x 0.02 x (2 / 3)^0.5 = 0.045; four of the paper's twenty
    # logarithms of ratios are smaller.
    ("spread", "answer", "excluded"),
    [(0.02, FAILS, 16), (0.5, OPEN, 0)],
)
def test_no_effect_where_the_paper_has_one_decides_if_seeds_allow_it(
    spread, answer, excluded
):
    alike = dict.fromkeys(designs.DESIGNS, 5.0)
    rows = variants(designs.VARIANTS, alike, spread=spread)

    found = judge("E17", rows, PAPER)

    assert (found.verdict, verdict("E17", rows)) == (answer, OPEN)
    assert "0 as said, 0 reversed, 20 not told apart by seeds" in found.evidence
    assert f"the paper's size is ruled out in {excluded}" in found.evidence
    assert (verdict("C09", rows, PAPER), verdict("C09", rows)) == (answer, OPEN)


def test_the_mean_effect_is_that_of_networks_not_of_cells():
    rows = variants(designs.VARIANTS, {"sra": 5.0, "unguided": 6.0}, spread=0.01)
    pairs = ablations.versus(designs.in_table(rows))

    gap = designs.overall(pairs)

    one = ablations.welch(
        *([math.log(error * f) for f in (0.99, 1, 1.01)] for error in (5.0, 6.0))
    )
    assert gap == pytest.approx(one)
    theirs = [designs.printed(PAPER, pair) for pair in pairs]
    paper = [3.48 / 3.52, 30.8 / 31.26, 12.58 / 14.26, 93.2 / 98.99]
    assert sorted(theirs) == pytest.approx(sorted(map(math.log, paper)))
    assert math.isnan(designs.printed(NOTHING, pairs[0]))


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
        ({"unguided": (6.0, 40.0, 0.001)}, "guided residual", FAILS),
        ({"unguided": (6.0, 45.0, 0.001)}, "", HOLDS),  # worse forward only
    ],
)
def test_each_part_of_the_sentence_on_designs_has_its_own_verdict(
    changes, part, answer
):
    rows = six(changes)
    asked = designs.questions(designs.in_table(rows), NOTHING)

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

    asked = {(q.part, q.asked): q for q in designs.questions(even, NOTHING)}

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
