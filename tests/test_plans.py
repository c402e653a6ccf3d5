"""A plan is checked whole, and read as it looks, before anything starts."""

from pathlib import Path

import pytest

from prisma_lib import plans, strictyaml
from prisma_lib.errors import ConfigError
from prisma_lib.sweep import main

ROOT = Path(__file__).parents[1]
LITERALS = {
    "1e-4": 1e-4,
    "1E4": 1e4,
    "1.0e-4": 1e-4,
    "-2.5": -2.5,
    "+1": 1,
    "7": 7,
    ".5": 0.5,
    ".inf": float("inf"),
    "010": "010",
    "0x10": "0x10",
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
}


@pytest.mark.parametrize("literal", LITERALS)
def test_yaml_literal_means_what_it_looks_like(tmp_path, literal):
    path = tmp_path / "a.yaml"
    path.write_text(f"value: {literal}\n")

    value = strictyaml.read(path)["value"]

    assert (type(value), value) == (type(LITERALS[literal]), LITERALS[literal])


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


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("grod: {n: [1]}", "line 2.*did you mean 'grid'"),
        ("base: {m: 1, rat: 2}", "did you mean 'rate'"),
        ("base: {n: '2'}", "declares `n: int"),
        ("base: {n: [2]}", "declares `n: int"),
        ("base: {rate: 1_0}", "declares `rate: float"),
        ("base: {rate: .nan}", "finite"),
        ("base: {fail: yes, n: true}", "declares `n: int"),
        ("base: 3", "a dict is needed"),
        ("base: {out: x}", "the sweep sets out"),
        ("grid: {interactive: [true]}", "the sweep sets interactive"),
        ("grid: {n: 2}", "list of values"),
        ("grid: {n: []}", "list of values"),
        ("grid: {n: [1, 1]}", "same run twice"),
        ("grid: {rat: [1]}", "did you mean 'rate'"),
        ("zip: {n: [1, 2], rate: [1]}", "one length"),
        ("grid: {n: [1]}\nzip: {n: [1]}", "not in grid"),
        ("grid: {n: [1]}\nexclude: [{n: 1}]", "0 runs"),
        ("grid: {n: [1]}\nexclude: [{rate: 1}]", "exclude"),
        ("scales: {smok: {n: 1}}", "did you mean 'smoke'"),
        ("scales: {cpu: {rat: 1}}", "did you mean 'rate'"),
        ("scales: {cpu: 1}", "must be a mapping"),
        ("resources: {gpu: 1}", "did you mean 'gpus'"),
        ("resources: {cpus: many}", "give a number"),
        ("include: [tiny.yaml]", "no other key"),
    ],
)
def test_bad_plan_is_refused_before_anything_starts(
    plan, root, capsys, text, complaint
):
    path = plan(f"notebook: 10_tiny\n{text}\n")

    with pytest.raises(ConfigError, match=complaint):
        plans.cells(path, "smoke")

    assert main([str(path), "--scale", "smoke"]) == 2
    assert not (root / "outputs").exists()


@pytest.mark.parametrize("name", ["../10_tiny", "/etc/passwd", "10_tinny", "~", ""])
def test_notebook_is_a_name_in_the_folder(plan, name):
    with pytest.raises(ConfigError, match=r"10_tin|20_darcy|notebook"):
        plans.cells(plan(f"notebook: '{name}'\n"), "smoke")


@pytest.mark.parametrize("name", ["../x", "/etc/x.yaml", "a b", "tiny.yaml", "3"])
def test_include_names_plans_of_the_same_folder(plan, name):
    path = plan(f"include: ['{name}']\n")

    with pytest.raises(ConfigError, match=r"include|exist"):
        plans.cells(path, "smoke")


def test_unknown_scale_lists_the_known_ones(plan):
    with pytest.raises(ConfigError, match="smoke"):
        plans.cells(plan("notebook: 10_tiny\n"), "huge")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 4),  # the scale file has n: 4
        ("base: {n: 1}", 4),
        ("base: {n: 1}\nscales: {smoke: {n: 2}, cpu: {n: 9}}", 2),
        ("base: {n: 1}\nscales: {smoke: {n: 2}}\ngrid: {n: [3]}", 3),
    ],
)
def test_later_sections_win(plan, text, wanted):
    (cell,) = plans.cells(plan(f"notebook: 10_tiny\n{text}\n"), "smoke")

    assert cell.parameters == {"n": wanted, "scale": "smoke"}


def test_zip_times_grid_less_what_is_excluded(plan):
    path = plan(
        "notebook: 10_tiny\nzip: {n: [1, 2], rate: [0.1, 0.2]}\n"
        "grid: {fail: [a, b]}\nexclude: [{n: 2, fail: b}]\n"
    )

    found = [tuple(c.parameters.values())[:3] for c in plans.cells(path, "smoke")]

    assert found == [(1, 0.1, "a"), (1, 0.1, "b"), (2, 0.2, "a")]


def test_included_plans_keep_their_names(plan, root):
    plan("notebook: 10_tiny\n")
    both = root / "params" / "both.yaml"
    both.write_text("include: [tiny.yaml]\n")

    assert [cell.plan for cell in plans.cells(both, "smoke")] == ["tiny"]


def test_training_plan_needs_no_notebook(root):
    path = root / "params" / "train.yaml"
    path.write_text("base: {pde: darcy, warmup: 10}\nscales: {smoke: {batch: 2}}\n")

    found = plans.read_training(path, "smoke")

    assert (found["warmup"], found["batch"], found["size"]) == (10, 2, 16)
    assert "n" not in found


@pytest.mark.parametrize("scale", plans.SCALES)
def test_scale_files_have_the_same_keys(scale):
    folder = ROOT / "params" / "scales"

    keys = plans.scale_values(folder, scale).keys()

    assert keys == plans.scale_values(folder, "smoke").keys()
