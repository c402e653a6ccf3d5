"""Pictures of sweeps: settings, intervals, one colour for a method."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from test_tables import row

from prisma_lib import sweepcharts
from prisma_lib.answers import RATIO


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def noisy():
    shares = {0.1: 3.0, 0.9: 8.0}
    rows = [
        row("PRISMA", value, 20, regime="noisy", setting=f"size=32;fraction={share}")
        for share, value in shares.items()
    ]
    rows += [row("PRISMA", 9.0, 20, regime="noisy", setting="size=32")]
    rows += [row("PRISMA", 99.0, 20, regime="noisy", setting="size=32", n="4")]
    rows += [row("FunDPS", "", 100, regime="noisy", setting="size=32;fraction=0.1")]
    rows += [row("mean field", 25.0, regime="noisy", setting="size=32;fraction=0.1")]
    return sweepcharts.settings_frame(rows, fraction=1.0, layout="points")


def test_settings_become_columns_with_numbers(noisy):
    assert noisy["fraction"].tolist() == [0.1, 0.9, 1.0, 1.0, 0.1, 0.1]
    assert {*noisy["layout"]} == {"points"}
    assert noisy["value"].isna().tolist() == [False] * 4 + [True, False]
    assert noisy["n"].tolist() == [128, 128, 128, 4, 128, 128]


def test_a_frame_of_a_sweep_has_no_ratios():
    error = row("PRISMA", 3.0, 20)
    ratio = row("PRISMA", 0.5, 20, setting="size=32;over=FNO", metric=RATIO)

    found = sweepcharts.settings_frame([error, ratio])

    assert found["value"].tolist() == [3.0]
    assert "over" not in found


def test_a_sweep_draws_the_row_of_the_most_problems_with_its_interval(noisy):
    other = noisy.assign(direction="inverse", value=2 * noisy["value"])
    both = pd.concat([noisy, other])

    figure = sweepcharts.sweep(both, "fraction", "share of noisy points", log=True)

    forward, inverse = figure.axes
    assert forward.get_title() == "darcy, forward"
    assert (forward.get_xscale(), forward.get_xlabel()) == (
        *("log", "share of noisy points"),
    )
    ours, mean = forward.lines
    assert ours.get_xydata().tolist() == [[0.1, 3.0], [0.9, 8.0], [1.0, 9.0]]
    assert inverse.lines[0].get_ydata().tolist() == [6.0, 16.0, 18.0]
    band = forward.collections[0].get_paths()[0].vertices
    assert [band[:, 1].min(), band[:, 1].max()] == pytest.approx([2.85, 9.45])
    # What learned nothing is grey beside what learned.
    assert mean.get_color() == "0.5" != ours.get_color()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PRISMA", "mean field"]


def test_lines_of_one_method_have_colours(noisy):
    layouts = noisy.assign(method=["points", "window", *["points"] * 4])

    _, axis = plt.subplots()
    sweepcharts.lines(axis, layouts, "fraction")

    assert len({line.get_color() for line in axis.lines} - {sweepcharts.GREY}) == 2


def test_a_method_looks_the_same_in_every_panel(noisy):
    one = noisy[noisy["method"] == "mean field"]
    other = one.assign(direction="inverse", method="zero field")
    both = sweepcharts.sweep(pd.concat([one, other]), "fraction", "share").axes

    looks = {}
    for axis in both:
        for line in axis.lines:
            looks.setdefault(line.get_label(), set()).add(line.get_marker())
    assert looks.keys() == {"mean field", "zero field"}
    assert all(len(marks) == 1 for marks in looks.values())
    assert looks["mean field"] != looks["zero field"]
