"""The published systems that PRISMA is compared with, behind the same door.

Each file implements one publication. What is trained is a `Baseline` network: the
plans, the training engine and the model cards are those of PRISMA. What solves is a
`Solver`, and `evaluate` judges it like any other.
"""

from prisma_lib.baselines.base import Baseline

NETWORKS: dict[str, type[Baseline]] = {}
