"""Explorers: the same state gives the same figure; widgets draw once, and stop."""

import io
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib import colormaps
from PIL import Image
from small import network

from prisma_lib import checkpoints, explore, load, pdes, solve
from prisma_lib.errors import CheckpointError, ConfigError
from prisma_lib.explore import playground, posteriors, question, residual, spectrum
from prisma_lib.explore.controls import Choice, Slider, settled
from prisma_lib.explore.picture import Spot
from prisma_lib.explore.planes import plane, radial
from prisma_lib.explore.sheet import Sheet, lines, render
from prisma_lib.plots import Panel
from prisma_lib.posterior import gaussian_posterior

EXPLORERS = {
    "residuals": (residual.EXPLORER, residual.State(steps=2, step=1)),
    "spectra": (spectrum.EXPLORER, spectrum.State(steps=2, step=1)),
    "posterior": (posteriors.EXPLORER, posteriors.State(steps=2, draws=2)),
    "sensors": (playground.EXPLORER, playground.State(steps=2, draws=2)),
}


@pytest.fixture(params=EXPLORERS)
def opened(request, folder):
    explorer, state = EXPLORERS[request.param]
    state = replace(state, model=folder("darcy"))
    return explorer, settled(state, explorer.controls)


def test_every_end_of_every_control_can_be_drawn(opened):
    explorer, state = opened
    walked = explorer.controls(state)
    if explorer in (spectrum.EXPLORER, posteriors.EXPLORER):  # the rest: residuals
        walked = {k: v for k, v in walked.items() if k not in question.controls(state)}
    for name, control in walked.items():
        for value in control.ends if name != "model" else [state.model]:
            end = settled(replace(state, **{name: value}), explorer.controls)
            small = {"steps": min(end.steps, 3), "problem": 0}
            end = settled(replace(end, **small), explorer.controls)

            figure = explorer.draw(end)

            assert len(figure.areas) >= 5
            assert figure._suptitle.get_text().startswith("darcy, ")  # and no folder
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("explorer", "state"), EXPLORERS.values(), ids=EXPLORERS)
def test_prisma_l_can_be_explored(explorer, state):
    state = settled(replace(state, model="darcy-32L"), explorer.controls)

    assert len(explorer.draw(state).areas) >= 5


def test_a_state_is_drawn_the_same_twice(opened):
    explorer, state = opened

    assert render(explorer.draw(state)).png == render(explorer.draw(state)).png


def test_settling_moves_a_state_to_what_its_controls_allow(folder):
    state = residual.State(model=folder("darcy"), steps=4, step=9, direction="sideways")

    found = settled(state, residual.EXPLORER.controls)

    assert (found.step, found.direction) == (4, "forward")


def test_a_view_computes_nothing(folder):
    state = residual.State(model=folder("darcy"), steps=2, step=1)
    residual.draw(state)

    assert residual.EXPLORER.kept(replace(state, step=2, residual=residual.SEEN))
    assert residual.EXPLORER.kept(replace(state, seed=1)) is None


def test_a_model_that_was_trained_again_is_drawn_anew(folder, tmp_path):
    name = str(tmp_path / "model")
    model = load(folder("darcy"))
    checkpoints.save(name, model)
    state = residual.State(model=name, steps=2, step=1)
    residual.EXPLORER.result(state)

    model.backbone.project.weight.data *= 2
    checkpoints.save(name, model)

    assert residual.EXPLORER.kept(state) is None


@pytest.mark.parametrize("sampler", ["heun", "multistep"])
def test_the_trajectory_ends_at_what_solve_draws(folder, sampler):
    state = residual.State(model=folder("darcy"), steps=3, sampler=sampler, seed=5)
    a, _ = question.pair_of(state.model, 0)

    found = residual.EXPLORER.result(state)

    drawn = solve(load(state.model), a=a, steps=3, sampler=sampler, seed=5)
    expected = torch.cat([drawn.a[0], drawn.u[0]], 1)
    torch.testing.assert_close(found.moments[-1].x, expected)
    error = (drawn.u[0] - question.pair_of(state.model, 0)[1]).norm()
    error = 100 * error / question.pair_of(state.model, 0)[1].norm()
    last = found.moments[-1]
    assert last.error == pytest.approx(error.item(), rel=1e-3)


