"""Variants side by side: intervals of known samples, and who beats whom."""

import csv
import math

import pytest
import scipy.stats

from prisma_lib import ablations, results
from prisma_lib.errors import DataError
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN


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


def seeds(variant, values, **more):
    return [run(f"helmholtz-{variant}-{i}", v, **more) for i, v in enumerate(values)]


def test_seeds_are_compared_as_scipy_does_it():
    one, other = [4.1, 4.4, 4.0], [5.0, 7.5, 6.1]

    (found,) = ablations.versus([*seeds("sra", one), *seeds("none", other)])

    logs = [[math.log(value) for value in values] for values in (one, other)]
    test = scipy.stats.ttest_ind(*logs, equal_var=False)
    low, high = test.confidence_interval(0.95)
    mean = scipy.stats.gmean(one) / scipy.stats.gmean(other)
    assert found.gap.ratio == pytest.approx((mean, math.exp(low), math.exp(high)))
    assert (found.gap.verdict == ablations.BETTER) == (test.pvalue < 0.05)
    assert found.other == "none"
    assert len(found.rows) == 6


def test_the_interval_is_welchs_and_counts_each_deviation_by_itself():
    one, other = [3.0, 4.0, 1.0, 2.1], [490.2, 340.0, 433.9]

    gap = ablations.welch(one, other)

    parts = [scipy.stats.sem(values) ** 2 for values in (one, other)]
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    half = scipy.stats.t.ppf(0.975, degrees) * math.sqrt(sum(parts))
    assert gap.value == pytest.approx(sum(one) / 4 - sum(other) / 3)
    assert gap.low == pytest.approx(gap.value - half)
    assert gap.high == pytest.approx(gap.value + half)


def test_common_problems_do_not_blur_a_comparison_of_seeds():
    ours = seeds("sra", (5.0, 5.05, 4.95), low=3, high=7)
    rows = [*ours, *seeds("none", (5.5, 5.55, 5.6), low=3, high=8)]

    (found,) = ablations.versus(rows)

    assert found.gap.verdict == ablations.BETTER
    wide = ablations.averaged(rows)
    assert ablations.against(*wide) == ablations.UNDECIDED


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((5.0, 5.6, 4.5), (5.3, 5.9, 4.8)),  # by less than seeds differ
        ((5.0,), (9.0,)),
        ((5.0, 5.1, 4.9), (9.0,)),
        ((5.0, 5.0), (9.0, 9.0)),  # no deviation is known
    ],
)
def test_what_seeds_do_not_tell_cannot_be_said(ours, theirs):
    (found,) = ablations.versus([*seeds("sra", ours), *seeds("none", theirs)])

    assert found.gap.verdict == ablations.UNDECIDED
    assert found.gap.ratio[0] < 1


def test_one_variant_without_deviation_is_compared():
    gap = ablations.welch([1.0, 1.0, 1.0], [5.0, 5.1, 5.2])

    assert gap.verdict == ablations.BETTER


def test_other_problems_are_no_comparison():
    few = seeds("none", (9.0, 9.1, 9.2), n="64")

    assert not ablations.versus([*seeds("sra", (5.0, 5.1, 5.2)), *few])


@pytest.mark.parametrize("table", ["main_ablation", "gating_attention_ablation"])
def test_the_papers_own_ratios_are_decided_when_seeds_agree(table):
    names = {theirs: ours for ours, theirs in ablations.PAPER.items()}
    rows, printed = [], {}
    with (ROOT / "outputs" / "tables" / "paper.csv").open() as file:
        for line in csv.DictReader(file):
            if line["table"] != f"tab:{table}":
                continue
            variant = names[results.settings(line)["variant"]]
            cell = (line["pde"], line["direction"], line["regime"])
            value = printed.setdefault(cell, {})[variant] = float(line["value"])
            more = dict(zip(("pde", "direction", "regime"), cell, strict=True))
            for i, factor in enumerate((0.9995, 1.0, 1.0005)):
                name = f"{cell[0]}-{variant}-{i}"
                rows.append(run(name, factor * value, value / 2, 2 * value, **more))

    found = ablations.versus(rows)

    for pair in found:
        cell = printed[pair.cell["pde"], *pair.place]
        ahead = cell["sra"] < cell[pair.other]
        assert pair.gap.verdict == (ablations.BETTER if ahead else ablations.WORSE)
    assert len(found) == {"main_ablation": 24, "gating_attention_ablation": 20}[table]


def test_one_comparison_against_decides_and_open_ones_must_be_few():
    good, bad, open_ = ablations.BETTER, ablations.WORSE, ablations.UNDECIDED

    assert ablations.concluded([good, good, open_]) == HOLDS
    assert ablations.concluded([good, open_]) == OPEN
    assert ablations.concluded([good, good, bad]) == FAILS
    assert ablations.concluded([]) == OPEN


def test_the_deviation_of_seeds_is_that_of_one_variant():
    close = ablations.deviation(seeds("sra", (10.0, 10.1, 9.9)))
    far = ablations.deviation(seeds("none", (10.0, 12.0, 8.0)))

    assert close == pytest.approx(0.01, rel=0.01)
    assert far == pytest.approx(0.2, rel=0.05)
    assert math.isnan(ablations.deviation(seeds("sra", (10.0,))))


def test_what_was_spent_is_averaged_over_seeds():
    rows = [run("helmholtz-sra-0", 4, metric="minutes", regime="")]
    rows += [run("helmholtz-sra-1", 6, metric="minutes", regime="")]
    rows += [run("helmholtz-sra-1", 80)]

    assert ablations.spent(rows, "minutes") == {("helmholtz", "sra"): 5.0}
    assert len(ablations.averaged(rows)) == 1


def test_a_name_of_other_parts_is_refused():
    with pytest.raises(DataError, match="PDE-VARIANT-SEED"):
        ablations.averaged([run("muon-lr-4e-3", 5)])
