"""Spectral residual attention: what the score sees, what each variant ignores."""

import pytest
import torch

from prisma_lib.nn.spectral import analyse
from prisma_lib.nn.sra import (
    ATTENTION,
    SpectralResidualAttention,
    Strategy,
    coherence,
    phase_blind,
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


def test_score_is_the_modulus_of_the_channel_inner_product(spectra):
    x, r = spectra
    z = torch.complex(x[:, :, 0], x[:, :, 1]) * torch.complex(r[:, :, 0], -r[:, :, 1])

    score = coherence(x, r)

    expected = z.sum(-1).abs() / CHANNELS**0.5
    torch.testing.assert_close(score, expected, rtol=1e-5, atol=1e-8)


def test_independent_phases_change_the_score_and_a_common_phase_does_not(spectra):
    x, r = spectra
    independent = torch.linspace(0, 5, CHANNELS)
    common = torch.tensor(1.3)

    assert not torch.allclose(coherence(x, rotate(r, independent)), coherence(x, r))
    torch.testing.assert_close(coherence(x, rotate(r, common)), coherence(x, r))


def test_phase_blind_ignores_independent_phases(spectra):
    x, r = spectra

    turned = phase_blind(x, rotate(r, torch.linspace(0, 5, CHANNELS)))

    torch.testing.assert_close(turned, phase_blind(x, r))


def test_magnitude_only_ignores_the_features(spectra):
    x, r = spectra

    torch.testing.assert_close(
        residual_magnitude(x * 3 + 1, r), residual_magnitude(x, r)
    )


def test_no_gate_ignores_the_gate(spectra):
    x, r = spectra
    block = attention(Strategy.NO_GATE)
    before = modulated(block, x, r)

    torch.nn.init.constant_(block.gate[2].bias, 3.0)

    torch.testing.assert_close(modulated(block, x, r), before, rtol=0, atol=0)


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


def test_gradients_are_finite_where_the_residual_is_exactly_zero(spectra):
    x, r = spectra
    x, r = x.requires_grad_(), torch.zeros_like(r).requires_grad_()

    attention()(x, r, MODES, torch.ones(3, 16), torch.zeros(3, 2)).sum().backward()

    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(r.grad).all()
