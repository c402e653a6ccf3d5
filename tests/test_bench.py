"""The bench measures what it says, and writes rows that the tables can read."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from prisma_lib import baselines, blocks, flux_form, pdes, results
from prisma_lib.bench import direct, measure, rivals
from prisma_lib.bench.__main__ import BENCHES, main
from prisma_lib.bench.model import contestants, parameters
from prisma_lib.bench.networks import job
from prisma_lib.bench.noise import dense_covariance
from prisma_lib.bench.spectral import OurConv, useful_operations
from prisma_lib.fields import GRFNoise
from prisma_lib.grids import Grid
from prisma_lib.nn.spectral import ModeProduct
from prisma_lib.tables import Paper

CPU = torch.device("cpu")
TINY = measure.Network("tiny", 16, 2)


@pytest.fixture
def work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def clock(monkeypatch, *ticks):
    left = iter(ticks)
    stopwatch = SimpleNamespace(perf_counter=lambda: next(left))
    monkeypatch.setattr(measure, "time", stopwatch)


def test_the_warm_up_is_left_out_of_the_median(monkeypatch):
    clock(monkeypatch, 0, 7, 10, 11, 20, 25, 30, 32)  # two begin, then begin and end

    assert measure.timed(lambda: None, CPU, runs=2) == 3.5


def test_works_that_are_compared_take_turns(monkeypatch):
    clock(monkeypatch, 0, 1, 0, 5, 0, 3, 0, 7)
    order = []
    works = {name: lambda name=name: order.append(name) for name in ("one", "two")}

    times = measure.timed_in_turn(works, CPU, runs=2, warm_up=0)

    assert order == ["one", "two", "one", "two"]
    assert times == {"one": 2, "two": 6}


def test_order_statistics_hold_the_median_of_ten_runs_as_often_as_they_say():
    runs = torch.randn(20_000, 10, generator=torch.Generator().manual_seed(0)).tolist()
    found = [measure.median_interval(each) for each in runs]

    held = sum(low <= 0 <= high for _, low, high in found) / len(found)
    assert held == pytest.approx(1 - 22 / 1024, abs=0.004)  # 1 + 10 of 2^10, twice
    assert found[0].low == sorted(runs[0])[1]
    assert found[0].high == sorted(runs[0])[-2]


@pytest.mark.parametrize(("num", "rank"), [(5, 0), (6, 1), (8, 1), (9, 2), (20, 6)])
def test_few_runs_have_wide_intervals_or_none(num, rank):
    value, low, high = measure.median_interval(range(1, num + 1))

    assert value == (num + 1) / 2
    if rank:
        assert (low, high) == (rank, num + 1 - rank)
    else:
        assert np.isnan([low, high]).all()
        assert measure.columns(range(1, num + 1))["low"] == ""


def test_an_unknown_bench_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["dta"])

    assert stopped.value.code == 2
    assert "choose of model" in capsys.readouterr().err


def test_peak_memory_is_the_most_at_one_time_and_not_the_sum():
    def work():
        x = torch.ones(1000, 1000)
        y = x + 1
        del x
        return y.exp().log()

    weights = torch.ones(1000, 1000)  # stands already: it does not count

    assert measure.peak_megabytes(work, CPU) == pytest.approx(12, rel=0.01)
    assert measure.peak_megabytes(lambda: weights.add_(1), CPU) < 0.01


def test_operations_of_a_matrix_product_are_counted():
    left, right = torch.ones(3, 5), torch.ones(5, 7)

    assert measure.operations(lambda: left @ right) == 2 * 3 * 5 * 7


def test_what_is_not_installed_is_left_out_with_a_line(capsys):
    assert measure.optional("no_such_package") is None

    assert "left out: what needs no_such_package" in capsys.readouterr().out


def test_dense_covariance_is_that_of_the_noise():
    noise = GRFNoise(Grid((6, 5)), scale=0.3)
    m1, m2 = noise.white_shape
    impulses = torch.eye(m1 * m2, dtype=torch.float64).view(-1, 1, m1, m2)

    columns = noise.colour(impulses).flatten(1)

    torch.testing.assert_close(columns.T @ columns, dense_covariance(noise))


@pytest.mark.parametrize("ordering", direct.ORDERINGS)
def test_the_direct_solver_solves_the_same_equation(ordering):
    pytest.importorskip("scipy")
    pde = pdes.load("darcy", size=17)
    a = pde.draw(0, range(2)).double()

    matrix = flux_form.matrix(a[1, 0], pde.grid.spacing)
    u = direct.direct_solve(matrix, np.ones(15**2), ordering).reshape(15, 15)

    expected = pde.solve(a)[1, 0, 1:-1, 1:-1]
    torch.testing.assert_close(torch.from_numpy(u), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("groups", [1, 3])
def test_useful_operations_are_what_our_convolution_computes(groups):
    conv = OurConv(ModeProduct(6, (3, 2), groups))
    h = torch.randn(2, 6, 12, 10)

    done = measure.operations(lambda: conv(h))

    assert done == useful_operations(2, 6, (3, 2), (12, 10), groups)


@pytest.mark.parametrize("groups", [1, 3])
def test_einsum_convolution_computes_what_ours_does(groups):
    product = ModeProduct(6, (3, 2), groups)
    h = torch.randn(2, 6, 12, 10)

    found = rivals.EinsumConv(product)(h)

    torch.testing.assert_close(found, OurConv(product)(h), rtol=1e-5, atol=1e-5)


def test_layer_of_neuralop_keeps_our_modes():
    layer = pytest.importorskip("neuralop.layers.spectral_convolution")
    product = ModeProduct(6, (3, 2), groups=1)
    conv = rivals.neuralop_conv(6, (3, 2), layer)
    with torch.no_grad():
        conv.weight.tensor.copy_(rivals.EinsumConv(product).weight[0])
    h = torch.randn(2, 6, 12, 10)

    torch.testing.assert_close(conv(h), OurConv(product)(h), rtol=1e-5, atol=1e-5)


def randomised(work):
    """Gives a new network weights that leave no part of it at zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in work.model.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return work


