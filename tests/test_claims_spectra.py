"""Claims about spectra: by the rows of their own notebook, with intervals apart."""

import pytest
from test_claims_benchmarks import judge
from test_tables import row

from prisma_lib import results
from prisma_lib.claims import CLAIMS, spectra
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN

OURS = row("PRISMA", 1.0, 20)  # without an entry nothing is judged


def spectral(method, value, direction="inverse", steps=20, **more):
    given = {"sweep": "spectra", "metric": "spectral_power_error", "regime": "noisy"}
    return row(method, value, steps, direction=direction, **{**given, **more})


@pytest.mark.parametrize("name", spectra.CLAIMS)
def test_without_rivals_a_claim_is_open(name):
    assert judge(name, [OURS, spectral("PRISMA", 3.0)])["verdict"] == OPEN


def test_spectra_are_compared_on_the_same_problems_with_the_fewest_steps():
    rivals = [spectral("FunDPS", 5.0, n="8")]
    rivals += [spectral("FunDPS", 5.0, "forward", n="8")]
    ours = [spectral("PRISMA", 4.0, n="8"), spectral("PRISMA", 9.0)]
    worse = [spectral("PRISMA", 6.0, "forward", n="8")]
    longer = [spectral("PRISMA", 9.0, n="8", steps=50)]

    assert judge("E10", [OURS, *rivals, *ours])["verdict"] == HOLDS
    every = [OURS, *longer, *rivals, *ours, *worse]
    found = judge("E09", every)
    assert judge("E10", every)["verdict"] == HOLDS
    assert found["verdict"] == FAILS
    assert "1 nearest, 1 behind, 0 open of 2 cells" in found["evidence"]
    said = "darcy inverse 4 [3.8, 4.2] against 5 [4.75, 5.25] % of FunDPS"
    assert said in found["evidence"]


@pytest.mark.parametrize("name", spectra.CLAIMS)
def test_where_intervals_overlap_nothing_is_nearer(name):
    rows = [OURS, spectral("PRISMA", 4.8), spectral("FunDPS", 5.0)]

    found = judge(name, rows)

    assert found["verdict"] == FAILS
    assert ", 0 " in found["evidence"]
    assert "1 open of 1" in found["evidence"]
    assert found["interval_of"] == "share of 1 cases, %"


@pytest.mark.parametrize(("ours", "verdict"), [(4.0, HOLDS), (6.0, FAILS)])
def test_spectra_under_noise_are_nearer_than_every_baseline(ours, verdict):
    rows = [OURS, spectral("PRISMA", ours), spectral("FunDPS", 5.0)]
    rows += [spectral("FunDPS", 1.0, regime="full")]

    found = judge("C16", rows)

    assert found["verdict"] == verdict
    assert "of 1 spectra" in found["evidence"]


def test_rows_of_benchmarks_do_not_count():
    rows = [OURS, spectral("PRISMA", 4.0), spectral("FunDPS", 5.0)]
    other = spectral("FunDPS", 1.0, sweep="darcy")

    for name in spectra.CLAIMS:
        assert judge(name, [*rows, other])["verdict"] == HOLDS
        assert judge(name, [other, *rows])["verdict"] == HOLDS
        assert CLAIMS[name].notebook == "43_spectra"


def test_of_several_baselines_the_nearest_is_named():
    rows = [OURS, spectral("PRISMA", 4.0)]
    rows += [spectral("DiffusionPDE", 5.0)]

    found = judge("E10", [*rows, spectral("FunDPS", 9.0)])
    beaten = judge("E10", [*rows, spectral("FunDPS", 3.0)])

    assert (found["verdict"], beaten["verdict"]) == (HOLDS, FAILS)
    assert "against 5 [4.75, 5.25] % of DiffusionPDE" in found["evidence"]
    assert "of FunDPS" not in found["evidence"]


def test_a_shared_batch_has_other_draws_where_weights_of_cells_agree():
    """Why benchmarks have two other rows of FunDPS: the recorded weights say so."""
    metric = "spectral_power_error"

    def read(name):
        rows = results.read(ROOT / "outputs" / "results" / f"{name}.csv")
        mine = [each for each in rows if each["method"] == "FunDPS"]
        return [each for each in mine if each["metric"] == metric]

    def weights(one):
        return one["direction"], results.settings(one)["weights"]

    alone = {
        (each["pde"], each["direction"]): each["value"]
        for each in read("spectra")
        if each["regime"] == "noisy"
    }
    others = set()
    for pde in ("darcy", "helmholtz", "poisson"):
        rows = read(pde)
        for mine in (each for each in rows if each["regime"] == "noisy"):
            shared = sum(weights(other) == weights(mine) for other in rows) > 1
            cell = mine["pde"], mine["direction"]
            assert (mine["value"] != alone[cell]) == shared, cell
            others |= {cell} if shared else set()
    assert others == {("helmholtz", "forward"), ("helmholtz", "inverse")}
