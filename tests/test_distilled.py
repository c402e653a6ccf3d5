"""A student of PRISMA-L: it goes where its teacher's draws go, in one or two steps."""

from dataclasses import replace

import pytest
import torch

from prisma_lib import checkpoints, data, pdes, solve
from prisma_lib.distilled import Distilled
from prisma_lib.edm import Schedule
from prisma_lib.errors import CheckpointError, ConfigError
from prisma_lib.lifted import PrismaL
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.observe import observe
from prisma_lib.presets import DistilConfig, LiftConfig
from prisma_lib.sample import euler, multistep
from prisma_lib.solver import PrismaSolver
from prisma_lib.training import TrainConfig, loop, start

SIZE = 16


@pytest.fixture(scope="module")
def pde():
    return pdes.load("poisson", size=SIZE)


@pytest.fixture(scope="module")
def teacher(pde):
    torch.manual_seed(0)
    model = PrismaL(pde, LiftConfig.preset("tiny"), data.statistics(pde, num=64))
    torch.nn.init.normal_(model.backbone.project.weight, std=0.1)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def place(teacher, tmp_path_factory):
    """Where the teacher is kept."""
    folder = tmp_path_factory.mktemp("models") / "teacher"
    checkpoints.save(folder, teacher, dtype=torch.float32)
    return folder


def student(teacher, **settings):
    config = DistilConfig.preset("tiny", **settings)
    model = Distilled(teacher.pde, config, teacher.statistics).eval()
    model.begin(teacher)
    return model


@pytest.fixture(scope="module")
def asked(teacher):
    """A batch as training sees it: clean pairs, noise, what is told, mask."""
    a, u = data.problems(teacher.pde, 4)
    seen = observe("sparse_inverse", a, u, rate=0.1, index=range(4))
    x_0 = teacher.normalise(torch.cat([a, u], 1))
    noise = torch.randn(x_0.shape, generator=torch.Generator().manual_seed(1))
    return x_0, noise, teacher.told(x_0, seen.mask), seen.mask


