r"""Conditioning of a Gaussian vector $x = B \xi$ on some of its values, in white noise.

With the rows $R$ of $B$ at the observed values $y$ and noise of variance $s^2$ on them,
the white noise $\xi$ given y is Gaussian with the mean $R^T K^{-1} y$, where
$K = R R^T + s^2 I$, and

$$\xi + R^T K^{-1} (y - R \xi - \varepsilon)$$

is a draw of it for fresh $\xi$ and $\varepsilon$ (Matheron's rule). A map B is a
function from white noise `(b, x, y)` to values `(b, c, x, y)`; its rows are found by
differentiating it, so that it need not be a matrix.

A field that is observed as a whole takes matrices of n x n numbers for its n nodes, at
128 per axis 2 GiB each. Four of them have to fit in memory, for variances six.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from prisma_lib.errors import NumericsError

White = Float[Tensor, "b x y"]
Values = Float[Tensor, "b c x y"]
LinearMap = Callable[[White], Values]

# The variance added to each observed value, relative to the mean variance of those of
# its field: rounding can make the covariance of a smooth field indefinite.
_JITTER, _MOST_JITTER = 1e-12, 1e-8
_BLOCK = 1 << 22  # numbers in a block of unit impulses


@dataclass(frozen=True)
class Conditioned:
    """What is known of the white noise once some values are observed.

    Args:
        seen: Which of the `c x y` values are observed.
        rows: R, one row of `x y` numbers for each observed value.
        factor: Lower Cholesky factor of K.
        sd: Standard deviation of the noise on each observed value.
    """

    seen: Int[Tensor, " m"]
    rows: Float[Tensor, "m n"]
    factor: Float[Tensor, "m m"]
    sd: Float[Tensor, " m"]

    def mean(self, values: Float[Tensor, "b m"]) -> Float[Tensor, "b n"]:
        """Returns the mean of the white noise given observed values."""
        return torch.cholesky_solve(values.T, self.factor).T @ self.rows

    def draw(
        self,
        values: Float[Tensor, "b m"],
        white: Float[Tensor, "b n"],
        noise: Float[Tensor, "b m"],
    ) -> Float[Tensor, "b n"]:
        """Turns fresh standard normal numbers into draws given observed values."""
        predicted = white @ self.rows.T + self.sd * noise
        return white + self.mean(values - predicted)

    def explained(self, joint: Float[Tensor, "m both"]) -> Float[Tensor, " both"]:
        """Returns by how much the observed values reduce the variance of others.

        Args:
            joint: Covariance of each observed value with all values.
        """
        # In blocks: the solution is as large as `joint`.
        parts = joint.split(max(1, _BLOCK // max(1, len(joint))), dim=1)
        scaled = (
            torch.linalg.solve_triangular(self.factor, part, upper=False)
            for part in parts
        )
        return torch.cat([torch.linalg.vecdot(part, part, dim=0) for part in scaled])


def condition(
    rows: Float[Tensor, "m n"],
    covariance: Float[Tensor, "m m"],
    seen: Int[Tensor, " m"],
    sd: Float[Tensor, " m"],
    points: int,
) -> Conditioned:
    """Factors the covariance of observed values.

    Args:
        rows: Rows of B at these values; or their covariance with other values, of
            which `Conditioned.mean` is then the mean.
        covariance: Their covariance; its diagonal is overwritten.
        seen: Their numbers, channel by channel.
        sd: Standard deviation of the noise on each of them.
        points: Values of a channel.

    Raises:
        NumericsError: When the covariance is not positive definite in float64.
    """
    diagonal = covariance.diagonal().clone()
    scale, noise, channels = torch.ones_like(diagonal), sd.square(), seen // points
    for channel in channels.unique():
        mine = channels == channel
        # Values that are known beforehand, such as zero edges, vary by nothing.
        if diagonal[mine].any():
            scale[mine] = diagonal[mine].mean()
    jitter = _JITTER
    while jitter <= _MOST_JITTER:
        variance = noise + jitter * scale
        covariance.diagonal().copy_(diagonal + variance)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if not failed:
            return Conditioned(seen, rows, factor, variance.sqrt())
        jitter *= 10
    raise NumericsError(
        f"the covariance of {len(seen)} observed values is not positive definite in "
        "float64: state the noise of the sensors, such as noise_sd=1e-4"
    )


def rows_of(
    linear: LinearMap, seen: Int[Tensor, " m"], like: White
) -> Float[Tensor, "m n"]:
    """Returns rows of a linear map: its transpose on unit impulses.

    Args:
        linear: The map, differentiable.
        seen: Numbers of the wanted values, channel by channel.
        like: White noise of the wanted shape, dtype and device.
    """
    rows = like.new_empty(len(seen), like[0].numel())
    for part, out in zip(_blocks(seen, like), _blocks(rows, like), strict=True):
        with torch.enable_grad():
            white = like.new_zeros(len(part), *like.shape[1:], requires_grad=True)
            values = linear(white)
        impulses = _impulses(part, values[0].numel(), like).view_as(values)
        (row,) = torch.autograd.grad(values, white, impulses)
        out.copy_(row.flatten(1))
    return rows


def joint_of(
    linear: LinearMap,
    rows: Float[Tensor, "m n"],
    chosen: Int[Tensor, " k"],
    like: White,
) -> Float[Tensor, "m k"]:
    """Returns the covariance of values whose rows are known with others.

    Args:
        linear: The map.
        rows: Its rows at the first values.
        chosen: Numbers of the others, channel by channel.
        like: White noise of the wanted shape, dtype and device.
    """
    joint = like.new_empty(len(rows), len(chosen))
    for part, out in zip(_blocks(rows, like), _blocks(joint, like), strict=True):
        values = linear(part.unflatten(1, like.shape[1:]))
        out.copy_(values.flatten(1)[:, chosen])
    return joint


def variance_of(linear: LinearMap, like: White) -> Float[Tensor, "c x y"]:
    """Returns the variance of every value of a linear map of white noise.

    Args:
        linear: The map.
        like: White noise of the wanted shape, dtype and device.
    """
    points = like[0].numel()
    total = torch.zeros_like(linear(like[:1])[0])
    for part in _blocks(torch.arange(points, device=like.device), like):
        impulses = _impulses(part, points, like)
        total += linear(impulses.unflatten(1, like.shape[1:])).square().sum(0)
    return total


def _blocks(values: Shaped[Tensor, "m ..."], like: White) -> Iterator[Tensor]:
    parts = values.split(max(1, _BLOCK // like[0].numel()))
    return (part for part in parts if len(part))


def _impulses(
    numbers: Int[Tensor, " m"], length: int, like: Tensor
) -> Float[Tensor, "m length"]:
    out = like.new_zeros(len(numbers), length)
    return out.scatter_(1, numbers[:, None], 1.0)
