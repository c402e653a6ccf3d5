"""Random draws of a training: one image at a time, on any device, of the right law."""

import hashlib
from dataclasses import replace

import pytest
import torch
from scipy import stats

from prisma_lib import draws, feeds, pdes, philox
from prisma_lib.errors import ConfigError
from prisma_lib.fields import GRFNoise
from prisma_lib.training import TrainConfig, losses, start

CPU = torch.device("cpu")
CONFIG = TrainConfig(size=16, preset="tiny", images=1024, batch=8)


def drawn(config, step, part=None):
    pde = pdes.load("darcy", size=config.size)
    numbers = draws.images(config, step, part)
    return draws.draw(config, pde, GRFNoise(pde.grid), numbers, CPU)


def test_two_processes_draw_what_one_would():
    whole, first, second = (
        drawn(CONFIG, 3, part) for part in (None, range(5), range(5, 8))
    )

    assert [*first.numbers, *second.numbers] == [*whole.numbers] == [*range(24, 32)]
    for name in ("tasks", "sigma", "mask", "noise"):
        pair = torch.cat([getattr(first, name), getattr(second, name)])
        assert torch.equal(pair, getattr(whole, name)), name


@pytest.mark.parametrize("changes", [{}, {"stored": 40}])
def test_two_processes_compute_the_loss_and_gradient_of_one(changes):
    state = start(replace(CONFIG, **changes), CPU)
    torch.nn.init.normal_(state.model.backbone.project.weight, std=0.1)
    noise = GRFNoise(state.model.pde.grid)

    def gradient(part):
        state.model.zero_grad()
        pairs = feeds.batches(state.config, state.source, state.model, 9, part)
        problems, x_0 = next(pairs)
        numbers = draws.images(state.config, 9, part)
        found = draws.draw(state.config, state.model.pde, noise, numbers, CPU)
        losses(state.config, state.model, x_0, found).mean().backward()
        grads = [p.grad.clone() for p in state.model.parameters()]
        return list(problems), torch.cat([g.flatten() for g in grads])

    (p, whole), (q, first), (r, second) = map(gradient, (None, range(4), range(4, 8)))

    assert p == q + r
    assert (whole - (first + second) / 2).norm() < 1e-5 * whole.norm()


def test_levels_have_the_law_of_the_settings_and_cover_each_batch():
    config = replace(CONFIG, p_mean=-1.2, p_std=1.2, size=8)
    found = [drawn(config, step).sigma.log() for step in range(60)]

    z = (torch.cat(found) + 1.2) / 1.2
    assert stats.kstest(z.numpy(), "norm").pvalue > 0.01
    slices = (8 * torch.special.ndtr((found[0] + 1.2) / 1.2)).floor()
    assert slices.tolist() == list(range(8))


def test_sensors_that_stand_at_columns_draw_whole_columns():
    pde = pdes.load("burgers", size=16)
    config = TrainConfig(pde="burgers", size=16)
    found = draws.draw(config, pde, GRFNoise(pde.grid), range(128), CPU)

    share = found.mask.mean((2, 3))
    assert ((share > 0) & (share < 1)).sum() > 20
    assert torch.equal(found.mask, found.mask[..., :1, :].expand_as(found.mask))


NOISY = replace(
    CONFIG, batch=32, group=8, both=0.5, noise_max=2.0, p_min=0.1,
    layouts=("points", "patches", "columns", "window"),
)  # fmt: skip


