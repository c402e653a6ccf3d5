"""How far PRISMA's average rank is behind the best other method's."""

from statistics import fmean
from typing import NamedTuple

import torch

from prisma_lib.claims.evidence import OURS, Evidence
from prisma_lib.claims.shares import Interval
from prisma_lib.intervals import bootstrap_interval
from prisma_lib.ranks import TIES, column_ranks, scores_of
from prisma_lib.tables import Column, Who


class Lag(NamedTuple):
    """How far PRISMA's average rank is behind that of the best other method.

    Args:
        said: In words.
        interval: In ranks, over the columns of a table; below zero PRISMA is ahead. A
            single column has none.
    """

    said: str
    interval: Interval | None


def behind_best(found: Evidence, regime: str) -> list[Lag]:
    """Compares PRISMA's average rank with the best other in their common columns."""
    lags = []
    for (_, name), scores in scores_of(found.entries, found.paper).items():
        places: dict[Who, dict[Column, float]] = {}
        for column, errors in scores.items():
            if name == regime and len(errors) > 1:
                for who, (rank,) in column_ranks({column: errors}, TIES[name]).items():
                    places.setdefault(who, {})[column] = rank
        sides = [
            [w for w in places if (w[0] == OURS) == ours] for ours in (True, False)
        ]
        if not all(sides):
            continue
        mine, best = (min(s, key=lambda w: fmean(places[w].values())) for s in sides)
        both = [c for c in places[mine] if c in places[best]]
        gaps = [places[mine][c] - places[best][c] for c in both]
        if not gaps:
            continue
        ends = bootstrap_interval(torch.tensor(gaps, dtype=torch.float64))
        text = (
            f"{regime}: {' '.join(map(str, mine))} is {fmean(gaps):.2g} ranks behind "
        )
        text += f"{best[0]} [{ends[0]:.2g}, {ends[1]:.2g}] in {len(gaps)} columns"
        of = f"ranks behind the best other, {regime}"
        interval = Interval(of, *ends) if len(gaps) > 1 else None
        lags.append(Lag(text, interval))
    return lags
