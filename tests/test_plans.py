"""A plan is checked whole, and read as it looks, before anything starts."""

from pathlib import Path

import pytest

from prisma_lib import plans
from prisma_lib.errors import ConfigError
from prisma_lib.sweep import main

ROOT = Path(__file__).parents[1]


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
        ("base: 3", "line 2: base is the int 3, a mapping is needed"),
        ("base: {out: x}", "the sweep sets out"),
        ("grid: {interactive: [true]}", "the sweep sets interactive"),
        ("grid: {n: 2}", "list of values"),
        ("grid: {n: []}", "list of values"),
        ("grid: {n: [1, 1]}", "same run twice"),
        ("grid: {rat: [1]}", "did you mean 'rate'"),
        ("zip: {n: [1, 2], rate: [1]}", "one length"),
        ("grid: {n: [1]}\nzip: {n: [1]}", "it stands in grid"),
        ("grid: {n: [1]}\nexclude: [{n: 1}]", "0 runs"),
        ("grid: {n: [1]}\nexclude: [{rate: 1}]", "exclude"),
        ("scales: {smok: {n: 1}}", "did you mean 'smoke'"),
        ("scales: {cpu: {rat: 1}}", "did you mean 'rate'"),
        ("scales: {cpu: 1}", "scales.cpu is the int 1: give a mapping"),
        ("resources: {gpu: 1}", "did you mean 'gpus'"),
        ("resources: {threads: many}", "whole number from 1"),
        ("resources: {threads: 0}", "whole number from 1"),
        ("resources: {threads: true}", "whole number from 1"),
        ("resources: {gpus: -1}", "whole number from 0"),
        ("resources: {gpus: 0.5}", "whole number from 0"),
        ("resources: {cell_minutes: 0}", "minutes above 0"),
        ("resources: {cell_minutes: .inf}", "minutes above 0"),
        ("resources: {cell_minutes: .nan}", "minutes above 0"),
        ("resources:", "resources is empty, a mapping is needed"),
        ("base: {n: 1e3}", "declares `n: int"),
        ("base: {n: .nan}", "finite"),
        ("base: {fail: 7}", "declares `fail: str"),
        ("base: {fail: null}", "declares `fail: str"),
        ("base: {rate: yes}", "declares `rate: float"),
        ("base: {rate: 12:30}", "declares `rate: float"),
        ("grid: {n: [1, x]}", r"grid.n\[1\]: n='x'"),
        ("grid: {n: [[1]]}", "declares `n: int"),
        ("grid: {rate: [1, 1.0]}", "same run twice"),
        ("grid: {n: [1]}\nexclude: [{n: 2}]", "no run has n=2"),
        ("grid: {n: [1]}\nexclude: [n]", "give a mapping"),
        ("scales: {cpu: {n: x}}", "line 2: scales.cpu.n: n='x'"),
        ("scales: {cpu: {scale: x}}", "the sweep sets scale"),
        ("notebok: 10_tiny", "line 2.*did you mean 'notebook'"),
        ("base:\n  m: 1\ngrid:\n  rat: [1]", "(?s)line 3: base.m.*line 5: grid.rat"),
        ("grod: 1\nresurces: 1", "(?s)line 2: grod.*line 3: resurces"),
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


@pytest.mark.parametrize("name", ["out", "scale", "interactive"])
def test_notebook_without_what_a_sweep_sets_is_refused(plan, root, name, capsys):
    path = root / "notebooks" / "10_tiny.py"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(f"{name}: ")]
    path.write_text("".join(kept))

    assert main([str(plan("notebook: 10_tiny\n")), "--scale", "smoke"]) == 2
    assert f"10_tiny.py has no parameter {name}: a sweep" in capsys.readouterr().err
    assert len(kept) == len(lines) - 1
    assert not (root / "outputs").exists()


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


def test_grid_of_millions_is_refused_without_being_listed(plan):
    options = ", ".join(map(str, range(100)))
    path = plan(
        f"notebook: 10_tiny\ngrid: {{n: [{options}], rate: [{options}], "
        f"fail: [{', '.join('abcdefghij')}]}}\n"
    )

    with pytest.raises(ConfigError, match="asks for 100000 runs: 1 to 1000"):
        plans.cells(path, "smoke")


def test_resources_are_what_the_plan_says(plan):
    (bare,) = plans.cells(plan("notebook: 10_tiny\n"), "smoke")
    text = "notebook: 10_tiny\nresources: {threads: 2, gpus: 1, cell_minutes: 0.5}\n"
    (given,) = plans.cells(plan(text), "smoke")

    assert bare.resources == {}
    assert given.resources == {"threads": 2, "gpus": 1, "cell_minutes": 0.5}


def test_whole_number_is_the_float_that_is_declared(plan):
    (whole,) = plans.cells(plan("notebook: 10_tiny\nbase: {rate: 1}\n"), "cpu")
    (point,) = plans.cells(plan("notebook: 10_tiny\nbase: {rate: 1.0}\n"), "cpu")

    assert whole == point
    assert type(whole.parameters["rate"]) is float


def test_included_plans_keep_their_names(plan, root):
    plan("notebook: 10_tiny\n")
    both = root / "params" / "both.yaml"
    both.write_text("include: [tiny.yaml]\n")

    assert [cell.plan for cell in plans.cells(both, "smoke")] == ["tiny"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("include: []", "each of them once"),
        ("include: [tiny, tiny.yaml]", "each of them once"),
        ("include: [tiny, both]", "line 1: include.1.: .* includes others"),
        ("include: [tiny]\nbase: {n: 1}", "no other key"),
        ("include: tiny", "a list is needed"),
    ],
)
def test_include_that_is_no_list_of_plans_is_refused(plan, root, text, complaint):
    plan("notebook: 10_tiny\n")
    both = root / "params" / "both.yaml"
    both.write_text(f"{text}\n")

    with pytest.raises(ConfigError, match=complaint):
        plans.cells(both, "smoke")


@pytest.mark.parametrize("names", ["[a, a]", "[../x, b]", "['', '']", "[a b, c]"])
def test_trainings_have_names_of_their_own_that_are_no_paths(root, names):
    path = root / "params" / "train.yaml"
    path.write_text(f"zip: {{name: {names}, seed: [1, 2]}}\n")

    if names == "['', '']":
        assert [*plans.read_trainings(path, "smoke")] == ["1", "2"]
        return
    with pytest.raises(ConfigError, match="cannot be named"):
        plans.read_trainings(path, "smoke")


def test_training_plan_needs_no_notebook(root):
    path = root / "params" / "train.yaml"
    path.write_text("base: {pde: darcy, warmup: 10}\nscales: {smoke: {batch: 2}}\n")

    found = plans.read_training(path, "smoke")

    assert (found["warmup"], found["batch"], found["size"]) == (10, 2, 16)
    assert "n" not in found


@pytest.mark.parametrize("scale", plans.SCALES)
def test_scale_files_all_say_how_large_everything_is(scale):
    folder = ROOT / "params" / "scales"

    keys = plans.scale_values(folder, scale).keys()

    assert keys >= plans.scale_values(folder, "smoke").keys()
