r"""PRISMA-L: PRISMA with a classical estimate as its input. Ours, not the paper's.

Numerical analysis turns an observation into an estimate m of both fields and a standard
deviation s of its error at every point: the lift (see `lifts`), once a solve. The
network adds what the lift is in doubt about. It is preconditioned around the lift as
Karras et al. precondition around zero, point by point:

$$D = m + \frac{s^2}{s^2 + \sigma^2} (x_\sigma - m) + \frac{s \, \sigma}
{\sqrt{s^2 + \sigma^2}} F_\theta\Big(\frac{x_\sigma - m}{\sqrt{s^2 + \sigma^2}}, m, s,
M y, M, r, \sigma\Big).$$

A network that says nothing is the best denoiser of a state that is Gaussian about m
with independent errors of s. Where a value is known s is 0 and D is the value; a lift
that errs by less than a thousandth of the field counts as known. The loss is the
squared error of $F_\theta$, so that each question counts by how far the lift is off,
and not by how large the field is.

Sensors may be noisy: the noise level is an input, drawn in training (`noise_max`), and
given or estimated when a question is asked.

Reference:
    Karras et al. (2022), table 1, arXiv 2206.00364, for the preconditioning.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib import lifts
from prisma_lib.edm import SIGMA_DATA, Levels
from prisma_lib.model import Prisma
from prisma_lib.nn.sra import Strategy
from prisma_lib.observe import Observation, Pair
from prisma_lib.observed import Lift, Noise
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.presets import LiftConfig
from prisma_lib.units import Errors, SensorNoise, Told

# The least doubt about a value that is not known: two parts in a thousand of a field's
# standard deviation.
LEAST = 2e-3 * SIGMA_DATA
# A lift that is in less doubt than this is right as it stands: a network would only add
# errors of its own, about four parts in ten thousand.
SURE = LEAST / 2


class PrismaL(Prisma):
    """The conditional denoiser of one PDE, around a classical estimate.

    Args:
        pde: The equation, on the grid that the model is trained on.
        config: Settings of the network.
        statistics: Mean and standard deviation per field, shared by its channels, and
            the residual of the stored truth, all in physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    method = "prisma-l"
    title = "PRISMA-L"
    settings = LiftConfig
    config: LiftConfig

    def __init__(self, pde: PDE, config: LiftConfig, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self.unweighted = not config.around

    @property
    def inputs(self) -> int:
        """Number of input channels but those of `denoiser.place`."""
        # State, observed values, mask, lift, its doubt, its weight; noise of a and u.
        return 6 * self.channels + 2

    @property
    def residuals(self) -> int:
        """Number of states whose residual the network sees."""
        return 2 if self.config.residual_state == "both" else 1

    def prepare(self) -> None:
        """Makes what lifts of its equation share."""
        lifts.prepare(self.pde, self.mean.device)

    def told(self, x_0: Pair, mask: Pair, sensors: SensorNoise | None = None) -> Told:
        """Returns values at sensors, their lift, its doubt, and the noise of sensors.

        Args:
            x_0: Clean pairs, normalised.
            mask: 1 where observed.
            sensors: Noise of the sensors, if they have any.
        """
        values = super().told(x_0, mask, sensors)
        shape = (len(x_0), 2, *x_0.shape[2:])
        sd = x_0.new_zeros(shape) if sensors is None else sensors.sd
        a, u = self.denormalise(values).split(self.pde.channels, 1)
        mask_a, mask_u = mask.split(self.pde.channels, 1)
        seen = Observation(a, u, mask_a, mask_u)
        unit = self._unit(seen)
        return self._told(values, lifts.lift(self.pde, seen, sd * unit), sd)

    def condition(
        self, observation: Observation, noise_sd: Noise | None = None
    ) -> tuple[Told, Pair]:
        """Prepares an observation for the denoiser, and lifts it.

        Args:
            observation: What was measured, physical units.
            noise_sd: Standard deviation of the sensor noise, physical units; `None`: it
                is estimated.

        Returns:
            What `told` returns, and the mask.

        Raises:
            ConfigError: When the noise is impossible.
            ShapeError: When the grid cannot be pooled.
        """
        values, mask = super().condition(observation)
        pde = self.pde_on(observation.shape)
        if noise_sd is None:
            noise_sd = lifts.noise_of(pde, observation)
        found = lifts.lift(pde, observation, noise_sd)
        levels = lifts.levels(noise_sd, observation).to(values)
        return self._told(values, found, levels / self._unit(observation)), mask

    def preconditioned(
        self, x_sigma: Pair, sigma: Levels, told: Told
    ) -> tuple[Pair, Float[Tensor, "b _ _ _"], Float[Tensor, "b _ x y"]]:
        """Prepares the state for the network, and its output for the state.

        Args:
            x_sigma: Noisy state, normalised.
            sigma: Its noise level.
            told: Values at sensors, lift, doubt and noise of the sensors.

        Returns:
            The estimate without the network, the scale of what the network adds to it,
            and what the network sees of state and observation.
        """
        values, mean, sd, noise = self._parts(told)
        doubt = _believed(sd)
        level = sigma[:, None, None, None]
        total = torch.hypot(doubt, level).clamp(min=1e-12)
        share = (doubt / total).square()
        base, out = mean + share * (x_sigma - mean), doubt * level / total
        if self.config.around:
            state = (x_sigma - mean) / total
        else:
            base, out, _ = super().preconditioned(x_sigma, sigma, values)
            state = x_sigma / torch.hypot(level, level.new_tensor(SIGMA_DATA))
        log_doubt = (sd / SIGMA_DATA + 1e-4).log() / 5  # between -1.8 and about 0
        noise = noise / (SIGMA_DATA + noise)
        return base, out, torch.cat([state, values, mean, log_doubt, share, noise], 1)

    def errors(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Computes the denoising error of each image, in units of the doubt.

        Args:
            x_0: Clean pairs, normalised.
            sigma: Noise levels.
            noise: Noise of unit variance.
            told: What the network is told of them.
            mask: 1 where observed.

        Returns:
            Mean over fields and points of the squared error of the network's output;
            without `around`, of the squared error, without a weight.
        """
        if not self.config.around:
            return super().errors(x_0, sigma, noise, told, mask)
        x_sigma = x_0 + sigma[:, None, None, None] * noise
        return self.off(x_0, x_sigma, sigma, told, mask)

    def off(
        self, wanted: Pair, x_sigma: Pair, sigma: Levels, told: Told, mask: Pair
    ) -> Errors:
        """Returns how far an estimate is off, squared, in units of its doubt.

        Args:
            wanted: What the estimate should be, normalised.
            x_sigma: Noisy state, normalised.
            sigma: Its noise level.
            told: What the network is told.
            mask: 1 where observed.
        """
        _, out, _ = self.preconditioned(x_sigma, sigma, told)
        off = (self(x_sigma, sigma, told, mask) - wanted) / out.clamp(min=1e-12)
        return torch.where(out > 0, off, 0.0).square().mean((1, 2, 3))

    def states(self, x_sigma: Pair, told: Told, mask: Pair) -> list[Pair]:
        """Lists the states whose residual the network sees, normalised.

        Args:
            x_sigma: Noisy state, normalised.
            told: Values at sensors, lift, doubt and noise of the sensors.
            mask: 1 where observed.

        Returns:
            The noisy state with known values put in, the lift, or both.
        """
        _, mean, sd, _ = self._parts(told)
        guided = self.strategy is not Strategy.UNGUIDED
        mixed = torch.where(sd == 0, mean, x_sigma) if guided else x_sigma
        kind = self.config.residual_state
        return {"mixed": [mixed], "lifted": [mean], "both": [mixed, mean]}[kind]

    def _parts(self, told: Told) -> tuple[Tensor, ...]:
        return told.split([self.channels, self.channels, self.channels, 2], 1)

    def _told(self, values: Pair, lift: Lift, levels: Float[Tensor, "b 2 x y"]) -> Told:
        mean = self.normalise(lift.mean)
        sd = torch.threshold(lift.sd * (SIGMA_DATA / self.std), SURE, 0.0)
        return torch.cat([values, mean, sd, levels.to(values)], 1)

    def _unit(self, like: Observation) -> Float[Tensor, "1 2 1 1"]:
        """Returns what a normalised value of 1 is in `a` and in `u`."""
        first = self.pde.channels[0]
        std = self.std[0, [0, first], 0, 0].to(like.a)
        return (std / SIGMA_DATA)[None, :, None, None]


def _believed(sd: Pair) -> Pair:
    return torch.where(sd > 0, torch.hypot(sd, sd.new_tensor(LEAST)), 0.0)
