"""The published systems that PRISMA is compared with, behind the same door.

Each file implements one publication. What is trained is a `Baseline` network: the
plans, the training engine and the model cards are those of PRISMA. What solves is a
`Solver`, and `evaluate` judges it like any other.
"""

from prisma_lib.baselines.base import Baseline
from prisma_lib.baselines.diffusionpde import DiffusionPDE
from prisma_lib.baselines.fundps import FunDPS

NETWORKS: dict[str, type[Baseline]] = {
    DiffusionPDE.method: DiffusionPDE,
    FunDPS.method: FunDPS,
}
