"""Training in bfloat16: what stays in float32, and that it goes on bitwise."""

from copy import deepcopy
from dataclasses import replace
from itertools import islice

import pytest
import torch
from test_precision import Watch

from prisma_lib import pdes, resume, train
from prisma_lib.errors import CheckpointError, ConfigError
from prisma_lib.nn.sra import SpectralResidualAttention
from prisma_lib.training import TrainConfig, loop, start

CPU = torch.device("cpu")
CONFIG = TrainConfig(size=16, preset="tiny", images=12 * 8, batch=8, warmup=24)


def test_the_losses_of_a_step_are_near_those_of_float32_and_not_the_same():
    state = start(CONFIG, CPU)
    for _ in islice(loop(state), 8):  # an untrained output is zero in both
        pass

    plain, fast = (
        next(loop(replace(deepcopy(state), config=replace(CONFIG, precision=p))))
        for p in ("float32", "bf16")
    )

    assert fast.loss == pytest.approx(plain.loss, rel=2e-2)
    assert fast.losses == pytest.approx(plain.losses, rel=2e-2)
    assert fast.losses != plain.losses
    assert fast.gradient_norm == pytest.approx(plain.gradient_norm, rel=5e-2)


def test_transforms_loss_weights_and_moments_are_float32():
    # Its residual takes Fourier transforms.
    flow = {"pde": "kolmogorov", "options": pdes.quick("kolmogorov")}
    state = start(replace(CONFIG, precision="bf16", **flow), CPU)
    states, scores = loop(state), []
    next(states)
    for module in state.model.modules():
        if isinstance(module, SpectralResidualAttention):
            module.register_forward_hook(
                lambda _module, _given, out: scores.append(out.dtype)
            )

    with Watch() as watch:
        next(states)

    assert watch.dtypes("fft_r2c") == {torch.float32}
    assert torch.bfloat16 in watch.dtypes("bmm") | watch.dtypes("mm")
    assert torch.bfloat16 in watch.dtypes("convolution_backward")
    assert scores
    kept = resume.tensors(state).values()
    assert {value.dtype for value in kept} == {torch.float32}
    assert {p.grad.dtype for p in state.model.parameters()} == {torch.float32}


def finished(folder, cuts):
    config = replace(CONFIG, precision="bf16")
    for stop in [*cuts, None]:
        state = train.begin(config, folder)
        for _ in train.run(state, folder, checkpoint_every=0.0):
            if state.step == stop:
                break
    return resume.tensors(state)


def test_a_run_that_was_cut_ends_bitwise_the_same(tmp_path):
    whole, parts = finished(tmp_path / "one", []), finished(tmp_path / "two", [3, 4])

    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    with pytest.raises(CheckpointError, match="precision: 'bf16' -> 'float32'"):
        train.begin(CONFIG, tmp_path / "two")


def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match=r"unknown precision 'fp16'.* bf16"):
        replace(CONFIG, precision="fp16")
