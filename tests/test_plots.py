"""Pictures: orientation, shared limits, and that figures can be closed."""

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex

from prisma_lib import curves, pdes, plots, styles
from prisma_lib.observe import observation
from prisma_lib.solve import Solution


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def ramp():
    """Grows with x: 0 at the left edge, 1 at the right edge."""
    return torch.linspace(0, 1, 8)[:, None].expand(8, 8)


def test_x_runs_to_the_right_and_y_upwards():
    figure = plots.grid([[plots.Panel(ramp(), "x"), plots.Panel(ramp().T, "y")]])

    right, up = (axis.images[0] for axis in figure.axes[:2])
    assert (right.get_array()[0] == ramp()[:, 0].numpy()).all()
    assert (up.get_array()[:, 0] == ramp()[:, 0].numpy()).all()
    assert right.origin == up.origin == "lower"


def test_a_group_shares_its_limits_and_a_signed_field_is_centred():
    row = [
        plots.Panel(ramp(), "truth", like="u"),
        plots.Panel(3 * ramp(), "guess", like="u"),
        plots.Panel(ramp() - 0.25, "error", signed=True),
    ]

    figure = plots.grid([row])

    limits = [axis.images[0].get_clim() for axis in figure.axes[:3]]
    assert limits == [(0, 3), (0, 3), (-0.75, 0.75)]


def test_comparison_states_the_relative_error():
    truth = torch.ones(8, 8)

    *_, error = plots.comparison(truth, truth, 1.1 * truth, ("a", "u"))

    assert "10.0 %" in error.title


def test_comparison_counts_misjudged_points_where_the_metric_does():
    truth = torch.full((8, 8), 3.0)
    guess = truth.clone()
    guess[0, :2] = 12

    *_, error = plots.comparison(truth, truth, guess, ("u", "a"), "error_rate")

    assert "3.1 % of points" in error.title


def test_a_row_with_gaps_keeps_its_label_and_its_columns():
    whole = [plots.Panel(ramp(), name, like="u") for name in "abcd"]

    figure = plots.grid([whole, [None, *whole[1:3], None]], ["whole", "gaps"])

    figure.canvas.draw()
    above, below = figure.axes[:4], figure.axes[4:8]
    assert [axis.get_ylabel() for axis in (above[0], below[0])] == ["whole", "gaps"]
    assert all(axis.axison for axis in below)
    for upper, lower in zip(above, below, strict=True):
        assert lower.get_position().x0 == pytest.approx(upper.get_position().x0)
    assert [len(axis.images) for axis in below] == [0, 1, 1, 0]


def test_missing_points_and_constant_fields_can_be_drawn(tmp_path):
    nothing = torch.full((8, 8), torch.nan)
    figure = plots.grid(
        [[plots.Panel(nothing, "none"), plots.Panel(torch.ones(8, 8), "one")]]
    )

    figure.savefig(tmp_path / "figure.png")

    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_spectrum_of_a_wave_peaks_at_its_mode_number():
    x = torch.arange(32) / 32
    wave = torch.sin(2 * torch.pi * 4 * x)[:, None].expand(32, 32)
    _, axis = plt.subplots()

    plots.spectra(axis, {"wave": wave})

    numbers, power = axis.lines[0].get_data()
    assert numbers[power.argmax()] == 4


def test_spectrum_of_a_batch_is_the_mean_of_its_fields():
    fields = torch.randn(3, 128, 128, generator=torch.Generator().manual_seed(0))
    _, axis = plt.subplots()

    plots.spectra(axis, {str(i): f for i, f in enumerate(fields)} | {"all": fields})

    *each, both = (line.get_ydata() for line in axis.lines)
    assert both == pytest.approx(sum(each) / 3)
    assert axis.get_xticks().tolist() == [1, 2, 4, 8, 16, 32, 64]


def test_bars_stand_for_the_values_of_their_cells():
    rows = [
        {"method": m, "direction": "forward", "regime": r, "value": v, "low": v,
         "high": v}
        for m, r, v in [("one", "full", 2), ("one", "sparse", 8), ("two", "full", 4)]
    ]  # fmt: skip

    figure = plots.error_bars(rows)

    assert [bar.get_height() for bar in figure.axes[0].patches] == [2, 8, 4]


def test_bars_have_the_colours_of_their_methods():
    names = ["PRISMA", "FunDPS", "PRISMA (equal budget)", "mean field", "lift"]
    cell = {"direction": "forward", "regime": "full", "value": 2, "low": 1, "high": 3}

    bars = plots.error_bars([cell | {"method": name} for name in names]).axes[0].patches

    colours = [to_hex(bar.get_facecolor()) for bar in bars]
    wanted = [styles.look(name)["color"] for name in names[:2]]
    assert colours[:3] == [*wanted, "#ffffff"]
    assert to_hex(bars[2].get_edgecolor()) == wanted[0]
    assert len({bar.get_hatch() for bar in bars[3:]}) == 2


def test_training_curves_show_every_row_and_every_noise_level():
    rows = [
        {"images": 32 * i, "loss": 1 / (1 + i), "learning_rate": 1e-3}
        | {"loss_by_sigma": {"0.1": 0.5, "1": 0.2} if i % 2 else {"1": 0.3}}
        for i in range(40)
    ]

    curve, rates, levels = curves.training_curves(rows).axes

    assert len(curve.lines[0].get_xdata()) == len(rates.lines[0].get_xdata()) == 40
    assert [len(line.get_xdata()) for line in levels.lines] == [20, 40]


def test_a_solution_draws_itself():
    pde = pdes.load("darcy", size=16)
    seen = observation(pde, a=pde.draw(0, [0, 1]))
    draws = torch.randn(3, 2, 1, 16, 16)

    figure = Solution(draws, draws, pde, seen, seed=0).plot(problem=1)

    titles = [axis.get_title() for axis in figure.axes if axis.images]
    drawn = ["one draw", "mean of draws", "std of draws"]
    assert titles == ["observed a", *drawn, "observed u", *drawn]


def test_drawing_leaves_the_global_style_alone():
    before = plt.rcParams["font.size"]

    plots.grid([[plots.Panel(ramp(), "x")]])

    assert plt.rcParams["font.size"] == before


def test_logarithmic_axes_of_little_range_say_plain_numbers():
    with plots.style():
        first, (few, many) = plt.subplots(1, 2)
        few.loglog([0.04, 0.5], [0.03, 0.3])
        many.loglog([1e-9, 1.0], [1.0, 1e6])
        last, other = plt.subplots()
        other.plot([0, 1])
        plt.figure(first)

    first.draw_without_rendering()  # after the block, as notebooks do

    def labels(axis):
        both = [*axis.get_majorticklabels(), *axis.get_minorticklabels()]
        return {
            label.get_text().strip("$").replace("\\mathdefault", "") for label in both
        }

    assert {"{0.04}", "{0.1}", "{0.3}"} < labels(few.xaxis)
    assert not any("times" in label for label in labels(few.xaxis))
    assert any("10^{-" in label for label in labels(many.xaxis))
    assert plt.gcf() is first
    plt.close(first)
    plt.close(last)
