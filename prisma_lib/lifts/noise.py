r"""How noisy sensors are, from what they measured: maximum likelihood.

Values of one field at its sensors have the covariance $C + s^2 I$. With the spectrum
$C = Q \Lambda Q^T$ and $z = Q^T (y - m)$, the likelihood of a level s is

$$\log p = -\frac12 \sum_i \Big( \log(\lambda_i + s^2) + \frac{z_i^2}{\lambda_i + s^2}
\Big).$$

Fields that are no Gaussian ones can look a little noisy when they are not. The same
estimate of clean training problems, seen by the same sensors, says how noisy: what is
not a quarter more than the largest of these is no noise.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from prisma_lib.lifts.priors import clean_pairs, kriging_of
from prisma_lib.lifts.sensors import sensors
from prisma_lib.observed import Observation
from prisma_lib.pdes.base import PDE

# Standard deviations that are tried, in units of the field's.
LEVELS = torch.logspace(-4, 1, 251, dtype=torch.float64)
_FLOOR = 1e-12  # of the variance, for values that are known beforehand
_FEW = 4  # sensors that say nothing of their noise
_MANY = 1024  # sensors that say enough
# Times the noise of the noisiest of 128 clean problems, which the next ones exceed: of
# 1,024 problems of Darcy flow 16 did, and 3 by a tenth.
_MARGIN = 1.25


@torch.no_grad()
def noise_of(pde: PDE, observation: Observation) -> Float[Tensor, "b 2"]:
    """Estimates the noise of the sensors of `a` and of `u`.

    Args:
        pde: The equation, on the grid of the observation.
        observation: What was measured.

    Returns:
        Standard deviations in physical units, float64; 0 where there is no noise to be
        seen, and of a field with hardly a sensor.
    """
    seen = sensors(observation, 0.0, pde.channels)
    found = seen.values.new_zeros(len(seen.values), 2)
    krige = kriging_of(pde, seen.values.device)
    clean = clean_pairs(pde).to(seen.values).flatten(1)
    centred = (seen.values - krige.prior.mean).flatten(1)
    points = seen.values[0, 0].numel()
    for problems in seen.groups():
        at = seen.seen[problems[0]].flatten().nonzero()[:, 0]
        for field in range(2):
            mine = at[(at // points >= seen.split) == bool(field)]
            if len(mine) < _FEW:
                continue
            whole = len(mine) % points == 0
            mine = _some(mine)
            values, vectors = krige.spectrum(mine, keep=whole)
            measured = centred[problems][:, mine] @ vectors
            known = (clean[:, mine] - krige.prior.mean.flatten()[mine]) @ vectors
            unit = krige.prior.variance[mine].mean().sqrt()
            level = _likeliest(values, measured, unit)
            least = _MARGIN * _likeliest(values, known, unit).max()
            found[problems, field] = torch.where(level > least, level, 0.0)
    return found


def _some(sensors: Int[Tensor, " m"]) -> Int[Tensor, " k"]:
    """Leaves out sensors at random, always the same, if there are very many."""
    if len(sensors) <= _MANY:
        return sensors
    order = torch.randperm(len(sensors), generator=torch.Generator().manual_seed(0))
    return sensors[order[:_MANY].sort().values.to(sensors.device)]


def _likeliest(
    values: Float[Tensor, " m"], z: Float[Tensor, "b m"], unit: Float[Tensor, ""]
) -> Float[Tensor, " b"]:
    levels = LEVELS.to(z) * unit
    total = values.clamp(min=0) + (levels.square() + _FLOOR * unit**2)[:, None]
    misfit = z.square() @ (1 / total).T + total.log().sum(1)
    return levels[misfit.argmin(1)]
