"""Runs of many cases, in one process or several."""

import os
import signal
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from multiprocessing import active_children, get_context

import numpy as np

from .judge import draw, judge

__all__ = ["judge_number", "run_all"]


def run_all(options):
    """Return the counts of all processes, see `run`."""
    if options.jobs == 1:
        return [run(options)]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes to come
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        before = signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in active_children()])
        counts = list(pool.map(run, shares(options)))
        signal.signal(signal.SIGTERM, before)
    return counts


def shares(options):
    """Yield the options of each process: another seed, and its share of the cases."""
    for job in range(options.jobs):
        share = copy(options)
        share.seed += job
        share.cases = (options.cases + job) // options.jobs
        yield share


def run(options):
    """Judge cases and tell failures; return counts of verdicts and of refusals, and seconds."""
    kinds, refused, seconds = Counter(), Counter(), Counter()
    start = time.process_time()
    for number, verdict in verdicts(options):
        start, seconds[options.seed, number] = time.process_time(), time.process_time() - start
        kinds[verdict.kind] += 1
        if verdict.kind == "refused":
            refused[verdict.words] += 1
        if verdict.kind == "failed":
            tell(options, number, verdict)
    return kinds, refused, seconds


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
