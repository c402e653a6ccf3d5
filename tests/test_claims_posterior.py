"""Claims about posteriors, finer grids, rollouts and cost, from rows made up."""

import csv
from dataclasses import replace
from itertools import product

import pytest
import torch
import yaml

from prisma_lib import edm, tasks
from prisma_lib.claims import cost, posterior
from prisma_lib.claims.evidence import Evidence
from prisma_lib.presets import ModelConfig
from prisma_lib.provenance import ROOT
from prisma_lib.ranks import FAILS, HOLDS, OPEN
from prisma_lib.results import COLUMNS

CLAIMS = {**posterior.CLAIMS, **cost.CLAIMS}
REGIMES = ("full", "sparse", "noisy")


def row(metric, value, **columns):
    given = {"metric": metric, "value": str(value), "n": "64", "method": "PRISMA"}
    number = isinstance(value, int | float)
    ends = {"low": str(0.95 * value), "high": str(1.05 * value)} if number else {}
    return dict.fromkeys(COLUMNS, "") | given | ends | columns


def judge(name, rows):
    return CLAIMS[name].judge(Evidence([], [], [], rows))


def of_draws(metric, values, draws=16):
    about = {"sweep": "posterior", "pde": "darcy", "direction": "inverse"}
    about["setting"] = f"size=32;draws={draws}"
    pairs = zip(REGIMES, values, strict=True)
    return [row(metric, value, regime=r, **about) for r, value in pairs]


def draws(widths, pearsons):
    return [
        *of_draws("ensemble_spread", widths),
        *of_draws("spread_error_pearson_r", pearsons),
        *of_draws("placed_90", (0.7, 0.8, 0.9), draws=19),
    ]


def finer(grows=True, sizes=(32, 64, 128, 256), last=3.0):
    rows = []
    for k, size in enumerate(sizes):
        about = {"sweep": "superresolution", "pde": "darcy", "direction": "forward"}
        about["setting"] = f"size={size};trained=32"
        error = last if size == sizes[-1] else 2.0
        bigger = 4**k if grows else 1
        rows += [
            row("relative_l2", error, **about),
            row("relative_l2", 4.0, method="PRISMA, interpolated", **about),
            row("seconds_per_sample", 0.1 * bigger, **about),
            row("peak_mb", 2.0 * bigger, **about),
        ]
    return rows


def rolled(**ends):
    about = {"sweep": "rollout", "pde": "navier_stokes", "direction": "forward"}
    return [
        row(
            "relative_l2",
            value,
            method=method.replace("_", " "),
            regime=regime,
            setting=f"size=32;entering={entering};step={step}",
            **about,
        )
        for (method, values), entering, step in product(
            ends.items(), ("once", "every"), (1, 10)
        )
        for regime, value in zip(REGIMES, values, strict=True)
    ]


VARIANT = {"PRISMA 2D+time": (3, 5, 3)}


def costs(iteration=(26.0, 20.2, 58.7), sample=(0.18, 11.8, 213.0), share=0.9, mb=2.0):
    about = {"sweep": "compute_cost"}
    rows = []
    names = ("PRISMA", "FunDPS", "DiffusionPDE")
    for method, training, drawing, steps in zip(
        names, iteration, sample, ("20", "500", "2000"), strict=True
    ):
        mine = about | {"method": method}
        rows.append(row("seconds_per_iteration", training, **mine))
        rows.append(row("seconds_per_sample", drawing, steps=steps, **mine))
    for pde, factor in (("helmholtz", 0.1), ("navier_stokes", 1.0)):
        for size, more in ((32, 5), (128, 1)):
            net = about | {"pde": pde, "setting": f"preset=x;size={size};batch=2"}
            rows.append(row("residual_time_fraction", factor * share * more, **net))
            rows.append(row("peak_memory_mb", mb, **net))
            bare = net | {"method": cost.BARE}
            rows.append(row("peak_memory_mb", 2.0, **bare))
    return rows


