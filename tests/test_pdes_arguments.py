"""What an equation is asked for by: its name, its size, its constants."""

import pytest

from prisma_lib import pdes
from prisma_lib.errors import ConfigError, ShapeError


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
