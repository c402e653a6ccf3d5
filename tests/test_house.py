"""Rules for the whole tree: size, safety, direction of imports, no machine's name."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import yaml

import prisma_lib
from prisma_lib.errors import ConfigError, exit_status

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "prisma_lib").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
PYTHON = [*MODULES, *NOTEBOOKS, *sorted((ROOT / "tests").glob("*.py"))]
EXTRAS = {
    *("matplotlib", "papermill", "jupytext", "nbformat", "jupyter_client"),
    *("ipykernel", "dask", "scipy", "ipywidgets", "pandas", "seaborn"),
    *("accelerate", "tensorboard", "neuralop"),
}

# From the ground up; a module imports none that stands in a later line.
FLOORS = """
errors
files devices given progress grids observed provenance tensorfile
stencils spectral splines
fields philox refine ensembles
shapes flows flux_form diffusionpde intervals search
pdes tasks checks settings sensors observe conditioning pool posterior steps
lifts nn edm presets
units denoiser
model lifted
memory
sample precision symmetry anatomy
solver distilled
baselines
methods
solve
parallel teams results
metrics data making importers audit reading layouts manifests matlab splits storage
cells calibration
checkpoints muon
anchors answers judge
comparison evaluate robustness
pairing strictyaml values exports locks
schema runs plans estimates
screened
ablations tables ranks frontier claims targets markdown blocks report
shelf rollout benchmarks verdicts
recipes trainconfig
draws
feeds guards
training
budgets generations journal resume boards
train
styles plots curves charts sweepcharts rankcharts galleries
kernels execution clusters slurm
engine recording board
screen tune bench explore sweep notebooks
""".strip().split("\n")


def name_of(path):
    return str(path.relative_to(ROOT))


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def tracked():
    """Files that are or would be in the repository, as text."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\0")[:-1]
    if listed.returncode:  # an archive without .git
        names = [name_of(path) for path in PYTHON]
    for path in [ROOT / name for name in names]:
        if path.suffix not in {".safetensors", ".png", ".h5"} and path.is_file():
            yield path, path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted({*PYTHON} - {*NOTEBOOKS}), ids=name_of)
def test_file_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_function_bodies_are_short(path):
    long = []
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None and len(node.body) > 1
            first = node.body[1 if documented else 0]
            if node.end_lineno - first.lineno + 1 > 40:
                long.append(node.name)
    assert not long


def dangers(tree):
    """Yields what could run code that comes from a file or a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None) or ""
            if {"pickle", "dill", "marshal", "shelve"} & {*names, module}:
                yield "import of pickle or the like", node.lineno
            if module == "torch" and {"load", "save"} & {*names}:
                yield "import of what reads or writes pickles", node.lineno
        if isinstance(node, ast.Call):
            yield from ((what, node.lineno) for what in dangerous_call(node))


def dangerous_call(node):
    called = ast.unparse(node.func)
    options = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
    if called in {"eval", "exec", "os.system", "os.popen"}:
        yield called
    if called.startswith("yaml.") and re.search(r"load(_all)?$", called):
        safe = {"yaml.safe_load", "yaml.safe_load_all"}
        if called not in safe:
            yield called
    if called in {"torch.load", "torch.save"}:
        yield f"{called}, which is made of pickles"
    if "weights_only" in options:
        yield "weights_only: a pickle"
    for option in ("shell", "allow_pickle"):
        if options.get(option, False) is not False:
            yield f"{option}=True"


@pytest.mark.parametrize("path", [*MODULES, *NOTEBOOKS], ids=name_of)
def test_nothing_runs_code_from_files(path):
    assert not list(dangers(parse(path)))


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "import pickle",
        "from pickle import loads",
        "torch.load(f)",
        "torch.load(f, weights_only=True)",
        "torch.save(state, f)",
        "from torch import load",
        "load(f, weights_only=True)",
        "np.load(f, allow_pickle=True)",
        "yaml.load(f, Loader=L)",
        "yaml.full_load(f)",
        "subprocess.run(c, shell=True)",
    ],
)
def test_scan_sees(line):
    assert list(dangers(ast.parse(line)))


def test_scan_lets_models_be_set_to_evaluation():
    assert not list(dangers(ast.parse("model.eval(); yaml.safe_load(t)")))


def test_tree_names_no_registry_and_no_machine():
    hosts = ["pypi" + ".org", "python" + "hosted.org", "anaconda" + ".org"]
    hosts += ["download.pytorch" + ".org", "registry." + "npmjs", "conda" + ".io"]
    folders = ["work", "root", "home", "opt", "Users", "mnt"]
    pattern = re.compile(
        "|".join(map(re.escape, hosts))
        + r"|(?<![\w.~/>-])/(?:"
        + "|".join(folders)
        + r")/\w"
        + r"|\.\./shared"
    )

    found = {
        f"{name_of(path)}: {match[0]}"
        for path, text in tracked()
        for match in pattern.finditer(text)
        if path != Path(__file__)
    }

    assert not found


def test_import_needs_only_the_core():
    modules = "prisma_lib, prisma_lib.data, prisma_lib.train"
    code = f"import sys, {modules}; print(*{{n.split('.')[0] for n in sys.modules}})"

    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stderr
    assert not EXTRAS & set(ran.stdout.split())


def top_level_imports(path):
    """Names of the modules of this library that a module imports when it is loaded."""
    pending = list(parse(path).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def graph():
    """Module -> the modules of this library that it imports."""
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in MODULES
    }
    found = {}
    for name, path in names.items():
        own = name.removesuffix(".__init__")
        needs = {n for n in top_level_imports(path) if n in names}
        packages = {n for n in top_level_imports(path) if f"{n}.__init__" in names}
        found[own] = (needs | packages) - {own, "prisma_lib"}
    return found


def test_imports_make_no_circle():
    try:
        list(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


def floor(module):
    parts = module.split(".")
    piece = parts[1] if len(parts) > 1 else ""
    return next((i for i, line in enumerate(FLOORS) if piece in line.split()), None)


def test_every_module_has_a_floor():
    assert [module for module in graph() if floor(module) is None] == ["prisma_lib"]


def test_no_module_imports_from_a_floor_above():
    upward = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if module != "prisma_lib" and floor(other) > floor(module)
    ]
    assert not upward


@pytest.mark.parametrize(("room", "stranger"), [("nn", "pdes"), ("pdes", "nn")])
def test_networks_and_equations_do_not_know_each_other(room, stranger):
    for module, others in graph().items():
        if module.startswith(f"prisma_lib.{room}"):
            assert not [o for o in others if o.startswith(f"prisma_lib.{stranger}")]


def test_no_module_hides_its_annotations_from_the_shape_checks():
    for path in MODULES:
        assert "from __future__ import annotations" not in path.read_text("utf-8")


def test_citation_states_the_version_of_the_library():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert citation["version"] == prisma_lib.__version__


def test_all_extra_is_enough_to_run_and_to_test():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert extras["all"] == ["prisma-lib[notebooks,sweep,test]"]


@pytest.mark.parametrize(
    ("raised", "status"), [(None, 7), (ConfigError("x"), 2), (KeyboardInterrupt(), 130)]
)
def test_commands_end_with_the_status_of_how_they_ended(raised, status, capsys):
    def command():
        if raised:
            raise raised
        return 7

    assert exit_status(command, "stopped") == status
    said = {2: "error: x\n", 7: "", 130: "stopped\n"}
    assert capsys.readouterr().err == said[status]
