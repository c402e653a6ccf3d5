"""The contract of every equation. No test names one: a new file is tested as it is."""

import json
import math
from pathlib import Path

import pytest
import torch
from small import VARIANTS

from prisma_lib import pdes
from prisma_lib.errors import ConfigError, ShapeError

GOLDEN = Path(__file__).with_name("golden.json")


def rms(field):
    return field.double().square().mean().sqrt().item()


@pytest.fixture(params=pdes.names())
def name(request):
    return request.param


@pytest.fixture(params=VARIANTS)
def pde(request, quick):
    name, options = request.param
    return quick(name, 32, **options)


def only(pde, *kinds):
    if pde.kind not in kinds:
        pytest.skip(f"a contract of {' and '.join(kinds)} equations")


def exact_residual_rms(pde, size):
    pde = pde.resized(size)
    return rms(pde.residual(*pde.exact()))


def test_reference_solver_zeroes_its_own_residual(pde):
    only(pde, "discrete")
    a = pde.draw(0, range(3)).double()
    u = pde.solve(a)

    r = pde.residual(a, u)

    assert rms(r) <= 1e-9 * rms(pde.residual(a, torch.zeros_like(u)))


@pytest.mark.parametrize(("coarse", "fine"), [(33, 65), (65, 129)])
def test_residual_of_exact_solution_shrinks_at_the_stated_order(pde, coarse, fine):
    only(pde, "discrete", "resampled")

    order = math.log2(exact_residual_rms(pde, coarse) / exact_residual_rms(pde, fine))

    assert order == pytest.approx(pde.order, abs=0.1)


def test_residual_of_exact_step_vanishes(pde):
    only(pde, "one_step")

    assert rms(pde.residual(*pde.exact())) < 1e-8


def test_residual_of_exact_field_falls_with_the_grid(pde):
    only(pde, "space_time", "geometric")

    coarse, fine = exact_residual_rms(pde, 32), exact_residual_rms(pde, 64)

    assert fine < coarse


def test_residual_sees_a_checkerboard(pde):
    only(pde, "discrete", "resampled")
    a, u = pde.exact()
    parity = torch.arange(pde.size).remainder(2)
    checker = 1 - 2.0 * (parity[:, None] + parity).remainder(2).double()

    change = pde.residual(a, u + 1e-3 * checker) - pde.residual(a, u)

    assert rms(change) >= 1e-3 / max(pde.grid.spacing) ** 2


def test_residual_in_both_precisions_agrees_up_to_rounding(pde):
    a, u = pde.exact()

    single = pde.residual(a.float(), u.float())

    # A second difference rounds like eps |a| |u| / h²; first-order ones less.
    scale = max(1.0, a.abs().max().item()) * max(1.0, u.abs().max().item())
    bound = 8 * torch.finfo(torch.float32).eps * scale / min(pde.grid.spacing) ** 2
    assert single.dtype == torch.float32
    assert (single.double() - pde.residual(a, u)).abs().max() < bound


def test_residual_of_a_batch_is_that_of_each_sample(pde):
    a, u = pde.draw(0, range(3)).double(), pde.pair(1, range(3))[1].double()

    r = pde.residual(a, u)

    torch.testing.assert_close(r[1:2], pde.residual(a[1:2], u[1:2]))


def test_residual_has_finite_gradients(pde):
    a, u = (field.requires_grad_() for field in pde.exact())

    pde.residual(a, u).square().sum().backward()

    assert u.grad.isfinite().all()


def test_residual_covers_the_interior_or_the_whole_torus(pde):
    r = pde.residual(*pde.exact())

    assert r.shape[:2] == (1, pde.residual_channels)
    full = [pde.size if wraps else pde.size - 2 for wraps in pde.periodic]
    assert list(r.shape[-2:]) in (full, [pde.size - 2, pde.size - 2])


@pytest.mark.parametrize("num", [1, 3, 8])
def test_sample_does_not_depend_on_the_batch(pde, num):
    eight = pde.sample(8, torch.Generator().manual_seed(5))

    few = pde.sample(num, torch.Generator().manual_seed(5))

    assert few.shape == (num, pde.channels[0], *pde.grid.shape)
    assert few.dtype == torch.float32
    torch.testing.assert_close(few, eight[:num], atol=1e-6, rtol=0)


def test_sampling_advances_the_generator_by_one_draw(pde):
    first, second = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)

    pde.sample(1, first)
    pde.sample(4, second)

    assert torch.equal(first.get_state(), second.get_state())


def test_draws_are_numbered(pde):
    a = pde.draw(3, [7, 2, 7])

    torch.testing.assert_close(a[0], a[2])
    assert not torch.equal(a[0], a[1])
    assert not torch.equal(pde.draw(4, [2])[0], a[1])


def test_a_pair_is_a_numbered_draw_with_its_solution(pde):
    a, u = pde.pair(3, [7, 2])

    assert torch.equal(a, pde.draw(3, [7, 2]))
    assert u.dtype == torch.float32
    torch.testing.assert_close(pde.pair(3, [2])[1], u[1:], rtol=1e-5, atol=1e-7)


