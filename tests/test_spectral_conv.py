"""The truncated transforms and the mode product against sums over all points."""

import copy

import pytest
import torch
from safetensors.torch import load, save

from prisma_lib.nn.spectral import ModeProduct, analyse, kept_modes, synthesise

SIZES = [(32, 32), (17, 20), (16, 9)]
MODES = (4, 3)


@pytest.fixture(params=["auto", "matrix", "fft"])
def transform(request):
    return request.param


def waves(shape):
    """Every wave exp(2 pi i k.j / n) of a grid, and its mode numbers."""
    n1, n2 = shape
    k1 = torch.arange(n1) - n1 // 2
    k2 = torch.arange(n2) - n2 // 2
    turns1 = torch.outer(k1, torch.arange(n1)).double() / n1
    turns2 = torch.outer(k2, torch.arange(n2)).double() / n2
    turns = turns1[:, None, :, None] + turns2[None, :, None, :]
    return torch.polar(torch.ones_like(turns), 2 * torch.pi * turns), k1, k2


def reference(x, weight, modes):
    """Sums over all points and all modes, one term each; modes that are kept mix."""
    shape = x.shape[-2:]
    wave, k1, k2 = waves(shape)
    x_hat = torch.einsum("bcxy,klxy->bckl", x.to(wave), wave.conj()) / x[0, 0].numel()
    w = torch.complex(weight[:, :, :, 0], weight[:, :, :, 1]).squeeze(2)
    y = torch.zeros(x.shape[0], w.shape[-1], *shape, dtype=torch.float64)
    for row in (k1.abs() <= modes[0]).nonzero()[:, 0]:
        for column in ((k2 >= 0) & (k2 <= modes[1])).nonzero()[:, 0]:
            matrix = w[k1[row] + modes[0], k2[column]]
            y_hat = torch.einsum("bc,cd->bd", x_hat[:, :, row, column], matrix)
            twice = 1 if k2[column] == 0 else 2  # the conjugate mode is the other half
            y += twice * (y_hat[..., None, None] * wave[row, column]).real
    return y


def convolved(x, product, transform="auto"):
    """The whole spectral convolution: analysis, mode product, synthesis."""
    shape = tuple(x.shape[-2:])
    modes = kept_modes(product.modes, shape)
    y = product(analyse(x, modes, transform), modes)
    return synthesise(y, modes, shape, transform)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)]
)
def test_spectral_convolution_equals_an_explicit_sum(
    shape, dtype, tolerance, transform
):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *shape, dtype=torch.float64)
    product = ModeProduct(3, MODES).double()
    expected = reference(x, product.weight.detach(), MODES)

    y = convolved(x.to(dtype), product.to(dtype), transform)

    torch.testing.assert_close(y.detach().double(), expected, rtol=0, atol=tolerance)


def test_both_ways_to_transform_have_the_same_gradients():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 12, 10, dtype=torch.float64, requires_grad=True)
    product = ModeProduct(3, MODES).double()

    found = [
        torch.autograd.grad(convolved(x, product, way).cos().sum(), [x, product.weight])
        for way in ("matrix", "fft")
    ]

    for by_matrix, by_fft in zip(*found, strict=True):
        torch.testing.assert_close(by_fft, by_matrix, rtol=1e-10, atol=1e-12)


def test_many_modes_are_analysed_by_an_fft_and_few_by_products(monkeypatch):
    calls = []
    real = torch.fft.rfft
    monkeypatch.setattr(
        torch.fft, "rfft", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    x = torch.randn(1, 1, 96, 96)

    analyse(x, (32, 32))
    assert not calls

    analyse(x, (33, 33))
    assert calls


@pytest.mark.parametrize("shape", SIZES)
def test_coefficients_are_those_of_the_fft(shape):
    x = torch.randn(2, 3, *shape, dtype=torch.float64)

    got = analyse(x, MODES)

    rows = torch.arange(-MODES[0], MODES[0] + 1)
    wanted = torch.fft.fft2(x, norm="forward")[:, :, rows, : MODES[1] + 1]
    wanted = torch.stack([wanted.real, wanted.imag]).permute(3, 4, 1, 0, 2)
    torch.testing.assert_close(got, wanted.reshape(got.shape), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(16, 20), (15, 9)])
