"""Rollouts, with solvers whose every step is known."""

from dataclasses import dataclass, field, replace

import pytest
import torch

from prisma_lib import cells, pdes, rollout
from prisma_lib.anchors import NumericalSolver, Persistence
from prisma_lib.errors import ConfigError, NumericsError
from prisma_lib.shelf import Shelf


@pytest.fixture(scope="module", params=[1, 3])
def problems(request):
    return rollout.starts(pdes.load("navier_stokes", size=16, frames=request.param), 4)


@dataclass
class Witness:
    """Answers with what it saw, and remembers it."""

    pde: pdes.PDE
    seen: list = field(default_factory=list)
    calls: int = 0
    fails_at: int = 99

    def solve(self, observation, *, samples, generator):
        if len(self.seen) == self.fails_at:
            raise NumericsError("blown up")
        self.seen.append(observation)
        noise = torch.randn(observation.a.shape, generator=generator)
        u = (observation.a + noise).expand_as(observation.u)
        return observation.a[None], u[None]


def test_starts_are_of_trajectories_of_their_own(problems):
    pde = problems.pde
    tenth = pde.draw(0, [range(1 << 41, (1 << 41) + 31)[k] for k in (0, 9)])

    assert problems.n == 4
    # Neither is the state of another trajectory at a later time.
    later = pde.trajectory(problems.a, 10)
    distance = (later[:, None] - problems.a[None]).abs().amax((2, 3, 4))
    assert distance.min() > 0.1
    assert tenth.shape[0] == 2


def test_the_numerical_solver_rolls_along_its_own_trajectory(problems):
    frames = rollout.rollout(NumericalSolver(problems.pde), problems, 10)

    truth = problems.pde.trajectory(problems.a, 10)
    torch.testing.assert_close(frames, truth, rtol=0, atol=1e-5)


def test_persistence_keeps_the_first_state(problems):
    frames = rollout.rollout(Persistence(problems.pde), problems, 5)

    assert frames.shape == (4, 5, 16, 16)
    assert torch.equal(frames, problems.a.expand_as(frames))


@pytest.mark.parametrize("regime", ["sparse", "noisy"])
@pytest.mark.parametrize("entering", rollout.ENTRIES)
def test_corruption_enters_once_or_with_every_state(problems, regime, entering):
    witness = Witness(problems.pde)

    rollout.rollout(witness, problems, 6, regime, entering)

    tables = cells.observation_of(problems, "forward", regime)
    first, *later = witness.seen
    assert torch.equal(first.a, tables.a)
    assert len(later) == 6 / problems.pde.channels[1] - 1
    for seen, before in zip(later, witness.seen, strict=False):
        whole = bool(seen.mask_a.all())
        assert whole == (entering == "once" or regime == "noisy")
        if regime == "sparse" and entering == "every":
            assert not torch.equal(seen.mask_a, before.mask_a)


def test_noise_of_every_state_is_new(problems):
    witness = Witness(problems.pde)

    rollout.rollout(witness, problems, 6, "noisy", "every")

    still = Witness(problems.pde)
    rollout.rollout(still, problems, 6, "noisy", "once")
    first, second = (w.seen[1].a for w in (witness, still))
    noise = first - second
    sd = problems.noise_sd("noisy")[0]
    assert noise.std() == pytest.approx(sd, rel=0.1)
    start = still.seen[0].a - problems.a
    both = torch.stack([noise.flatten(), start.flatten()])
    assert abs(torch.corrcoef(both)[0, 1]) < 0.1


def test_frames_after_a_state_that_blew_up_are_no_numbers(problems):
    width = problems.pde.channels[1]

    frames = rollout.rollout(Witness(problems.pde, fails_at=1), problems, 5)

    assert frames[:, :width].isfinite().all()
    assert frames[:, width:].isnan().all()
    assert frames.shape[1] == 5


def test_an_unknown_way_of_entering_is_refused(problems):
    with pytest.raises(ConfigError, match="every"):
        rollout.rollout(Persistence(problems.pde), problems, 2, entering="evry")


def test_known_states_after_the_first_are_left_to_another_solver(problems):
    first, later = Witness(problems.pde), Witness(problems.pde)

    rollout.rollout(first, problems, 6, "noisy", "once", later)

    assert len(first.seen) == 1
    assert len(later.seen) == 6 / problems.pde.channels[1] - 1


def test_where_every_state_is_disturbed_nobody_else_answers(problems):
    first, later = Witness(problems.pde), Witness(problems.pde)

    rollout.rollout(first, problems, 6, "noisy", "every", later)

    assert len(first.seen) == 6 / problems.pde.channels[1]
    assert not later.seen


def test_cost_of_a_step_is_that_of_the_answers_up_to_it(problems):
    found = rollout.timed(Witness(problems.pde, calls=7), problems, 10)

    width = problems.pde.channels[1]
    costs = [found.cost(step) for step in range(1, 11)]
    assert found.frames.shape[1] == 10
    assert [cost["calls"] for cost in costs] == [
        7 * (1 + k // width) for k in range(10)
    ]
    seconds = [float(cost["seconds_per_sample"]) for cost in costs]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert costs[0]["peak_mb"] > 0


def test_a_kept_rollout_is_not_made_again(problems, tmp_path):
    shelf = Shelf(tmp_path / "answers")

    def again(regime, calls=0, bench=problems):
        witness = Witness(problems.pde, calls=calls, fails_at=3)
        found = rollout.kept(shelf, witness, bench, 10, regime, "every")
        return found, len(witness.seen)

    first, asked = again("noisy")
    second, asked_later = again("noisy")

    assert (asked, asked_later) == (3, 0)
    assert torch.equal(first.frames.nan_to_num(7), second.frames.nan_to_num(7))
    assert first.frames[:, -1].isnan().all()
    assert first.cost(10) == second.cost(10)
    assert again("full")[1] == 3
    assert again("noisy", calls=1)[1] == 3
    assert again("noisy", bench=problems.first(2))[1] == 3


def test_the_solver_from_a_lift_is_exact_of_all_and_helps_against_noise(problems):
    flow = pdes.load("navier_stokes", size=16)
    bench = replace(problems, pde=flow, u=problems.u[:, :1])
    truth = flow.trajectory(bench.a, 3)
    sds = bench.noise_sd("noisy")

    known = rollout.rollout(rollout.LiftThenSolve(flow), bench, 3)
    noisy = rollout.rollout(rollout.LiftThenSolve(flow, sds), bench, 3, "noisy")
    raw = rollout.rollout(NumericalSolver(flow), bench, 3, "noisy")

    torch.testing.assert_close(known, truth, rtol=0, atol=1e-4)
    errors = [(frames - truth).norm() for frames in (noisy, raw)]
    assert errors[0] < errors[1]
