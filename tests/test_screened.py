"""Second rows of tables, and what every method was trained with."""

import pytest
import yaml
from test_tables import PAPER, row

from prisma_lib import (
    blocks,
    charts,
    checkpoints,
    claims,
    frontier,
    methods,
    pdes,
    ranks,
    report,
    results,
    tables,
)
from prisma_lib import markdown as md
from prisma_lib.comparison import EQUAL
from prisma_lib.provenance import ROOT
from prisma_lib.screened import FILES, PUBLISHED, budgets, second

SECOND = PUBLISHED["FunDPS"]
AS_PUBLISHED = {"sweep": "baselines", "setting": "size=32;weights=published"}


def published(method, value, **more):
    return row(method, value, 200, **{"n": "8", **AS_PUBLISHED, **more})


@pytest.fixture(scope="module")
def project():
    return report.Report.read(ROOT / "outputs")


@pytest.fixture
def rows():
    """A benchmark of Darcy flow, and rows of the sweep on Darcy flow and Poisson."""
    tuned = {"n": "8", "setting": "size=32;weights=1/2/3"}
    return [
        published("FunDPS", 1.0),
        published("FunDPS", 1.0, pde="poisson"),
        published("FunDPS", 1.0, scale="gpu"),
        row("PRISMA", 3.0, 20, sweep="baselines"),
        row("FNO", 9.0, sweep="baselines"),
        row("FunDPS", 9.0, 200, sweep="baselines", **tuned),
        row("PRISMA", 2.0, 20),
        row("FunDPS", 5.0, 200, **tuned),
        row("FNO", 4.0),
        row("mean field", 25.0, n="8"),
    ]


def test_second_rows_stand_behind_their_methods_where_there_is_a_benchmark(rows):
    found = tables.entries(rows, PAPER)

    assert [(e.method, e.value) for e in found] == [
        ("PRISMA", 2.0),
        (EQUAL, 3.0),
        ("FunDPS", 5.0),
        (SECOND, 1.0),
        ("FNO", 4.0),
        ("mean field", 25.0),
    ]
    assert {(e.pde, e.scale) for e in found} == {("darcy", "cpu")}


def test_the_benchmarks_own_row_of_an_equal_budget_counts(rows):
    found = tables.entries([*rows, row(EQUAL, 3.5, 20)], PAPER)

    assert [e.value for e in found if e.method == EQUAL] == [3.5]


def test_published_weights_are_never_ranked_claimed_timed_or_drawn(rows):
    found, first = tables.entries(rows, PAPER), tables.entries(rows[3:], PAPER)
    assert len(found) == len(first) + 1

    assert [len(charts.frame(every)) for every in (found, first)] == [5, 5]
    assert ranks.ranks(found, PAPER) == ranks.ranks(first, PAPER)
    assert ranks.orders(found, PAPER) == ranks.orders(first, PAPER)
    assert claims.claims(found, rows, PAPER) == claims.claims(first, rows, PAPER)
    assert frontier.frontiers(found) == frontier.frontiers(first)
    assert frontier.latencies(found, PAPER) == frontier.latencies(first, PAPER)
    (mine,) = [e for e in found if e.method == SECOND]
    (mean,) = [e for e in found if e.method == "mean field"]
    assert (mine.anchor, mine.paper) == ("mean field", None)
    assert mean.anchor == ""  # what learned is nobody's anchor


def test_a_second_row_has_no_seconds_of_a_machine_that_trained_beside_it(rows):
    found = second(rows[0] | {"seconds_per_sample": "9"})

    assert (found["method"], found["seconds_per_sample"]) == (SECOND, "")
    assert second(row("FunDPS", 1.0, 200, **AS_PUBLISHED | {"sweep": "x"})) is None
    assert second(row("FNO", 1.0, sweep="baselines")) is None


def test_as_many_steps_as_were_published_are_a_line_of_their_own(rows):
    asked = {"sweep": "evaluate", "n": "4"}
    setting = f"{AS_PUBLISHED['setting']};data=public"
    rows += [
        row("FunDPS", 7.0, 500, **AS_PUBLISHED | asked),
        row("FunDPS", 6.0, 500, **AS_PUBLISHED | asked | {"setting": setting}),
        row("PRISMA", 1.0, 20, **asked),
    ]

    found = [e for e in tables.entries(rows, PAPER) if e.pde == "darcy"]

    lines = [(e.method, e.steps, e.value) for e in found if e.scale == "cpu"]
    assert lines.index((SECOND, 500, 7.0)) > lines.index(("FunDPS", 200, 5.0))
    assert (SECOND, 200, 1.0) in lines
    assert {value for *_, value in lines}.isdisjoint({6.0})
    assert [value for who, *_, value in lines if who == "PRISMA"] == [2.0]


def test_what_diverged_is_said_below_the_table(rows):
    lost = published("FunDPS", "", setting="size=32;diverged;weights=published")

    text = md.one_grid(tables.entries([*rows, lost], PAPER), PAPER)

    assert f"| {SECOND}, 200 steps | – | – | 1 | 8 |" in text
    assert f"No number: {SECOND}, 200 steps, darcy forward, full: diverged." in text


def test_the_tables_of_this_project_have_both_rows(project):
    found = project.entries

    methods = {(e.pde, e.method) for e in found}
    assert ("eikonal", EQUAL) in methods
    for pde in ("darcy", "poisson", "helmholtz", "navier_stokes"):
        assert {(pde, name) for name in PUBLISHED.values()} <= methods
    rows = [row for file in FILES for row in project.rows[file]]
    wanted = {r["value"] for r in rows if "weights=published" in r["setting"]}
    shown = {e.row["value"] for e in found if e.method in PUBLISHED.values()}
    assert shown == wanted


