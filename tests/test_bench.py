"""The bench measures what it says, and writes rows that the tables can read."""

from types import SimpleNamespace

import pytest
import torch

from prisma_lib import bench, results


def test_the_warm_up_is_left_out_of_the_median(monkeypatch):
    clock = iter([0, 7, 10, 11, 20, 25, 30, 32])  # two begin, then begin and end
    stopwatch = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr(bench, "time", stopwatch)

    assert bench.timed(lambda: None, torch.device("cpu"), runs=3) == 2


def test_an_unknown_bench_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(["dta"])

    assert stopped.value.code == 2
    assert "choose of data" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_say_what_was_measured_where(tmp_path, capsys):
    path = tmp_path / "bench.csv"

    assert bench.main(["import", "--device", "cpu", "--results", str(path)]) == 0

    (row,) = results.read(path)
    assert row["method"] == "import"
    assert float(row["value"]) > 0.01
    assert row["device"]
    assert row["device"] in capsys.readouterr().out
