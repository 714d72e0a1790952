"""Draw cases, judge them, tell which fail and what was refused: python -m tests.fuzz --help."""

import argparse
import sys
from collections import Counter

from .runs import run_all

# How many of the slowest cases are told.
_SLOWEST = 3


def main(arguments=None):
    """Run the tool; return how many cases failed."""
    options = parse(arguments)
    kinds, refused, seconds = (sum(counts, Counter()) for counts in zip(*run_all(options), strict=True))
    print(*(f"{kinds[kind]} {kind}" for kind in ("fine", "refused", "failed")), sep=", ")
    for words, count in refused.most_common():
        print(f"{count:6d} refused: {words}")
    for (seed, number), time_taken in seconds.most_common(_SLOWEST):
        print(f"{time_taken:6.1f} s of this process: --seed {seed} --first {number} --cases 1")
    return kinds["failed"]


def parse(arguments):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of all of them, of the first process")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a case")
    parser.add_argument("--jobs", type=int, default=1, help="processes, the seed of each one more")
    parser.add_argument("--trace", action="store_true", help="show where a failure came from")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main() > 0)
