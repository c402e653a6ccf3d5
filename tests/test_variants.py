"""Every residual strategy as a model: its cost, its types, its grids, its numbers."""

import copy

import pytest
import torch

from prisma_lib import anatomy, checkpoints, data, pdes
from prisma_lib.edm import Schedule
from prisma_lib.errors import ShapeError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.sra import ATTENTION, Strategy, record
from prisma_lib.observe import observe
from prisma_lib.pdes.base import Statistics
from prisma_lib.solve import PrismaSolver

SIZE = 16
STRATEGIES = [strategy.value for strategy in Strategy]


@pytest.fixture(scope="module")
def pde():
    return pdes.load("darcy", size=SIZE)


@pytest.fixture(scope="module")
def statistics(pde):
    return data.statistics(pde, num=16)


@pytest.fixture
def build(pde, statistics):
    def make(strategy):
        torch.manual_seed(0)
        config = ModelConfig.preset("tiny", strategy=strategy)
        model = Prisma(pde, config, statistics).eval()
        for parameter in model.parameters():  # wake the layers that start at zero
            if parameter.abs().max() == 0:
                torch.nn.init.normal_(parameter, std=0.1)
        return model.requires_grad_(False)

    return make


def inputs(size=SIZE, dtype=torch.float32):
    draw = torch.randn(3, 2, size, size, generator=torch.Generator().manual_seed(0))
    mask = torch.zeros_like(draw)
    mask[:, :, ::3, ::2] = 1
    x_obs = torch.where(mask > 0, draw.flip(0), 0.0)
    sigma = torch.tensor([0.01, 1.0, 80.0])
    x_sigma = draw * sigma[:, None, None, None]
    return [part.to(dtype) for part in (x_sigma, sigma, x_obs, mask)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_residual_is_evaluated_once_a_network_call_or_never(
    pde, build, strategy, monkeypatch
):
    calls, real = [], type(pde).residual

    def spy(self, a, u):
        calls.append(self.name)
        return real(self, a, u)

    monkeypatch.setattr(type(pde), "residual", spy)
    a, u = data.problems(pde, 1, split="test")
    solver = PrismaSolver(build(strategy), Schedule(3))

    solver.solve(
        observe("full_forward", a, u, index=[0]),
        samples=2,
        generator=torch.Generator().manual_seed(0),
    )

    assert len(calls) == (0 if strategy == "none" else solver.calls)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_observations_reach_the_residual_of_all_but_the_unguided(build, strategy):
    model = build(strategy)
    x_sigma, _, x_obs, mask = inputs()

    guided = model.residual(x_sigma, x_obs, mask)

    alone = model.residual(x_sigma, x_obs, torch.zeros_like(mask))
    assert torch.equal(guided, alone) == (strategy == "unguided")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blocks_attend_only_where_the_strategy_says(build, strategy):
    model = build(strategy)

    with record(model) as traces:
        model(*inputs())

    blocks = 2 * sum(model.config.blocks) - model.config.blocks[-1]
    attends = Strategy(strategy) in ATTENTION
    assert [len(kept) for kept in traces.values()] == [1] * (blocks * attends)


def test_parameters_of_the_parts_sum_to_the_model(build):
    model = build("sra")

    parts = anatomy.parameters(model)

    assert sum(parts.values()) == sum(p.numel() for p in model.parameters())
    assert all(parts.values())


@pytest.mark.parametrize("preset", ModelConfig.PRESETS)
def test_variants_differ_in_parameters_by_attention_alone(pde, preset):
    found = anatomy.sizes(pde, ModelConfig.preset(preset))

    extra = ("mask gains", "gates", "residual lifts")
    sra = found["sra"]
    assert {*STRATEGIES} - {*found} == {"newton"}  # which is not the paper's
    for strategy in found:
        if Strategy(strategy) in ATTENTION:
            assert found[strategy] == sra
        else:
            kept = {part: n for part, n in found[strategy].items() if n != sra[part]}
            assert set(kept) - {"between levels, in and out"} == set(extra)
            assert not any(kept[part] for part in extra)
    # One more input channel of the first convolution, 3 x 3 weights to each feature.
    more = sum(found["concat"].values()) - sum(found["none"].values())
    assert more == 9 * ModelConfig.preset(preset).widths[0]
    share = 1 - sum(found["none"].values()) / sum(sra.values())
    assert share < (0.03 if preset == "paper" else 0.07)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_parameter_is_complex(build, strategy):
    assert not any(p.is_complex() for p in build(strategy).state_dict().values())


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 3e-2), (torch.float16, 4e-3), (torch.float64, 1e-5)],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_casts_keep_the_output_and_the_units(build, strategy, dtype, tolerance):
    model = build(strategy)
    before = model(*inputs())
    statistics = [model.mean.clone(), model.std.clone(), model.residual_floor.clone()]

    cast = model.to(dtype)
    after = cast(*inputs())

    assert all(p.dtype == dtype for p in cast.parameters())
    units = [cast.mean, cast.std, cast.residual_floor]
    assert all(map(torch.equal, units, statistics))
    error = (after - before).flatten(1).norm(dim=1) / before.flatten(1).norm(dim=1)
    assert error.max() < tolerance


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_copies_and_stored_models_give_the_same_output(build, strategy, tmp_path):
    model = build(strategy)
    before = model(*inputs())

    checkpoints.save(tmp_path, model, dtype=torch.float32)

    assert torch.equal(copy.deepcopy(model)(*inputs()), before)
    assert torch.equal(checkpoints.load(tmp_path)(*inputs()), before)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [8, 32, 64, 128])
