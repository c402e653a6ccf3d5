"""Pictures of tables show every number that is there, at its place."""

import matplotlib.pyplot as plt
import pytest
from test_tables import PAPER, row

from prisma_lib import charts, rankcharts, ranks, tables


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
    sizes = {
        tuple(point): size
        for drawn in axis.collections
        if (points := drawn.get_offsets().tolist())  # none in what the legend shows
        for point, size in zip(points, drawn.get_sizes(), strict=True)
    }
    assert sizes.keys() == {(0.2, 2.0), (0.5, 4.0), (20.0, 8.0), (0.5, 25.0)}
    by_error = {error: size for (_, error), size in sizes.items()}
    assert by_error[4.0] == by_error[25.0] < by_error[2.0] < by_error[8.0]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        "PRISMA, 20 steps",
        "FNO",
        "FunDPS, 200 steps",
        "mean field",
        "numerical solver, below 0.01 %",
    }
    solver = axis.lines[-1]  # no error of its own to stand at
    assert solver.get_xdata() == [0.5, 0.5]


def test_a_single_step_is_one():
    assert charts.stepped("PRISMA-L", [1]) == "PRISMA-L, 1 step"
    assert charts.stepped("PRISMA-L", [6, 1, 1]) == "PRISMA-L, 1, 6 steps"
    assert charts.stepped("FNO", [0]) == "FNO"


def test_steps_of_one_method_are_one_line_in_order():
    rows = [row("PRISMA", 1.0, 50, seconds_per_sample=0.5)]
    rows += [row("PRISMA", 3.0, 5, seconds_per_sample=0.05)]
    rows += [row("PRISMA", 2.0, 20, seconds_per_sample=0.2)]

    figure = charts.time_error(tables.entries(rows, PAPER))

    line, frontier = figure.axes[0].lines
    assert line.get_ydata().tolist() == [3.0, 2.0, 1.0]
    assert frontier.get_drawstyle() == "steps-post"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "PRISMA, 5, 20, 50 steps",
        "frontier of learned methods",
    ]


def test_bars_carry_their_interval(every):
    figure = charts.errors(every)

    counts = {
        "darcy, forward, full": 4,
        "darcy, forward, sparse": 1,
        "darcy, inverse, full": 0,
        "darcy, inverse, sparse": 1,
    }
    titles = [name if count else "" for name, count in counts.items()]
    assert [axis.get_title() for axis in figure.axes] == titles
    for axis, count in zip(figure.axes, counts.values(), strict=True):
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


def test_bars_stand_beside_their_name_and_ours_are_first(every):
    figure = charts.errors(every)

    full = figure.axes[0]
    labels = [label.get_text() for label in full.get_yticklabels()]
    (word,) = full.texts
    assert labels[word.get_position()[1]] == "numerical solver"
    names = [name for name in labels if name != "numerical solver"]
    assert names == ["PRISMA, 20 steps", "FNO", "FunDPS, 200 steps", "mean field"]
    (bars,) = full.containers
    places = [round(bar.get_y() + bar.get_height() / 2) for bar in bars]
    widths = {labels[i]: bar.get_width() for i, bar in zip(places, bars, strict=True)}
    assert [widths[name] for name in names] == [2.0, 4.0, 8.0, 25.0]
    colours = [bar.get_facecolor() for bar in bars]
    assert colours[0] not in colours[1:]


def test_every_panel_of_errors_has_numbers_and_an_empty_one_has_nothing(every):
    figure = charts.errors(every)
    figure.draw_without_rendering()

    *filled, empty, last = figure.axes
    assert (len(filled), last.get_title()) == (2, "darcy, inverse, sparse")
    for axis in [*filled, last]:
        assert any(label.get_visible() for label in axis.get_xticklabels())
        assert axis.xaxis.get_visible()
    assert not empty.xaxis.get_visible()
    assert not any(spine.get_visible() for spine in empty.spines.values())
    # Its row begins there.
    assert names(empty) == ["FNO"]


