r"""A draw in one or two network calls: PRISMA-L, distilled from its own draws.

A draw is a function of the noise that it starts from: the probability-flow equation has
nothing random in it. A network that is trained to denoise knows its slope only, and at
the largest noise level that is the way to the mean of the posterior, whatever the
noise. The student learns the function itself. Its teacher, PRISMA-L, draws in several
calls, and the student, which starts from the teacher's weights, is shown where each
draw starts, where it is half way, and where it ends; the step of Euler's method from
one to the next is its answer.

Reference:
    Salimans and Ho (2022), Progressive distillation for fast sampling of diffusion
    models. arXiv 2202.00512. Here in one stage, from the multistep sampler.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from prisma_lib.edm import Levels, Schedule
from prisma_lib.errors import ConfigError
from prisma_lib.lifted import PrismaL
from prisma_lib.observe import Pair
from prisma_lib.pdes.base import PDE, Statistics
from prisma_lib.presets import DistilConfig
from prisma_lib.sample import multistep
from prisma_lib.units import Errors, Normalised, Told


class Distilled(PrismaL):
    """PRISMA-L that goes from noise to a draw in one or two steps.

    Args:
        pde: The equation, on the grid that the model is trained on.
        config: Settings of the network.
        statistics: Mean and standard deviation per field, shared by its channels, and
            the residual of the stored truth, all in physical units.

    Raises:
        ShapeError: When the grid is not divisible by the pooling factor.
    """

    method = "prisma-l-distilled"
    title = "PRISMA-L, distilled"
    settings = DistilConfig
    config: DistilConfig

    def __init__(self, pde: PDE, config: DistilConfig, statistics: Statistics) -> None:
        super().__init__(pde, config, statistics)
        self.unweighted = False
        self._teacher: list[PrismaL] = []  # in a list: its weights are not ours

    @property
    def teaching(self) -> Schedule:
        """Noise levels that the teacher visits."""
        return Schedule(self.config.stages)

    @property
    def schedule(self) -> Schedule:
        """Noise levels of a draw: the largest, and of two calls a middle one."""
        stages, calls = self.config.stages, self.config.calls
        middle = self.teaching.sigmas()[stages // calls * (calls - 1)]
        return Schedule(1) if calls == 1 else Schedule(2, sigma_min=middle.item())

    def check_schedule(self, schedule: Schedule, sampler: str) -> None:
        """Refuses noise levels that the network was not trained for.

        Args:
            schedule: Noise levels to visit.
            sampler: Name of the sampler.

        Raises:
            ConfigError: Naming the settings that it needs.
        """
        own, plain = self.schedule, sampler != "heun" or schedule.steps == 1
        known, asked = own.sigmas(), schedule.sigmas()
        same = known.shape == asked.shape and torch.allclose(known, asked, rtol=1e-6)
        if same and plain:
            return
        middle = f", sigma_min={own.sigma_min!r}" if own.steps > 1 else ""
        raise ConfigError(
            f"steps={schedule.steps}, sampler={sampler!r}: this model was distilled to "
            f"{own.steps} network calls and knows no others; give steps={own.steps}"
            f"{middle}, sampler='euler', or use the model that it was distilled from"
        )

    def begin(self, first: Normalised) -> None:
        """Takes the weights of the teacher, and keeps the teacher.

        Args:
            first: A model of PRISMA-L.

        Raises:
            CheckpointError: When its network is another.
            ConfigError: When it is no PRISMA-L, or of another equation.
        """
        if type(first) is not PrismaL:
            raise ConfigError(
                f"weights of {first.method}: what is distilled is PRISMA-L; name a "
                "model of it, such as darcy-32L"
            )
        super().begin(first)
        self._teacher = [first]

    def errors(
        self, x_0: Pair, sigma: Levels, noise: Pair, told: Told, mask: Pair
    ) -> Errors:
        """Computes how far each step is off that of the teacher, in units of the doubt.

        Args:
            x_0: Clean pairs, normalised; the teacher draws others.
            sigma: Noise levels, which are not those of a draw and count for nothing.
            noise: Noise of unit variance, from which the draws start.
            told: What the network is told of the pairs.
            mask: 1 where observed.

        Raises:
            ConfigError: When there is no teacher.
        """
        path, levels = self._path(noise, told, mask)
        problem = torch.arange(len(noise), device=noise.device)
        stage = problem % self.config.calls
        x, after = path[stage, problem], path[stage + 1, problem]
        level = levels[stage]
        share = (levels[stage + 1] / level)[:, None, None, None]
        wanted = (after - share * x) / (1 - share)
        return self.off(wanted, x, level, told, mask)

    @torch.no_grad()
    def _path(
        self, noise: Pair, told: Told, mask: Pair
    ) -> tuple[Float[Tensor, "k b c x y"], Float[Tensor, " k"]]:
        """Returns the teacher's states at the levels of a draw, and these levels."""
        if not self._teacher:
            raise ConfigError(
                "distilling needs a teacher: give weights, a model of PRISMA-L such as "
                "weights: darcy-32L"
            )
        teacher = self._teacher[0].to(noise.device)

        def denoise(x: Tensor, sigma: Tensor) -> Tensor:
            denoised: Tensor = teacher(x, sigma, told, mask)
            return denoised

        states = list(multistep(denoise, noise, self.teaching))
        every = self.config.stages // self.config.calls
        kept = [
            self.teaching.sigma_max * noise,
            *(s.x for s in states[every - 1 :: every]),
        ]
        return torch.stack(kept), self.schedule.sigmas().to(noise)
