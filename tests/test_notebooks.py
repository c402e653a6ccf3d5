"""Pairs are written one way; a run leaves a verdict; nothing hangs or is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import papermill
import pytest
from tiny import DRAW, HEADER, NOTEBOOK, WRITE, project

from prisma_lib import exports, notebooks, pairing, runs
from prisma_lib.errors import ConfigError, RunDirError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def root(tmp_path):
    return project(tmp_path)


@pytest.fixture
def source(root):
    return root / "notebooks" / "10_tiny.py"


def edit(book, old, new):
    text = book.read_text("utf-8")
    assert old in text
    book.write_text(text.replace(old, new), "utf-8")


def test_pair_has_no_outputs_and_regenerates_to_the_same_bytes(source):
    book = source.with_suffix(".ipynb")
    pairing.pair(source)
    first = book.read_bytes()
    book.unlink()
    pairing.pair(source)

    assert book.read_bytes() == first
    assert not pairing.pair(source)
    cells = json.loads(first)["cells"]
    assert [cell["id"] for cell in cells] == [
        f"cell-{i:02d}" for i in range(len(cells))
    ]
    assert not any(cell.get("outputs") for cell in cells)


def test_pair_follows_its_source(source):
    pairing.pair(source)
    edit(source, "# # Tiny", "# # Smaller")

    assert pairing.pair(source)
    assert "Smaller" in source.with_suffix(".ipynb").read_text("utf-8")


def test_pair_never_overwrites_an_edit_of_the_notebook(source):
    pairing.pair(source)
    book = source.with_suffix(".ipynb")
    edit(book, "# Tiny", "# Edited here")
    edited = book.read_bytes()

    with pytest.raises(RunDirError, match="jupytext --to py:percent") as refusal:
        pairing.pair(source)

    assert book.read_bytes() == edited
    command = re.search(r"`python -m (.*?)`", str(refusal.value))[1].split()
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    assert "# # Edited here" in source.read_text("utf-8")
    pairing.pair(source)
    assert not list(pairing.faults(source))


def test_pair_accepts_a_notebook_that_was_executed_but_not_edited(source):
    pairing.pair(source)
    book = source.with_suffix(".ipynb")
    edit(book, '"execution_count": null', '"execution_count": 3')

    assert pairing.pair(source)
    assert '"execution_count": 3' not in book.read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('tags=["parameters"]', "", "parameters"),
        ("#     name: python3\n", "", "kernel"),
        ("n: int = 2", "n = 2", "literal"),
        ("scale: str", "size: str", "scale: str"),
        ('"cpu"', '"gpu"', "scale: str = 'cpu'"),
        ("double = 2 * n", "\n".join(f"x{i} = {i}" for i in range(26)), "25"),
        ("double = 2 * n", "exit()", "exit"),
        ("double = 2 * n", "quit(0)", "quit"),
    ],
)
def test_check_finds(root, source, capsys, old, new, complaint):
    edit(source, old, new)
    pairing.pair(source) if complaint != "kernel" else None

    assert notebooks.check(root) == 1
    assert complaint in capsys.readouterr().out


def test_check_finds_a_pair_out_of_step(root, source, capsys):
    pairing.pair(source)
    edit(source, "# # Tiny", "# # Other")

    assert notebooks.check(root) == 1
    assert "make notebooks" in capsys.readouterr().out


def test_check_finds_a_notebook_without_source_or_none_at_all(root, source, capsys):
    notebooks.pair(root)
    assert notebooks.check(root) == 0

    source.unlink()

    assert notebooks.check(root) == 1
    assert notebooks.check(root / "elsewhere") == 1
    assert "elsewhere/notebooks holds no notebooks" in capsys.readouterr().out


def test_papermill_sees_the_same_parameters(source):
    pairing.pair(source)

    seen = papermill.inspect_notebook(str(source.with_suffix(".ipynb")))

    assert list(seen) == list(pairing.parameters(pairing.read(source)))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rat": 3}, "did you mean 'rate'"),
        ({"n": "3"}, "n: int"),
        ({"n": 3.0}, "n: int"),
        ({"n": True}, "n: int"),
        ({"rate": "1e-4"}, "rate: float"),
        ({"rate": float("nan")}, "finite"),
        ({"fail": 1}, "fail: str"),
        ({"n": (1, 2)}, "tuple"),
        ({"n; import os": 3}, "unknown parameter"),
    ],
)
def test_wrong_parameters_start_nothing(source, tmp_path, given, complaint):
    with pytest.raises(ConfigError, match=complaint):
        notebooks.execute(source, tmp_path / "run", given)

    assert not (tmp_path / "run").exists()


@pytest.mark.notebook
def test_run_leaves_its_record(source, tmp_path):
    folder = tmp_path / "a run {with} braces ν"
    before = source.read_bytes()

    run = notebooks.execute(source, folder, {"n": 5, "rate": 1})

    assert run.status == "done"
    assert runs.load(folder) == run
    assert run.pid == os.getpid()
    assert json.loads((folder / "params.json").read_text())["n"] == 5
    assert runs.rows(folder)[0]["value"] == 10
    assert "outputs" in json.loads((folder / "notebook.ipynb").read_text())["cells"][1]
    assert source.read_bytes() == before
    left = sorted(path.name for path in folder.iterdir())
    made = [".lock", "metrics.json", "notebook.ipynb", "params.json", "run.json"]
    assert left == [*made, "x.png"]


HANG_PROOF = """
import ipywidgets

