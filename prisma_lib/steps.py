"""Equations of one time step."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.flows import Transport
from prisma_lib.grids import Grid
from prisma_lib.pdes.base import PDE, Field, Kind


class OneStep(PDE):
    """A PDE whose solution is the state one time step after its input.

    Its residual is one step of backward Euler, which gives the input in closed form.
    """

    kind: Kind = "one_step"
    interval: float

    @abstractmethod
    def dynamics(self, grid: Grid, device: torch.device) -> tuple[Transport, Tensor]:
        """Returns what moves the Fourier coefficients of a state.

        Args:
            grid: The grid of the state, at least one and a half times this one.
            device: Where.

        Returns:
            Its tendency and the damping rate of each mode; see `flows.runge_kutta`.
        """

    @abstractmethod
    def force(
        self, grid: Grid, dtype: torch.dtype, device: torch.device | None = None
    ) -> Float[Tensor, "x y"]:
        """Returns the forcing on a grid, physical units."""

    def forces(self) -> Float[Tensor, "1 x y"]:
        """Returns the forcing; see `PDE.forces`."""
        return self.force(self.grid, torch.float64)[None]

    def stencil(self, u: Field) -> Field:
        """Takes one backward Euler step back from the first frame of `u`.

        See `PDE.stencil`. It errs by the truncation error that the residual keeps at
        the truth.
        """
        self.check(u=u)
        self.check_finite(u)
        rest = torch.zeros_like(u[:, :1], dtype=torch.float64)
        # The residual is (u - a) / interval plus what does not depend on a.
        first = self.residual(rest, u.double())[:, :1]
        return (self.interval * first).to(u.dtype)