GOOD = {
    "C12": draws((0.3, 0.5, 1.5), (0.9, 0.8, 0.5)),
    "E21": draws((0.3, 0.5, 1.5), (0.9, 0.8, 0.5)),
    "C21": rolled(PRISMA=(2, 4, 35), **VARIANT, **{posterior.STILL: (9, 9, 9)}),
    "E24": rolled(PRISMA=(2, 4, 35), **VARIANT, FunDPS=(6, 7, 22)),
    "C22": finer(),
    "E25": finer(),
    **dict.fromkeys(("C02", "C23", "C24", "C25", "E26", "E27"), costs()),
}
BAD = {
    "C12": [
        draws((0.3, 0.5, 1.5), (0.9, 0.8, -0.1)),
        draws((0.5, 0.3, 1.5), (0.9, 0.8, 0.5)),
    ],
    "E21": [draws((0.3, 0.5, 1.5), (0.5, 0.8, 0.9))],
    "C21": [
        rolled(PRISMA=(2, 4, 2), **VARIANT),
        rolled(PRISMA=(2, 4, 3.1), **VARIANT),
        rolled(PRISMA=(2, 4, 35), **VARIANT, **{posterior.STILL: (2, 2, 2)}),
    ],
    "E24": [rolled(PRISMA=(2, 4, 35), **VARIANT, FunDPS=(6, 3, 22))],
    "C22": [finer(sizes=(32, 64)), finer(last=40.0), finer(last="nan")],
    "E25": [finer(grows=False)],
    "C02": [costs(sample=(0.18, 6.8, 213.0)), costs(sample=(0.32, 11.8, 213.0))],
    "C23": [costs(iteration=(20.0, 20.2, 58.7)), costs(iteration=(26.0, 20.2, 25.0))],
    "C24": [costs(share=1.3), costs(mb=2.2)],
    "C25": [costs(sample=(0.18, 1.0, 213.0)), costs(sample=(0.18, 11.8, 12.0))],
    "E26": [costs(iteration=(20.0, 20.2, 58.7)), costs(sample=(20.0, 11.8, 213.0))],
    "E27": [costs(share=-1)],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_claim_holds_where_the_rows_say_so(name):
    found = judge(name, GOOD[name])

    assert found.verdict == HOLDS, found.evidence
    assert found.rows


@pytest.mark.parametrize(
    ("name", "rows"), [(name, rows) for name, cases in BAD.items() for rows in cases]
)
def test_a_claim_does_not_hold_where_the_rows_say_so(name, rows):
    assert judge(name, rows).verdict == FAILS


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("kept", [0, 1])
def test_a_claim_without_its_rows_is_open(name, kept):
    others = [r | {"sweep": "darcy"} for r in GOOD[name]]

    assert judge(name, others[:kept]).verdict == OPEN
    assert judge(name, others).verdict == OPEN


def test_a_rollout_that_blew_up_is_the_worse_one():
    ended = rolled(PRISMA=(2, 4, "nan"), **VARIANT)

    assert judge("C21", ended).verdict == HOLDS


def test_evidence_has_our_numbers_with_intervals():
    assert "0.3 [0.285, 0.315]" in judge("C12", GOOD["C12"]).evidence
    assert "in doubt 70, 80, 90 % lie" in judge("E21", GOOD["E21"]).evidence
    told = judge("C25", costs()).evidence
    assert "20 steps 3 min, FunDPS with 500 3.28 h" in told
    assert "2000 59.2 h" in told


def test_tasks_and_hyperparameters_are_the_papers():
    assert judge("E28", []).verdict == HOLDS
    assert judge("E29", []).verdict == HOLDS


def test_what_needs_no_rows_has_n_and_hardware_all_the_same():
    for name in ("E28", "E29"):
        found = judge(name, [])

        assert (found.distinct("n"), found.distinct("device")) == ("4", "any")
        assert "no interval: settings are the same" in found.evidence


def test_the_paper_names_a_second_range_of_speed_which_its_own_seconds_make():
    rows = costs()
    more = row("seconds_per_sample", 4.5, method="FunDPS", steps="200")
    told = judge("C02", [*rows, more | {"sweep": "compute_cost"}])

    assert "25 to 1.18e+03 with 20 against 200 of FunDPS" in told.evidence
    assert "against 200" not in judge("C02", rows).evidence
    metric = "seconds_per_sample"
    with (ROOT / "outputs" / "tables" / "paper.csv").open() as file:
        lines = [*csv.DictReader(file)]
    seconds = {
        (each["method"], each["steps"]): float(each["value"])
        for each in lines
        if each["table"] == "tab:noisy_main" and each["metric"] == metric
    }
    ours = seconds["PRISMA", "20"]
    ends = seconds["FunDPS", "200"] / ours, seconds["DiffusionPDE", "2000"] / ours
    assert "{:.0f} to {:.0f} times".format(*ends) in CLAIMS["C02"].paper


def test_memory_beyond_our_limit_is_said_to_three_digits():
    found = judge("C24", costs(mb=2.112))

    assert found.verdict == FAILS
    assert "1.056 to 1.056 times that without, above the 1.05" in found.evidence
    assert "no interval: times have no recorded spread" in found.evidence
    assert "within the 1.05" in judge("C24", costs()).evidence


def test_the_interval_is_that_of_what_decides():
    pearson = judge("C12", draws((0.3, 0.5, 1.5), (0.9, 0.8, 0.5))).interval
    assert pearson[1:] == pytest.approx((0.475, 0.525))
    flow = judge("C21", GOOD["C21"]).interval
    assert flow[1:] == pytest.approx((2.85, 3.15))
    assert judge("C22", GOOD["C22"]).interval.of == "share of 1 cells, %"
    assert judge("E24", GOOD["E24"]).interval.of.endswith("decided cases, %")


def test_a_task_with_another_mask_is_seen(monkeypatch):
    monkeypatch.setattr(cost, "TASKS", ("uncond", "full_forward"))
    monkeypatch.setattr(cost, "task_masks", lambda *_: torch.ones(2, 1, 1, 8, 8))

    assert judge("E28", []).verdict == FAILS


def test_another_schedule_is_seen(monkeypatch):
    bent = replace(edm.Schedule(), rho=5)
    monkeypatch.setattr(cost, "Schedule", lambda: bent)

    assert judge("E29", []).verdict == FAILS


def test_the_scale_of_the_paper_has_its_table_of_hyperparameters():
    scale = yaml.safe_load((ROOT / "params" / "scales" / "paper.yaml").read_text())
    epoch = 50_000

    assert scale["size"] == 128
    assert scale["images"] == 200 * epoch
    assert scale["batch"] == 2 * 90
    assert float(scale["learning_rate"]) == 1e-4
    assert scale["warmup"] == 50 * epoch
    assert scale["ema_half_life"] == 5 * epoch
    assert ModelConfig.preset(scale["preset"]).dropout == 0.13
    assert tasks.TASK_PROBABILITIES == (0.1, 0.25, 0.25, 0.2, 0.2)
