"""What several test files build: every equation's variants, a network of noise."""

import pytest
import torch

from prisma_lib import data, pdes
from prisma_lib.model import ModelConfig, Prisma

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
