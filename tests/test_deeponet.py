"""DeepONet: the sum of its definition, and an operator that it can hold exactly."""

import pytest
import torch
from operators import solved, untrained

from prisma_lib import methods, pdes
from prisma_lib.baselines.deeponet import DeepONetConfig, DeepOperator
from prisma_lib.errors import ConfigError, ShapeError
from prisma_lib.observe import observation

SIZE = 12


@pytest.fixture(scope="module")
def place():
    return pdes.load("poisson", size=SIZE).grid.coordinates() - 0.5


def test_the_answer_is_the_sum_over_branch_and_trunk(place):
    torch.manual_seed(0)
    config = DeepONetConfig.preset("tiny", terms=3)
    operator = DeepOperator(2 * SIZE**2, 2, 2, config)
    torch.nn.init.normal_(operator.bias)
    fields = torch.randn(4, 2, SIZE, SIZE)

    found = operator(fields, place)

    x, y, channel = 5, 7, 1
    b = operator.branch(fields[3].flatten())[3 * channel : 3 * channel + 3]
    t = operator.trunk(place[:, x, y])
    wanted = operator.bias[channel, 0, 0] + b @ t
    torch.testing.assert_close(found[3, channel, x, y], wanted)


def test_it_learns_a_separable_linear_operator(place):
    torch.manual_seed(0)
    x, y = place
    kernel = torch.cos(3 * x) * (1 + y)
    shape = torch.sin(4 * x + 1) * torch.exp(y)
    smooth = torch.stack([torch.ones_like(x), x, y, x * y, x**2, y**2]).flatten(1)

    def problems(num):
        a = (torch.randn(num, 6) @ smooth).view(num, 1, SIZE, SIZE)
        return a, (a * kernel).mean((2, 3), True) * shape

    operator = DeepOperator(SIZE**2, 2, 1, DeepONetConfig.preset("tiny"))
    optimiser = torch.optim.Adam(operator.parameters(), 3e-3)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 500)
    for _ in range(500):
        a, u = problems(32)
        optimiser.zero_grad()
        (operator(a, place) - u).square().mean().backward()
        optimiser.step()
        falling.step()

    a, u = problems(256)
    error = (operator(a, place) - u).norm() / u.norm()
    assert error < 0.05


def test_its_sensors_stay_where_they_are():
    model = untrained("deeponet", pdes.load("darcy", size=16))
    fine = observation(pdes.load("darcy", size=32), a=torch.ones(1, 1, 32, 32))

    with pytest.raises(ShapeError, match=r"32 x 32 .* trained on 16 x 16"):
        solved(model, fine)


@pytest.mark.parametrize("name", ["width", "layers", "terms"])
def test_impossible_settings_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name}=0"):
        methods.network("deeponet").settings.preset("tiny", **{name: 0})
