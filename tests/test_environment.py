"""environment.yml (conda) and pyproject.toml (pip) ask for the same things."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CHOSEN = [
    "torch",
    "jupyterlab",
    "papermill",
    "ipywidgets",
    "matplotlib",
    "seaborn",
    "numpy",
    "h5py",
    "jupytext",
]


def split(requirement):
    pattern = r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*(.*)"
    name, bounds = re.fullmatch(pattern, requirement).groups()
    return name.lower(), bounds


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pip_bounds():
    extras = project()["optional-dependencies"]
    return dict(map(split, project()["dependencies"] + extras["notebooks"]))


def conda_dependencies():
    return yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def conda_bounds():
    named = dict(split(d) for d in conda_dependencies() if isinstance(d, str))
    named["torch"] = named.pop("pytorch")
    return named


@pytest.mark.parametrize("name", CHOSEN)
def test_conda_and_pip_state_the_same_bounds(name):
    assert conda_bounds()[name] == pip_bounds()[name]


def test_conda_names_no_package_that_pip_does_not():
    assert set(conda_bounds()) - {"python", "pip"} == set(CHOSEN)


def test_conda_leaves_the_rest_to_the_package():
    assert {"pip": ["-e .[all]"]} in conda_dependencies()


def test_constraints_pin_each_direct_dependency_inside_its_bounds():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.lower().split("==") for line in lines)

    for name, bounds in pip_bounds().items():
        pin = tuple(map(int, re.findall(r"\d+", pins[name])))
        floor = re.search(r">=([\d.]+)", bounds)
        assert pin >= tuple(map(int, floor[1].split("."))), name


def test_constraints_name_no_machine():
    text = (ROOT / "constraints.txt").read_text()

    assert not re.search(r"://|@ |\+cpu|^-e", text, re.MULTILINE)