@pytest.mark.parametrize("groups", [1, 4])
def test_network_with_einsum_computes_what_ours_does(groups):
    ours = randomised(job(TINY, CPU, strategy="none", groups=groups))
    other = randomised(job(TINY, CPU, strategy="none", groups=groups))
    rivals.with_einsum(other.model)

    assert parameters(other.model) == parameters(ours.model)
    torch.testing.assert_close(other.call(), ours.call(), rtol=1e-4, atol=1e-4)


def test_dropout_is_on_in_training_steps_and_off_in_calls():
    work = randomised(job(TINY, CPU, dropout=0.5))
    step = work.step()

    assert torch.equal(work.infer(), work.infer())
    step()
    assert not torch.equal(work.call(), work.call())
    assert torch.equal(work.infer(), work.infer())


def test_a_training_step_of_every_contestant_moves_its_weights():
    for name, work in contestants(TINY, CPU).items():
        before = [p.detach().clone() for p in work.model.parameters()]

        work.step()()

        after = list(work.model.parameters())
        assert all(p.isfinite().all() for p in after), name
        assert not all(map(torch.equal, before, after)), name


def test_neuralop_networks_have_the_parts_that_they_claim():
    pytest.importorskip("neuralop")
    jobs = contestants(TINY, CPU)
    layers = {
        name: [type(m).__name__ for m in work.model.modules()]
        for name, work in jobs.items()
    }

    blocks = layers["plain dense"].count("Block")
    assert parameters(jobs["neuralop"].model) == parameters(jobs["plain dense"].model)
    assert layers["neuralop"].count("SpectralConv") == blocks
    assert layers["FunDPS"].count("SpectralConv") == 2 * blocks
    local = layers["neuralop"].count("LocalConv")
    assert local - layers["FunDPS"].count("LocalConv") == 2 * blocks


def test_rows_of_a_bench_replace_its_older_ones_and_make_a_table(work_folder, capsys):
    path = work_folder / "bench.csv"
    command = [*("--device", "cpu", "--scale", "smoke", "--results", str(path))]

    assert main(["noise", *command]) == 0
    assert main(["noise", "spectral", *command]) == 0

    rows = results.read(path)
    assert len({(row["setting"], row["metric"]) for row in rows}) == len(rows)
    assert {row["method"] for row in rows} == {"noise", "spectral"}
    assert all(float(row["value"]) > 0 for row in rows)
    assert all(row["device"] and row["scale"] == "smoke" for row in rows)
    assert rows[0]["device"] in capsys.readouterr().out
    assert "draws per s" in blocks.bench(rows, Paper([]))


@pytest.mark.slow
def test_every_bench_has_rows(work_folder):
    path = work_folder / "bench.csv"
    smoke = ["--device", "cpu", "--scale", "smoke", "--results", str(path)]

    assert main(smoke) == 0

    rows = results.read(path)
    runs = {row["run"].split("-")[1] for row in rows}
    assert runs == set(BENCHES)
    made = {row["pde"] for row in rows if row["metric"] == "data_over_step"}
    assert made == set(pdes.names())
    values = {
        (row["method"], row["setting"], row["metric"]): float(row["value"])
        for row in rows
    }
    step = "preset=tiny;size=16;batch=2;training step"
    product = values["model", step, "ms"] * values["model", step, "images_per_s"]
    assert product == pytest.approx(2000, rel=0.02)
    parts = [f"percent_{part}" for part in ("residual", "network", "rest")]
    sampling = "preset=tiny;size=16;batch=2;sampling step"
    whole = sum(values["model", sampling, part] for part in parts)
    assert whole == pytest.approx(100, abs=1)
    times = {
        setting.split(";preset")[0]: value
        for (what, setting, metric), value in values.items()
        if (what, metric) == ("methods", "over_prisma")
    }
    assert times["PRISMA;steps=20"] == 1
    long, short = (times[f"FunDPS;steps={n};extrapolated"] for n in (500, 200))
    assert long == pytest.approx(2.5 * short, rel=0.02)
    assert len(times) == len(baselines.names()) + 3  # PRISMA, and two of two
