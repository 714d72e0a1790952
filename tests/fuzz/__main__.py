"""Draw cases, judge them, tell which fail and what was refused: python -m tests.fuzz --help."""

import argparse
import signal
import sys
from collections import Counter

import numpy as np

from .judge import draw, judge


def main(arguments=None):
    """Run the tool; return how many cases failed."""
    options = parse(arguments)
    kinds, refused = Counter(), Counter()
    for number, verdict in verdicts(options):
        kinds[verdict.kind] += 1
        if verdict.kind == "refused":
            refused[verdict.words] += 1
        if verdict.kind == "failed":
            tell(options, number, verdict)
    print(*(f"{kinds[kind]} {kind}" for kind in ("fine", "refused", "failed")), sep=", ")
    for words, count in refused.most_common():
        print(f"{count:6d} refused: {words}")
    return kinds["failed"]


def parse(arguments):
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of all of them")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a case")
    parser.add_argument("--trace", action="store_true", help="show where a failure came from")
    return parser.parse_args(arguments)


def verdicts(options):
    """Yield the number and the verdict of each case, until all are done or the process is told to end."""
    told = []
    before = signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    for number in range(options.first, options.first + options.cases):
        if told:
            break
        yield number, judge_number(options.seed, number, options.seconds)
    signal.signal(signal.SIGTERM, before)


def judge_number(seed, number, seconds):
    """Return the verdict on one case."""
    model, sample = draw(seed, number)
    return judge(model, sample, np.random.default_rng(number), seconds)


def tell(options, number, verdict):
    """Print a failure and the command that repeats it."""
    model, sample = draw(options.seed, number)
    words = " ".join(repr(model).split())
    print(f"failed: {verdict.words}\n  {words}\n  {sample.describe()}")
    print(f"  python -m tests.fuzz --seed {options.seed} --first {number} --cases 1 --trace", flush=True)
    if options.trace:
        print(verdict.trace)


if __name__ == "__main__":
    sys.exit(main() > 0)
