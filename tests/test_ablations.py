"""Variants side by side: intervals of known samples, and who beats whom."""

import math

import pytest
import scipy.stats

from prisma_lib import ablations, results
from prisma_lib.errors import DataError


def run(name, value, low=None, high=None, **more):
    given = {
        **{"scale": "cpu", "pde": "helmholtz", "direction": "forward", "run": name},
        **{"regime": "full", "setting": "size=32", "metric": "relative_l2", "n": "128"},
        **{"method": "PRISMA", "steps": "20", "calls": "39", "device": "mill"},
        **{"seed": "0", "seconds_per_sample": "0.1", "value": str(value)},
        "low": str(value if low is None else low),
        "high": str(value if high is None else high),
    }
    return given | more


def test_interval_over_seeds_is_students():
    values = [4.0, 5.0, 6.5]
    rows = [run(f"helmholtz-sra-{i}", v) for i, v in enumerate(values)]

    (found,) = ablations.averaged(rows)

    error = scipy.stats.sem(values)
    low, high = scipy.stats.t.interval(0.95, 2, loc=sum(values) / 3, scale=error)
    assert float(found["value"]) == pytest.approx(sum(values) / 3, rel=1e-3)
    assert float(found["low"]) == pytest.approx(low, rel=1e-3)
    assert float(found["high"]) == pytest.approx(high, rel=1e-3)
    assert found["setting"] == "size=32;variant=sra;seeds=3"


def test_problems_stay_uncertain_however_many_seeds_agree():
    rows = [run(f"helmholtz-sra-{i}", 5, 4, 6) for i in range(3)]

    (found,) = ablations.averaged(rows)

    assert (float(found["low"]), float(found["high"])) == (4, 6)


def test_seeds_of_all_variants_tell_the_spread():
    apart = [run(f"helmholtz-none-{i}", v) for i, v in enumerate((90, 110))]
    alike = [run(f"helmholtz-sra-{i}", v) for i, v in enumerate((9, 11))]

    found = {
        results.settings(row)["variant"]: row
        for row in ablations.averaged([*apart, *alike])
    }

    # Relative deviations of 0.1 twice, twice, with two degrees of freedom.
    half = scipy.stats.t.ppf(0.975, 2) * math.sqrt(0.04 / 2) / math.sqrt(2)
    assert float(found["sra"]["high"]) == pytest.approx(10 * (1 + half), rel=1e-3)
    assert float(found["none"]["high"]) == pytest.approx(100 * (1 + half), rel=1e-3)
    (alone,) = ablations.averaged(alike)
    assert float(alone["high"]) > float(found["sra"]["high"])


def test_a_seed_that_was_run_again_counts_once_and_cells_stay_apart():
    rows = [run("helmholtz-sra-0", 5, 4, 6), run("helmholtz-sra-0", 7, 6, 8)]
    rows += [run("helmholtz-sra-0", 50, 40, 60, regime="noisy")]

    full, noisy = ablations.averaged(rows)

    assert (full["value"], full["low"], full["high"]) == ("7", "6", "8")
    assert (noisy["value"], noisy["regime"]) == ("50", "noisy")


def test_only_intervals_that_are_apart_decide():
    one, same, far = run("", 5, 4, 6), run("", 7, 5.9, 8), run("", 9, 6.1, 12)

    assert ablations.against(one, same) == ablations.UNDECIDED
    assert ablations.against(one, far) == ablations.BETTER
    assert ablations.against(far, one) == ablations.WORSE


def test_what_was_spent_is_averaged_over_seeds():
    rows = [run("helmholtz-sra-0", 4, metric="minutes", regime="")]
    rows += [run("helmholtz-sra-1", 6, metric="minutes", regime="")]
    rows += [run("helmholtz-sra-1", 80)]

    assert ablations.spent(rows, "minutes") == {("helmholtz", "sra"): 5.0}
    assert len(ablations.averaged(rows)) == 1


def test_a_name_of_other_parts_is_refused():
    with pytest.raises(DataError, match="PDE-VARIANT-SEED"):
        ablations.averaged([run("muon-lr-4e-3", 5)])