for _ in range(3):
    box = ipywidgets.Output()
    with box:
        print("inside")
box
"""


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("raise ValueError('asked for')", "failed", "asked for"),
        ("import os; os.kill(os.getpid(), 9)", "killed", "DeadKernelError"),
        ("import time; time.sleep(60)", "timeout", "timed out"),
        ("raise SystemExit(3)", "failed", "SystemExit"),
    ],
)
def test_failing_run_says_how(source, tmp_path, code, status, words):
    source.write_text(NOTEBOOK.replace("double = 2 * n", f"{code}\ndouble = 2"))

    run = notebooks.execute(source, tmp_path / "run", {}, timeout=5)

    assert (run.status, runs.load(tmp_path / "run").status) == (status, status)
    assert words in run.error


@pytest.mark.notebook
def test_run_that_writes_no_metrics_is_not_done(source, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.json").write_text("[]")  # of an earlier run
    source.write_text(NOTEBOOK.replace(WRITE, ""))

    run = notebooks.execute(source, folder, {})

    assert run.status == "failed"
    assert "metrics.json" in run.error


@pytest.mark.notebook
def test_output_widgets_do_not_hang(source, tmp_path):
    source.write_text(NOTEBOOK.replace("double = 2 * n", HANG_PROOF + "double = 2"))

    assert notebooks.execute(source, tmp_path / "run", {}, timeout=60).status == "done"


@pytest.mark.notebook
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_interrupted_run_says_so_and_leaves_no_kernel(source, tmp_path, number):
    marker = tmp_path / "kernel"
    code = f"import os, time, pathlib; pathlib.Path({str(marker)!r})"
    code += ".write_text(str(os.getpid())); time.sleep(120)"
    source.write_text(NOTEBOOK.replace("double = 2 * n", code))
    call = "import sys; from pathlib import Path; from prisma_lib import notebooks; "
    call += "notebooks.execute(Path(sys.argv[1]), Path(sys.argv[2]), {})"
    driver = subprocess.Popen(
        [sys.executable, "-c", call, str(source), str(tmp_path / "run")],
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    while not (marker.exists() and marker.read_text()):
        assert driver.poll() is None
        time.sleep(0.1)

    driver.send_signal(number)
    driver.communicate(timeout=30)

    assert driver.returncode != 0
    assert runs.load(tmp_path / "run").status == "interrupted"
    kernel = int(marker.read_text())
    for _ in range(100):
        if not Path(f"/proc/{kernel}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{kernel}").exists()


@pytest.mark.notebook
def test_demo_prints_the_table_and_writes_a_page_that_loads_nothing(root, capsys):
    assert notebooks.demo("smoke", root) == 0

    shown = capsys.readouterr().out
    folder = root / "outputs" / "demo"
    assert "prisma" in shown
    assert str(folder / "notebook.html") in shown
    page = (folder / "notebook.html").read_text("utf-8")
    assert "<script" not in page
    assert "data:image/png" in page


@pytest.mark.notebook
def test_page_is_sanitised(root, source):
    hostile = (
        "from IPython.display import HTML\nHTML('<script>alert(1)</script><b>x</b>')"
    )
    edit(source, "double = 2 * n", f"double = 2\n{hostile}")
    folder = root / "run"
    notebooks.execute(source, folder, {})

    exports.page(folder / "notebook.ipynb", folder / "page.html")

    assert "<script" not in (folder / "page.html").read_text("utf-8")


@pytest.mark.notebook
def test_gallery_keeps_a_small_copy_and_a_small_picture(root, source):
    edit(source, DRAW, DRAW.replace("(4, 3)", "(8, 7), dpi=200"))

    assert notebooks.gallery(["10_tiny"], "smoke", root) == 0

    kept = root / "outputs" / "gallery"
    assert (kept / "10_tiny.ipynb").stat().st_size <= 300_000
    assert (kept / "10_tiny.png").stat().st_size <= 60_000
    assert str(root) not in (kept / "10_tiny.ipynb").read_text("utf-8")


def test_header_of_the_test_notebook_is_that_of_the_style_guide():
    assert HEADER.startswith("# ---\n# jupyter:\n#   kernelspec:\n")
