"""What several test files build: variants of equations, a network, observations."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.lifted import PrismaL
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.observe import Observation
from prisma_lib.presets import LiftConfig

VARIANTS = [
    pytest.param((name, options), id="-".join([name, *options]))
    for name in pdes.names()
    for options in ({}, *type(pdes.load(name)).variants)
]


def network(pde):
    """Builds a tiny model whose output is not zero, without gradients."""
    torch.manual_seed(0)
    statistics = data.statistics(pde, num=64)
    model = Prisma(pde, ModelConfig.preset("tiny"), statistics).eval()
    torch.nn.init.normal_(model.backbone.project.weight, std=0.05)
    return model.requires_grad_(False)


def lifted_network(pde, silent=False, **settings):
    """Builds a tiny PRISMA-L, awake unless its network is to say nothing."""
    torch.manual_seed(0)
    config = LiftConfig.preset("tiny", **settings)
    model = PrismaL(pde, config, data.statistics(pde, num=64)).eval()
    model.requires_grad_(False)
    for parameter in model.parameters():  # wake the layers that start at zero
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.1)
    if silent:
        model.backbone.project.weight.zero_()
        model.backbone.project.bias.zero_()
    return model


def random_observation(pde, rate, num=3):
    """Observes a share of the points of both fields of the first test problems."""
    a, u = data.problems(pde, num)
    draws = torch.rand(2, *a.shape, generator=torch.Generator().manual_seed(0))
    masks = (draws < rate).float()
    return Observation(a * masks[0], u * masks[1], *masks)
