"""Claims about attention against other variants, cell by cell (C08, E16, E17)."""

from collections.abc import Callable, Collection

from prisma_lib.ablations import BETTER, WORSE, concluded, versus
from prisma_lib.claims.designs import counted, printed, smaller, trained, unique
from prisma_lib.claims.evidence import NO_ROWS, Evidence, Finding
from prisma_lib.claims.shares import share_of
from prisma_lib.claims.tallies import Tally
from prisma_lib.ranks import FAILS, OPEN


def attention(
    designs: bool, behind: Collection[tuple[str, ...]]
) -> Callable[[Evidence], Finding]:
    """C08, E16 and E17: attention against the other variants, cell by cell.

    Args:
        designs: Whether the six designs are compared or the three strategies.
        behind: Where attention should be behind.

    Returns:
        The judge: of the comparisons that seeds decide none may be reversed, and they
        must be the larger part; see `concluded`. Where they are not, the claim does not
        hold if most comparisons rule out an effect of the paper's size.
    """

    def claim(found: Evidence) -> Finding:
        pairs = versus(trained(found, designs))
        if not pairs:
            return Finding(OPEN, NO_ROWS)
        swap = {BETTER: WORSE, WORSE: BETTER}
        verdicts = [
            swap.get(pair.gap.verdict, pair.gap.verdict)
            if (pair.cell["pde"], *pair.place, pair.other) in behind
            else pair.gap.verdict
            for pair in pairs
        ]
        less = sum(smaller(pair.gap, printed(found.paper, pair)) for pair in pairs)
        said = f"of {len(pairs)} comparisons {counted(verdicts)}; an effect of the "
        said += f"paper's size is ruled out in {less}"
        verdict, ends = concluded(verdicts), Tally.of(verdicts).interval
        if verdict == OPEN and 2 * less > len(pairs):
            of = "comparisons that rule the paper's effect out"
            verdict, ends = FAILS, share_of(less, len(pairs), of)
        rows = [row for pair in pairs for row in pair.rows]
        return Finding(verdict, said, unique(rows), ends)

    return claim