def test_every_training_has_its_problems_minutes_and_tuning():
    spent = {"sweep": "baselines", "run": "fundps-darcy", "setting": ""}
    rows = [row("FunDPS", 82976.0, **spent, metric="images")]
    rows += [row("FunDPS", 13.6, **spent, metric="minutes")]
    rows += [row("PRISMA", 56000.0, **spent | {"run": "ours"}, metric="images")]
    rows += [row("FNO", 9.0, **spent | {"sweep": "pino"}, metric="minutes")]

    def tuned(steps, seconds, tries):
        settings = {"steps": steps, "residual": "ours"}
        return {"settings": settings, "seconds": seconds, "tries": tries, "n": 16}

    about = {"pde": {"name": "darcy"}, "training": {"images_seen": 64, "minutes": 2.0}}
    cells = [tuned(200, 60, [1] * 7), tuned(200, 30, [1] * 6), tuned(20, 600, [1] * 9)]
    prior = {**about, "method": "fundps", "guidance": cells}
    model = {**about, "method": "prisma", "name": "darcy-32"}
    model["errors"] = [{"scale": "cpu"}]
    frames = model | {"training": {"images_seen": 64, "options": {"frames": 3}}}

    found = budgets(rows, [prior, model, frames])

    keys = ("method", "images", "minutes", "searches", "tries", "tuning_minutes")
    assert [tuple(each[key] for key in keys) for each in found] == [
        ("FunDPS", 82976, 13.6, 2, 7, 1.5),
        (EQUAL, 56000, None, None, None, None),
        ("PRISMA", 64, 2.0, None, None, None),
    ]
    text = blocks.BLOCKS["budgets"](found, PAPER)
    assert "| FunDPS | 82,976 / 14 |" in text
    assert f"| {EQUAL} | 56,000 / – |" in text
    assert "residual: 2, of 7 tries on 16 validation problems each" in text
    assert text.endswith("minutes in all: FunDPS darcy 2.")


def test_budgets_are_those_of_the_plan_and_less_than_what_ships_saw(project):
    plan = yaml.safe_load((ROOT / "params" / "baselines.yaml").read_text())["zip"]
    planned = dict(zip(plan["name"], plan["images"], strict=True))

    found = budgets(project.rows["baselines"], project.cards)

    ours = {each["pde"]: each["images"] for each in found if each["method"] == "PRISMA"}
    assert {*ours} == {*pdes.names()}
    for each in found:
        if each["model"] in planned:
            # Whole batches.
            assert 0 <= planned[each["model"]] - each["images"] < 32
            assert each["images"] < ours[each["pde"]] or each["method"] == "DeepONet"


def test_the_readme_says_how_guidance_was_tuned_and_when_that_did_not_help(project):
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    folder = ROOT / "outputs" / "models" / "baselines"
    tuned = [
        cell
        for path in folder.iterdir()
        for cell in checkpoints.read_card(path).get("guidance", [])
    ]
    ((tries, problems),) = {(len(c["tries"]), c["n"]) for c in tuned}
    assert "with this project's residual" in readme
    other = [e for e in project.entries if "residual" in results.settings(e.row)]
    assert {(e.method, e.pde) for e in other} == {("DiffusionPDE", "darcy")}
    assert "DiffusionPDE on Darcy flow with the published residual, too" in readme
    assert f"weights that {tries} tries on {problems} validation problems" in readme
    found = [
        e
        for e in project.entries
        if e.pde == "darcy" and e.hidden in tables.HIDDEN[e.regime]
    ]
    errors = {(e.method, e.steps, e.direction, e.regime): e.value for e in found}
    cells = [key[1:] for key in errors if key[0] == "DiffusionPDE"]
    better = sum(
        errors[PUBLISHED["DiffusionPDE"], *cell] < errors["DiffusionPDE", *cell]
        for cell in cells
    )
    said = f"published ones in {better} of {len(cells)} cells, with as many steps"
    assert said in readme


def test_the_readme_says_what_darcys_methods_saw_and_whose_weights_do_not_ship(project):
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    found = budgets(project.rows["baselines"], project.cards)
    seen = {x["method"]: x["images"] for x in found if x["pde"] == "darcy"}
    ours, lifted = seen.pop("PRISMA"), seen.pop("PRISMA-L")
    assert f"PRISMA trained on {seen.pop(EQUAL):,} problems" in readme
    assert (
        f"that ships saw {ours:,} problems of Darcy flow, PRISMA-L {lifted:,}" in readme
    )
    assert f"every rival fewer, but DeepONet {seen.pop('DeepONet'):,}." in readme
    assert max(seen.values()) < min(ours, lifted)

    trained = {(x["method"], x["pde"]) for x in found if x["model"] != f"{x['pde']}-32"}
    ship = {
        (EQUAL if card["method"] == "prisma" else methods.title(card["method"]), name)
        for card in project.cards
        if (name := card["pde"]["name"]) and not card.get("errors")
    }
    missing = {key for key in trained - ship if not key[0].startswith("PRISMA-L")}
    operators = {"FNO", "PINO", "DeepONet", EQUAL}
    guided = {"DiffusionPDE", "FunDPS"}
    assert {who for who, _ in missing} == operators | guided
    assert {pde for who, pde in missing if who in guided} == {"eikonal", "burgers"}
    assert not {pde for who, pde in missing if who in operators} & {"darcy"}