def test_solutions_do_not_depend_on_the_batch(pde):
    a = pde.draw(0, range(3))

    u = pde.solve(a)

    torch.testing.assert_close(pde.solve(a[1:2]), u[1:2])


@pytest.mark.gpu
def test_a_gpu_finds_the_same_solution_and_residual(pde):
    a = pde.draw(0, range(2)).double()
    u = pde.solve(a)

    again = pde.solve(a.cuda())

    torch.testing.assert_close(again.cpu(), u, rtol=1e-6, atol=1e-9)
    r = pde.residual(a.cuda(), u.cuda())
    assert (r.cpu() - pde.residual(a, u)).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_solutions_have_the_type_of_the_input(pde, dtype):
    a = pde.draw(0, [0]).to(dtype)

    u = pde.solve(a)

    assert u.dtype == dtype
    assert u.shape == (1, pde.channels[1], *pde.grid.shape)
    assert u.isfinite().all()


def test_solving_leaves_the_input_and_its_gradients_alone(pde):
    a = pde.draw(0, [0])
    kept = a.clone()

    u = pde.solve(a.requires_grad_())

    assert torch.equal(a.detach(), kept)
    assert not u.requires_grad


def test_inputs_stay_where_snapping_would_put_them(pde):
    if pde.error("inverse") != "error_rate":
        pytest.skip("inputs are continuous")
    a = pde.draw(0, range(2))

    assert torch.equal(pde.snap(a), a)
    assert len(a.unique()) == 2


def test_snapping_twice_is_snapping_once(pde):
    a, _ = pde.exact()

    once = pde.snap(a)

    assert torch.equal(pde.snap(once), once)
    assert once.dtype == a.dtype


def test_a_resized_equation_keeps_its_constants(pde):
    other = pde.resized(48)

    assert other.grid.shape == (48, 48)
    assert other.coefficients == pde.coefficients


def test_forces_are_what_moves_a_state_of_rest(pde):
    only(pde, "one_step")
    a, u = (torch.zeros(1, channels, 32, 32) for channels in pde.channels)

    forces = pde.forces()

    assert forces.abs().max() > 0
    torch.testing.assert_close(pde.residual(a, u)[0, :1].double(), -forces)


def test_coefficients_are_plain_and_complete(pde):
    assert set(pde.options) <= set(pde.coefficients)
    assert pde.coefficients
    json.dumps(pde.coefficients, allow_nan=False)


def test_declarations_are_complete(pde):
    assert type(pdes.load(pde.name)) is type(pde)
    assert pde.equation
    assert (pde.order is not None) == (pde.kind in ("discrete", "resampled"))
    assert (pde.floor > 0) == (pde.kind != "discrete")


def test_golden_values_have_not_moved(name, quick):
    """Three numbers: size of inputs, of solutions, and of the residual of wrong pairs.

    A new equation fails here until the values that it prints are in golden.json.
    """
    pde = quick(name, 32)
    a = pde.draw(0, range(2)).double()
    u = pde.solve(a)

    measured = [rms(a), rms(u), rms(pde.residual(a, u.flip(0)))]

    golden = json.loads(GOLDEN.read_text())
    assert name in golden, f'add to {GOLDEN.name}: "{name}": {measured}'
    assert measured == pytest.approx(golden[name], rel=1e-6)


@pytest.mark.usefixtures("untyped")
def test_fields_on_another_grid_are_refused(pde):
    right, u = pde.exact()
    wrong = torch.zeros(1, pde.channels[0], 33, 32)

    with pytest.raises(ShapeError, match="33"):
        pde.solve(wrong)
    with pytest.raises(ShapeError, match="33"):
        pde.residual(right, u[..., :1].expand(-1, -1, -1, 33))


@pytest.mark.usefixtures("untyped")
def test_fields_of_other_channels_are_refused_with_those_needed(pde):
    a, u = pde.exact()
    more_a, more_u = (torch.cat([f, f[:, :1]], dim=1) for f in (a, u))

    with pytest.raises(ShapeError, match=rf"a of .*\(b, {a.shape[1]}, 32, 32\)"):
        pde.solve(more_a)
    with pytest.raises(ShapeError, match=rf"u of .*\(b, {u.shape[1]}, 32, 32\)"):
        pde.residual(a, more_u)


def test_an_empty_batch_is_refused(pde):
    with pytest.raises(ShapeError, match="at least 1"):
        pde.solve(torch.zeros(0, pde.channels[0], 32, 32))


@pytest.mark.usefixtures("untyped")
def test_batches_of_different_size_are_refused(pde):
    a, u = pde.exact()

    with pytest.raises(ShapeError, match="one a for each u"):
        pde.residual(a, u.repeat(2, 1, 1, 1))


def test_no_samples_are_refused(pde):
    with pytest.raises(ConfigError, match="at least one"):
        pde.sample(0, torch.Generator())
