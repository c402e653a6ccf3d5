"""Whether the paper's claims hold in our rows.

A claim is judged at one scale by the rows that are there: it holds, it does not hold,
or the rows do not tell. A numbered claim stands in the paper's abstract, text or
captions; C01 to C26 are those, and the numbers are this project's. E01 to E29 are its
experiments, each a table or a figure.
"""

from collections.abc import Sequence

from prisma_lib import results
from prisma_lib.claims import (
    ablations,
    benchmarks,
    cost,
    moments,
    posterior,
    robustness,
    spectra,
    tables,
)
from prisma_lib.claims.evidence import Claim, Evidence, Finding
from prisma_lib.ranks import orders, ranks
from prisma_lib.tables import Entry, Grid, Paper, grid_of

__all__ = ["CLAIMS", "Claim", "Evidence", "Finding", "claims"]

PARTS = (tables, benchmarks, spectra, ablations, robustness, moments, posterior, cost)
CLAIMS: dict[str, Claim] = dict(
    sorted(claim for part in PARTS for claim in part.CLAIMS.items())
)


def claims(
    every: Sequence[Entry], rows: Sequence[results.Row], paper: Paper
) -> list[dict[str, object]]:
    """Judges every claim on every grid that has rows.

    Args:
        every: Entries of all tables.
        rows: Result rows of all sweeps.
        paper: The paper's numbers.

    Returns:
        A row for each grid and claim, with the verdict, what it rests on, and the 95 %
        interval of what decides.
    """
    usual = [entry for entry in every if entry.usual]
    grids: list[Grid] = list(dict.fromkeys(map(grid_of, usual)))
    found = []
    for scale, size in grids:
        mine = [entry for entry in usual if grid_of(entry) == (scale, size)]
        here = [row for row in rows if row["scale"] == scale]
        table = ranks(mine, paper), orders(mine, paper, here)
        evidence = Evidence(mine, *table, here, paper)
        for name, claim in CLAIMS.items():
            finding = claim.judge(evidence)
            found.append(
                {
                    **{"scale": scale, "size": size, "claim": name},
                    **{"text": claim.text, "notebook": claim.notebook},
                    **{"paper": claim.paper, **finding.line()},
                }
            )
    return found
