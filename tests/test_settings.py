"""Settings of a training: each has its type and its range, and says so."""

from dataclasses import replace

import pytest
import torch

from prisma_lib import train
from prisma_lib.errors import ConfigError
from prisma_lib.training import TrainConfig, start

CPU = torch.device("cpu")


@pytest.fixture
def config():
    return TrainConfig(size=16, preset="tiny", images=24 * 8, batch=8, warmup=64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"imgs": 3}, "did you mean 'images'"),
        ({"images": 0}, "images=0: give a whole number of at least 1"),
        ({"images": 3, "batch": 8}, "less than one batch"),
        ({"batch": 8.0}, "batch=8.0: give a whole number"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0: give a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"learning_rate": 20}, "at most 1"),
        ({"ema_half_life": 0}, "ema_half_life=0"),
        ({"clip": float("inf")}, "clip=inf: give a finite number"),
        ({"weight_decay": 2}, "weight_decay=2 must lie"),
        ({"minutes": 0}, "minutes=0"),
        ({"p_mean": None}, "p_mean=None: give a finite number"),
        ({"p_min": 0.0}, "p_min=0.0"),
        ({"p_min": 0.6}, "0 < p_min <= p_max"),
        ({"p_max": 1.5}, "p_max=1.5"),
        ({"mask_mixture": "sprse"}, "did you mean 'sparse'"),
        ({"task_probabilities": [0.5, 0.5]}, "sum to 1"),
        ({"task_probabilities": [-0.2, 0.3, 0.3, 0.3, 0.3]}, "sum to 1"),
        ({"task_probabilities": [0.3] * 5}, "sum to 1.5"),
        ({"optimiser": "adam"}, "did you mean 'adamw'"),
        ({"weighting": "snr"}, "unknown loss weighting"),
        ({"stored": 8, "batch": 16}, "less than one batch"),
        ({"stored": 64, "data": "x.h5"}, "both name the problems"),
        ({"seed": -1}, "seed=-1"),
        ({"model": "small"}, "model='small': give a mapping"),
        ({"options": [1]}, "give a mapping"),
        ({"options": {1: 2}}, "give a mapping"),
        ({"task_probabilities": 1}, "task_probabilities=1: give a list of finite num"),
        ({"task_probabilities": [*"abcde"]}, "give a list of finite numbers, such as"),
        ({"layouts": 3}, r"layouts=3: give a list of texts, such as .*\['points'\]"),
        ({"layouts": "points"}, "layouts='points': give a list of texts"),
        ({"weight_decay": "x"}, "weight_decay='x': give a finite number"),
        ({"both": "x"}, "both='x': give a finite number"),
        ({"noise_max": "x"}, "noise_max='x': give a finite number"),
        ({"noise_max": float("inf")}, "noise_max=inf: give a finite number"),
        ({"p_min": "x"}, "p_min='x': give a finite number, such as p_min=0.01"),
        ({"augment": "no"}, "augment='no': give true or false"),
        ({"images": True}, "images=True: give a whole number"),
        ({"minutes": "x"}, "minutes='x': give a finite number$"),
        ({"weights": 3}, "weights=3: give text$"),
        ({"data": 3}, "data=3: give text$"),
        ({"name": 3}, "name=3: give text$"),
        ({"name": "../../escaped"}, "name='../../escaped': give at most 60 letters"),
        ({"pde": "../../escaped"}, "name='../../escaped-32': give at most 60"),
    ],
)
def test_impossible_settings_are_refused(settings, message, untyped):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(settings)


def test_the_plan_is_refused_with_the_status_of_bad_input(plan, root, capsys):
    for text in ("layouts: 3", "name: ../../escaped", "weights: 3"):
        path = plan(f"base: {{size: 16, preset: tiny, images: 8, batch: 8, {text}}}\n")

        assert train.main([str(path), "--scale", "smoke", "--device", "cpu"]) == 2

        assert capsys.readouterr().err.startswith(f"error: {text.split(':')[0]}=")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"widths": 3}}, "widths=3: give a list of whole numbers, such as"),
        ({"model": {"dropout": "x"}}, "dropout='x': give a finite number"),
        ({"model": {"name": "tiny"}}, "unknown model setting 'name'"),
        ({"options": {"size": 16}}, "'size' is no option of an equation"),
    ],
)
def test_impossible_settings_of_parts_are_refused(config, settings, message, untyped):
    with pytest.raises(ConfigError, match=message):
        start(replace(config, **settings), CPU)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_impossible_dropout_is_refused_before_anything_is_solved(config, dropout):
    with pytest.raises(ConfigError, match="dropout"):
        start(replace(config, model={"dropout": dropout}), CPU)


def test_a_model_is_named_after_equation_and_grid_unless_it_has_a_name():
    assert TrainConfig(pde="poisson", size=16).name == "poisson-16"
    assert TrainConfig.from_dict({"pde": "poisson", "size": 16}).name == "poisson-16"
    assert TrainConfig(pde="poisson", name="mine").name == "mine"