def test_a_group_shares_what_a_lift_is_expensive_for():
    found = [drawn(NOISY, step) for step in range(3)]

    for each in found:
        for name in ("tasks", "mask"):
            groups = getattr(each, name).unflatten(0, (4, 8))
            assert torch.equal(groups, groups[:, :1].expand_as(groups)), name
        levels = each.sensors.sd.unflatten(0, (4, 8))
        assert torch.equal(levels, levels[:, :1].expand_as(levels))
        # Each group meets noise levels of the diffusion from all parts of their law.
        order = each.sigma.argsort().argsort().unflatten(0, (4, 8))
        assert torch.equal(order // 4, torch.arange(8).expand(4, 8))
    masks = torch.cat([each.mask[::8] for each in found]).flatten(1)
    assert len(masks.unique(dim=0)) > 6
    noise = found[0].sensors.values
    assert len(noise.flatten(1).unique(dim=0)) >= 8


def test_groups_meet_tasks_as_often_as_asked():
    counts = torch.zeros(5)
    for step in range(100):
        counts += torch.bincount(drawn(NOISY, step).tasks, minlength=5) / 32

    wanted = torch.tensor(NOISY.task_probabilities)
    torch.testing.assert_close(counts / 100, wanted, atol=0.04, rtol=0)


def test_two_processes_draw_the_groups_that_one_would():
    whole, first, second = (
        drawn(NOISY, 3, part) for part in (None, range(12), range(12, 32))
    )

    for name in ("tasks", "sigma", "mask", "noise"):
        pair = torch.cat([getattr(first, name), getattr(second, name)])
        assert torch.equal(pair, getattr(whole, name)), name
    for name in ("values", "sd"):
        parts = [getattr(each.sensors, name) for each in (first, second)]
        assert torch.equal(torch.cat(parts), getattr(whole.sensors, name)), name


def test_sparse_tasks_may_observe_some_of_the_other_field():
    found = [drawn(NOISY, step) for step in range(40)]
    tasks = torch.cat([each.tasks for each in found])
    share = torch.cat([each.mask for each in found]).mean((2, 3))
    forward, inverse = tasks == 3, tasks == 4

    other = torch.cat([share[forward, 1], share[inverse, 0]]) > 0
    assert 0.35 < other.float().mean() < 0.65
    assert (torch.cat([share[forward, 0], share[inverse, 1]]) > 0).all()
    assert not share[tasks == 0].any()
    assert not share[tasks == 1, 1].any()
    assert not share[tasks == 2, 0].any()


def test_sensors_stand_in_every_layout():
    found = [drawn(NOISY, step) for step in range(40)]
    tasks = torch.cat([each.tasks for each in found])
    mask = torch.cat([each.mask for each in found])[tasks == 3][::8, 0]

    columns = (mask == mask[:, :1]).all(2).all(1)
    patches = mask.unflatten(2, (4, 4)).unflatten(1, (4, 4))
    patched = (patches == patches[:, :, :1, :, :1]).flatten(1).all(1)
    box = mask.amax(2).sum(1) * mask.amax(1).sum(1)
    window = box == mask.sum((1, 2))
    kinds = columns, patched & ~columns, window & ~columns & ~patched
    assert all(each.any() for each in kinds)
    assert (~(columns | patched | window)).any()


def test_one_layout_alone_is_the_layout_of_all():
    found = drawn(replace(NOISY, layouts=("columns",), both=0.0), 0)
    mask = found.mask[(found.tasks == 3) | (found.tasks == 4)].amax(1)

    assert len(mask)
    assert torch.equal(mask, mask[:, :1].expand_as(mask))


def test_half_of_all_sensors_have_no_noise_and_others_any_level():
    found = [drawn(NOISY, step).sensors for step in range(100)]
    level = torch.cat([each.sd[::8, :, 0, 0] for each in found]).flatten() / 0.5
    some = level[level > 0]

    assert 0.4 < (level == 0).float().mean() < 0.6
    assert stats.kstest(some.numpy() / 2, "uniform").pvalue > 0.01
    loud = found[0].sd[:, 0, 0, 0].argmax()
    ratio = found[0].values[loud, 0].std() / found[0].sd[loud, 0, 0, 0]
    assert 0.8 < ratio < 1.2


def test_the_noise_of_sensors_may_differ_from_point_to_point():
    found = [drawn(replace(NOISY, noise_maps=0.5), step).sensors for step in range(50)]
    even = [drawn(NOISY, step).sensors for step in range(50)]
    sd, level = (torch.cat([each.sd[::8] for each in s]) for s in (found, even))
    noisy = level.amax((2, 3)) > 0
    share = (sd / level)[noisy]

    assert (sd[~noisy] == 0).all()
    uneven = (share != 1).flatten(1).any(1)
    assert 0.35 < uneven.float().mean() < 0.65
    assert (share[~uneven] == 1).all()
    picked = share[uneven].flatten().numpy()
    assert stats.kstest(picked, "uniform").pvalue > 0.01
    # Members of a group share the map and not the noise, which is as large as it says.
    assert torch.equal(found[0].sd[:1].expand(8, -1, -1, -1), found[0].sd[:8])
    values, scale = (
        torch.cat([getattr(each, name) for each in found]) for name in ("values", "sd")
    )
    ratio = (values / scale)[scale > 0]
    assert ratio.std().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": 3}, "group=3 does not divide batch=8"),
        ({"group": 0}, "group=0"),
        ({"both": 1.5}, "both=1.5 must lie in"),
        ({"noise_max": -1.0}, "noise_max=-1.0 must lie in"),
        ({"noise_max": float("inf")}, "noise_max=inf: give a finite"),
        ({"noise_max": 1.0, "noise_maps": 2.0}, "noise_maps=2.0 must lie in"),
        ({"noise_maps": 0.5}, "give noise_max"),
        ({"layouts": ("lines",)}, "unknown layout of sensors 'lines'"),
        ({"layouts": ()}, "is empty"),
    ],
)
def test_impossible_sensors_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **changes)


def test_images_steps_and_seeds_draw_different_numbers():
    one, other = drawn(CONFIG, 0), drawn(CONFIG, 1)
    reseeded = drawn(replace(CONFIG, seed=1), 0)
    prints = [
        hashlib.sha256(row.numpy().tobytes()).digest()
        for found in (one, other, reseeded)
        for row in found.noise
    ]

    assert len(set(prints)) == 24


# Known answers of the authors' Random123 library.
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            [0xFFFFFFFF] * 4,
            (0xFFFFFFFF, 0xFFFFFFFF),
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, answer):
    found = philox.philox([torch.tensor([word]) for word in counter], key)

    assert " ".join(f"{word.item():08x}" for word in found) == answer


@pytest.mark.parametrize("shape", [(5,), (3, 4, 7)])
def test_a_sample_is_the_same_whatever_batch_it_is_drawn_in(shape):
    many = philox.normal(7, [3, 2**40, 5], shape, "x")
    one = philox.normal(7, [2**40], shape, "x")

    assert torch.equal(many[1:2], one)
    assert not torch.equal(many[0], many[2])
    assert not torch.equal(one, philox.normal(7, [2**40], shape, "y"))
    assert not torch.equal(one, philox.normal(8, [2**40], shape, "x"))


def test_device_draws_have_the_right_laws():
    normal = philox.normal(0, range(40), (500,), "x")
    uniform = philox.uniform(0, range(40), (500,), "x")

    assert stats.kstest(normal.flatten().numpy(), "norm").pvalue > 0.01
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 0.01
    rows = torch.corrcoef(normal)
    assert (rows - torch.eye(40)).abs().max() < 5 / 500**0.5


@pytest.mark.gpu
def test_both_devices_draw_the_same_words():
    one, other = (philox.words(3, range(9), 50, "x", d) for d in ("cpu", "cuda"))

    assert torch.equal(one, other.cpu())
