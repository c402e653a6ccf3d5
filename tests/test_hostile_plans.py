"""Names and values of a plan run no code and lead nowhere outside of the outputs."""

import json
import subprocess
import sys

import pytest
import yaml

from prisma_lib import execution, pairing, plans, strictyaml, values
from prisma_lib.errors import ConfigError, RunDirError
from prisma_lib.files import as_json
from prisma_lib.pairing import Parameter
from prisma_lib.provenance import ROOT

NAMES = [
    "n\nopen('hacked', 'w')",
    "n; open('hacked', 'w')",
    "n = 1 #",
    "n'",
    'n"',
    "../n",
    "/etc/passwd",
    "~",
    "n\0",
    "n" * 300,
    "ｎ",  # a look-alike that Python would read as n
    "n ",
    "{n}",
    "$HOME",
    "CON",
    "__import__",
    "-n",
    "%n",
    "<script>",
    "",
]
# As values, they are text like any other: what a notebook gets is what was written.
TEXTS = [name for name in NAMES if "\0" not in name]


def write(root, **sections):
    path = root / "params" / "tiny.yaml"
    path.write_text(json.dumps({"notebook": "10_tiny", **sections}), "utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("section", ["base", "grid", "scales", "resources", ""])
def test_hostile_name_is_refused(root, section, name):
    inside = {
        "base": {name: 1},
        "grid": {name: [1]},
        "scales": {name: {"n": 1}},
        "resources": {name: 1},
    }
    path = write(root, **({section: inside[section]} if section else {name: 1}))

    with pytest.raises(ConfigError, match=r"unknown|cannot be read"):
        plans.cells(path, "smoke")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "CON"])
@pytest.mark.parametrize("section", ["notebook", "include", "scale", "plan"])
def test_hostile_path_is_refused(root, section, name):
    path, scale = root / "params" / "tiny.yaml", "smoke"
    path.write_text(json.dumps({"notebook": "10_tiny"}))
    if section == "plan":
        path = path.with_name(f"{name.replace('/', ' ')}.yaml")
    elif section == "scale":
        scale = name
    else:
        path.write_text(json.dumps({section: [name] if section == "include" else name}))

    with pytest.raises(ConfigError):
        plans.cells(path, scale)


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_text_stays_text_and_makes_a_harmless_folder(root, text):
    (cell,) = plans.cells(write(root, grid={"fail": [text]}), "smoke")

    assert cell.parameters["fail"] == text
    assert cell.folder(root / "outputs").parent == root / "outputs" / "tiny"
    assert len(cell.name) < 80
    assert cell.name.replace("-", "").replace(".", "").isalnum()


@pytest.mark.notebook
def test_hostile_text_runs_no_code_in_a_kernel(root):
    texts = [*TEXTS, '"""', "\\", "{}", "a\r\nb", "\N{GREEK SMALL LETTER NU}"]
    source = root / "notebooks" / "10_tiny.py"
    keep = "(Path(out) / 'fail.json').write_text(json.dumps(fails))"
    source.write_text(
        source.read_text()
        .replace('fail: str = ""', "fails: list[str] = []")
        .replace("assert not fail, fail", keep)
    )
    (cell,) = plans.cells(write(root, base={"fails": texts}), "smoke")
    folder = cell.folder(root / "outputs")

    run = execution.execute(cell.notebook, folder, cell.parameters)

    assert run.status == "done", run.error
    assert json.loads((folder / "fail.json").read_text()) == texts
    assert not list(root.rglob("hacked"))


def test_link_does_not_lead_runs_out_of_the_outputs(root, tmp_path_factory):
    (cell,) = plans.cells(write(root), "smoke")
    (root / "outputs").mkdir()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (root / "outputs" / "tiny").symlink_to(elsewhere)

    with pytest.raises(RunDirError, match="remove the link"):
        cell.folder(root / "outputs")


def test_refused_plan_loads_nothing_that_could_start_a_kernel(root):
    path = write(root, base={"stepz": 1})
    code = (
        "import sys; from prisma_lib.sweep import main; status = main(sys.argv[1:])\n"
        "print(status, *{name.split('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", code, str(path), "--scale", "smoke"]

    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    status, *loaded = ran.stdout.split()
    assert status == "2"
    assert "unknown parameter 'stepz'" in ran.stderr
    heavy = "jupytext nbformat papermill nbclient jupyter_client ipykernel dask"
    heavy += " distributed pandas matplotlib seaborn scipy"
    assert not {*heavy.split()} & {*loaded}


@pytest.mark.parametrize(
    "source", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda path: path.stem
)
def test_parameters_read_from_text_are_those_of_the_notebook(source):
    assert pairing.parameters_of(source) == pairing.parameters(pairing.read(source))


@pytest.mark.parametrize("tag", ['tags=["x"]', 'tags=["a", "parameters"] x=1', ""])
def test_cells_are_counted_by_their_tag(root, tag):
    source = root / "notebooks" / "10_tiny.py"
    source.write_text(source.read_text() + f"\n# %% {tag}\nm: int = 1\n")

    if "parameters" not in tag:
        assert "m" not in pairing.parameters_of(source)
        return
    with pytest.raises(ConfigError, match="2 cells"):
        pairing.parameters_of(source)


@pytest.mark.parametrize(
    ("annotation", "value", "taken"),
    [
        ("list", [1, "a"], True),
        ("list", ["1e-4"], False),
        ("list", ["no"], False),
        ("list", [["0x10"]], False),
        ("dict", {"a": {"b": "1_000"}}, False),
        ("dict", {"a": "b"}, True),
        ("dict[str, float]", {"a": 1}, True),
        ("dict[str, float]", {"a": "1"}, False),
        ("list[list[int]]", [[1], []], True),
        ("list[list[int]]", [[1], [True]], False),
        ("list[str]", ["010", "no"], True),
        ("str | None", None, True),
        ("int | None", "null", False),
        ("bool", "true", False),
        ("bool", 1, False),
        ("float", 10**400, True),
        ("str", "a\0", False),
        ("str", "\ud800", False),
        ("list[float]", [float("nan")], False),
    ],
)
def test_a_parameter_takes_what_its_type_says(annotation, value, taken):
    declared = {"x": Parameter(annotation, None)}

    assert any(values.faults({"x": value}, declared)) is not taken


def test_a_type_that_a_plan_cannot_fill_is_refused():
    with pytest.raises(ConfigError, match=r"declared as Path"):
        values.check({"x": "a"}, {"x": Parameter("Path", None)})


@pytest.mark.parametrize(
    "plan", plans.with_notebooks(ROOT / "params"), ids=lambda path: path.stem
)
def test_written_parameters_are_read_back_unchanged(plan, tmp_path):
    for scale in plans.SCALES:
        for cell in plans.cells(plan, scale):
            written = tmp_path / "params.json"
            written.write_bytes(as_json(cell.parameters))

            assert strictyaml.read(written).content == cell.parameters
            assert yaml.safe_load(written.read_bytes()).keys() == cell.parameters.keys()
