"""The door to the honest baselines, for every equation."""

from itertools import pairwise

import pytest
import torch
from small import VARIANTS

from prisma_lib import anchors, cells, data, metrics, pdes, tables
from prisma_lib.errors import ConfigError
from prisma_lib.evaluate import evaluate
from prisma_lib.lifts import priors
from prisma_lib.observe import observe
from prisma_lib.solve import Solver


def seed():
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def poisson():
    return cells.benchmark(pdes.load("poisson", size=16), n=32)


@pytest.fixture(scope="module")
def flow():
    return cells.benchmark(pdes.load("navier_stokes", size=16), n=16)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_baseline_answers_in_every_cell_of_every_equation(
    variant, quick, monkeypatch
):
    monkeypatch.setattr(priors, "PROBLEMS", 32)
    name, options = variant
    pde = quick(name, 16, **options)
    a, u = pde.pair(0, range(2))
    hidden = {"sparse": "sparse", "full": "full", "noisy": "full"}

    for direction, regime in cells.cells(pde):
        seen = "forward" if direction == "forward" else "inverse"
        task = f"{hidden[regime]}_{seen}"
        observation = observe(task, a, u, rate=0.3, index=range(2))
        found = anchors.of(pde, direction, regime, noise_sd=0.1, num=32)
        assert {"mean field", "lift"} <= found.keys()
        assert ("numerical solver" in found) == ((direction, regime) == FORWARD)
        assert ("persistence" in found) == (
            pde.kind == "one_step" and regime != "sparse"
        )
        for solver in found.values():
            assert isinstance(solver, Solver)
            draws = solver.solve(observation, samples=3, generator=seed())
            for draw, field in zip(draws, (a, u), strict=True):
                assert draw.shape == (3, *field.shape)
                assert draw.isfinite().all()


FORWARD = ("forward", "full")


@pytest.mark.parametrize(
    ("name", "direction", "regime", "expected"),
    [
        (
            "poisson",
            "inverse",
            "full",
            ["stencil", "mean field", "lift", "exact posterior"],
        ),
        (
            "navier_stokes",
            "inverse",
            "full",
            ["stencil", "persistence", "mean field", "lift"],
        ),
        ("navier_stokes", "forward", "noisy", ["persistence", "mean field", "lift"]),
        ("darcy", "forward", "sparse", ["mean field", "lift"]),
        (
            "darcy",
            "forward",
            "full",
            [
                *("numerical solver", "mean field", "lift"),
                *("lift (1 iteration)", "lift (2 iterations)"),
            ],
        ),
        ("burgers", "reconstruct", "noisy", ["mean field", "lift"]),
    ],
)
def test_the_door_gives_what_applies(name, direction, regime, expected):
    pde = pdes.load(name, size=16)

    assert list(anchors.of(pde, direction, regime, num=32)) == expected


def test_each_iteration_of_darcys_lift_is_a_row_that_is_nearer_than_the_one_before():
    problems = cells.benchmark(pdes.load("darcy", size=32), n=16)
    found = anchors.of(problems.pde, "forward", "full", num=32)
    rows = {
        name: evaluate(found[name], problems, "forward", "full", method=name)[0]
        for name in (*anchors.CUT, "lift")
    }

    errors = [float(row["value"]) for row in rows.values()]

    # Factors of three and more, as on the 128 problems of the table.
    assert 5 < errors[0] < 10
    assert all(3 * later < sooner for sooner, later in pairwise(errors))
    entries = [tables.entry_of(row | {"scale": "cpu"}) for row in rows.values()]
    assert len({*map(tables.identity, entries)}) == 3


def test_a_lift_without_iterations_refuses_them(poisson):
    seen = cells.observation_of(poisson, "forward", "full")

    with pytest.raises(ConfigError, match="the lift of poisson has no settings"):
        anchors.Lifted(poisson.pde, iterations=1).solve(
            seen, samples=1, generator=seed()
        )


def test_binary_sources_have_no_exact_posterior():
    pde = pdes.load("poisson", size=16, binary=True)

    assert "exact posterior" not in anchors.of(pde, "forward", "noisy", num=32)


