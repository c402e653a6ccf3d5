"""Widgets of the explorers: one drawing a move, work that stops, names stay text."""

import asyncio
import base64

import ipywidgets
import matplotlib.pyplot as plt
import pytest

from prisma_lib import checkpoints, load
from prisma_lib.errors import CheckpointError
from prisma_lib.explore import playground, residual
from prisma_lib.explore.shell import Shell


def test_rebuilding_and_moving_once_draws_once(folder):
    state = residual.State(model=folder("darcy"), steps=2, step=1)
    shells = [Shell(residual.EXPLORER, state) for _ in range(5)]
    before = [shell.drawn for shell in shells]

    shells[-1].controls["step"].value = 2

    assert [shell.drawn for shell in shells] == [*before[:-1], before[-1] + 1]
    assert shells[0].state.step == 1
    assert plt.get_fignums() == []


def test_an_explorer_that_is_closed_leaves_no_widget(folder):
    def living():
        return {*ipywidgets.widgets.widget._instances}

    before = living()
    shell = Shell(residual.EXPLORER, residual.State(model=folder("darcy"), steps=2))
    assert len(living()) > len(before) + 20

    shell.close()

    assert living() == before


def test_a_control_that_changes_others_draws_once(folder):
    shell = Shell(residual.EXPLORER, residual.State(model=folder("darcy"), steps=4))
    assert shell.controls["step"].max == shell.controls["step"].value == 4
    before = shell.drawn

    shell.controls["steps"].value = 2

    assert shell.drawn == before + 1
    assert shell.controls["step"].max == shell.controls["step"].value == 2
    assert shell.controls["rate"].disabled
    shell.controls["regime"].value = "sparse"
    assert not shell.controls["rate"].disabled


def test_moving_many_times_leaves_one_small_picture(folder):
    state = residual.State(model=folder("darcy"), steps=2, step=1)
    shell = Shell(residual.EXPLORER, state)

    for move in range(12):
        shell.controls["step"].value = 1 + move % 2

    assert plt.get_fignums() == []
    shown = shell._repr_mimebundle_()
    assert base64.b64decode(shown["image/png"]) == shell.view.png
    assert len(shown["image/png"]) < 300_000


def test_work_goes_on_beside_the_loop_and_can_be_stopped(folder):
    async def live():
        state = residual.State(model=folder("darcy"), steps=2, step=1)
        shell = Shell(residual.EXPLORER, state)
        before = shell.drawn
        shell.controls["seed"].value = 11
        waiting = shell._task
        assert waiting is not None
        assert shell.drawn == before
        await waiting
        assert shell.drawn == before + 1

        shell.controls["seed"].value = 12
        stopped = shell._task
        await asyncio.sleep(0)
        shell.buttons["stop"].click()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        return shell, before

    shell, before = asyncio.run(live())

    assert shell.drawn == before + 1
    assert shell.buttons["stop"].disabled
    assert residual.EXPLORER.kept(shell.state) is None


def test_the_playground_waits_for_its_button(folder):
    state = playground.State(model=folder("darcy"), steps=2, draws=2, scattered=3)
    shell = Shell(playground.EXPLORER, state)
    box = shell.picture.areas[0].box
    point = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]

    shell._message(shell.view, {"kind": "touch", "points": [point]}, [])

    assert playground.EXPLORER.kept(shell.state) is None
    assert playground.sensors(shell.state).sum() == 4
    shell.buttons["solve"].click()
    assert playground.EXPLORER.kept(shell.state) is not None
    shell.buttons["no sensors"].click()
    assert playground.sensors(shell.state).sum() == 0


@pytest.mark.parametrize(
    "payload",
    [
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)>",
        "<b>bold",
        "a&lt;b>",
        "'\"><script>alert(1)",
        r"$\frac{1}{$",
        "${7*7}",
        "{{7*7}}",
    ],
)
def test_a_hostile_name_stays_text(folder, tmp_path, payload):
    name = tmp_path / payload
    checkpoints.save(name, load(folder("darcy")))
    shell = Shell(residual.EXPLORER, residual.State(model=str(name), steps=2, step=1))
    (name / "model.safetensors").unlink()

    with pytest.raises(CheckpointError):
        shell.controls["seed"].value = 1

    assert "<" not in shell.trouble.value.removeprefix(
        "<pre style='color: #a00'>"
    ).removesuffix("</pre>")
    assert "cannot be read" in shell.trouble.value
