"""Claims about sweeps follow made-up rows, both ways, and say nothing without any."""

import pytest
from test_tables import PAPER, row

from prisma_lib import claims, ranks, tables
from prisma_lib.ablations import BETTER, UNDECIDED, WORSE
from prisma_lib.claims import moments, robustness, sweeps
from prisma_lib.claims.evidence import Evidence
from prisma_lib.ranks import FAILS, HOLDS, OPEN

CLAIMS = robustness.CLAIMS | moments.CLAIMS
BOTH = ("forward", "inverse")


def noisy(method, value, pde="helmholtz", n=4, **hidden):
    setting = ";".join(f"{k}={v}" for k, v in hidden.items())
    given = {"pde": pde, "sweep": "noise_levels", "n": str(n), "regime": "noisy"}
    return row(method, value, 20, setting=f"size=32;{setting}", **given)


def sparse(method, value, rate, direction="forward", n=4, more=""):
    given = {"sweep": "sparsity", "regime": "sparse", "n": str(n)}
    setting = f"size=32;rate={rate:g}{more}"
    return row(method, value, 20, direction=direction, setting=setting, **given)


def elsewhere(method, value, pde, more, n=64):
    given = {"pde": pde, "sweep": "extrapolation", "n": str(n)}
    return row(method, value, 20, setting=f"size=32;{more}", **given)


def moment(method, value, name, direction, of="estimate", step=1, **more):
    given = {"pde": "poisson", "sweep": "residual_moments", "direction": direction}
    given |= more
    setting = f"size=32;of={of};step={step};share=1"
    metric = f"residual_abs_{name}"
    return row(method, value, 20, setting=setting, metric=metric, **given)


def judge(name, rows):
    return CLAIMS[name].judge(Evidence([], [], [], rows))


def verdict(name, rows):
    return judge(name, rows).verdict


@pytest.mark.parametrize("name", CLAIMS)
def test_without_rows_nothing_is_said(name):
    assert verdict(name, []) == OPEN
    # Rows of the protocol are no rows of a sweep.
    assert verdict(name, [row("PRISMA", 2.0, 20), row("FunDPS", 3.0, 200)]) == OPEN


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("C06", 4.2, 4.4), ("C17", 2.9, 3.1), ("C18", 1.4, 1.6), ("E07", 1.1, 1.3)],
)
def test_growth_is_measured_between_the_ends(name, good, bad):
    def rows(factor):
        return {
            "C06": [
                elsewhere("PRISMA", 10, "navier_stokes", "viscosity=0.001"),
                elsewhere("PRISMA", 10 * factor, "navier_stokes", "viscosity=1e-05"),
            ],
            "C17": [
                noisy("PRISMA", 10, noise_sd=2, fraction=0.1),
                noisy("PRISMA", 10 * factor, noise_sd=2, fraction=0.9),
            ],
            "C18": [sparse("PRISMA", 10, 0.5), sparse("PRISMA", 10 * factor, 0.1)],
            "E07": [
                elsewhere("PRISMA", 10, "navier_stokes", "viscosity=0.0001"),
                elsewhere("PRISMA", 10 * factor, "navier_stokes", "viscosity=1e-05"),
            ],
        }[name]

    assert verdict(name, rows(good)) == HOLDS
    assert verdict(name, rows(bad)) == FAILS
    assert verdict(name, rows(bad)[:1]) == OPEN


def test_growth_is_that_of_the_most_problems_with_the_right_residual():
    rows = [
        elsewhere("PRISMA", 10, "navier_stokes", "viscosity=0.001"),
        elsewhere("PRISMA", 12, "navier_stokes", "viscosity=1e-05"),
        elsewhere("PRISMA", 90, "navier_stokes", "viscosity=1e-05", n=4),
        elsewhere("PRISMA", 90, "navier_stokes", "told=0.001;viscosity=1e-05"),
        elsewhere("FunDPS", 90, "navier_stokes", "viscosity=1e-05"),
    ]

    found = judge("C06", rows)

    assert found.verdict == HOLDS
    assert "10 % [9.5, 10.5] to 12 % [11.4, 12.6], n = 64" in found.evidence
    assert found.distinct("n") == "64"


def test_other_layouts_do_not_count_as_random_points():
    window = ";layout=window"
    rows = [sparse("PRISMA", 10, 0.5), sparse("PRISMA", 12, 0.1)]
    rows += [sparse("PRISMA", 1, 0.5, more=window)]
    rows += [sparse("PRISMA", 99, 0.1, more=window)]

    assert verdict("C18", rows) == HOLDS