def test_model_of_n_points_runs_on_half_to_eight_times_as_many(build, strategy, size):
    model = build(strategy)

    denoised = model(*(part[:1] for part in inputs(size)))

    assert denoised.shape == (1, 2, size, size)
    assert torch.isfinite(denoised).all()


@pytest.mark.parametrize("shape", [(16, 20), (32, 16)])
def test_fields_that_are_not_square_are_refused_with_a_way_out(build, shape):
    model = build("sra")
    field = torch.zeros(3, 2, *shape)

    with pytest.raises(ShapeError, match=rf"{shape[0]} x {shape[1]} .* not square"):
        model(field, torch.ones(3), field, field)


def test_fields_that_cannot_be_pooled_are_refused_with_valid_sizes(build):
    field = torch.zeros(3, 2, 18, 18)

    with pytest.raises(ShapeError, match="such as 16 or 20"):
        build("sra")(field, torch.ones(3), field, field)


@pytest.mark.parametrize("size", [4, 17, 18, 22, 30])
def test_sizes_named_in_a_refusal_are_valid(statistics, size):
    config = ModelConfig.preset("tiny")

    with pytest.raises(ShapeError, match=r"multiple of 4, such as (\d+) or \d+") as no:
        Prisma(pdes.load("darcy", size=size), config, statistics)

    low, high = (int(word) for word in str(no.value).split()[-3::2])
    for named in (low, high):
        Prisma(pdes.load("darcy", size=named), config, statistics)


def test_coordinates_are_made_once_for_a_grid(build):
    model = build("none")
    with torch.inference_mode():
        first = model(*inputs())
    built = []

    class Spy(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, given=(), kwargs=None):
            built.append(function.__name__)
            return function(*given, **(kwargs or {}))

    with Spy():
        again = model(*inputs())

    assert torch.equal(first, again)
    assert "meshgrid" not in built
    assert "cat" in built  # the spy sees what is called


@pytest.mark.parametrize(("name", "last"), [("poisson", 0.5), ("kolmogorov", 0.4375)])
def test_network_sees_where_the_nodes_are(name, last, quick):
    model = Prisma(
        quick(name, SIZE), ModelConfig.preset("tiny"), Statistics((0, 0), (1, 1), 1)
    )
    seen = []
    model.backbone.lifting.register_forward_pre_hook(lambda _, x: seen.append(x[0]))

    model(*inputs())

    ramp = torch.linspace(-0.5, last, SIZE)
    for sample in seen[0][:, 6:]:
        torch.testing.assert_close(sample[0], ramp[:, None].expand(SIZE, SIZE))
        torch.testing.assert_close(sample[1], ramp.expand(SIZE, SIZE))
