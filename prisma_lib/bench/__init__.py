"""What this machine does in how much time and memory, printed and kept as rows.

    python -m prisma_lib.bench data noise model --results outputs/results/bench.csv

Every time is the median of at least ten runs after two that do not count, with the
device synchronised; a row that was measured once says so. Seconds, rates and speed-ups
in README and tables come from here, and a ratio always compares two times of one run.
"""
