"""YAML means what it looks like, and what could be misread is refused."""

import math

import pytest

from prisma_lib import plans, strictyaml
from prisma_lib.errors import ConfigError

LITERALS = {
    "1e-4": 1e-4,
    "1E4": 1e4,
    "1.0e-4": 1e-4,
    "-2.5": -2.5,
    "+1": 1,
    "7": 7,
    ".5": 0.5,
    "1.": 1.0,
    ".inf": float("inf"),
    "-.INF": float("-inf"),
    "010": "010",
    "0x10": "0x10",
    "0o10": "0o10",
    "1_000": "1_000",
    "12:30": "12:30",
    "2024-01-01": "2024-01-01",
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "true": True,
    "False": False,
    "~": None,
    "null": None,
    "": None,
    "'1e-4'": "1e-4",
    "NaN": "NaN",
    "1e": "1e",
    "TRUE": True,
    "tRUE": "tRUE",
}


@pytest.mark.parametrize("literal", LITERALS)
def test_yaml_literal_means_what_it_looks_like(tmp_path, literal):
    path = tmp_path / "a.yaml"
    path.write_text(f"value: {literal}\n")

    value = strictyaml.read(path).content["value"]

    assert (type(value), value) == (type(LITERALS[literal]), LITERALS[literal])


def test_nan_is_a_number_that_no_plan_takes(plan):
    path = plan("notebook: 10_tiny\nbase: {rate: .nan}\n")

    assert math.isnan(strictyaml.read(path).content["base"]["rate"])
    with pytest.raises(ConfigError, match="not finite"):
        plans.cells(path, "smoke")


def test_every_value_knows_its_line(plan):
    path = plan("base:\n  n: 1\ngrid:\n  n:\n    - 1\n    - {x: 2}\n")

    found = strictyaml.read(path)

    assert found.place("grid", "n", 1, "x") == f"{path}, line 6: grid.n[1].x"
    assert found.lines["base", "n"] == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a\n- b\n", "expected a mapping"),
        ("text\n", "expected a mapping"),
        ("", "expected a mapping"),
        ("null\n", "expected a mapping"),
        ("base: {n: 1}\nbase: {n: 2}\n", "line 2.*twice"),
        ("base: {n: 1, n: 2}\n", "line 1.*twice"),
        ("1: a\n", "not text"),
        ("1: a\nb: 1\nb: 2\n", "(?s)line 1.*not text.*line 3.*twice"),
        ("base: {<<: {n: 1}, <<: {n: 2}}\n", "twice"),
        ("base: {n: !!binary aGk=}\n", "line 1.*builds an object"),
        ("base: {n: !!timestamp 2024-01-01}\n", "builds an object"),
        ("base: {n: !!set {a, b}}\n", "builds an object"),
        ("a: 1\n---\na: 2\n", "cannot be read"),
        ("a: " + 2000 * "[", "cannot be read"),
        ("a: \0\n", "cannot be read"),
        ("base: &x {n: 1}\nzip: *x\n", "alias"),
        ("base: !!python/object/apply:os.getcwd []\n", "python/object"),
        ("base:\n\tn: 1\n", "line 2"),
        ("base: [\n", "cannot be read"),
    ],
)
def test_yaml_that_would_be_misread_is_refused(plan, text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        strictyaml.read(plan(text))


def test_missing_file_names_its_neighbours(plan):
    there = plan("notebook: 10_tiny\n")

    with pytest.raises(ConfigError, match=r"tiny\.yaml"):
        strictyaml.read(there.with_name("tinny.yaml"))
