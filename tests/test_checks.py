"""The door for a user's arrays: `observation` and what `checks.py` refuses."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from prisma_lib import pdes
from prisma_lib.checks import check_seed
from prisma_lib.errors import ConfigError, DataError, ShapeError
from prisma_lib.observe import observation

SIZE = 8
NAN = float("nan")


@pytest.fixture
def pde():
    return pdes.load("poisson", size=SIZE)


def equal(first, second):
    pairs = zip(dataclasses.astuple(first), dataclasses.astuple(second), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_nan_without_a_mask_means_missing(pde, field, mask):
    seen = observation(pde, u=torch.where(mask.bool(), field, NAN))

    assert torch.equal(seen.mask_u, mask)
    assert torch.equal(seen.u, field * mask)
    assert not seen.mask_a.any()
    assert not seen.a.any()


@pytest.mark.parametrize("filler", [0.0, NAN, 7.0])
def test_what_stands_where_the_mask_is_zero_does_not_matter(pde, field, mask, filler):
    hidden = torch.where(mask.bool(), field, filler)

    assert equal(
        observation(pde, a=hidden, mask_a=mask), observation(pde, a=field, mask_a=mask)
    )


@pytest.mark.parametrize(
    "convert",
    [
        torch.Tensor.bool,
        torch.Tensor.int,
        torch.Tensor.double,
        lambda m: m.to(torch.uint8),
        lambda m: m.numpy().astype(bool),
        lambda m: m.numpy().astype(np.int64),
    ],
)
def test_masks_of_any_type_give_the_same_observation(pde, field, mask, convert):
    expected = observation(pde, a=field, mask_a=mask)

    assert equal(observation(pde, a=field, mask_a=convert(mask)), expected)


@pytest.mark.parametrize(
    "convert",
    [
        torch.Tensor.numpy,
        torch.Tensor.double,
        lambda f: f.numpy().astype(">f8"),
        lambda f: f.flip(-1).numpy()[..., ::-1],
        lambda f: f.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda f: f.clone().requires_grad_(),
    ],
)
def test_fields_of_any_origin_give_the_same_observation(pde, field, convert):
    given = convert(field)

    seen = observation(pde, a=given)

    assert equal(seen, observation(pde, a=field))
    assert seen.a.dtype == torch.float32
    assert not seen.a.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_numbers_of_other_types_become_float32(pde, field, dtype):
    seen = observation(pde, a=field.to(dtype))

    assert torch.equal(seen.a, field.to(dtype).float())


def test_an_expanded_field_is_a_field(pde, field):
    expanded = field[:1].expand(3, 1, SIZE, SIZE)

    assert equal(observation(pde, a=expanded), observation(pde, a=expanded.clone()))


def test_fields_on_two_devices_are_refused_naming_both(pde, field):
    with pytest.raises(DataError, match="a is on cpu but u is on meta"):
        observation(pde, a=field, u=field.to("meta"))


def test_one_field_is_a_batch_of_one(pde, field):
    seen = observation(pde, a=field[0, 0], u=field[1, 0])

    assert (seen.batch, seen.shape) == (1, (SIZE, SIZE))
    assert torch.equal(seen.x, torch.cat([field[:1], field[1:2]], dim=1))
    assert torch.equal(seen.mask, torch.ones(1, 2, SIZE, SIZE))


def test_the_input_is_not_modified_nor_shared(pde, field, mask):
    hidden = torch.where(mask.bool(), field, NAN)
    before = hidden.clone()

    observation(pde, a=hidden).a.fill_(9)

    torch.testing.assert_close(hidden, before, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize(
    "shape", [(SIZE,), (3, SIZE, SIZE), (1, 3, 1, SIZE, SIZE), (3, 2, SIZE, SIZE)]
)
def test_other_ranks_and_channels_are_refused_naming_the_axes(pde, shape):
    with pytest.raises(ShapeError, match=r"\(b, c, x, y\)"):
        observation(pde, a=torch.zeros(shape))


def test_a_stack_without_channels_is_told_how_to_get_one(pde):
    with pytest.raises(ShapeError, match=r"\[:, None\]"):
        observation(pde, u=torch.zeros(3, SIZE, SIZE))


def test_an_empty_batch_is_refused(pde):
    with pytest.raises(ShapeError, match="at least one"):
        observation(pde, a=torch.zeros(0, 1, SIZE, SIZE))


def test_a_field_of_another_grid_is_refused(pde):
    with pytest.raises(ShapeError, match=r"\(8, 9\).*grid of \(8, 8\)"):
        observation(pde, a=torch.zeros(SIZE, SIZE + 1))


def test_fields_of_different_batches_are_refused_naming_both(pde, field):
    with pytest.raises(ShapeError, match=r"\(3, 1, 8, 8\).*\(1, 1, 8, 8\)"):
        observation(pde, a=field, u=field[:1])


@pytest.mark.parametrize("shape", [(SIZE, SIZE), (3, 1, SIZE, 1), (1, 1, SIZE, SIZE)])
def test_a_mask_of_another_shape_is_refused(pde, field, shape):
    with pytest.raises(ShapeError, match="mask_a"):
        observation(pde, a=field, mask_a=torch.ones(shape))


def test_a_mask_without_values_is_refused(pde, field, mask):
    with pytest.raises(ShapeError, match="mask_u was given without u"):
        observation(pde, a=field, mask_u=mask)


@pytest.mark.parametrize("value", [0.5, 2.0, NAN, -1.0])
def test_a_mask_value_that_is_not_0_or_1_is_refused_with_its_place(pde, field, value):
    mask = torch.ones_like(field)
    mask[1, 0, 2, 3] = value

    with pytest.raises(DataError, match=rf"found {value} at \[1, 0, 2, 3\]"):
        observation(pde, a=field, mask_a=mask)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300])
def test_infinity_is_refused_wherever_it_stands(pde, field, value, masked):
    wild = field.double()
    wild[2, 0, 1, 0] = wild[2, 0, 4, 4] = value
    mask = (wild.abs() < 1e30).float() if masked else None

    with pytest.raises(DataError, match=r"2 point.*\[2, 0, 1, 0\]"):
        observation(pde, a=wild, mask_a=mask)


def test_nan_at_an_observed_point_is_refused_with_its_place(pde, field):
    broken = field.clone()
    broken[0, 0, 5, 6] = NAN

    with pytest.raises(DataError, match=r"1 point.*\[0, 0, 5, 6\]"):
        observation(pde, a=broken, mask_a=torch.ones_like(field))


@pytest.mark.parametrize("convert", [lambda f: f + 1j, lambda f: f.numpy() + 1j])
def test_complex_fields_are_refused(pde, field, convert):
    with pytest.raises(DataError, match="complex"):
        observation(pde, a=convert(field))


def test_arrays_of_things_that_are_no_numbers_are_refused(pde):
    with pytest.raises(DataError, match="numbers"):
        observation(pde, a=np.full((SIZE, SIZE), "1.0"))


@pytest.mark.parametrize("unseen", ["none", "nan", "mask"])
def test_nothing_observed_is_refused_unless_asked_for(pde, field, unseen):
    given = {
        "none": {},
        "nan": {"a": field * NAN},
        "mask": {"u": field, "mask_u": torch.zeros_like(field)},
    }[unseen]

    with pytest.raises(DataError, match="nothing observed"):
        observation(pde, **given)
    seen = observation(pde, **given, allow_nothing=True)
    assert not seen.mask.any()
    assert not seen.x.any()
    assert seen.batch == (1 if unseen == "none" else 3)


@pytest.mark.parametrize("seed", ["42", 1.5, True, -1, 2**64, None])
def test_what_is_no_seed_is_refused_with_the_range(seed):
    with pytest.raises(ConfigError, match=r"\[0, 2\^63\)"):
        check_seed(seed)
