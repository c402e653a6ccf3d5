"""Times of runs come from records, the best one first, and are unknown without any."""

import pytest

from prisma_lib import estimates, plans, results, runs
from prisma_lib.files import write_json
from prisma_lib.provenance import ROOT
from prisma_lib.sweep import main

BENCHMARK = """\
methods: list[str] = ["prisma"]  # who
directions: list[str] = ["forward"]  # cells
regimes: list[str] = ["full", "sparse"]  # cells
samples: int = 8  # draws
steps: int = 20  # steps
n: int = 2  # a number"""


@pytest.fixture
def out(root):
    return root / "outputs"


def cell_of(plan, text="", scale="cpu"):
    (cell,) = plans.cells(plan(f"notebook: 10_tiny\n{text}\n"), scale)
    return cell


def ran(out, plan, name, seconds, **more):
    verdict = {"status": "done", "notebook": "10_tiny", "identity": "", "source": ""}
    verdict |= {
        "version": "",
        "commit": "",
        "code": "",
        "pid": 1,
        "host": "",
        "start": "",
    }
    (out / plan / name).mkdir(parents=True)
    run = runs.Run(**{**verdict, "seconds": seconds, **more})
    run.save(out / plan / name)


def benchmark(root):
    source = root / "notebooks" / "10_tiny.py"
    source.write_text(source.read_text().replace("n: int = 2  # a number", BENCHMARK))


def record(out, regime, seconds, **more):
    row = {"sweep": "tiny", "scale": "cpu", "method": "PRISMA", "direction": "forward"}
    row |= {"run": regime, "regime": regime, "steps": 20, "seconds_per_sample": seconds}
    results.append(out / "results" / "tiny.csv", [row | more])


def seconds_of(cell, out):
    return estimates.estimate(cell, estimates.records(out)).seconds


def test_nothing_recorded_is_unknown(plan, out):
    found = estimates.estimate(cell_of(plan), estimates.records(out))

    assert found.seconds is None
    assert str(found).startswith("unknown: no run of this notebook")


def test_its_own_run_counts_more_than_others_of_the_notebook(plan, out):
    cell = cell_of(plan)
    for number, seconds in enumerate((1, 5, 100)):
        ran(out, "other", f"cpu-{number}", seconds)
    ran(out, "other", "gpu-0", 1000)
    ran(out, "other", "cpu-failed", 1000, status="failed")
    ran(out, "other", "cpu-else", 1000, notebook="11_else")

    assert seconds_of(cell, out) == 5
    ran(out, cell.plan, cell.name, 7)
    assert seconds_of(cell, out) == 7


def test_rows_give_the_seconds_of_each_cell_of_the_table(plan, root, out):
    benchmark(root)
    cell = cell_of(plan, "scales: {cpu: {n: 10, steps: 40}}")
    record(out, "full", 99, scale="gpu", run="a")
    record(out, "full", 99, direction="inverse", run="b")
    record(out, "full", 99, method="FNO", run="c")
    record(out, "full", 0.5)

    assert seconds_of(cell, out) is None  # sparse is not recorded
    record(out, "sparse", 0.25)

    # 10 problems, 8 draws, twice the recorded steps
    assert seconds_of(cell, out) == pytest.approx(10 * 8 * 2 * (0.5 + 0.25))


def test_rivals_take_what_they_took_where_they_answered(plan, root, out):
    benchmark(root)
    more = "base: {methods: [prisma, pinn]}\nscales: {cpu: {n: 10, steps: 20}}"
    cell = cell_of(plan, more)
    record(out, "full", 0.5)
    record(out, "sparse", 0.25)
    record(out, "full", 7, method="PINN", steps=2000, n=4, run="pinn")

    assert seconds_of(cell, out) == pytest.approx(10 * 8 * (0.5 + 0.25) + 4 * 7)


def test_the_bench_tells_the_time_of_cells_without_rows(plan, root, out):
    benchmark(root)
    cell = cell_of(plan, "base: {samples: 1}\nscales: {cpu: {n: 10}}")
    setting = "preset=small;size=32;batch=4;call"
    row = {"sweep": "bench", "method": "model", "metric": "ms", "device": "mill"}
    rows = [row | {"setting": setting.replace("32", "64"), "value": 9999, "run": 1}]
    rows += [row | {"setting": setting, "value": 80, "run": 2}]
    results.append(out / "results" / "bench.csv", rows)

    found = estimates.estimate(cell, estimates.records(out))

    assert found.seconds == pytest.approx(2 * 10 * 39 * 0.080 / 4)
    assert found.source == "the bench of mill"


def test_calls_of_the_estimate_are_those_of_recorded_runs():
    rows = results.read(ROOT / "outputs" / "results" / "darcy.csv")
    counted = {(r["steps"], r["calls"]) for r in rows if r["method"] == "PRISMA"}

    assert counted == {("20", str(2 * 20 - 1)), ("50", str(2 * 50 - 1))}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (1e6, "11.6 d")],
)
def test_a_time_is_said_in_its_unit(seconds, said):
    assert estimates.spoken(seconds) == said


def test_dry_run_lists_runs_and_their_time_and_writes_nothing(plan, out, capsys):
    path = plan("notebook: 10_tiny\ngrid: {n: [1, 2]}\n")
    command = [str(path), "--scale", "smoke", "--dry-run"]

    assert main(command) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    assert (len(lines), total) == (2, "2 runs, time unknown")
    assert not out.exists()

    first, _ = plans.cells(path, "smoke")
    ran(out, "tiny", first.name, 3)
    write_json(out / "tiny" / first.name / "metrics.json", [])
    assert main(command) == 0
    one, two, total = capsys.readouterr().out.splitlines()
    assert one.endswith('"n": 1, "scale": "smoke"} # 3 s by its last run')
    assert two.endswith("# 3 s by the median of earlier runs (1)")
    assert total == "2 runs, 6 s one after the other"


@pytest.mark.parametrize("scale", plans.SCALES)
def test_every_plan_of_this_project_can_be_listed(scale, capsys):
    for path in plans.with_notebooks(ROOT / "params"):
        assert main([str(path), "--scale", scale, "--dry-run"]) == 0
        *lines, total = capsys.readouterr().out.splitlines()
        assert total.startswith(f"{len(lines)} run")


def test_the_papers_tables_are_the_benchmarks_of_all_equations():
    path = ROOT / "params" / "benchmarks.yaml"

    found = plans.cells(path, "paper")

    assert found == [
        cell
        for name in plans.read(path).content["include"]
        for cell in plans.cells(path.with_name(name), "paper")
    ]
    for cell in found:
        assert {"methods", "directions", "regimes"} <= cell.parameters.keys()
