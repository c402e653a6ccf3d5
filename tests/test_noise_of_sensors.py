"""The noise of sensors, estimated from what they measured."""

import pytest
import torch

from prisma_lib import cells, data, lifts, pdes
from prisma_lib.observe import add_noise, observe

SIZE, N = 16, 16
# Fields of 16 points an axis that no Gaussian field is like hide a little noise.
LEVELS = {"darcy": 2.0, "eikonal": 2.0}
# Few trajectories, as in tests, are no sample of what a flow can be.
NAMES = [name for name in pdes.names() if name != "kolmogorov"]


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_found_and_clean_sensors_have_none(name, quick):
    pde = quick(name, SIZE)
    problems = cells.benchmark(pde, N, split="validation")
    level = LEVELS.get(name, 0.5)

    for mine, direction in enumerate(("forward", "inverse")):
        clean = lifts.noise_of(pde, cells.observation_of(problems, direction, "full"))
        seen = cells.observation_of(problems.hiding(noise=level), direction, "noisy")
        noisy = lifts.noise_of(pde, seen)

        assert (clean == 0).float().mean() >= 0.9
        found = noisy[:, mine] / problems.statistics.std[mine]
        assert (found.median() / level - 1).abs() < 0.12
        assert not noisy[:, 1 - mine].any()


def test_a_clean_problem_is_hardly_ever_taken_for_a_noisy_one():
    # It may look noisier than all 128 that it is compared with: one in 129 does.
    pde = pdes.load("darcy", size=32)
    problems = cells.benchmark(pde, 512, split="validation")

    found = lifts.noise_of(pde, cells.observation_of(problems, "forward", "full"))

    assert found.any(1).sum() <= 1


def test_both_fields_have_noise_of_their_own():
    pde = pdes.load("poisson", size=SIZE)
    a, u = data.problems(pde, N, split="validation")
    first, second = (
        observe(f"full_{way}", a, u, index=range(N)) for way in ("forward", "inverse")
    )
    both = type(first)(first.a, second.u, first.mask_a, second.mask_u)
    sds = 0.3 * a.std().item(), 0.05 * u.std().item()

    found = lifts.noise_of(pde, add_noise(both, *sds, key=0, index=range(N)))

    torch.testing.assert_close(
        found.median(0).values, torch.tensor(sds, dtype=torch.float64), rtol=0.1, atol=0
    )


def test_few_sensors_say_nothing_of_their_noise():
    pde = pdes.load("poisson", size=SIZE)
    a, u = data.problems(pde, 1)
    seen = observe("sparse_forward", a, u, rate=0.004, index=range(1))

    assert seen.mask.sum() <= 3
    assert not lifts.noise_of(pde, seen).any()


def test_of_very_many_sensors_some_say_enough():
    pde = pdes.load("helmholtz", size=48)
    problems = cells.benchmark(pde, 4, split="validation").hiding(noise=0.5)
    seen = cells.observation_of(problems, "inverse", "noisy")

    found = lifts.noise_of(pde, seen)[:, 1] / problems.statistics.std[1]

    assert (found / 0.5 - 1).abs().max() < 0.1
    clean = cells.observation_of(problems, "inverse", "full")
    assert not lifts.noise_of(pde, clean).any()