def test_two_methods_with_the_same_answer_are_both_seen():
    rows = [row("PINO", 4.0), row("FNO", 4.0), row("PRISMA", 2.0, 20)]

    (axis,) = charts.time_error(tables.entries(rows, PAPER)).axes

    drawn = [each for each in axis.collections if len(each.get_offsets())]
    marks = {len(each.get_paths()[0].vertices) for each in drawn[:2]}
    assert len(marks) == 2
    faces = [len(each.get_facecolor()) for each in drawn]
    assert faces == [0, 0, 1]


def written(axis):
    low, high = axis.get_xlim()
    texts = axis.xaxis.get_majorticklabels()
    axis.figure.draw_without_rendering()
    return {text.get_text() for text in texts if low <= text.get_position()[0] <= high}


@pytest.mark.parametrize(
    ("others", "there"),
    [({"FNO": 4.0, "PINO": 7.0}, {"5"}), ({"FNO": 30.0, "PINO": 400.0}, {"10", "100"})],
)
def test_an_axis_of_errors_has_numbers_however_near_they_are(others, there):
    rows = [row("PRISMA", 3.1, 20)]
    rows += [row(method, value) for method, value in others.items()]

    figure = charts.errors(tables.entries(rows, PAPER))

    assert there <= written(figure.axes[0])


def names(axis):
    return [label.get_text() for label in axis.get_yticklabels()]


def test_ranks_of_both_stand_side_by_side(every):
    figure = rankcharts.rank_bars(ranks.ranks(every, PAPER))

    (full,) = figure.axes  # a column with one method ranks nothing
    ours, papers = full.containers
    assert names(full) == ["PRISMA 20, n = 128", "FunDPS 200, n = 128", "FNO, n = 128"]
    assert [bar.get_width() for bar in ours] == [1, 3, 2]
    # FunDPS and PRISMA tie at 1.10 in the paper, FNO has 5.30.
    assert [bar.get_width() for bar in papers] == [1, 1, 3]


def test_both_pictures_of_ranks_have_one_order_whatever_the_ranks():
    rows = [row("FNO", 1.0), row("FunDPS", 2.0, 200, n="8"), row("PRISMA", 3.0, 20)]
    rows += [row("PRISMA", 4.0, 50), row("PINN", 0.1, n="4")]
    every = tables.entries(rows, PAPER)

    drawn = (
        rankcharts.rank_bars(ranks.ranks(every, PAPER)),
        rankcharts.rank_distributions(every, PAPER),
    )

    for figure in drawn:
        figure.draw_without_rendering()
        assert names(figure.axes[0]) == [
            *("PRISMA 20, n = 128", "PRISMA 50, n = 128"),
            *("FunDPS 200, n = 8", "FNO, n = 128"),
        ]


def test_every_column_has_a_point_for_each_rank(every):
    figure = rankcharts.rank_distributions(every, PAPER)

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
    assert rankcharts.rank_distributions([], PAPER).axes
    assert rankcharts.rank_bars([]).axes[0].texts


def test_variants_are_told_apart_and_what_errs_by_rounding_is_written():
    names = [f"v{i}" for i in range(9)]
    rows = [
        row("PRISMA", 2.0 + i, setting=f"size=32;variant={name}", low=1.5, high=20.0)
        for i, name in enumerate(names)
    ]
    rows[0] |= {"value": "2e-06", "low": "1e-06", "high": "3e-06"}

    (axis,) = charts.variants(rows).axes

    assert [text.get_text() for text in axis.texts] == ["v0, below 0.01"]
    assert axis.get_xlim()[0] > 0.1
    looks = {(drawn[0].get_color(), drawn[0].get_marker()) for drawn in axis.containers}
    assert [len({*kind}) for kind in zip(*looks, strict=True)] == [len(names)] * 2
