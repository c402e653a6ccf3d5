r"""Best linear estimates of fields from measured values (kriging).

With the mean m and the covariance C of all values of both fields, those at the sensors
S give

$$\hat x = m + C_{\cdot S} (C_{SS} + s^2)^{-1} (y - m_S)$$

with the error variance $C_{xx} - C_{xS} (C_{SS} + s^2)^{-1} C_{Sx}$: the posterior of a
Gaussian field, and the best that is linear in the measurements of any other.

Matrices are dense, of as many rows as there are sensors. Breaks when: a whole field is
seen through noise on a fine grid. Its decomposition of N^2 rows is kept with four more
matrices of that size: 0.7 GB at 64^2 (4096 rows), 11 GB at 128^2 (16384 rows) after an
eigendecomposition of 64 times the work, so that 64^2 is about the end. Whole fields
without noise need none of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from prisma_lib.conditioning import condition
from prisma_lib.lifts.sensors import Sensors
from prisma_lib.observed import Values

Rows = Callable[[Int[Tensor, " m"]], Float[Tensor, "m all"]]
Estimate = tuple[Values, Values]

# A covariance of up to so many values is kept as a matrix.
_DENSE = 4096
# From so many sensors on a decomposition pays, where a mask is sure to come again.
_MANY = 64
_JITTER = 1e-12


@dataclass(frozen=True)
class Prior:
    """Mean and covariance of the values of both fields, float64.

    Args:
        mean: Mean of every value.
        rows: Covariance of values, by their flat numbers, with all values.
        variance: Variance of all values.
    """

    mean: Float[Tensor, "c x y"]
    rows: Rows
    variance: Float[Tensor, " all"]

    def kept(self) -> "Prior":
        """Returns the same prior with its covariance in memory, if it is small."""
        num = self.mean.numel()
        if num > _DENSE:
            return self
        matrix = self.rows(torch.arange(num, device=self.mean.device))
        return replace(self, rows=lambda seen: matrix.index_select(0, seen))


@dataclass(frozen=True)
class _Spectrum:
    r"""What a set of sensors tells at any noise level: $C_{SS} = Q \Lambda Q^T$.

    Args:
        values: $\Lambda$.
        vectors: $Q$.
        joint: $C_{\cdot S} Q$.
        square: The squares of its numbers.
    """

    values: Float[Tensor, " m"]
    vectors: Float[Tensor, "m m"]
    joint: Float[Tensor, "all m"]
    square: Float[Tensor, "all m"]


class Kriging:
    """Estimates all values from sensors, with one factor for each mask and noise level.

    Masks that come again and again, whole fields and whole interiors, are decomposed
    once for all noise levels.

    Args:
        prior: Mean and covariance.
    """

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self._spectra: dict[bytes, _Spectrum] = {}
        self._decompositions: dict[bytes, tuple[Tensor, Tensor]] = {}

    def __call__(self, sensors: Sensors) -> Estimate:
        """Estimates all values, and the standard deviation of the error of each."""
        batch, shape = len(sensors.values), self.prior.mean.shape
        mean = self.prior.mean.flatten().repeat(batch, 1)
        variance = self.prior.variance.repeat(batch, 1)
        centred = (sensors.values - self.prior.mean).flatten(1)
        for problems in sensors.groups():
            one = problems[:1]
            seen = sensors.seen[one].flatten().nonzero()[:, 0]
            if not len(seen):
                continue
            y, sd = centred[problems][:, seen], sensors.sd[one].flatten()[seen]
            equal = (sd == sd[0]).all()
            if len(seen) > _MANY and equal and _is_regular(sensors.seen[one[0]]):
                shift, explained = self._by_spectrum(seen, y, sd[0])
            else:
                shift, explained = self._by_factor(seen, y, sd)
            mean[problems] += shift
            variance[problems] -= explained
        sd = variance.clamp(min=0).sqrt()
        return mean.unflatten(1, shape), sd.unflatten(1, shape)

    def spectrum(
        self, seen: Int[Tensor, " m"], keep: bool
    ) -> tuple[Float[Tensor, " m"], Float[Tensor, "m m"]]:
        """Returns eigenvalues and eigenvectors of the covariance of some values.

        Args:
            seen: Their flat numbers.
            keep: Keep the answer: the same values will come again.
        """
        key = seen.cpu().numpy().tobytes()
        if key in self._decompositions:
            return self._decompositions[key]
        values, vectors = torch.linalg.eigh(self.prior.rows(seen)[:, seen])
        if keep:
            self._decompositions[key] = values, vectors
        return values, vectors

    def _by_factor(
        self, seen: Int[Tensor, " m"], y: Float[Tensor, "b m"], sd: Float[Tensor, " m"]
    ) -> tuple[Float[Tensor, "b all"], Float[Tensor, " all"]]:
        joint, points = self.prior.rows(seen), self.prior.mean[0].numel()
        known = condition(joint, joint[:, seen], seen, sd, points)
        return known.mean(y), known.explained(joint)

    def _by_spectrum(
        self, seen: Int[Tensor, " m"], y: Float[Tensor, "b m"], sd: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "b all"], Float[Tensor, " all"]]:
        known = self._kept(seen)
        jitter = _JITTER * known.values.mean()
        gain = 1 / (known.values.clamp(min=0) + sd.square() + jitter)
        return (y @ known.vectors * gain) @ known.joint.T, known.square @ gain

    def _kept(self, seen: Int[Tensor, " m"]) -> _Spectrum:
        key = seen.cpu().numpy().tobytes()
        if key not in self._spectra:
            self._spectra[key] = self._decomposed(seen)
        return self._spectra[key]

    def _decomposed(self, seen: Int[Tensor, " m"]) -> _Spectrum:
        rows = self.prior.rows(seen)
        values, vectors = torch.linalg.eigh(rows[:, seen])
        joint = rows.T @ vectors
        return _Spectrum(values, vectors, joint, joint.square())


def _is_regular(seen: Bool[Tensor, "c x y"]) -> bool:
    """Says whether each channel is seen wholly, inside or not."""
    inner = seen[:, 1:-1, 1:-1].flatten(1)
    ring = seen.flatten(1).sum(1) - inner.sum(1)
    size = seen[0].numel() - inner.shape[1]
    return bool(
        (inner.all(1) == inner.any(1)).all() & ((ring == 0) | (ring == size)).all()
    )
