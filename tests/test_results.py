"""The result rows: appended, replaced by run, read back as they were."""

from prisma_lib import results


def row(run, value):
    return {"sweep": "s", "run": run, "method": "m, with comma", "value": value}


def test_rows_come_back_with_every_column(tmp_path):
    path = tmp_path / "deep" / "rows.csv"

    results.append(path, [row("one", 1.5)])

    (got,) = results.read(path)
    assert tuple(got) == results.COLUMNS
    assert got["method"] == "m, with comma"
    assert got["value"] == "1.5"
    assert got["device"] == ""


def test_a_run_that_is_repeated_replaces_its_own_rows_only(tmp_path):
    path = tmp_path / "rows.csv"
    results.append(path, [row("one", 1), row("one", 2)])
    results.append(path, [row("two", 3)])

    results.append(path, [row("one", 4)])

    assert [(r["run"], r["value"]) for r in results.read(path)] == [
        ("two", "3"),
        ("one", "4"),
    ]


def test_a_missing_file_has_no_rows(tmp_path):
    assert results.read(tmp_path / "none.csv") == []
