"""How long a training will take, said before it is begun."""

import re

import pytest

from prisma_lib import budgets, train
from prisma_lib.errors import ConfigError
from prisma_lib.training import TrainConfig

PLAN = "base: {size: 16, preset: tiny, images: 80000, batch: 8}\n"


@pytest.fixture
def arguments(plan, root):
    (root / "params" / "scales" / "smoke.yaml").write_text("size: 16\n")
    return [str(plan(PLAN)), "--scale", "smoke", "--device", "cpu", "--out", "run"]


def numbers(line):
    """Images, images per second, processes and hours of a forecast."""
    pattern = r"([\d,]+) images at (\S+) images/s of (\d+) x .+: (\S+) hours\n?"
    images, *rest = re.fullmatch(pattern, line).groups()
    return int(images.replace(",", "")), *map(float, rest)


def test_the_command_says_how_long_it_would_take_and_leaves_nothing(
    arguments, root, capsys, monkeypatch
):
    monkeypatch.setattr(budgets, "LOOKED_AT", 0.1)
    before = sorted(root.rglob("*"))

    assert train.main([*arguments, "--hours"]) == 0

    images, rate, processes, hours = numbers(capsys.readouterr().out)
    assert (images, processes) == (80_000, 1)
    assert hours == pytest.approx(images / rate / 3600, rel=0.01)
    assert sorted(root.rglob("*")) == before


def test_a_batch_that_cannot_be_shared_has_no_forecast(arguments, capsys):
    assert train.main([*arguments, "--hours", "--processes", "3"]) == 2
    assert "give batch=6 or 9" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_measure_one_speed(arguments, capsys):
    assert train.main([*arguments, "--hours", "--processes", "2"]) == 0

    images, rate, processes, hours = numbers(capsys.readouterr().out)
    assert (images, processes) == (80_000, 2)
    assert hours == pytest.approx(images / rate / 3600, rel=0.01)


def test_a_forecast_needs_settings_that_can_be_trained():
    with pytest.raises(ConfigError, match="unknown PDE"):
        budgets.forecast(TrainConfig(pde="darcie"), "cpu")
