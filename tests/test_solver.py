"""A model with its sampler: split work, counted calls, draws that explode."""

import copy
import re

import pytest
import torch
from small import lifted_network, network

from prisma_lib import cells, data, lifts, pdes, solve
from prisma_lib.edm import Schedule
from prisma_lib.errors import NumericsError
from prisma_lib.observe import observation
from prisma_lib.sample import SAMPLERS
from prisma_lib.solve import PrismaSolver


@pytest.fixture(scope="module")
def pde():
    return pdes.load("darcy", size=16)


@pytest.fixture(scope="module")
def model(pde):
    return network(pde)


@pytest.fixture(scope="module")
def pair(pde):
    return data.problems(pde, 3, split="test")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_draws_do_not_depend_on_how_the_batch_is_split(model, pair, sampler):
    settings = {"steps": 3, "samples": 2, "seed": 0, "sampler": sampler}
    # In single precision products of other shapes round otherwise, by the processor.
    exact = copy.deepcopy(model).double()
    whole, *split = (
        solve(exact, u=pair[1], max_batch=most, **settings) for most in (6, 1, 5)
    )

    for parts in split:
        for part, all_at_once in ((parts.a, whole.a), (parts.u, whole.u)):
            assert (part - all_at_once).norm() < 1e-7 * all_at_once.norm()


@pytest.mark.parametrize(
    ("sampler", "calls"), [("euler", 4), ("heun", 7), ("multistep", 4)]
)
def test_a_solver_says_how_often_it_calls_the_network(model, pair, sampler, calls):
    counted = []
    handle = model.register_forward_hook(lambda *_: counted.append(1))
    solver = PrismaSolver(model, Schedule(4), sampler)
    seen = observation(model.pde, a=pair[0])

    solver.solve(seen, samples=1, generator=torch.Generator().manual_seed(0))
    handle.remove()

    assert solver.calls == len(counted) == calls


@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_draw_that_explodes_names_step_and_noise_level(model, pair, step):
    sigmas = Schedule(4).sigmas()
    broken = copy.deepcopy(model)

    def explode(module, inputs, denoised):
        hot = (inputs[1] < 1.01 * sigmas[step - 1])[:, None, None, None]
        return torch.where(hot, torch.inf, denoised)

    broken.register_forward_hook(explode)
    level = re.escape(f"{sigmas[step]:.3g}")
    message = f"3 of 3 draws .* first in step {step} of 4, at noise level {level}:"

    with pytest.raises(NumericsError, match=message):
        solve(broken, a=pair[0], steps=4, sampler="euler", max_batch=2, seed=0)


def test_weights_that_overflow_are_an_error(model, pair):
    broken = copy.deepcopy(model)
    torch.nn.init.constant_(broken.backbone.project.bias, 3e38)

    with pytest.raises(NumericsError, match="in step 1 of 3, at noise level 2"):
        solve(broken, a=pair[0], steps=3, seed=0)


@pytest.mark.parametrize(("given", "asked"), ["au", "ua"])
def test_a_lift_that_is_sure_is_the_answer(given, asked, quick):
    pde = quick("navier_stokes", 16)
    problems = cells.benchmark(pde, 4)
    known = {given: getattr(problems, given)}
    found = lifts.lift(pde, observation(pde, **known))
    place, unit = "au".index(asked), problems.statistics.std["au".index(asked)]
    assert (found.sd[:, place] > 0).all()

    draws = solve(lifted_network(pde), **known, noise_sd=0.0, samples=2, steps=3)

    answer = getattr(draws, asked)[:, :, 0]
    assert (answer - found.mean[:, place]).abs().max() < 1e-6 * unit
    assert (answer - getattr(problems, asked)[:, 0]).abs().max() < 1e-2 * unit
