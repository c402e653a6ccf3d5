"""Half precision where it is safe, compiling where it works, and nothing that waits."""

import logging
import re
from dataclasses import replace

import pytest
import torch
from torch._dynamo import lookup_backend
from torch._dynamo.backends import registry
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from prisma_lib import data, load, pdes, solve
from prisma_lib.checkpoints import shipped
from prisma_lib.edm import Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.nn.sra import SpectralResidualAttention
from prisma_lib.observe import observation
from prisma_lib.pdes.base import Statistics
from prisma_lib.precision import execution, run_as
from prisma_lib.sample import SAMPLERS
from prisma_lib.solve import PrismaSolver

UNITS = Statistics((0.0, 0.0), (1.0, 1.0), 1e-3)
SYNCS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal", "masked_select")
TINY = ModelConfig.preset("tiny")
LEAST = ModelConfig((8,), (2,), (1,), groups=1, embedding=8)


def network(pde, config=LEAST):
    """A small model whose layers that start at zero are awake."""
    torch.manual_seed(0)
    model = Prisma(pde, config, UNITS).eval()
    for parameter in model.parameters():
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.1)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def model():
    return network(pdes.load("darcy", size=16), TINY)


@pytest.fixture(scope="module")
def least():
    return network(pdes.load("darcy", size=16))


@pytest.fixture(scope="module")
def shipped_model():
    return load(shipped()[0], device="cpu")


@pytest.fixture(scope="module")
def inputs():
    draw = torch.Generator().manual_seed(0)
    x, seen = torch.randn(2, 3, 2, 16, 16, generator=draw)
    return x, torch.tensor([0.1, 1.0, 10.0]), seen, (seen > 0).float()


def distance(mine, theirs):
    return (mine - theirs).norm() / theirs.norm()


