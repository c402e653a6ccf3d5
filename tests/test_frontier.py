"""The frontier of error and seconds, by hand and against all pairs."""

import random

import pytest
from test_tables import PAPER, row

from prisma_lib import blocks, frontier, tables


def judged(*rows):
    return frontier.frontiers(tables.entries(rows, PAPER))


def on(rows, which=frontier.AMONG_LEARNED):
    return {(r["method"], r["steps"]) for r in rows if which in r["frontier"]}


def timed(method, seconds, value, steps="", **more):
    return row(method, value, steps, seconds_per_sample=str(seconds), **more)


def test_an_answer_is_on_the_frontier_when_none_is_faster_and_better():
    rows = judged(
        timed("DeepONet", 0.001, 9.0),
        timed("FNO", 0.01, 4.0),
        timed("PINO", 0.02, 5.0),  # slower and worse than FNO
        timed("PRISMA", 0.1, 2.0, 20),
        timed("PRISMA", 0.2, 2.0, 50),  # as good as with 20 steps, but slower
        timed("FunDPS", 5.0, 1.0, 200),
    )

    assert on(rows) == {
        ("DeepONet", None),
        ("FNO", None),
        ("PRISMA", 20),
        ("FunDPS", 200),
    }
    beaten = {(r["method"], r["steps"]): r["beaten_by"] for r in rows}
    assert (beaten["PINO", None], beaten["PRISMA", 50]) == ("FNO", "PRISMA")
    assert beaten["FunDPS", 200] == ""


def test_what_learned_nothing_is_on_the_frontier_of_all_only():
    rows = judged(
        timed("numerical solver", 0.001, 1e-7),
        timed("FNO", 0.01, 4.0),
        timed("mean field", 1e-6, 25.0),
    )

    assert on(rows) == {("FNO", None)}
    assert on(rows, frontier.ALL) == {("numerical solver", None), ("mean field", None)}


def test_two_errors_of_rounding_tie_and_the_faster_one_wins():
    rows = judged(timed("FNO", 0.01, 2e-6), timed("PRISMA-L", 0.02, 1e-6, 20))

    assert on(rows) == {("FNO", None)}


def test_answers_of_two_devices_cells_or_numbers_of_draws_do_not_meet():
    rows = judged(
        timed("FNO", 0.01, 4.0),
        timed("PRISMA", 0.1, 9.0, 20, device="other"),
        timed("PRISMA", 0.1, 9.0, 20, regime="sparse"),
        timed("PRISMA", 0.001, 1.0, 20, setting="size=32;mean_of=8"),
        timed("PINO", 0.02, float("nan")),
        timed("DeepONet", "", 1.0),
    )

    assert [r["method"] for r in rows] == ["FNO", "PRISMA", "PRISMA"]
    assert all(r["frontier"] for r in rows)


def test_the_frontier_of_many_answers_is_that_of_all_pairs():
    draw = random.Random(0)
    points = {(draw.randint(1, 12), draw.randint(1, 12)) for _ in range(40)}
    rows = judged(*(timed("PRISMA", s, e, i) for i, (s, e) in enumerate(points, 1)))

    expected = {
        (s, e)
        for s, e in points
        if not any(t <= s and f <= e for t, f in points - {(s, e)})
    }

    found = {(r["seconds_per_sample"], r["value"]) for r in rows if r["frontier"]}
    assert found == expected
    kept = frontier.unbeaten(
        frontier.answers(
            tables.entries([timed("FNO", 2, 1), timed("PINO", 1, 2)], PAPER)
        )
    )
    assert [answer.seconds for answer in kept] == [1, 2]


def test_a_method_stands_in_as_many_cells_as_it_has_an_answer_on_the_frontier():
    rows = judged(
        timed("FNO", 0.01, 4.0),
        timed("PRISMA", 0.1, 5.0, 20),
        timed("PRISMA", 0.2, 3.0, 50),
        timed("FNO", 0.01, 40.0, regime="sparse"),
        timed("PRISMA", 0.005, 9.0, 20, regime="sparse"),
        timed("lift", 0.001, 1.0, regime="sparse"),
    )

    counted = {r["method"]: (r["on"], r["cells"]) for r in frontier.standing(rows)}

    assert counted == {"FNO": (1, 2), "PRISMA": (2, 2)}
    text = blocks.BLOCKS["frontier"](rows, PAPER)
    assert "| cpu | PRISMA | mill | 2 | 2 |" in text


@pytest.mark.parametrize("rows", [[], [row("PRISMA", "nan", 20)]])
def test_no_answers_have_no_frontier(rows):
    assert judged(*rows) == []
    assert frontier.standing([]) == []
