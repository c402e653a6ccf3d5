"""The result rows: appended, replaced by run, read back as they were."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from prisma_lib import results
from prisma_lib.errors import ConfigError, DataError
from prisma_lib.provenance import ROOT
from prisma_lib.runs import rows as metrics_of

RECORDED = sorted((ROOT / "outputs" / "results").glob("*.csv"))
# Children append runs of five rows for ever and are killed; the parent looks.
KILLS = """
import os, random, signal, sys, time
from pathlib import Path
from prisma_lib import results

path, trials = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(0)
for trial in range(trials):
    child = os.fork()
    if not child:
        for number in range(10**9):
            name = f"{trial}-{number}"
            rows = [{"sweep": "s", "run": name, "value": v, "seed": v} for v in "12345"]
            results.append(path, rows)
    time.sleep(0.02 + 0.1 * chance.random())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    results.append(path, [{"sweep": "parent", "run": trial, "value": 0}])
"""


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
    results.append(path, [row("one", 1), row("one", 2) | {"seed": 1}])
    results.append(path, [row("two", 3), row("one", 5) | {"sweep": "other"}])

    results.append(path, [row("one", 4)])

    assert [(r["sweep"], r["run"], r["value"]) for r in results.read(path)] == [
        ("s", "two", "3"),
        ("other", "one", "5"),
        ("s", "one", "4"),
    ]


def test_of_two_rows_that_answer_one_question_the_last_counts(tmp_path):
    path = tmp_path / "rows.csv"

    results.append(path, [row("one", 1), row("one", 2), row("one", 3) | {"n": 4}])

    assert [(r["value"], r["n"]) for r in results.read(path)] == [("2", ""), ("3", "4")]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_no_recorded_row_stands_twice(path):
    counts = Counter(map(results.question, results.read(path)))

    assert counts
    assert max(counts.values()) == 1


def test_a_missing_file_has_no_rows(tmp_path):
    assert results.read(tmp_path / "none.csv") == []


def test_unknown_column_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'value'"):
        results.append(tmp_path / "deep" / "rows.csv", [{"valeu": 1}])

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("sweep,run", "sweep,rum", "needed are"),
        ("1.5", "1.5,7,8", "row 2 is not 20 columns wide"),
        (",1.5,,,,,,,,", "", "row 2 is not 20 columns wide"),
    ],
)
def test_a_file_edited_by_hand_is_refused_and_kept(tmp_path, old, new, complaint):
    path = tmp_path / "rows.csv"
    results.append(path, [row("one", 1.5)])
    path.write_text(path.read_text().replace(old, new))
    edited = path.read_bytes()

    with pytest.raises(DataError, match=complaint):
        results.append(path, [row("two", 2)])

    assert path.read_bytes() == edited


def test_kills_leave_whole_runs_and_nothing_else(tmp_path):
    path, trials = tmp_path / "rows.csv", 12

    subprocess.run([sys.executable, "-c", KILLS, str(path), str(trials)], check=True)

    rows = results.read(path)
    assert set(Counter(r["run"] for r in rows if r["sweep"] == "s").values()) == {5}
    assert [r["run"] for r in rows if r["sweep"] == "parent"] == [
        str(trial) for trial in range(trials)
    ]
    assert {item.name for item in tmp_path.iterdir()} == {"rows.csv", ".rows.csv.lock"}


def test_writers_at_once_lose_no_rows(tmp_path):
    code = (
        "import os, sys; from prisma_lib import results\n"
        "for writer in range(4):\n"
        "    if not os.fork():\n"
        "        for n in range(20):\n"
        "            results.append(sys.argv[1], [{'run': f'{writer}-{n}'}])\n"
        "        os._exit(0)\n"
        "assert not any(os.wait()[1] for _ in range(4))"
    )
    path = tmp_path / "rows.csv"

    subprocess.run([sys.executable, "-c", code, str(path)], check=True)

    assert len({r["run"] for r in results.read(path)}) == 80


@pytest.mark.parametrize(
    ("value", "number", "reason"),
    [
        ("1.5", 1.5, ""),
        (0, 0.0, ""),
        ("", None, "no value was recorded"),
        (None, None, "value is None"),
        ("nan", None, "value is nan"),
        ("-inf", None, "value is -inf"),
        ("failed", None, "value is failed"),
    ],
)
def test_a_row_without_a_number_says_why(value, number, reason):
    assert results.number({"value": value}) == number
    assert results.missing({"value": value}) == reason


def test_metrics_that_are_not_finite_cost_no_run_and_keep_their_reason(tmp_path):
    path = tmp_path / "metrics.json"
    values = [1.5, float("nan"), float("-inf")]

    results.write_metrics(
        path, [row("one", v) | {"n": i} for i, v in enumerate(values)]
    )
    results.append(tmp_path / "rows.csv", metrics_of(tmp_path))

    def refuse(constant):
        raise AssertionError(constant)

    json.loads(path.read_text(), parse_constant=refuse)
    read = results.read(tmp_path / "rows.csv")
    assert [r["value"] for r in read] == ["1.5", "nan", "-inf"]
    assert results.missing(read[1]) == "value is nan"


def test_a_setting_is_read_by_its_parts():
    given = {"setting": "size=32;noise_sd=2;diverged;weights=1/2/0"}

    found = results.settings(given)

    assert found == {"size": "32", "noise_sd": "2", "diverged": "", "weights": "1/2/0"}
    assert results.settings({"setting": ""}) == {}


def test_a_number_is_said_with_its_interval_or_why_there_is_none():
    number = {"value": "12.345", "low": "11.9", "high": "13.06"}

    assert results.spoken(number) == "12.3 % [11.9, 13.1]"
    assert results.spoken({"value": ""}) == "no value was recorded"
    # One trajectory alone has no interval.
    assert results.spoken({"value": "12.345", "low": "", "high": ""}) == "12.3 %"