def test_a_wave_passes_if_and_only_if_its_mode_is_kept(shape, transform):
    wave, k1, k2 = waves(shape)
    phase = torch.polar(torch.tensor(1.0).double(), torch.tensor(0.3).double())
    fields = (wave * phase).real.flatten(0, 1)[:, None]
    kept = (k1.abs() <= MODES[0])[:, None] & (k2.abs() <= MODES[1])

    passed = synthesise(analyse(fields, MODES, transform), MODES, shape, transform)

    expected = torch.where(kept.flatten()[:, None, None, None], fields, 0.0)
    assert kept.sum() == 9 * 7
    torch.testing.assert_close(passed, expected, rtol=0, atol=1e-12)


def test_coefficients_do_not_depend_on_the_grid():
    def sampled(n):
        t = torch.arange(n, dtype=torch.float64) / n
        return (torch.sin(2 * torch.pi * t)[:, None] + torch.cos(6 * torch.pi * t))[
            None, None
        ]

    coarse, fine = analyse(sampled(16), MODES), analyse(sampled(64), MODES)

    torch.testing.assert_close(coarse, fine, rtol=0, atol=1e-14)


def test_grouped_weights_mix_no_channels_across_groups():
    product = ModeProduct(4, MODES, groups=2)
    x = torch.randn(1, 4, 16, 16)
    x[:, 2:] = 0

    y = synthesise(product(analyse(x, MODES), MODES), MODES, (16, 16))

    assert y[:, :2].abs().max() > 0.1
    assert y[:, 2:].abs().max() == 0


def test_modes_stay_below_nyquist():
    assert kept_modes((8, 8), (16, 32)) == (7, 8)


def test_coarser_grids_read_the_weights_of_the_same_modes():
    product = ModeProduct(2, MODES)
    wide, narrow = torch.zeros(9 * 4, 1, 2, 2), torch.zeros(5 * 3, 1, 2, 2)
    wide[(4 + 1) * 4 + 1] = 1  # mode (1, 1) of modes (4, 3)
    narrow[(2 + 1) * 3 + 1] = 1  # mode (1, 1) of modes (2, 2)

    fine, coarse = product(wide, MODES), product(narrow, (2, 2))

    torch.testing.assert_close(coarse[10], fine[21])
    assert coarse.abs().sum() == coarse[10].abs().sum()


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 1e-2), (torch.float16, 1e-3), (torch.float64, 1e-6)],
)
def test_casts_keep_the_output_within_the_tolerance_of_the_type(
    dtype, tolerance, transform
):
    torch.manual_seed(0)
    product = ModeProduct(4, MODES)
    x = torch.randn(2, 4, 16, 16)
    y = convolved(x, product, transform)

    z = convolved(x.to(dtype), product.to(dtype), transform)

    assert z.dtype == dtype
    assert (z - y).norm() < tolerance * y.norm()


def test_a_copy_and_a_stored_model_give_the_same_output():
    x = torch.randn(1, 4, 16, 16)
    product, fresh = ModeProduct(4, MODES), ModeProduct(4, MODES)
    y = convolved(x, product)

    fresh.load_state_dict(load(save(product.state_dict())))

    assert torch.equal(convolved(x, copy.deepcopy(product)), y)
    assert torch.equal(convolved(x, fresh), y)


def test_tables_made_in_inference_mode_serve_training():
    product = ModeProduct(2, (2, 2))
    x = torch.randn(1, 2, 11, 13)
    with torch.inference_mode():
        convolved(x, product)

    convolved(x.requires_grad_(), product).sum().backward()

    assert torch.isfinite(x.grad).all()