def test_the_mean_field_is_drawn_once_for_a_table():
    pde = pdes.load("poisson", size=16)
    first, second = (
        anchors.of(pde, direction, "full", num=32)["mean field"].solve(
            observe(f"full_{direction}", *pde.pair(0, [0]), index=[0]),
            samples=1,
            generator=seed(),
        )
        for direction in ("forward", "inverse")
    )

    assert first[0].data_ptr() == second[0].data_ptr()
    assert torch.equal(first[0][0], data.problems(pde, 32, "train")[0].mean(0, True))


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("direction", "regime", "match"),
    [
        ("reconstruct", "sparse", "unknown direction of poisson"),
        ("forwards", "full", "did you mean 'forward'"),
        ("forward", "sparce", "did you mean 'sparse'"),
    ],
)
def test_cells_that_an_equation_does_not_have_are_refused(
    poisson, direction, regime, match
):
    with pytest.raises(ConfigError, match=match):
        anchors.of(poisson.pde, direction, regime)


def test_the_baselines_rank_as_they_must(poisson):
    def values(direction, regime):
        noise = poisson.noise_sd(regime)
        found = anchors.of(poisson.pde, direction, regime, noise)
        return {
            method: float(
                evaluate(solver, poisson, direction, regime, method=method)[0]["value"]
            )
            for method, solver in found.items()
        }

    full, back = values("forward", "full"), values("inverse", "full")
    sparse, noisy = values("forward", "sparse"), values("forward", "noisy")
    assert full["numerical solver"] < 1e-4
    assert full["exact posterior"] < 0.01
    assert full["lift"] < 0.01
    # The mean of the posterior against one draw of it; that the lift is this mean to
    # rounding is tested with the lifts.
    for cell in (back, sparse, noisy):
        assert cell["lift"] < cell["exact posterior"]
    # One draw errs by the square root of 2 more than the mean; a stencil may be nearer.
    assert back["stencil"] < back["exact posterior"] < 25
    assert full["exact posterior"] < noisy["exact posterior"] < 100
    for cell in (full, back, sparse, noisy):
        assert cell["mean field"] == pytest.approx(100, abs=2)


def test_the_exact_posterior_is_told_the_noise_of_the_cell(poisson):
    def error(noise_sd):
        solver = anchors.of(poisson.pde, "inverse", "noisy", noise_sd)
        row = evaluate(
            solver["exact posterior"], poisson, "inverse", "noisy", method=""
        )
        return float(row[0]["value"])

    right = error(poisson.noise_sd("noisy"))

    assert right < 100 < 0.1 * error(0.0)
    assert poisson.noise_sd("full") == poisson.noise_sd("sparse") == (0, 0)
    sd_a, sd_u = poisson.statistics.std
    assert poisson.noise_sd("noisy", 0.5) == (0.5 * sd_a, 0.5 * sd_u)


def test_persistence_copies_what_was_seen_noise_included(flow):
    for direction, regime in (("forward", "full"), ("inverse", "noisy")):
        seen = cells.observation_of(flow, direction, regime)
        known = seen.a if direction == "forward" else seen.u

        a, u = anchors.Persistence(flow.pde).solve(seen, samples=2, generator=seed())

        assert torch.equal(a, known.expand_as(a))
        assert torch.equal(u, known.expand_as(u))


def test_persistence_is_near_for_a_short_step_only():
    errors = []
    for interval in (0.1, 0.05):
        pde = pdes.load("navier_stokes", size=32, interval=interval)
        a, u = pde.pair(0, range(80))
        seen = observe("full_forward", a, u, index=range(80))
        _, guess = anchors.Persistence(pde).solve(seen, samples=1, generator=seed())
        errors.append(100 * metrics.relative_l2(guess[0], u).mean().item())

    assert errors[0] == pytest.approx(4.8, abs=0.5)
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)


def test_each_baseline_says_what_it_needs(poisson, flow):
    def solve(solver, problems, regime):
        seen = cells.observation_of(problems, "forward", regime)
        return solver.solve(seen, samples=1, generator=seed())

    with pytest.raises(ConfigError, match="whole field u"):
        solve(anchors.Stencil(poisson.pde), poisson, "full")
    with pytest.raises(ConfigError, match="whole field a or u"):
        solve(anchors.Persistence(flow.pde), flow, "sparse")
    with pytest.raises(ConfigError, match="one time step; poisson"):
        solve(anchors.Persistence(poisson.pde), poisson, "full")


class Opaque(pdes.load("poisson").__class__):
    """An equation that does not give its input away."""

    def stencil(self, u):
        return None


def test_an_equation_without_an_explicit_inverse_has_no_stencil(poisson):
    pde = Opaque(size=16)
    seen = cells.observation_of(poisson, "inverse", "full")

    assert "stencil" not in anchors.of(pde, "inverse", "full")
    with pytest.raises(ConfigError, match="no explicit inverse"):
        anchors.Stencil(pde).solve(seen, samples=1, generator=seed())
