"""A failing run stops no other; a sweep goes on where it stopped."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from tiny import NOTEBOOK

from prisma_lib import clusters, locks, plans, runs
from prisma_lib.errors import RunDirError
from prisma_lib.sweep import main, sweep


@pytest.fixture
def go(cluster):
    """Sweeps a plan on the shared workers."""

    def call(path, scale="smoke", *more):
        return main([str(path), "--scale", scale, "--scheduler", cluster, *more])

    return call


def table(root, folder="tiny"):
    with (root / "outputs" / folder / "tiny.csv").open() as file:
        return list(csv.DictReader(file))


def folders(root, path, scale="smoke"):
    return [root / "outputs" / c.plan / c.name for c in plans.cells(path, scale)]


def rewrite(root, old, new):
    (root / "notebooks" / "10_tiny.py").write_text(NOTEBOOK.replace(old, new))


def finish(root, path, rows):
    """Writes what a run that is done leaves."""
    (cell,) = plans.cells(path, "smoke")
    (folder,) = folders(root, path)
    folder.mkdir(parents=True)
    identity = runs.identity(cell.notebook, cell.parameters)
    code = runs.code()
    runs.Run("done", "10_tiny", identity, "", "0", code, "abc", 1, "here", "now").save(
        folder
    )
    (folder / "metrics.json").write_text(rows)
    return folder


@pytest.mark.notebook
def test_only_scales_that_mean_something_are_recorded(plan, root, go):
    path = plan("notebook: 10_tiny\ngrid: {n: [2]}\n")

    assert go(path) == 0
    assert not (root / "outputs" / "results").exists()
    assert go(path, "cpu") == 0

    (row,) = table(root, "results")
    assert (row["scale"], row["value"]) == ("cpu", "4")


@pytest.mark.notebook
def test_failure_is_kept_apart_and_repeated_when_asked_for(plan, root, go, capsys):
    path = plan("notebook: 10_tiny\ngrid: {fail: ['', asked], n: [2]}\n")

    assert go(path) == 3
    good, bad = folders(root, path)
    assert (runs.load(good).status, runs.load(bad).status) == ("done", "failed")
    assert "asked" in runs.load(bad).error
    (row,) = table(root)
    assert (row["sweep"], row["run"], row["scale"]) == ("tiny", good.name, "smoke")
    assert (row["value"], row["low"]) == ("4", "")
    book = json.loads((good / "notebook.ipynb").read_text())
    assert str(root) not in json.dumps(book["cells"])

    first, second = runs.load(good), runs.load(bad)
    capsys.readouterr()
    assert go(path) == 3
    assert (runs.load(good), runs.load(bad)) == (first, second)
    assert "--retry-failed" in capsys.readouterr().out
    assert go(path, "smoke", "--retry-failed") == 3
    assert runs.load(good) == first
    assert runs.load(bad).pid != second.pid or runs.load(bad).start > second.start
    assert table(root) == [row]


@pytest.mark.notebook
def test_changed_source_is_run_again_in_place_of_the_old_run(plan, root, go, capsys):
    path = plan("notebook: 10_tiny\n")

    assert go(path) == 0
    rewrite(root, "2 * n", "3 * n")
    assert main([str(path), "--scale", "smoke", "--status"]) == 0
    assert "it will run again" in capsys.readouterr().out
    assert go(path) == 0

    assert [row["value"] for row in table(root)] == ["12"]
    assert len(list((root / "outputs" / "tiny").glob("*/"))) == 1


@pytest.mark.notebook
def test_only_the_chosen_runs_are_made_and_the_states_of_all_are_shown(
    plan, root, go, capsys
):
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2, 3]}\n")

    assert go(path, "smoke", "--only", "smoke-2-*") == 0
    assert [row["n"] for row in table(root)] == ["2"]
    capsys.readouterr()
    assert main([str(path), "--scale", "smoke", "--status"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["-", "done", "-"]
    assert lines[-1] == "1 done, 2 not started"


def test_pattern_that_fits_nothing_is_refused(plan, root, capsys):
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2, 3]}\n")

    assert main([str(path), "--scale", "smoke", "--only", "smoke-7*"]) == 2

    assert "fits none of 3 runs" in capsys.readouterr().err
    assert not (root / "outputs").exists()


@pytest.mark.notebook
def test_row_with_an_unknown_column_fails_the_run(plan, root, go):
    path = plan("notebook: 10_tiny\n")
    rewrite(root, '"value": double', '"valeu": double')

    assert go(path) == 3

    (folder,) = folders(root, path)
    assert "did you mean 'value'" in runs.load(folder).error


def test_rows_of_a_kept_run_that_got_lost_are_written_again(plan, root):
    path = plan("notebook: 10_tiny\n")
    finish(root, path, '[{"value": NaN, "n": 1}]')

    assert main([str(path), "--scale", "smoke"]) == 0

    (row,) = table(root)
    assert (row["value"], row["n"], row["commit"]) == ("", "1", "abc")


def test_rows_of_an_older_state_of_a_run_are_replaced(plan, root):
    path = plan("notebook: 10_tiny\n")
    folder = finish(root, path, '[{"value": 1}]')
    assert main([str(path), "--scale", "smoke"]) == 0
    # As a sweep leaves it that is killed between a run's end and its rows.
    (folder / "metrics.json").write_text('[{"value": 2}]')

    assert main([str(path), "--scale", "smoke"]) == 0

    assert [row["value"] for row in table(root)] == ["2"]


def test_kept_runs_of_other_code_are_named(plan, root, capsys):
    path = plan("notebook: 10_tiny\n")
    folder = finish(root, path, "[]")
    assert main([str(path), "--scale", "smoke"]) == 0
    assert "other code" not in capsys.readouterr().out

    replace(runs.load(folder), code="else").save(folder)
    assert main([str(path), "--scale", "smoke"]) == 0

    assert "other code, of commit abc" in capsys.readouterr().out


def test_finished_sweep_starts_nothing(plan, root):
    path = plan("notebook: 10_tiny\n")
    finish(root, path, "[]")
    call = "import sys; from prisma_lib.sweep import main\n"
    call += f"assert main([{str(path)!r}, '--scale', 'smoke']) == 0\n"
    call += "assert not {'dask', 'distributed', 'papermill'} & {*sys.modules}"

    subprocess.run([sys.executable, "-c", call], cwd=root, check=True)


def test_bad_plan_is_refused_before_dask_is_imported(plan, root):
    path = plan("notebook: 10_tiny\nbase: {rat: 3}\n")
    call = "import sys; from prisma_lib.sweep import main\n"
    call += f"assert main([{str(path)!r}, '--scale', 'smoke']) == 2\n"
    call += "assert not {'dask', 'distributed', 'papermill'} & {*sys.modules}"

    subprocess.run([sys.executable, "-c", call], cwd=root, check=True)
    assert not (root / "outputs").exists()


@pytest.mark.parametrize(
    "change", ["notebook", "default", "parameter", "model", "data"]
)
def test_identity_is_of_all_that_decides_a_result(root, change):
    source = root / "notebooks" / "10_tiny.py"
    model, data = root / "models" / "m", root / "data.csv"
    model.mkdir(parents=True)
    (model / "card.json").write_text('{"weights": {"sha256": "1"}, "errors": [1]}')
    data.write_text("1")
    given = {"fail": "models/m"} if change == "model" else {"fail": "data.csv"}
    before = runs.identity(source, given)
    (model / "card.json").write_text('{"weights": {"sha256": "1"}, "errors": [2]}')
    assert runs.identity(source, {**given, "out": "elsewhere", "n": 2}) == before

    if change in ("notebook", "default"):
        old = {"notebook": "2 * n", "default": "n: int = 2"}[change]
        rewrite(root, old, old.replace("2", "3"))
    elif change == "parameter":
        given |= {"n": 3}
    elif change == "model":
        (model / "card.json").write_text('{"weights": {"sha256": "2"}}')
    else:
        data.write_text("other")

    assert runs.identity(source, given) != before


def test_second_sweep_in_a_folder_is_refused_while_the_first_works(plan, root, capsys):
    path = plan("notebook: 10_tiny\n")

    with locks.locked(root / "outputs" / "tiny"):
        assert main([str(path), "--scale", "smoke"]) == 4

    said = capsys.readouterr().err
    assert "another sweep works in" in said
    assert f"process {os.getpid()} on" in said


def test_folder_that_is_a_file_is_no_place_for_a_sweep(plan, root):
    (root / "outputs").write_text("")

    with (
        pytest.raises(RunDirError, match="--out"),
        locks.locked(root / "outputs" / "x"),
    ):
        pass
    assert main([str(plan("notebook: 10_tiny\n")), "--scale", "smoke"]) == 4


@pytest.mark.notebook
def test_run_gets_the_threads_that_its_plan_wants(plan, root, cluster):
    rewrite(root, "double = 2 * n", "import os\ndouble = os.environ['OMP_NUM_THREADS']")
    cells = plans.cells(plan("notebook: 10_tiny\n"), "smoke")
    cells = [replace(cell, resources={"threads": 3}) for cell in cells]

    assert sweep(cells, root / "outputs", clusters.Where(scheduler=cluster)) == 0

    assert [row["value"] for row in table(root)] == ["3"]


def test_notebook_that_leaves_its_kernel_is_refused(plan, root, capsys):
    rewrite(root, "double = 2 * n", "quit()")

    assert main([str(plan("notebook: 10_tiny\n")), "--scale", "smoke"]) == 2

    assert "hide a failure" in capsys.readouterr().err
    assert not (root / "outputs").exists()
