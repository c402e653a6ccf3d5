"""How long the library takes to load."""

import subprocess
import sys

from prisma_lib import results
from prisma_lib.bench.measure import Setup, row


def bench_import(setup: Setup) -> list[results.Row]:
    """Times `import prisma_lib` in a fresh interpreter, torch included."""

    def work() -> None:
        subprocess.run([sys.executable, "-c", "import prisma_lib"], check=True)

    return [row("import", "", "", "s", setup.seconds(work))]
