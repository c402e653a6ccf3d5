"""Spectral residual attention: what the score sees, what each variant ignores."""

import pytest
import torch

from prisma_lib.nn.spectral import analyse, synthesise
from prisma_lib.nn.sra import (
    ATTENTION,
    SpectralResidualAttention,
    Strategy,
    coherence,
    phase_blind,
    record,
    residual_magnitude,
    unit_rms,
)

MODES = (4, 4)
CHANNELS = 8


@pytest.fixture
def spectra():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, CHANNELS, 16, 16, generator=generator)
    r = torch.randn(3, CHANNELS, 16, 16, generator=generator)
    return analyse(x, MODES), analyse(r, MODES)


def rotate(r, phase):
    """Multiplies spectra by exp(i phase), a phase per channel or one for all."""
    real, imaginary = r.unbind(2)
    c, s = torch.cos(phase), torch.sin(phase)
    return torch.stack([c * real - s * imaginary, s * real + c * imaginary], 2)


def attention(strategy=Strategy.SRA):
    torch.manual_seed(0)
    return SpectralResidualAttention(ATTENTION[strategy], MODES, 16, 2)


def modulated(block, x, r, summary=None):
    embedding = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    summary = torch.zeros(3, 2) if summary is None else summary
    return block(x, r, MODES, embedding, summary).detach()


def trace_of(block, x, r):
    with record(block) as traces:
        modulated(block, x, r)
    return traces[""][0]


def test_score_is_the_modulus_of_the_channel_inner_product(spectra):
    x, r = spectra
    z = torch.complex(x[:, :, 0], x[:, :, 1]) * torch.complex(r[:, :, 0], -r[:, :, 1])

    score = coherence(x, r)

    expected = z.sum(-1).abs() / CHANNELS**0.5
    torch.testing.assert_close(score, expected, rtol=1e-5, atol=1e-8)


def change(what, block, x, r):
    """Changes one thing that a block sees, and returns its spectra."""
    phases = torch.linspace(0, 5, CHANNELS)
    if what == "gate":
        torch.nn.init.constant_(block.gate[2].bias, 3.0)
    return {
        "phase per channel": (x, rotate(r, phases)),
        "common phase": (x, rotate(r, torch.tensor(1.3))),
        "features": (x.flip(0), r),
        "residual": (x, r.flip(0)),
        "gate": (x, r),
    }[what]


# What moves the factor of each mode; nothing else may.
SEES = {
    Strategy.SRA: {"phase per channel", "features", "residual", "gate"},
    Strategy.UNGUIDED: {"phase per channel", "features", "residual", "gate"},
    Strategy.MULTIPLICATIVE: {"phase per channel", "features", "residual", "gate"},
    Strategy.NO_GATE: {"phase per channel", "features", "residual"},
    Strategy.PHASE_BLIND: {"features", "residual", "gate"},
    Strategy.MAGNITUDE_ONLY: {"residual", "gate"},
}


@pytest.mark.parametrize(
    "what", ["phase per channel", "common phase", "features", "residual", "gate"]
)
@pytest.mark.parametrize("strategy", ATTENTION, ids=lambda strategy: strategy.value)
def test_variant_sees_what_it_says_and_nothing_else(spectra, strategy, what):
    block = attention(strategy)
    before = trace_of(block, *spectra).factor

    after = trace_of(block, *change(what, block, *spectra)).factor

    moved = (after - before).abs().max()
    assert moved > 1e-2 if what in SEES[strategy] else moved < 1e-6


def test_scores_are_phase_blind_or_magnitudes_as_their_names_say(spectra):
    x, r = spectra
    sizes = [torch.hypot(*z.unbind(2)) for z in (x, r)]

    torch.testing.assert_close(
        phase_blind(x, r), (sizes[0] * sizes[1]).sum(-1) / CHANNELS**0.5
    )
    torch.testing.assert_close(
        residual_magnitude(x, r), sizes[1].square().mean(-1).sqrt()
    )
    assert (coherence(x, r) <= phase_blind(x, r)).all()


def test_a_closed_gate_is_the_identity(spectra):
    x, r = spectra
    block = attention()
    torch.nn.init.constant_(block.gate[2].bias, -100.0)

    torch.testing.assert_close(modulated(block, x, r), x)