def test_methods_are_compared_on_the_same_problems_in_the_same_cell():
    rows = [noisy("PRISMA", 9, n=64, noise_sd=2), noisy("PRISMA", 3, noise_sd=2)]
    rows += [noisy("FunDPS", 5, noise_sd=2, weights="1/2/0")]
    rows += [noisy("FNO", 10, n=64, noise_sd=2)]
    rows += [noisy("mean field", 1, noise_sd=2), noisy("PRISMA", 3, noise_sd=1)]
    rows += [noisy("FunDPS", 1, noise_sd=2, fraction=0.5)]

    places, used = sweeps.standings(rows)

    assert places == [BETTER]
    assert [(r["method"], r["n"]) for r in used] == [
        *(("PRISMA", "4"), ("FunDPS", "4"), ("PRISMA", "64"), ("FNO", "64"))
    ]


def ratio(value, n="4", run="one"):
    setting = "size=32;noise_sd=2;over=FunDPS"
    given = {"sweep": "noise_levels", "regime": "noisy", "pde": "helmholtz"}
    given |= {"metric": "error_ratio", "n": n, "run": run, "setting": setting}
    return row("PRISMA", value, 20, **given)


@pytest.mark.parametrize(
    ("ours", "others", "place"),
    [
        (4.0, (5.0, 6.0), BETTER),
        (5.5, (5.0, 9.0), UNDECIDED),  # [5.225, 5.775] and [4.75, 5.25] overlap
        (6.0, (5.0, 6.1), WORSE),  # behind one is behind
        (4.0, ("", 5.0), BETTER),  # one diverged
    ],
)
def test_a_cell_is_decided_by_intervals_that_are_apart(ours, others, place):
    rows = [noisy("PRISMA", ours, noise_sd=2)]
    for method, value in zip(("FunDPS", "DiffusionPDE"), others, strict=True):
        lost = {} if value else {"diverged": ""}
        rows.append(noisy(method, value, noise_sd=2, **lost))

    assert sweeps.standings(rows)[0] == [place]


def test_the_ratio_on_the_same_problems_decides_where_a_row_has_it():
    rows = [noisy("PRISMA", 5.5, noise_sd=2), noisy("FunDPS", 5.0, noise_sd=2)]

    def place(*more):
        return sweeps.standings(rows, ranks.ratios(more))[0]

    assert place() == [UNDECIDED]
    assert place(ratio(1.1)) == [WORSE]
    assert place(ratio(0.9)) == [BETTER]
    assert place(ratio(0.9, n="8")) == place(ratio(0.9, run="two")) == [UNDECIDED]


@pytest.mark.parametrize(("name", "open_"), [("C07", OPEN), ("E11", FAILS)])
def test_where_nothing_is_decided_only_c07_may_be_open(name, open_):
    if name == "C07":
        rows = [elsewhere("PRISMA", 5.0, "helmholtz", "k=2", n=4)]
        rows += [elsewhere("FunDPS", 5.1, "helmholtz", "k=2", n=4)]
    else:
        rows = [noisy("PRISMA", 5.0, noise_sd=2, fraction=0.5)]
        rows += [noisy("FunDPS", 5.1, noise_sd=2, fraction=0.5)]

    found = judge(name, rows)

    assert (found.verdict, found.evidence) == (
        *(open_, "0 first, 0 behind, 1 open of 1 cells"),
    )
    assert found.interval.of == "share of 1 cases, %"


def test_c07_counts_most_cells_of_new_wavenumbers_only():
    def rows(*ours):
        made = [elsewhere("PRISMA", 9, "helmholtz", "k=1", n=4)]
        made += [elsewhere("FunDPS", 1, "helmholtz", "k=1", n=4)]
        for k, value in enumerate(ours, 2):
            made += [elsewhere("PRISMA", value, "helmholtz", f"k={k}", n=4)]
            made += [elsewhere("FunDPS", 5, "helmholtz", f"k={k}", n=4)]
        return made

    assert verdict("C07", rows(3, 4, 9)) == HOLDS
    assert verdict("C07", rows(3, 8, 9)) == FAILS
    assert verdict("C07", rows(3, 9)) == FAILS  # half are not most
    assert verdict("C07", rows(3, 5, 5)) == HOLDS  # of the decided
    assert verdict("C07", rows()) == OPEN


@pytest.mark.parametrize(
    ("values", "found"), [((3, 5, 9), HOLDS), ((3, 2, 9), FAILS), ((3,), OPEN)]
)
def test_e08_asks_for_errors_that_grow(values, found):
    rows = [
        elsewhere("PRISMA", value, "helmholtz", f"k={k}")
        for k, value in enumerate(values, 2)
    ]

    assert verdict("E08", rows) == found


def levels(*values, rival=50):
    ours = zip((0.5, 1, 2), values, strict=True)
    rows = [noisy("PRISMA", value, noise_sd=sd) for sd, value in ours]
    return rows + [noisy("FunDPS", rival, noise_sd=sd) for sd in (0.5, 1, 2)]


