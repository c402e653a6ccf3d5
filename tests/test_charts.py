"""Pictures of tables show every number that is there, at its place."""

import matplotlib.pyplot as plt
import pytest
from test_tables import PAPER, row

from prisma_lib import charts, ranks, tables


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture
def every():
    rows = [row("PRISMA", 2.0, 20, seconds_per_sample=0.2), row("FNO", 4.0)]
    rows += [row("FunDPS", 8.0, 200, seconds_per_sample=20), row("PINO", "nan")]
    rows += [row("numerical solver", 0.0), row("mean field", 25.0)]
    rows += [row("PRISMA", 3.0, 20, regime="sparse")]
    rows += [row("FNO", 30.0, direction="inverse", regime="sparse")]
    return tables.entries(rows, PAPER)


def test_time_stands_against_error_and_points_grow_with_steps(every):
    full = [entry for entry in every if entry.regime == "full"]

    figure = charts.time_error(full, "Darcy")

    (axis,) = figure.axes
    points = axis.collections[0]
    assert {tuple(p) for p in points.get_offsets().tolist()} == {
        (0.2, 2.0),
        (0.5, 4.0),
        (20.0, 8.0),
        (0.5, 25.0),
    }
    sizes = dict(zip(points.get_offsets()[:, 1], points.get_sizes(), strict=True))
    assert sizes[4.0] == sizes[25.0] < sizes[2.0] < sizes[8.0]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert {text.get_text() for text in axis.texts} == {
        "PRISMA, 20 steps",
        "FNO",
        "FunDPS, 200 steps",
        "mean field",
    }


def test_bars_carry_their_interval(every):
    figure = charts.errors(every)

    full, sparse = figure.axes
    assert (full.get_title(), sparse.get_title()) == ("full", "sparse")
    for axis, count in ((full, 4), (sparse, 2)):
        bars = [
            (bar.get_y() + bar.get_height() / 2, bar.get_width())
            for bars in axis.containers
            for bar in bars
        ]
        assert len(bars) == len(axis.lines) == count
        for line in axis.lines:
            (low, high), (y, _) = line.get_data()
            (width,) = [w for place, w in bars if place == pytest.approx(y)]
            assert (low, high) == pytest.approx((0.95 * width, 1.05 * width))


def test_ranks_of_both_stand_side_by_side(every):
    figure = charts.rank_bars(ranks.ranks(every, PAPER))

    (full,) = figure.axes  # a column with one method ranks nothing
    ours, papers = full.containers
    assert [bar.get_width() for bar in ours] == [1, 2, 3]
    # FunDPS and PRISMA tie at 1.10 in the paper, FNO has 5.30.
    assert sorted(bar.get_width() for bar in papers) == [1, 1, 3]


def test_every_column_has_a_point_for_each_rank(every):
    figure = charts.rank_distributions(every, PAPER)

    full, sparse = figure.axes
    drawn = sorted(
        x for points in full.collections for x, _ in points.get_offsets().tolist()
    )
    # Full: PRISMA 2.0, FNO 4.0, FunDPS 8.0; sparse: one method in each of two columns.
    assert drawn == [1, 2, 3]
    assert [sparse.get_title(), full.get_title()] == ["sparse", "full"]
    means = [x for line in full.lines for x in line.get_xdata()]
    assert sorted(means) == [1, 2, 3]


def test_nothing_to_draw_is_a_picture_too():
    assert charts.errors([]).axes
    assert charts.time_error([]).axes
    assert charts.rank_distributions([], PAPER).axes
    assert charts.rank_bars([]).axes[0].texts
