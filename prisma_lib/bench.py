"""What this machine does in milliseconds, printed and kept as rows.

    python -m prisma_lib.bench data sample train import

Every time is the median of several runs after a warm-up. Seconds and speed-ups in our
texts come from here.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice

import torch

from prisma_lib import checkpoints, data, devices, pdes, provenance, results
from prisma_lib.errors import exit_status
from prisma_lib.observe import observe
from prisma_lib.solve import PrismaSolver
from prisma_lib.training import TrainConfig, loop, start


def timed(work: Callable[[], object], device: torch.device, runs: int = 10) -> float:
    """Returns the median seconds of `work`, after two runs that do not count."""
    times = []
    for run in range(runs + 2):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if run >= 2:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def bench_data(device: torch.device) -> list[results.Row]:
    """Times drawing and solving inputs of every equation at 32 x 32 and 64 x 64."""
    rows = []
    for name in pdes.names():
        for size, num in ((32, 1000), (64, 250)):
            cheap = pdes.quick(name)
            pde = pdes.load(name, size=size, **cheap)

            def work(pde: pdes.PDE = pde, num: int = num) -> None:
                pde.pair(0, range(num), device)

            seconds = 10_000 * timed(work, device, runs=3) / num
            setting = f"size={size}" + (";from a small kept pool" if cheap else "")
            rows.append(_row("data", name, setting, "s_per_10000", seconds))
    return rows


def bench_sample(device: torch.device, model: str = "darcy-32") -> list[results.Row]:
    """Times one draw of 20 steps with a shipped model, 32 problems at once."""
    network = checkpoints.load(model, device=str(device))
    a, u = data.problems(network.pde, 32, split="test")
    seen = observe("full_forward", a, u, index=range(32))
    solver = PrismaSolver(network)
    draws = torch.Generator().manual_seed(0)

    def work() -> None:
        solver.solve(seen, samples=1, generator=draws)

    seconds = timed(work, device, runs=5) / 32
    setting = f"model={model};batch=32;steps=20"
    return [_row("sample", network.pde.name, setting, "s_per_sample", seconds)]


def bench_train(device: torch.device) -> list[results.Row]:
    """Times training steps of the small preset on fresh Darcy problems."""
    config = TrainConfig()
    steps = loop(config, start(config, device))
    list(islice(steps, 8))
    began = time.perf_counter()
    list(islice(steps, 32))
    rate = 32 * config.batch / (time.perf_counter() - began)
    setting = f"preset={config.preset};size={config.size};batch={config.batch}"
    return [_row("train", config.pde, setting, "images_per_s", rate)]


def bench_import(device: torch.device) -> list[results.Row]:
    """Times `import prisma_lib` in a fresh interpreter, torch included."""

    def work() -> None:
        subprocess.run([sys.executable, "-c", "import prisma_lib"], check=True)

    return [_row("import", "", "", "s", timed(work, device, runs=3))]


BENCHES = {
    "data": bench_data,
    "sample": bench_sample,
    "train": bench_train,
    "import": bench_import,
}


def _row(method: str, pde: str, setting: str, metric: str, value: float) -> results.Row:
    return {
        "method": method,
        "pde": pde,
        "setting": setting,
        "metric": metric,
        "value": f"{value:.3g}",
    }


def _run(options: argparse.Namespace) -> int:
    """Measures what was asked for."""
    device = devices.resolve(options.device)
    rows = [row for name in options.what for row in BENCHES[name](device)]
    origin = provenance.record(device)
    common = {
        "sweep": "bench",
        "run": f"bench-{'-'.join(options.what)}-{origin['device']}",
        "commit": origin["commit"],
        "device": origin["device"],
    }
    for row in rows:
        print(f"{row['method']:8}{row['pde']:15}{row['setting']:36}", end="")
        print(f"{row['value']:>10} {row['metric']}")
    print(f"on {origin['device']}, torch {origin['torch']}")
    if options.results:
        results.append(options.results, [common | row for row in rows])
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="prisma_lib.bench")
    parser.add_argument("what", nargs="*", help=f"of {', '.join(BENCHES)}; default all")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--results", help="CSV file that takes the rows")
    options = parser.parse_args(arguments)
    options.what = options.what or list(BENCHES)
    unknown = set(options.what) - set(BENCHES)
    if unknown:
        parser.error(f"unknown {sorted(unknown)}: choose of {', '.join(BENCHES)}")
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
