"""A failing run stops no other; a sweep goes on where it stopped."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest
from tiny import NOTEBOOK

from prisma_lib import plans, results, runs
from prisma_lib.errors import RunDirError
from prisma_lib.sweep import claimed, main


def table(root, folder="tiny"):
    with (root / "outputs" / folder / "tiny.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.notebook
def test_only_scales_that_mean_something_are_recorded(plan, root):
    path = plan("notebook: 10_tiny\ngrid: {n: [2]}\n")

    assert main([str(path), "--scale", "smoke"]) == 0
    assert not (root / "outputs" / "results").exists()
    assert main([str(path), "--scale", "cpu"]) == 0

    (row,) = table(root, "results")
    assert (row["scale"], row["value"]) == ("cpu", "4")


@pytest.mark.notebook
def test_failure_is_kept_apart_and_is_all_that_is_repeated(plan, root, capsys):
    path = plan("notebook: 10_tiny\ngrid: {fail: ['', asked], n: [2]}\n")
    command = [str(path), "--scale", "smoke"]

    assert main(command) == 3
    good, bad = (
        root / "outputs" / "tiny" / cell.name for cell in plans.cells(path, "smoke")
    )
    assert (runs.load(good).status, runs.load(bad).status) == ("done", "failed")
    assert "asked" in runs.load(bad).error
    (row,) = table(root)
    assert (row["sweep"], row["run"], row["scale"]) == ("tiny", good.name, "smoke")
    assert (row["value"], row["low"]) == ("4", "")
    book = json.loads((good / "notebook.ipynb").read_text())
    assert str(root) not in json.dumps(book["cells"])

    first = runs.load(good)
    capsys.readouterr()
    assert main(command) == 3
    assert runs.load(good) == first
    assert capsys.readouterr().out.count("kept") == 1
    assert table(root) == [row]


@pytest.mark.notebook
def test_cell_may_take_no_longer_than_the_plan_says(plan, root):
    path = plan("notebook: 10_tiny\nresources: {cell_minutes: 0.025}\n")
    source = root / "notebooks" / "10_tiny.py"
    source.write_text(NOTEBOOK.replace("2 * n", "__import__('time').sleep(30)"))

    assert main([str(path), "--scale", "smoke"]) == 3

    (record,) = (root / "outputs" / "tiny").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "timeout"


@pytest.mark.notebook
def test_changed_source_is_run_again_in_place_of_the_old_run(plan, root):
    path = plan("notebook: 10_tiny\n")
    command = [str(path), "--scale", "smoke"]
    source = root / "notebooks" / "10_tiny.py"

    assert main(command) == 0
    source.write_text(NOTEBOOK.replace("2 * n", "3 * n"))
    assert main(command) == 0

    assert [row["value"] for row in table(root)] == ["12"]
    assert len(list((root / "outputs" / "tiny").glob("*/"))) == 1


@pytest.mark.notebook
def test_row_with_an_unknown_column_fails_the_run(plan, root):
    path = plan("notebook: 10_tiny\n")
    source = root / "notebooks" / "10_tiny.py"
    source.write_text(NOTEBOOK.replace('"value": double', '"valeu": double'))

    assert main([str(path), "--scale", "smoke"]) == 3

    (record,) = (root / "outputs" / "tiny").glob("*/run.json")
    assert "did you mean 'value'" in json.loads(record.read_text())["error"]


def test_rows_of_a_kept_run_that_got_lost_are_written_again(plan, root):
    (cell,) = plans.cells(plan("notebook: 10_tiny\n"), "smoke")
    folder = root / "outputs" / "tiny" / cell.name
    folder.mkdir(parents=True)
    identity = runs.identity(cell.notebook, cell.parameters)
    run = runs.Run("done", "10_tiny", identity, "", "0.1.0", "abc", 1, "here", "now")
    run.save(folder)
    (folder / "metrics.json").write_text('[{"value": NaN, "n": 1}]')

    assert main(["params/tiny.yaml", "--scale", "smoke"]) == 0

    (row,) = table(root)
    assert (row["value"], row["n"], row["commit"]) == ("", "1", "abc")


def test_second_sweep_in_a_folder_is_refused_while_the_first_works(root, capsys):
    folder = root / "outputs" / "tiny"
    call = (
        "import sys; from pathlib import Path; from prisma_lib.sweep import claimed\n"
    )
    call += "with claimed(Path(sys.argv[1])): pass"
    command = [sys.executable, "-c", call, str(folder)]

    with claimed(folder):
        second = subprocess.run(command, capture_output=True, text=True, check=False)

    assert second.returncode != 0
    assert "another sweep works in" in second.stderr
    assert "process" in second.stderr
    subprocess.run(command, check=True)


@pytest.mark.notebook
def test_interrupted_sweep_goes_on_where_it_stopped(plan, root):
    path = plan("notebook: 10_tiny\ngrid: {fail: ['', wait]}\n")
    wait = f"if fail: open({str(root / 'waits')!r}, 'w'); __import__('time').sleep(60)"
    source = root / "notebooks" / "10_tiny.py"
    source.write_text(NOTEBOOK.replace("assert not fail, fail", wait))
    command = [sys.executable, "-m", "prisma_lib.sweep", str(path), "--scale", "smoke"]
    sweep = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)
    while not (root / "waits").exists():
        assert sweep.poll() is None
        time.sleep(0.1)

    sweep.send_signal(signal.SIGINT)
    _, said = sweep.communicate(timeout=30)

    assert sweep.returncode == 130
    assert "goes on where it stopped" in said
    folders = [root / "outputs" / "tiny" / c.name for c in plans.cells(path, "smoke")]
    assert [runs.load(f).status for f in folders] == ["done", "interrupted"]
    assert len(table(root)) == 1


def test_folder_that_is_a_file_is_no_place_for_a_sweep(plan, root):
    (root / "outputs").write_text("")

    with (
        pytest.raises(RunDirError, match="--out"),
        claimed(root / "outputs" / "tiny"),
    ):
        pass
    assert main([str(plan("notebook: 10_tiny\n")), "--scale", "smoke"]) == 4


def test_results_have_the_columns_of_the_protocol():
    wanted = "sweep run commit scale method pde direction regime setting steps metric"
    wanted += " value low high n seconds_per_sample calls peak_mb device seed"

    assert list(results.COLUMNS) == wanted.split()
