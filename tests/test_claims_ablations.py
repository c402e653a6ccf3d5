"""Claims about variants, steps and trajectories: both verdicts from made-up rows."""

from prisma_lib import claims
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


PAPER, NOTHING = Paper.read(ROOT / "outputs" / "tables" / "paper.csv"), Paper([])


def judge(name, rows, paper=NOTHING):
    usual = [e for e in entries(rows, NOTHING) if e.usual]
    return claims.CLAIMS[name].judge(Evidence(usual, [], [], rows, paper))


def verdict(name, rows, paper=NOTHING):
    return judge(name, rows, paper).verdict


def test_without_rows_all_are_open():
    assert {*claims.CLAIMS} >= MINE
    assert {verdict(name, []) for name in MINE} == {OPEN}


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