def test_what_is_seen_depends_on_the_regime(folder):
    q = question.Question(model=folder("darcy"), rate=0.25, noise=0.5, seed=3)
    full, sparse, noisy = (
        question.observed(replace(q, regime=r)) for r in ("full", "sparse", "noisy")
    )

    assert full.mask_a.mean() == 1
    assert 0.1 < sparse.mask_a.mean() < 0.4
    scatter = (noisy.a - full.a).std() / load(q.model).statistics.std[0]
    assert scatter == pytest.approx(0.5, rel=0.2)
    assert not full.mask_u.any()


def test_spectra_obey_the_formulas(folder):
    state = spectrum.State(model=folder("darcy"), steps=2, step=1)

    for step in spectrum.EXPLORER.result(state):
        for s in step.values():
            assert ((s.masks["own"] >= 0.5) & (s.masks["own"] <= 1)).all()
            bound = s.scores["phase-blind"]
            assert (s.scores["own"] <= bound * (1 + 1e-4) + 1e-6).all()
            torch.testing.assert_close(s.in_phase * bound, s.scores["own"])
            factor = 1 - s.strength + s.strength * s.masks["own"]
            torch.testing.assert_close(s.factor, factor)


def test_pointing_at_a_mode_reads_what_decides_about_it(folder):
    state = spectrum.State(model=folder("darcy"), steps=2, step=1)
    result = spectrum.EXPLORER.result(state)
    now = result[0][state.block]
    area = spectrum.EXPLORER.paint(state, result).areas[0]
    middle = tuple(mode + 1 for mode in now.modes)  # k = (1, 1)
    spot = Spot(area.title, middle, (1, 1), float(area.values[middle]))

    read = spectrum.EXPLORER.reading(state, result, spot)

    place = (now.modes[0] + 1) * (now.modes[1] + 1) + 1
    mask, residual_size = now.masks["own"][place], now.residual[place]
    assert read.startswith("mode (1, 1): |x| ")
    assert f"|r| {residual_size:.2g}" in read
    assert f"A {mask:.2g}, A phase-blind" in read


