"""What a sweep says: a line a run, the states of all, a summary."""

from collections import Counter
from collections.abc import Sequence

from prisma_lib.runs import STATES, Run

LONGEST_REASON = 100


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Sets words as a text table, each column as wide as its widest word."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            word.ljust(width) for word, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def duration(seconds: float) -> str:
    """Writes a time for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def reason(run: Run) -> str:
    """Returns the last line of the error of a run."""
    return next(reversed(run.error.splitlines()), "").strip()[:LONGEST_REASON]


def line(number: str, name: str, run: Run, left: float) -> str:
    """Says in a line how a run ended, with the end of its error in another.

    Args:
        number: How many have ended, such as "3/40".
        name: Its name.
        run: Its verdict.
        left: Seconds that the other runs may take.
    """
    tries = f", try {run.tries}" if run.tries > 1 else ""
    time_left = f", about {duration(left)} left" if left else ""
    took = duration(run.seconds)
    said = f"[{number}] {run.status} {took} {name}{tries}{time_left}"
    return "\n  ".join([said, *run.error.splitlines()[-1:]])


def states(known: Sequence[tuple[str, Run | None]]) -> str:
    """Lists runs with their states.

    Args:
        known: Name and record of each run; `None` for one that nobody has asked for.

    Returns:
        A line a run under a line of names, and a line that counts.
    """
    lines = [["run", "state", "time", "tries", "reason"]]
    for name, run in known:
        if run is None:
            lines.append([name, "-", "", "", ""])
        else:
            time = duration(run.seconds) if run.seconds else ""
            lines.append([name, run.status, time, str(run.tries), reason(run)])
    return f"{aligned(lines)}\n{count([run for _, run in known])}"


def count(records: Sequence[Run | None]) -> str:
    """Says how many runs are in each state."""
    found = Counter("not started" if run is None else run.status for run in records)
    order = [*STATES, "not started"]
    return ", ".join(f"{found[state]} {state}" for state in order if found[state])


def summary(known: Sequence[tuple[str, Run]], kept: int, seconds: float) -> str:
    """Sums up a sweep.

    Args:
        known: Name, after that of its plan and a slash, and record of each run.
        kept: How many were there before.
        seconds: How long the sweep took.

    Returns:
        A table of the plans, and the runs that are not done with their reasons.
    """
    plans = dict.fromkeys(name.partition("/")[0] for name, _ in known)
    lines = [["plan", "runs", *STATES[2:], "time of runs"]]
    for plan in plans:
        own = [run for name, run in known if name.partition("/")[0] == plan]
        found = Counter(run.status for run in own)
        counts = [str(found[state]) for state in STATES[2:]]
        total = duration(sum(run.seconds for run in own))
        lines.append([plan, str(len(own)), *counts, total])
    bad = [
        f"{run.status} {name}: {reason(run)}"
        for name, run in known
        if run.status != "done"
    ]
    done = len(known) - len(bad)
    last = f"{done} done ({kept} kept), {len(bad)} failed, in {duration(seconds)}"
    return "\n".join([aligned(lines), *bad, last])
