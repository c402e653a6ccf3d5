"""The README's numbers are those of the result files."""

import csv
import math
import shutil

import pytest
from small import network

from prisma_lib import blocks, checkpoints, markdown, pdes, report, results
from prisma_lib.provenance import ROOT
from prisma_lib.tables import Paper


def row(method, direction, regime, value, **more):
    return {
        "method": method,
        "direction": direction,
        "regime": regime,
        "value": value,
        "low": value - 1,
        "high": value + 1,
        "seconds_per_sample": 0.5,
        "calls": 1,
        "setting": "size=32" + {"sparse": ";rate=0.03"}.get(regime, ""),
        "steps": "",
        "n": 128,
        "run": "one",
        "sweep": "darcy",
        "pde": "darcy",
        "scale": "cpu",
        "metric": "relative_l2",
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
    assert "| mean field | 25 [24, 26] | – | 0.5 | 1 | 128 |" in text
    assert "| PRISMA, 20 steps | 3 [2, 4] | 16 [15, 17] | 0.5 | 1 | 128 |" in text
    assert "64 M parameters* | 1.1 | 2.99 | – | – | – |" in text
    assert "old" not in text


def test_check_finds_a_table_that_is_behind_its_results(project, capsys):
    report.main(["--root", str(project)])
    assert report.main(["--root", str(project), "--check"]) == 0
    path = project / "outputs" / "results" / "darcy.csv"

    results.append(path, [row("PRISMA", "forward", "full", 2.0, steps=20)])

    assert report.main(["--root", str(project), "--check"]) == 2
    assert "run python -m prisma_lib.report" in capsys.readouterr().err


def test_a_root_that_is_no_project_is_refused(project, tmp_path, capsys):
    for root in (tmp_path / "README.md", tmp_path / "absent", tmp_path / "outputs"):
        assert report.main(["--root", str(root)]) == 2
        assert f"--root {root} has no README.md" in capsys.readouterr().err


def test_a_block_without_results_is_an_error(project, capsys):
    text = "<!-- {0}:start --><!-- {0}:end -->"
    (project / "README.md").write_text(text.format("poisson"))

    assert report.main(["--root", str(project)]) == 2
    assert "no results for the block 'poisson'" in capsys.readouterr().err

    (project / "README.md").write_text(text.format("poison"))
    assert report.main(["--root", str(project)]) == 2
    assert "did you mean 'poisson'" in capsys.readouterr().err


def test_tables_are_written_whole_and_compared(project, capsys):
    report.main(["--root", str(project)])
    folder = project / "outputs" / "tables"

    with (folder / "sparse.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["method"], line["value"], line["paper"]) == ("PRISMA", "16", "2.99")
    assert (line["anchor"], line["ratio"]) == ("mean field", "0.64")
    assert {path.stem for path in folder.glob("*.csv")} == {"paper", *report.COLUMNS}
    assert (folder / "ranks.csv").read_text().startswith("scale,size,regime,method")

    (folder / "claims.csv").write_text("by hand")
    assert report.main(["--root", str(project), "--check"]) == 2
    assert "outputs/tables/claims.csv: not what the results" in capsys.readouterr().err


def test_every_block_is_written_for_rows_without_numbers_and_of_any_equation(project):
    burgers = {"sweep": "burgers", "pde": "burgers", "setting": "size=32;columns=5"}
    results.append(
        project / "outputs" / "results" / "burgers.csv",
        [
            row(m, "reconstruct", "sparse", v, **burgers, **more)
            for m, v, more in (
                ("FNO", math.nan, {}),
                ("PRISMA", 9.0, {"steps": 20}),
                ("DiffusionPDE", 9.5, {"steps": 200}),
                ("mean field", 50.0, {"seconds_per_sample": "", "low": ""}),
            )
        ],
    )
    results.append(
        project / "outputs" / "results" / "darcy.csv",
        [row("FNO", "forward", "full", 5.0, run="two")],
    )
    names = [
        "darcy",
        "burgers",
        "full",
        "sparse",
        "ranks",
        "latency",
        "frontier",
        "order",
        "claims",
    ]
    blocks = "".join(f"<!-- {name}:start -->\n<!-- {name}:end -->\n" for name in names)
    (project / "README.md").write_text(blocks)

    assert report.main(["--root", str(project)]) == 0

    text = (project / "README.md").read_text()
    assert text.count("FNO, burgers reconstruct, sparse: value is nan") == 2
    assert "| FNO | – | 0.5 | 1 | 128 |" in text
    assert "| PRISMA, 20 steps | 9 [8, 10] | 0.5 | 1 | 128 |" in text
    assert "| *paper: PRISMA, 20 steps, 128 × 128, 64 M parameters* | 1.1 |" in text
    assert "| method | burgers, reconstruct | darcy, forward |" in text
    assert "| PRISMA, 20 steps | 9 (9.33) ×0.18 | 16 (2.99) ×0.64 |" in text
    assert "| cpu | full | PRISMA | 20 | 1 | 1 | 128 | 1 | 3.4 | lowest |" in text
    assert "| cpu | PRISMA | – | 3 | 3 |" in text
    assert "| cpu | C26 | one model serves all tasks and regimes | holds |" in text
    assert "| cpu | C19 |" not in text
    assert "others the recorded rows do not tell." in text
    assert "nan]" not in text


def test_models_are_listed_with_the_errors_of_their_cards(project):
    cards = {
        "darcy-32": [row("PRISMA", "forward", "full", 2.0)],
        "darcy-32L": [
            row("PRISMA-L", "forward", "full", 0.5),
            row("lift", "forward", "full", 0.75),
            row("lift", "inverse", "full", 4.0),
        ],
    }
    for name, errors in cards.items():
        folder = project / "outputs" / "models" / name
        notes = {"name": name, "errors": errors, "training": {"images_seen": 64}}
        checkpoints.save(folder, network(pdes.load("darcy", 8)), notes)
    block = "<!-- models:start -->\n<!-- models:end -->\n"
    (project / "README.md").write_text(block)

    found = report.Report.read(project / "outputs")
    assert report.main(["--root", str(project)]) == 0

    assert "| darcy-32 | 64 | 2.0 (–) |" in (project / "README.md").read_text()
    assert "| darcy-32L | 64 | 0.5 (0.75) |" in (project / "README.md").read_text()
    # A card repeats what is recorded; no table may count it twice.
    assert [entry.method for entry in found.entries].count("PRISMA") == 2


def test_a_damaged_card_is_named(project, capsys):
    folder = project / "outputs" / "models" / "darcy-32"
    folder.mkdir(parents=True)
    (folder / "card.json").write_text('{"name": "darcy-32", "err')

    assert report.main(["--root", str(project)]) != 0

    assert f"corrupt: {folder / 'card.json'}" in capsys.readouterr().err


def test_grids_of_one_equation_are_tables_of_their_own():
    rows = [row("FNO", "forward", "full", 5.0, seed=0, commit="abc", device="mill")]
    rows += [{**rows[0], "scale": "gpu", "setting": "size=64", "n": 1000}]

    found = markdown.benchmark(rows, Paper([]))

    assert found.count("| method | forward, full | s/sample |") == 2
    assert "Seed 0, scale `cpu`, size=32, commit abc, on mill." in found
    assert "Seed 0, scale `gpu`, size=64, commit abc, on mill." in found


def test_the_bench_is_a_table_a_machine_with_one_line_a_setting():
    common = {"method": "noise", "pde": "", "setting": "size=64;by FFT"}
    rows = [
        {**common, "metric": "draws_per_s", "value": "9", "device": "one"},
        {**common, "metric": "draws_per_s", "value": "80", "device": "two"},
        {**common, "metric": "peak_mb", "value": "3", "device": "one"},
    ]

    one, two = blocks.bench(rows, Paper([])).split("On two:")

    assert one.startswith("<details><summary>On one:</summary>\n\n| what |")
    assert one.count("</details>") == two.count("</details>") == 1
    assert "| noise | size=64, by FFT | 9 draws per s; 3 MB at most |" in one
    assert "| noise | size=64, by FFT | 80 draws per s |" in two


def test_the_readme_of_this_project_agrees_with_its_results():
    assert report.main(["--root", str(ROOT), "--check"]) == 0