def test_c10_asks_for_slow_growth_and_the_lowest_error():
    assert verdict("C10", levels(10, 15, 25)) == HOLDS
    assert verdict("C10", levels(10, 25, 30)) == FAILS  # faster than the noise
    assert verdict("C10", levels(10, 15, 25, rival=20)) == FAILS
    assert verdict("C10", levels(10, 15, 25)[:3]) == OPEN
    assert verdict("C10", levels(10, 15, 25, rival=26)) == HOLDS  # one is open
    found = judge("C10", levels(10, 10.1, 10.2, rival=10.1))
    assert (found.verdict, found.interval.of) == (FAILS, "share of 3 cases, %")
    assert "0 first, 0 behind, 3 open of 3 levels" in found.evidence
    assert verdict("E13", levels(10, 15, 25)) == HOLDS
    assert verdict("E13", levels(10, 15, 12)) == FAILS


def test_e11_counts_shares_of_noisy_points_only():
    def rows(ours):
        made = [noisy("PRISMA", ours, noise_sd=2, fraction=0.5)]
        return [*made, noisy("FunDPS", 5, noise_sd=2, fraction=0.5)]

    assert verdict("E11", rows(4)) == HOLDS
    assert verdict("E11", rows(6)) == FAILS
    assert verdict("E11", levels(1, 2, 3)) == OPEN


def test_e12_is_the_papers_order_of_darcy():
    def rows(forward, inverse):
        made = [sparse("FunDPS", 5, 0.1, direction) for direction in BOTH]
        pairs = zip(BOTH, (forward, inverse), strict=True)
        return made + [sparse("PRISMA", value, 0.1, d) for d, value in pairs]

    assert verdict("E12", rows(9, 2)) == HOLDS
    assert verdict("E12", rows(2, 2)) == FAILS
    assert verdict("E12", rows(9, 9)) == FAILS
    assert verdict("E12", rows(9, 5)) == HOLDS  # of the decided
    found = judge("E12", rows(5.1, 5.1))
    assert found.verdict == FAILS
    assert found.evidence.startswith("0 as the paper has it, 0 reversed, 2 open of 2")


def test_moments_are_near_zero_and_below_the_baselines():
    def rows(skewness, kurtosis, rival=3.0):
        return [
            moment(method, value, name, direction, step=step)
            for direction in BOTH
            for step in (1, 2)
            for name, ours in (("skewness", skewness), ("excess_kurtosis", kurtosis))
            for method, value in (("PRISMA", ours), ("FunDPS", rival))
        ]

    state = [moment("PRISMA", 9.0, "skewness", d, of="state") for d in BOTH]
    found = {name: verdict(name, rows(0.2, 0.5) + state) for name in ("C11", "E14")}
    assert found == dict.fromkeys(found, HOLDS)
    assert verdict("C11", rows(0.2, 1.5)) == FAILS
    assert (verdict("E14", rows(0.2, 1.5)), verdict("E15", rows(0.2, 1.5))) == (
        *(HOLDS, FAILS),
    )
    assert verdict("C11", rows(0.2, 0.5, rival=0.1)) == FAILS
    alone = [row for row in rows(0.2, 0.5) if row["method"] == "PRISMA"]
    assert verdict("E14", alone) == OPEN


def test_moments_are_compared_on_as_many_problems_where_rows_have_them():
    def rows(few, rival=1.0):
        made = [moment("FunDPS", rival, "skewness", "forward", n="4")]
        made += [moment("PRISMA", 0.2, "skewness", "forward", n="64")]
        mine = [moment("PRISMA", few, "skewness", "forward", n="4")] if few else []
        return made + mine

    assert verdict("E14", rows(None)) == HOLDS
    assert verdict("E14", rows(0.9)) == HOLDS
    assert verdict("E14", rows(2.0)) == FAILS  # though it is ahead on all problems
    assert verdict("E14", rows(1.02)) == FAILS  # one of two is open
    said = judge("E14", rows(2.0)).evidence
    assert "1 as said, 1 reversed, 0 open of 2 comparisons" in said
    assert "PRISMA 0.2 [0.19, 0.21] (n = 64), PRISMA 2 [1.9, 2.1] (n = 4)" in said


def test_no_row_of_a_sweep_is_an_entry_of_a_table():
    rows = [*levels(1, 2, 3), sparse("PRISMA", 1, 0.03)]
    rows += [elsewhere("PRISMA", 1, "helmholtz", "k=2")]

    assert tables.entries(rows, PAPER) == []


def test_every_claim_of_a_sweep_stands_in_the_table():
    rows = [row("PRISMA", 2.0, 20)]

    found = claims.claims(tables.entries(rows, PAPER), rows, PAPER)

    assert {*CLAIMS} <= {each["claim"] for each in found}