def test_watching_the_blocks_leaves_the_draw_as_it_is(folder):
    state = spectrum.State(model=folder("darcy"), steps=2)
    before = load(state.model)
    spectrum.EXPLORER.result(state)

    model = question.model_of(state.model)

    assert not any(module._forward_hooks for module in model.modules())
    for one, two in zip(before.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_rings_average_the_whole_plane():
    modes = (3, 3)
    k1 = torch.arange(-3, 4.0)[:, None].expand(7, 4)
    k2 = torch.arange(4.0).expand(7, 4)
    half = (k1.square() + k2.square()).flatten()

    whole = plane(half, modes)

    assert whole.shape == (7, 7)
    torch.testing.assert_close(whole, whole.flip(0, 1))
    # Ring 1 has four modes of |k|² = 1 and four of |k|² = 2.
    torch.testing.assert_close(radial(half, modes)[:2], torch.tensor([0, 1.5]))


def test_the_exact_posterior_stands_beside_that_of_the_model(folder):
    state = posteriors.State(model=folder("poisson"), steps=2, draws=3, regime="noisy")

    found = posteriors.EXPLORER.result(state)

    pde = question.model_of(state.model).pde
    sds = [state.noise * sd for sd in load(state.model).statistics.std]
    exact = gaussian_posterior(pde, found.seen, tuple(sds))
    torch.testing.assert_close(found.exact[0], torch.cat(exact.mean(), 1))
    histogram = posteriors.EXPLORER.draw(state).axes[-1]
    assert histogram.get_legend().get_texts()[-1].get_text() == "exact"


def test_sensors_are_nested_and_follow_the_hand(folder):
    state = playground.State(model=folder("darcy"), scattered=5)
    few, more = (
        playground.sensors(replace(state, scattered=num)).bool() for num in (5, 9)
    )
    assert (few & more).sum() == few.sum() == 5

    picture = render(playground.EXPLORER.paint(state, None))
    box = picture.areas[0].box
    middle = picture.spot((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    touched = playground.EXPLORER.touched(state, [middle])
    removed = playground.EXPLORER.touched(
        replace(touched, brush=playground.REMOVE), [middle]
    )

    assert playground.sensors(touched)[middle.index] == 1
    assert playground.sensors(removed)[middle.index] == 0


def test_sensors_of_burgers_are_columns(folder):
    state = playground.State(model=folder("burgers"), scattered=0, added=((3, 7),))

    mask = playground.sensors(state)

    assert mask.sum() == 16
    assert (mask[:, 7] == 1).all()


def test_a_picture_knows_the_value_under_a_point():
    sheet = Sheet(1, "title")
    values = torch.arange(64.0).view(8, 8)
    sheet.field((0, 0), Panel(values, "field"), origin=(-4, 0))

    picture = render(sheet.figure)
    left, bottom, right, top = picture.areas[0].box
    spot = picture.spot(left + 0.99 * (right - left), bottom + 0.01 * (top - bottom))

    assert picture.png.startswith(b"\x89PNG")
    assert (spot.index, spot.place, spot.value) == ((7, 0), (3, 0), 56)
    assert picture.spot(0.0, 0.0) is None


def test_every_value_is_drawn_where_it_is_read():
    values = torch.zeros(6, 9)
    values[4, 2] = 1
    sheet = Sheet(2, "title")
    area = sheet.field((1, 2), Panel(values, "field"))
    sheet.mark(sheet.field((0, 0), Panel(values, "marked")), 0, 8, "s", color="red")

    picture = render(sheet.figure)

    drawn = np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))
    colours = np.array([colormaps["viridis"](end, bytes=True)[:3] for end in (0, 255)])
    for i in range(6):
        for j in range(9):
            x, y = area.beside((i + 0.5) / 6, (j + 0.5) / 9)
            assert picture.spot(x, y).index == (i, j)
            pixel = drawn[int((1 - y) * len(drawn)), int(x * drawn.shape[1])]
            assert (pixel == colours[int(values[i, j])]).all()
    x, y = picture.areas[1].beside(0.5 / 6, 8.5 / 9)
    assert drawn[int((1 - y) * len(drawn)), int(x * drawn.shape[1])][0] == 255


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("num", [2, 4])
def test_a_legend_covers_no_curve(scale, num):
    sheet = Sheet(2, "title")
    curves = {f"curve {i}": [10.0**4, 10.0**i, 10.0**4] for i in range(num)}
    about = {"title": "t", "ylabel": "y", "xlabel": "x", "yscale": scale}

    axis = sheet.curves((1, 3), lambda axis: lines(axis, range(3), curves, **about))

    sheet.figure.canvas.draw()
    box = axis.get_legend().get_window_extent()
    points = [axis.transData.transform((0, 10.0**4)), (box.x1, box.y0)]
    assert points[0][1] < points[1][1]
    assert axis.get_window_extent().y1 >= box.y1


def test_doors_take_the_name_of_an_equation_and_refuse_others():
    figure = explore.residuals("darcy", interactive=False, steps=2)

    assert figure.axes
    with pytest.raises(CheckpointError):
        explore.residuals("nothing-like-it", interactive=False)
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        explore.residuals("darcy", interactive=False, step_s=2)


def test_a_model_without_attention_has_no_spectra(tmp_path):
    pde = pdes.load("darcy", size=16)
    model = network(pde)
    plain = type(model)(pde, replace(model.config, strategy="none"), model.statistics)
    checkpoints.save(tmp_path, plain)

    with pytest.raises(ConfigError, match="no attention blocks"):
        explore.spectra(tmp_path, interactive=False)


def test_controls_state_their_ends():
    assert Slider("n", 1, 5).nearest(9) == 5
    assert Choice("c", ("a", "b")).nearest("z") == "a"
    assert Choice("c", ("a", "b")).ends == ("a", "b")
