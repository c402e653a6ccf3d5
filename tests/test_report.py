"""The README's numbers are those of the result files."""

import shutil

import pytest

from prisma_lib import report, results
from prisma_lib.provenance import ROOT


def row(method, direction, regime, value, **more):
    return {
        "method": method,
        "direction": direction,
        "regime": regime,
        "value": value,
        "low": value - 1,
        "high": value + 1,
        "seconds_per_sample": 0.5,
        "setting": "size=32",
        "n": 4,
        "run": "one",
        "pde": "darcy",
        **more,
    }


@pytest.fixture
def project(tmp_path):
    results.append(
        tmp_path / "outputs" / "results" / "darcy.csv",
        [
            row("mean field", "forward", "full", 25.0),
            row("PRISMA", "forward", "full", 3.0, steps=20),
            row("PRISMA", "forward", "sparse", 16.0, steps=20),
        ],
    )
    tables = tmp_path / "outputs" / "tables"
    tables.mkdir()
    shutil.copy(ROOT / "outputs" / "tables" / "paper.csv", tables)
    (tmp_path / "README.md").write_text(
        "before\n<!-- darcy:start -->\nold\n<!-- darcy:end -->\nafter\n"
    )
    return tmp_path


def test_a_block_becomes_the_table_and_the_rest_stays(project):
    assert report.main(["--root", str(project)]) == 0

    text = (project / "README.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| mean field | 25 [24, 26] | – | 0.5 |" in text
    assert "| PRISMA, 20 steps | 3 [2, 4] | 16 [15, 17] | 0.5 |" in text
    assert "64 M parameters* | 1.10 | 2.99 | |" in text
    assert "old" not in text


def test_check_finds_a_table_that_is_behind_its_results(project, capsys):
    report.main(["--root", str(project)])
    assert report.main(["--root", str(project), "--check"]) == 0
    path = project / "outputs" / "results" / "darcy.csv"

    results.append(path, [row("PRISMA", "forward", "full", 2.0, steps=20)])

    assert report.main(["--root", str(project), "--check"]) == 2
    assert "run python -m prisma_lib.report" in capsys.readouterr().err


def test_a_block_without_results_is_an_error(project, capsys):
    (project / "README.md").write_text("<!-- none:start --><!-- none:end -->")

    assert report.main(["--root", str(project)]) == 2
    assert "no results for the block 'none'" in capsys.readouterr().err


def test_the_bench_is_a_table_a_machine_with_one_line_a_setting():
    common = {"method": "noise", "pde": "", "setting": "size=64;by FFT"}
    rows = [
        {**common, "metric": "draws_per_s", "value": "9", "device": "one"},
        {**common, "metric": "draws_per_s", "value": "80", "device": "two"},
        {**common, "metric": "peak_mb", "value": "3", "device": "one"},
    ]

    one, two = report.bench_table(rows, []).split("On two:")

    assert one.startswith("<details><summary>On one:</summary>\n\n| what |")
    assert one.count("</details>") == two.count("</details>") == 1
    assert "| noise | size=64, by FFT | 9 draws per s; 3 MB at most |" in one
    assert "| noise | size=64, by FFT | 80 draws per s |" in two


def test_the_readme_of_this_project_agrees_with_its_results():
    assert report.main(["--root", str(ROOT), "--check"]) == 0