class Watch(TorchDispatchMode):
    """Keeps the name of every operation and the dtypes that enter it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
        self.seen.append((func.name().split("::")[1], {t.dtype for t in tensors}))
        return func(*args, **(kwargs or {}))

    def dtypes(self, word):
        return set().union(*(kinds for name, kinds in self.seen if word in name))

    def waits(self):
        """Operations whose result a GPU would have to be waited for."""
        for name, kinds in self.seen:
            plain = name.split(".")[0]
            if plain in SYNCS or (plain == "index" and torch.bool in kinds):
                yield name


@pytest.mark.parametrize(
    ("name", "sampler", "config"),
    [(n, "heun", LEAST) for n in pdes.names()] + [("darcy", s, TINY) for s in SAMPLERS],
)
def test_no_sampler_waits_for_the_device_between_steps(quick, name, sampler, config):
    pde = quick(name, 16)
    a = torch.rand(2, 1, 16, 16)
    counts = []
    for steps in (1, 3):
        solver = PrismaSolver(network(pde, config), Schedule(steps), sampler)
        seen = observation(pde, a=a)
        with Watch() as watch:
            solver.solve(seen, samples=1, generator=torch.Generator())
        counts.append(len(list(watch.waits())))

    assert counts[0] == counts[1]


def test_watching_sees_what_would_wait():
    x = torch.arange(3.0)
    with Watch() as watch:
        assert x.isfinite().all()
        x[x > 1]
        x.max().item()

    assert len(list(watch.waits())) == 3


def test_bf16_multiplies_matrices_in_bf16_and_transforms_in_float32(quick, inputs):
    model = network(quick("navier_stokes", 16))  # whose residual takes FFTs
    fast, scores = run_as(model, "bf16"), []
    for module in fast.modules():
        if isinstance(module, SpectralResidualAttention):
            real = module.attention.score

            def spy(x, r, real=real):
                result = real(x, r)
                scores.append({x.dtype, r.dtype, result.dtype})
                return result

            module.attention = replace(module.attention, score=spy)

    with Watch() as watch:
        denoised = fast(*inputs)

    assert watch.dtypes("fft_r2c") == {torch.float32}
    assert watch.dtypes("fft_c2r") == {torch.complex64}
    assert torch.bfloat16 in watch.dtypes("bmm")
    assert watch.dtypes("convolution") >= {torch.bfloat16}
    assert scores
    assert all(kinds == {torch.float32} for kinds in scores)
    assert denoised.dtype == torch.float32


def test_bf16_rounds_nothing_between_observations_and_output(model, inputs):
    net, seen = model.backbone, []
    carriers = [net.lifting, *net.widen, *net.narrow, net.project]
    handles = [
        layer.register_forward_hook(
            lambda module, given, out: seen.extend([given[0].dtype, out.dtype])
        )
        for layer in carriers
    ]
    run_as(model, "bf16")(*inputs)
    for handle in handles:
        handle.remove()

    assert seen == [torch.float32] * 2 * len(carriers)


def test_bf16_residual_is_bitwise_that_of_float32(model, inputs):
    x, _, seen, mask = inputs

    fast, _ = run_as(model, "bf16").residual_levels(x, seen, mask)

    plain, _ = model.residual_levels(x, seen, mask)
    torch.testing.assert_close(fast, plain, rtol=0, atol=0)


def test_another_way_of_running_shares_the_weights_and_leaves_the_model(model, inputs):
    before = model(*inputs)

    fast = run_as(model, "bf16")

    assert 0 < distance(fast(*inputs), before) < 2e-2
    torch.testing.assert_close(model(*inputs), before, rtol=0, atol=0)
    assert execution(model) == execution(run_as(model)) == "float32, eager"
    pairs = zip(fast.parameters(), model.parameters(), strict=True)
    assert all(mine is theirs for mine, theirs in pairs)


@pytest.mark.slow
def test_bf16_draws_are_those_of_float32_within_two_percent(shipped_model):
    """Where u is given, edges of the rock may move by a point: as many are right."""
    pde = shipped_model.pde
    a, u = data.problems(pde, 8, split="test")
    few = torch.rand(u.shape, generator=torch.Generator().manual_seed(0)) < 0.03
    forward, sparse, inverse = slice(0, 2), slice(2, 4), slice(4, 8)
    seen_a, seen_u = torch.full_like(a, torch.nan), torch.full_like(u, torch.nan)
    seen_a[forward], seen_u[inverse] = a[forward], u[inverse]
    seen_u[sparse] = torch.where(few, u, torch.nan)[sparse]

    half, full = (
        solve(shipped_model, a=seen_a, u=seen_u, steps=20, seed=0, precision=precision)
        for precision in ("bf16", "float32")
    )

    assert half.execution == "bf16, eager"
    assert distance(half.a[0, forward], full.a[0, forward]) < 2e-2
    for part in (forward, sparse, inverse):
        assert distance(half.u[0, part], full.u[0, part]) < 2e-2
    misjudged = [(pde.snap(x.a[0]) != a)[2:].float().mean() for x in (half, full)]
    assert abs(misjudged[0] - misjudged[1]) < 5e-3


def broken(graph, example):
    raise RuntimeError("this backend breaks\nin two lines")


def crooked(graph, example):
    return lambda *args: [1.01 * out for out in graph(*args)]


def recorded(graph, example):
    """The backend aot_eager, which lowers the graph and runs it as it is."""
    examples = (node.meta.get("example_value") for node in graph.graph.nodes)
    recorded.dtypes = {x.dtype for x in examples if isinstance(x, torch.Tensor)}
    return lookup_backend("aot_eager")(graph, example)


@pytest.fixture
def backend():
    """Makes a function known to torch.compile under its name."""
    names = []

    def register(function):
        registry.register_backend(function)
        names.append(function.__name__)
        return function.__name__

    yield register
    for name in names:
        registry._BACKENDS.pop(name)
        registry._COMPILER_FNS.pop(name)


@pytest.mark.usefixtures("untyped")
def test_a_compiled_network_gives_the_same_draws_from_constant_tables(least, backend):
    a = least.pde.draw(0, [0, 1])

    fast, plain = (
        solve(least, a=a, steps=3, seed=0, compile=compile)
        for compile in (backend(recorded), False)
    )

    assert fast.execution == "float32, compiled by recorded"
    assert plain.execution == "float32, eager"
    assert distance(fast.u, plain.u) < 1e-5
    # Cosine tables are made in float64: none is made in the compiled graph.
    assert torch.float32 in recorded.dtypes
    assert torch.float64 not in recorded.dtypes


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken, "BackendCompilerFailed: .*this backend breaks"),
        (crooked, r"NumericsError: its result is off by 1\.0e-02"),
    ],
)
def test_compiling_that_fails_falls_back_and_says_so(
    least, inputs, backend, function, reason, caplog
):
    fast = run_as(least, compile=backend(function))

    with caplog.at_level(logging.WARNING, logger="prisma_lib"):
        denoised, again = fast(*inputs), fast(*inputs)

    plain = least(*inputs)
    torch.testing.assert_close(denoised, plain, rtol=0, atol=0)
    torch.testing.assert_close(again, plain, rtol=0, atol=0)
    expected = f"float32, eager, for compiling failed: {reason}"
    assert re.match(expected, execution(fast))
    warned = [r for r in caplog.records if r.name == "prisma_lib.precision"]
    assert len(warned) == 1
    assert "compiling failed" in warned[0].getMessage()


def test_a_shortage_of_memory_is_not_taken_for_a_failed_compilation(least, inputs):
    fast = run_as(least, compile="aot_eager")

    def hungry(*args):
        raise torch.OutOfMemoryError("no room")

    fast.backbone.forward.compiled = hungry

    with pytest.raises(torch.OutOfMemoryError):
        fast(*inputs)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "settings",
    [{"precision": None}, {"precision": 16}, {"compile": 1}, {"compile": []}],
)
def test_wrong_types_are_refused(model, settings):
    with pytest.raises(ConfigError):
        run_as(model, **settings)
