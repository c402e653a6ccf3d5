"""The network: calls and training steps, and the same network built by other means."""

import torch

from prisma_lib import results
from prisma_lib.bench.measure import (
    Network,
    Setup,
    operations,
    optional,
    peak_megabytes,
    row,
)
from prisma_lib.bench.networks import PDE, Job, job
from prisma_lib.bench.parts import parts
from prisma_lib.bench.rivals import as_fundps, with_einsum, with_neuralop
from prisma_lib.model import Prisma

# Which speeds are compared: neuralop's weights are dense, the einsum's are ours.
RIVALS = {
    "ours": ("einsum", "neuralop", "FunDPS"),
    "plain": ("einsum", "neuralop", "FunDPS"),
    "plain dense": ("einsum dense", "neuralop", "FunDPS"),
}


def bench_model(setup: Setup) -> list[results.Row]:
    """Measures every preset, and one preset built from other spectral convolutions."""
    rate = setup.matrix_rate()
    setting = f"matrix product of {setup.scale.matrix} x {setup.scale.matrix};float32"
    rows = [row("machine", "", setting, "gflop_per_s", rate / 1e9)]
    for net in setup.scale.networks:
        work = job(net, setup.device)
        rows += _shares(setup, net, work)
        rows += _paces(setup, net, work, rate)
    return rows + _comparison(setup, setup.scale.compared)


def _paces(setup: Setup, net: Network, work: Job, rate: float) -> list[results.Row]:
    """Measures a call without gradient and a training step."""
    rows = [row("model", PDE, net.setting, "parameters", parameters(work.model))]
    for what, run in (("call", work.infer), ("training step", work.step())):
        setting = f"{net.setting};{what}"
        seconds = setup.seconds(run)
        pace = operations(run) / seconds
        memory = peak_megabytes(run, setup.device)
        for metric, value in (
            ("ms", 1e3 * seconds),
            ("images_per_s", net.batch / seconds),
            ("percent_of_matrix_rate", 100 * pace / rate),
            ("peak_mb", memory),
        ):
            rows.append(row("model", PDE, setting, metric, value))
    return rows


def _shares(setup: Setup, net: Network, work: Job) -> list[results.Row]:
    """Divides the time of a sampling step into residual, network and the rest."""
    times = parts(setup, work)
    whole = sum(times.values())
    setting = f"{net.setting};sampling step"
    return [
        row("model", PDE, setting, f"percent_{name}", 100 * part / whole)
        for name, part in times.items()
    ]


def _comparison(setup: Setup, net: Network) -> list[results.Row]:
    """Times one network with different spectral convolutions, in one run."""
    jobs = contestants(net, setup.device)
    forward = {name: work.infer for name, work in jobs.items()}
    training = {name: work.step() for name, work in jobs.items()}
    seconds = {
        "forward": setup.seconds_in_turn(forward),
        "training": setup.seconds_in_turn(training),
    }
    rows = []
    for name, work in jobs.items():
        about = ("network", PDE, f"{net.setting};{name}")
        rows.append(row(*about, "parameters", parameters(work.model)))
        for what, times in seconds.items():
            rows.append(row(*about, f"{what}_images_per_s", net.batch / times[name]))
            for rival in RIVALS.get(name, ()):
                if rival in times:
                    ratio = times[rival] / times[name]
                    rows.append(row(*about, f"{what}_speed_over_{rival}", ratio))
    return rows


def contestants(net: Network, device: torch.device) -> dict[str, Job]:
    """Builds one network with different spectral convolutions.

    Args:
        net: Preset, points per axis and batch.
        device: Where they compute.

    Returns:
        By name: ours as it is; without a residual, as the rivals are; with dense
        weights, as neuralop has them; and the rivals. Those of the same weights
        compute the same.
    """
    jobs = {
        "ours": job(net, device),
        "plain": job(net, device, strategy="none"),
        "plain dense": job(net, device, strategy="none", groups=1),
        "einsum": job(net, device, strategy="none"),
        "einsum dense": job(net, device, strategy="none", groups=1),
    }
    for name in ("einsum", "einsum dense"):
        with_einsum(jobs[name].model)
    if layer := optional("neuralop.layers.spectral_convolution"):
        jobs["neuralop"] = job(net, device, strategy="none", groups=1)
        with_neuralop(jobs["neuralop"].model, layer)
        jobs["FunDPS"] = job(net, device, strategy="none", groups=1)
        as_fundps(jobs["FunDPS"].model, layer)
    return jobs


def parameters(model: Prisma) -> int:
    """Counts real parameters; a complex one is two."""
    return sum(p.numel() * (1 + p.is_complex()) for p in model.parameters())
