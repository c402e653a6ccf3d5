"""PRISMA Lab: physics-informed diffusion solvers for partial differential equations.

Two lines solve a problem: `model = load("darcy-32")`, then `solve(model, a=a)`.
"""

__version__ = "0.1.0"

from prisma_lib import pdes
from prisma_lib.checkpoints import load
from prisma_lib.observe import Observation
from prisma_lib.solve import Solution, solve

__all__ = ["Observation", "Solution", "__version__", "load", "pdes", "solve"]
