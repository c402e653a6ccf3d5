"""What an equation is asked for by: its name, its size, its constants."""

import numpy as np
import pytest
import torch

from prisma_lib import pdes
from prisma_lib.errors import ConfigError, DataError, ShapeError


@pytest.fixture(params=pdes.names())
def name(request):
    return request.param


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("size", [True, 32.0, "32", None])
def test_a_size_that_is_no_number_of_points_is_refused(name, size):
    with pytest.raises(ConfigError, match="size="):
        pdes.load(name, size=size)


@pytest.mark.parametrize("size", [3, 0, -8])
def test_a_size_below_the_stencil_is_refused(name, size):
    with pytest.raises(ShapeError, match="at least 4"):
        pdes.load(name, size=size)


def test_an_unknown_coefficient_is_refused(name):
    with pytest.raises(ConfigError, match="viscosityy"):
        pdes.load(name, viscosityy=1.0)


@pytest.mark.parametrize("change", [str.upper, lambda s: s + "y", lambda s: s + " "])
def test_an_unknown_name_is_refused_with_the_nearest(name, change):
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        pdes.load(change(name))


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_fields_of_whole_numbers_are_refused_before_a_solution_is_cut_to_them(
    name, kind
):
    pde = pdes.load(name, 8)
    a, u = (torch.ones(1, c, 8, 8, dtype=kind) for c in pde.channels)

    for ask in (lambda: pde.solve(a), lambda: pde.residual(a, u)):
        with pytest.raises(DataError, match="floating-point"):
            ask()
    if pde.stencil(u.float()) is not None:
        with pytest.raises(DataError, match="floating-point"):
            pde.stencil(u)


@pytest.mark.usefixtures("untyped")
def test_fields_that_are_no_tensors_are_refused(name):
    pde = pdes.load(name, 8)

    with pytest.raises(DataError, match="is of float32: give a floating-point tensor"):
        pde.solve(np.ones((1, 1, 8, 8), np.float32))
    with pytest.raises(DataError, match="no observation"):
        pde.lift(torch.ones(1, 1, 8, 8))
