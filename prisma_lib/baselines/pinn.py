r"""PINN: a small network for each problem, fitted to the equation and to what was seen.

Raissi, Perdikaris and Karniadakis (2019), Physics-informed neural networks, Journal of
Computational Physics 378, 686; arXiv 1711.10561. Nothing is trained beforehand: each
field of each problem is a multilayer perceptron of the coordinates with tanh, and Adam
minimises, problem by problem,

$$\overline{r^2} / s^2 + \overline{u^2}_{\text{edge}} + \lambda \,
  \overline{(a - a_{obs})^2} + \lambda \, \overline{(u - u_{obs})^2}$$

with means over inner points, the edge and the sensors, and fields in units of the
standard deviation of the training data. The scale $s$ is the residual of training
inputs with a zero solution. Deviations from the publication:

- The residual is that of the equation on the grid, of the network's values at the
  points, not one of derivatives by automatic differentiation: the permeability of Darcy
  flow jumps, and its gradient exists nowhere that matters. On a smooth network both
  agree to the order of the stencil. Data and judge use the same residual.
- Coordinates enter as random Fourier features, without which tanh networks hardly bend:
  Tancik et al. (2020), arXiv 2006.10739; Wang, Wang and Perdikaris (2021), arXiv
  2012.10047. `features=0` leaves them out.
- Collocation points are the points of the grid, in every iteration.
- Adam alone, with a learning rate that falls as a cosine; no L-BFGS after it.
- An input that was observed at all points is taken as it stands, not as a network.
- Networks of all problems are fitted at once by grouped matrix products; none feels the
  others, as Adam works on each weight alone.

Equations with a solution that is zero on the edge: those for which the paper of PRISMA
lists PINN.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import progress
from prisma_lib.checks import check_count, check_number
from prisma_lib.errors import ConfigError, NumericsError
from prisma_lib.fields import keyed_normal
from prisma_lib.observe import Observation
from prisma_lib.pdes.base import PDE, Field, Statistics
from prisma_lib.philox import key_of
from prisma_lib.solver import Draws
from prisma_lib.stencils import interior

EQUATIONS = ("darcy", "helmholtz", "poisson")
FREQUENCY = 2.0  # standard deviation of frequencies, radians per half of the domain
SCALE_PROBLEMS = 64  # training inputs that set the scale of the residual

# Weights and biases, layer by layer; the first axis is the problem.
Weights = list[Float[Tensor, "n _ _"]]
PerProblem = Float[Tensor, " n"]


@dataclass(frozen=True)
class PINN:
    """Fits networks to each problem: a `Solver`.

    Draws differ by the first weights of their networks.

    Args:
        pde: The equation, on nodes, with a solution that is zero on the edge.
        statistics: Mean and standard deviation of the training data.
        iterations: Steps of Adam.
        width: Neurons of a hidden layer.
        depth: Hidden layers.
        features: Random frequencies; 0: the coordinates themselves enter, as published.
        learning_rate: Of Adam, at the start.
        data_weight: Weight of what was observed.

    Raises:
        ConfigError: When the equation is another, or a setting has no meaning.
    """

    title = "PINN"

    pde: PDE
    statistics: Statistics = field(repr=False)
    iterations: int = 2000
    width: int = 64
    depth: int = 3
    features: int = 32
    learning_rate: float = 1e-2
    data_weight: float = 10.0

    def __post_init__(self) -> None:
        if self.pde.name not in EQUATIONS or self.pde.grid.centred:
            raise ConfigError(
                f"PINN cannot solve {self.pde.name}"
                f"{' on cell centres' * self.pde.grid.centred}: it needs a solution "
                f"that is zero at the nodes of the edge, as {', '.join(EQUATIONS)} have"
            )
        for name, example in (("iterations", 2000), ("width", 64), ("depth", 3)):
            check_count(name, getattr(self, name), 1, example)
        check_count("features", self.features, 0, 32)
        check_number("learning_rate", self.learning_rate, 0, 1, 1e-2)
        check_number("data_weight", self.data_weight, 0, 1e6, 10)

    @cached_property
    def inputs(self) -> Float[Tensor, "points c"]:
        """What the networks see of each point of the grid."""
        points = 2 * self.pde.grid.coordinates().flatten(1).T - 1
        if not self.features:
            return points
        drawn = keyed_normal(0, [0], (2, self.features), purpose="PINN features")[0]
        phase = points @ (FREQUENCY * drawn)
        return torch.cat([phase.sin(), phase.cos()], 1)

    @property
    def calls(self) -> int:
        """Calls of each network for one draw: the iterations."""
        return self.iterations

    @cached_property
    def scale(self) -> float:
        """Root mean square residual of training inputs with a zero solution."""
        a = self.pde.draw(0, range(SCALE_PROBLEMS))
        r = self.pde.residual(a, torch.zeros_like(a))
        return r.square().mean().sqrt().item()

    def solve(
        self, observation: Observation, *, samples: int, generator: torch.Generator
    ) -> tuple[Draws, Draws]:
        """Fits networks of every draw of every problem.

        The first weights of draw `s` of problem `j` depend on the generator's key and
        on `s * batch + j` alone.

        Args:
            observation: What was measured, physical units.
            samples: Draws per problem.
            generator: Source of the key.

        Returns:
            Draws of `a` and `u`, physical units.

        Raises:
            ShapeError: When the observation is not on the equation's grid.
            NumericsError: When a network becomes non-finite.
        """
        self.pde.check(observation.a, observation.u)
        key = key_of(generator)
        seen = observation.repeat(samples)
        weights = [self._begin(key, name, seen) for name in ("a", "u")]
        with torch.enable_grad():
            self._fit(weights, seen)
        with torch.no_grad():
            a, u = self._fields(weights, seen)
        self._refuse_non_finite(a, u)
        shape = (samples, observation.batch)
        return a.unflatten(0, shape), u.unflatten(0, shape)

    def _begin(self, key: int, name: str, seen: Observation) -> Weights:
        """Draws weights as Glorot and Bengio (2010); biases are zero."""
        sizes = [self.inputs.shape[1], *[self.width] * self.depth, 1]
        weights = []
        for layer, (i, o) in enumerate(pairwise(sizes)):
            purpose = f"PINN {name} {layer}"
            drawn = keyed_normal(key, range(seen.batch), (i, o), purpose=purpose)
            weights.append(drawn.to(seen.a) * math.sqrt(2 / (i + o)))
            weights.append(torch.zeros_like(weights[-1][:, :1]))
        return [weight.requires_grad_() for weight in weights]

    def _fit(self, weights: list[Weights], seen: Observation) -> None:
        """Runs Adam on all weights."""
        adam = torch.optim.Adam([w for part in weights for w in part], fused=True)
        with progress.bar(self.iterations, "iteration") as bar:
            for step in range(self.iterations):
                falling = (1 + math.cos(math.pi * step / self.iterations)) / 2
                adam.param_groups[0]["lr"] = self.learning_rate * falling
                adam.zero_grad()
                self._losses(*self._fields(weights, seen), seen).sum().backward()
                adam.step()
                bar.update()

    def _fields(self, weights: list[Weights], seen: Observation) -> tuple[Field, Field]:
        """Returns both fields in physical units; an input that is known stays."""
        known = seen.mask_a.flatten(1).all(1)
        a, u = (
            mean + std * self._network(part)
            for mean, std, part in zip(
                self.statistics.mean, self.statistics.std, weights, strict=True
            )
        )
        return torch.where(known[:, None, None, None], seen.a, a), u

    def _network(self, weights: Weights) -> Field:
        """Evaluates the network of each problem at the points of the grid."""
        h = self.inputs.to(weights[0]).expand(len(weights[0]), -1, -1)
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        for weight, bias in pairs[:-1]:
            h = torch.tanh(torch.baddbmm(bias, h, weight))
        weight, bias = pairs[-1]
        values = torch.baddbmm(bias, h, weight)
        return values.transpose(1, 2).unflatten(2, self.pde.grid.shape)

    def _losses(self, a: Field, u: Field, seen: Observation) -> PerProblem:
        """Evaluates the loss of each problem."""
        std_a, std_u = self.statistics.std
        residual = (self.pde.residual(a, u) / self.scale).square().mean((1, 2, 3))
        inside = torch.zeros_like(u)
        interior(inside).fill_(1)
        edge = _mean_square(u / std_u, 1 - inside)
        data_a = _mean_square((a - seen.a) / std_a, seen.mask_a)
        data_u = _mean_square((u - seen.u) / std_u, seen.mask_u)
        return residual + edge + self.data_weight * (data_a + data_u)

    def _refuse_non_finite(self, a: Field, u: Field) -> None:
        broken = (a + u).isfinite().all(3).all(2).all(1).logical_not()
        if broken.any():
            raise NumericsError(
                f"{int(broken.sum())} of {len(a)} fitted networks are not finite: give "
                f"a smaller learning_rate than {self.learning_rate:g}, and check that "
                "what was observed lies in the range of the training data"
            )


def _mean_square(error: Field, mask: Field) -> PerProblem:
    """Averages squares over the points of a mask; 0 where it has none."""
    total = (mask * error.square()).sum((1, 2, 3))
    return total / mask.sum((1, 2, 3)).clamp(min=1)