def test_an_open_gate_without_residual_halves_every_mode(spectra):
    x, r = spectra
    block = attention()
    torch.nn.init.constant_(block.gate[2].bias, 100.0)

    torch.testing.assert_close(modulated(block, x, torch.zeros_like(r)), x / 2)


def test_multiplicative_gate_can_close_a_mode_which_the_skip_cannot(spectra):
    x, r = spectra
    block = attention(Strategy.MULTIPLICATIVE)
    torch.nn.init.constant_(block.gate[2].bias, -100.0)

    assert modulated(block, x, r).abs().max() < 1e-20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_mask_does_not_depend_on_the_scale_of_either_spectrum(spectra, scale):
    x, r = spectra
    block = attention()

    scaled = block.mask(x * scale, r / scale, MODES)

    torch.testing.assert_close(scaled, block.mask(x, r, MODES), rtol=1e-4, atol=1e-6)


def test_mask_lies_between_one_half_and_one(spectra):
    a = attention().mask(*spectra, MODES)

    assert a.min() >= 0.5
    assert a.max() < 1


def test_unit_rms_leaves_the_mean_out(spectra):
    x, _ = spectra
    x = x.clone()
    mean_mode = MODES[0] * (MODES[1] + 1)
    x[mean_mode] *= 1e3

    power = unit_rms(x, MODES).square().sum(2).mean(-1)

    others = torch.cat([power[:mean_mode], power[mean_mode + 1 :]]).mean(0)
    torch.testing.assert_close(others, torch.ones(3))


@pytest.mark.parametrize("strategy", ATTENTION)
def test_a_grid_with_one_mode_has_no_score_and_finite_gradients(strategy):
    generator = torch.Generator().manual_seed(0)
    x, r = (
        analyse(torch.randn(3, CHANNELS, 2, 2, generator=generator), (0, 0))
        for _ in range(2)
    )
    x.requires_grad_()
    block = attention(strategy)

    block(x, r, (0, 0), torch.randn(3, 16), torch.zeros(3, 2)).square().sum().backward()

    assert block.score(x, r, (0, 0)).max() < 1e-9
    # Without a gate its layers have no gradient at all.
    found = [w.grad for w in (x, *block.parameters()) if w.grad is not None]
    assert all(gradient.isfinite().all() for gradient in found)


def test_gradients_are_finite_where_the_residual_is_exactly_zero(spectra):
    x, r = spectra
    x, r = x.requires_grad_(), torch.zeros_like(r).requires_grad_()

    attention()(x, r, MODES, torch.ones(3, 16), torch.zeros(3, 2)).sum().backward()

    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(r.grad).all()


def test_record_keeps_what_happened_and_changes_nothing(spectra):
    x, r = spectra
    block = attention()
    before = modulated(block, x, r)

    with record(torch.nn.ModuleDict({"here": block})) as traces:
        during = [modulated(block, x, r), modulated(block, x.flip(0), r)]
    modulated(block, x, r)

    assert torch.equal(during[0], before)
    assert list(traces) == ["here"]
    first, second = traces["here"]  # the call after the block is not there
    g = first.strength
    torch.testing.assert_close(first.factor, 1 - g + g * first.mask)
    torch.testing.assert_close(first.features * first.factor[:, :, None, None], before)
    assert torch.equal(second.features, x.flip(0))
    assert not first.mask.requires_grad


def test_record_lets_go_of_the_network_when_its_code_fails(spectra):
    block = attention()

    with pytest.raises(KeyError), record(block) as traces:
        raise KeyError

    modulated(block, *spectra)
    assert traces == {"": []}


@pytest.mark.parametrize("strategy", ATTENTION, ids=lambda strategy: strategy.value)
def test_modulated_field_is_the_same_function_on_every_grid(spectra, strategy):
    """Band-limited features and residual, sampled at n, 2n and 4n points."""
    block, n = attention(strategy), 12
    found = []
    for size in (n, 2 * n, 4 * n):
        shape = (size, size)
        fields = [synthesise(z, MODES, shape) for z in spectra]
        x, r = (analyse(field, MODES) for field in fields)
        found.append(synthesise(modulated(block, x, r), MODES, shape))

    for factor, fine in ((2, found[1]), (4, found[2])):
        nodes = fine[..., ::factor, ::factor]
        torch.testing.assert_close(nodes, found[0], rtol=0, atol=1e-5)
    assert found[0].std() > 0.01