@pytest.mark.parametrize("calls", [1, 2])
def test_a_student_that_is_right_goes_where_the_teacher_goes(teacher, asked, calls):
    x_0, noise, told, mask = asked
    model, sigma = student(teacher, calls=calls), torch.ones(4)
    *_, last = multistep(lambda x, s: teacher(x, s, told, mask), noise, Schedule(8))
    path, levels = model._path(noise, told, mask)

    # An oracle that knows where each of the teacher's draws is at every level.
    def oracle(x, level, told, mask):
        found = []
        for row, (state, at) in enumerate(zip(x, level, strict=True)):
            stage = int((levels - at).abs().argmin())
            torch.testing.assert_close(state, path[stage, row], rtol=1e-4, atol=1e-4)
            share = levels[stage + 1] / levels[stage]
            found.append((path[stage + 1, row] - share * state) / (1 - share))
        return torch.stack(found)

    model.forward = oracle
    *_, drawn = euler(lambda x, s: oracle(x, s, told, mask), noise, model.schedule)

    assert model.errors(x_0, sigma, noise, told, mask).max() < 1e-6
    torch.testing.assert_close(drawn.x, last.x, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_squared_distance_in_units_of_the_doubt(teacher, asked):
    x_0, noise, told, mask = asked
    model = student(teacher)
    with torch.no_grad():
        *_, last = multistep(lambda x, s: teacher(x, s, told, mask), noise, Schedule(8))
        level = torch.full((4,), 80.0)
        off = model(80 * noise, level, told, mask) - last.x
        _, out, _ = model.preconditioned(80 * noise, level, told)

        found = model.errors(x_0, torch.ones(4), noise, told, mask)

    unknown = out > 0
    for row in range(4):
        mean = (off / out)[row][unknown[row]].square().sum() / off[row].numel()
        assert found[row].item() == pytest.approx(mean.item(), rel=1e-4)


def settings_of(place, **changes):
    config = TrainConfig(
        method=Distilled.method, pde="poisson", size=SIZE, preset="tiny", images=960,
        batch=16, group=8, warmup=64, weights=str(place), learning_rate=4e-3,
        ema_half_life=64, noise_max=1.0,
    )  # fmt: skip
    return replace(config, **changes)


@pytest.mark.slow
def test_it_learns_to_draw_in_one_call_what_takes_the_teacher_eight(place, tmp_path):
    state = start(settings_of(place), torch.device("cpu"))
    first = {k: v.clone() for k, v in state.model.state_dict().items()}
    kept = {k: v.clone() for k, v in state.model._teacher[0].state_dict().items()}
    losses = [step.loss for step in loop(state)]

    assert sum(losses[-10:]) < 0.6 * sum(losses[:10])
    teacher = state.model._teacher[0]
    assert all(torch.equal(v, kept[k]) for k, v in teacher.state_dict().items())
    assert any(
        not torch.equal(v, first[k]) for k, v in state.model.state_dict().items()
    )

    # Kept and loaded again it needs no teacher, and is nearer to the teacher's draws
    # than one call of the teacher is.
    checkpoints.save(tmp_path, state.model, dtype=torch.float32)
    model = checkpoints.load(tmp_path)
    u = data.problems(model.pde, 8, "test")[1]
    places = torch.rand(u.shape, generator=torch.Generator().manual_seed(2)) < 0.1
    seen = {"u": torch.where(places, u, torch.nan), "seed": 0}
    wanted = solve(teacher, steps=8, sampler="multistep", **seen).a
    one, ours = (solve(m, steps=1, **seen).a for m in (teacher, model))
    assert (ours - wanted).norm() < 0.8 * (one - wanted).norm()


def test_it_starts_from_the_teachers_weights_in_the_teachers_units(place, teacher):
    state = start(settings_of(place, seed=5), torch.device("cpu"))

    assert state.model.statistics == teacher.statistics
    for name, value in teacher.state_dict().items():
        assert torch.equal(value, state.model.state_dict()[name])
        assert torch.equal(value, state.average.state_dict()[name])


def test_prisma_may_go_on_from_a_model_too(pde, tmp_path):
    statistics = data.statistics(pde, num=64)
    first = Prisma(pde, ModelConfig.preset("tiny"), statistics)
    checkpoints.save(tmp_path, first, dtype=torch.float32)

    state = start(settings_of(tmp_path, method="prisma"), torch.device("cpu"))

    for name, value in first.state_dict().items():
        assert torch.equal(value, state.model.state_dict()[name])


def test_it_refuses_levels_that_it_does_not_know(teacher):
    u = data.problems(teacher.pde, 1)[1]
    one, two = student(teacher), student(teacher, calls=2)

    with pytest.raises(ConfigError, match=r"distilled to 1 network calls.*steps=1"):
        solve(one, u=u)
    with pytest.raises(ConfigError, match=r"give steps=2, sigma_min=1\.2"):
        solve(two, u=u, steps=2)
    with pytest.raises(ConfigError, match="sampler='euler'"):
        PrismaSolver(two, two.schedule)
    with pytest.raises(ConfigError, match="distilled to 1"):
        PrismaSolver(one, Schedule(1, sigma_max=10.0))

    assert solve(one, u=u, steps=1, seed=0).a.isfinite().all()
    assert PrismaSolver(one, one.schedule).calls == 1
    settings = {"steps": 2, "sigma_min": two.schedule.sigma_min, "sampler": "euler"}
    assert solve(two, u=u, seed=0, **settings).a.isfinite().all()
    assert PrismaSolver(two, two.schedule, sampler="euler").calls == 2


def test_it_refuses_what_it_cannot_learn_from(place, pde, tmp_path, asked, teacher):
    device = torch.device("cpu")
    prisma = Prisma(pde, ModelConfig.preset("tiny"), data.statistics(pde, num=64))
    checkpoints.save(tmp_path, prisma)

    with pytest.raises(ConfigError, match="what is distilled is PRISMA-L"):
        start(settings_of(tmp_path), device)
    with pytest.raises(ConfigError, match="weights of a model of poisson"):
        start(settings_of(place, pde="darcy"), device)
    with pytest.raises(CheckpointError, match="weights"):
        start(settings_of(place, preset="small"), device)
    with pytest.raises(CheckpointError, match="no model"):
        start(settings_of(tmp_path / "nowhere"), device)
    with pytest.raises(ConfigError, match="distilling needs a teacher"):
        next(loop(start(settings_of(place, weights=None), device)))
    for settings in ({"calls": 3}, {"calls": True}, {"stages": 3}, {"stages": 0}):
        (name,) = settings
        with pytest.raises(ConfigError, match=f"{name}="):
            DistilConfig.preset("tiny", **settings)
