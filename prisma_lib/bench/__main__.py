"""The command: measures, prints the rows and keeps them."""

import argparse
import sys
from collections.abc import Callable, Sequence

from prisma_lib import devices, provenance, results
from prisma_lib.bench.data import bench_data
from prisma_lib.bench.explore import bench_explore
from prisma_lib.bench.imports import bench_import
from prisma_lib.bench.measure import SCALES, Setup
from prisma_lib.bench.methods import bench_methods
from prisma_lib.bench.model import bench_model
from prisma_lib.bench.noise import bench_noise
from prisma_lib.bench.sample import bench_sample
from prisma_lib.bench.spectral import bench_spectral
from prisma_lib.bench.train import bench_train
from prisma_lib.errors import exit_status

BENCHES: dict[str, Callable[[Setup], list[results.Row]]] = {
    "model": bench_model,
    "spectral": bench_spectral,
    "data": bench_data,
    "noise": bench_noise,
    "sample": bench_sample,
    "train": bench_train,
    "methods": bench_methods,
    "import": bench_import,
    "explore": bench_explore,
}


def _run(options: argparse.Namespace) -> int:
    """Measures what was asked for; the rows of one bench replace its older ones."""
    results.check(options.results)
    device = devices.resolve(options.device)
    setup = Setup(device, SCALES[options.scale])
    origin = provenance.record(device)
    print(f"on {origin['device']}, torch {origin['torch']}, scale {options.scale}")
    for name in options.what:
        common = {
            "sweep": "bench",
            "run": f"bench-{name}-{options.scale}-{origin['device']}",
            "commit": origin["commit"],
            "scale": options.scale,
            "device": origin["device"],
        }
        rows = [common | row for row in BENCHES[name](setup)]
        for row in rows:
            what = f"{row['method']} {row['pde']}"
            print(f"{what:24}{row['setting']:52}{row['value']:>9} {row['metric']}")
        if options.results:
            results.append(options.results, rows)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: The words after the command; `None`: those of this process.

    Returns:
        Exit status: 0 all good, 2 bad input, 4 environment, 130 interrupted.
    """
    parser = argparse.ArgumentParser(prog="python -m prisma_lib.bench")
    parser.add_argument("what", nargs="*", help=f"of {', '.join(BENCHES)}; default all")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--scale", default="cpu", choices=SCALES, help="how much")
    parser.add_argument("--results", help="CSV file that takes the rows")
    options = parser.parse_args(arguments)
    options.what = options.what or list(BENCHES)
    unknown = set(options.what) - set(BENCHES)
    if unknown:
        parser.error(f"unknown {sorted(unknown)}: choose of {', '.join(BENCHES)}")
    return exit_status(lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
