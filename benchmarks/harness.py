"""What all benchmarks share: pinned threads, fair timing, a unit of work, and records of what was seen.

Seconds mean little outside the machine they were taken on, so a benchmark reports ratios: to a peer
and to one Cholesky factorisation (`one_cholesky`), timed in turn with it in the same run.
"""

import argparse
import gc
import json
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor
from threadpoolctl import threadpool_info, threadpool_limits

__all__ = [
    "RESULTS",
    "Kept",
    "Timing",
    "alone",
    "entry",
    "environment",
    "one_cholesky",
    "parse_arguments",
    "pinned",
    "print_entries",
    "print_table",
    "save",
    "time_in_turn",
    "verdict",
]

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("skspectral", "numpy", "scipy", "scikit-learn", "threadpoolctl", "matplotlib")
# One sample repeats a short call until it lasts this long: far above the clock's resolution.
_SAMPLE_SECONDS = 2e-3
# Load average before a run above which its numbers are not to be quoted.
_QUIET_LOAD = 0.5


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one entry per sample."""

    samples: np.ndarray

    @property
    def median(self):
        """Median seconds per call."""
        return float(np.median(self.samples))

    @property
    def quartiles(self):
        """First and third quartile of the seconds per call."""
        low, high = np.percentile(self.samples, [25, 75])
        return float(low), float(high)

    def as_dict(self):
        """Return what goes into the json."""
        low, high = self.quartiles
        return {
            "median": self.median,
            "lower_quartile": low,
            "upper_quartile": high,
            "samples": len(self.samples),
        }


def parse_arguments(description, argv=None, files=()):
    """Return the options every benchmark has: fast, threads and repeats (None means its own default).

    `files` are (name, help) of data that a benchmark needs in addition, options of their own.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="smoke run: small and short, no measurement")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of BLAS and OpenMP")
    parser.add_argument("--repeats", type=int, default=None, help="samples per case")
    for name, text in files:
        parser.add_argument(f"--{name}", type=Path, default=None, help=text)
    return parser.parse_known_args(argv)[0]  # all benchmarks may be given the options of one


def pinned(threads):
    """Return a context in which BLAS and OpenMP use this many threads."""
    return threadpool_limits(limits=threads)


def time_in_turn(cases, repeats, warm_ups=1):
    """Time callables in alternation, so that a slow moment of the machine hits all of them alike.

    Parameters
    ----------
    cases : dict of str to callable
        What to time, without arguments.
    repeats : int
        Samples per case; every round takes one of each.
    warm_ups : int, default=1
        Calls of each case beforehand, at least one: the last of them says how often a sample repeats it.

    Returns
    -------
    dict of str to Timing
    """
    loops = {name: _calls_per_sample(call, max(1, warm_ups)) for name, call in cases.items()}
    samples = {name: [] for name in cases}
    for _ in range(repeats):
        for name, call in cases.items():
            samples[name].append(_seconds(call, loops[name]))
    return {name: Timing(np.array(values)) for name, values in samples.items()}


def _calls_per_sample(call, warm_ups):
    seconds = [_seconds(call, 1) for _ in range(warm_ups)][-1]
    return 1 if seconds >= _SAMPLE_SECONDS else int(np.ceil(_SAMPLE_SECONDS / max(seconds, 1e-7)))


def _seconds(call, loops):
    """Return the seconds per call of a loop that the garbage collector does not interrupt."""
    collects = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(loops):
            call()
        return (time.perf_counter() - start) / loops
    finally:
        if collects:
            gc.enable()


def alone(function, *arguments):
    """Return what a function returns in a process of its own.

    Once large arrays were freed, the allocator of a process keeps more memory, and small fits that make
    arrays of a megabyte take up to half of the time less: what is measured must not depend on what came
    before.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def one_cholesky(n):
    """Return a callable that factorises one positive definite n x n matrix: the unit of cost."""
    A = np.random.default_rng(n).normal(size=(n, n))
    K = np.asfortranarray(A @ A.T + n * np.eye(n))

    def factorise():
        return cho_factor(K, lower=True, check_finite=False)

    return factorise


def environment(threads):
    """Return the machine, the versions and the thread pools; call it inside `pinned`, before timing.

    Prints a notice where other work is running: threads that wait for a busy core make timings of
    factorisations worthless, ratios included.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if load is not None and load > _QUIET_LOAD:
        print(f"Notice: load average {load:.1f}, other work is running; repeat on a quiet machine.")
    pools = [
        {key: pool.get(key) for key in ("user_api", "internal_api", "version", "num_threads", "architecture")}
        for pool in threadpool_info()
    ]
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": load,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "threads": threads,
        "thread_pools": pools,
    }


def _processor():
    """Return the processor's name; `platform` does not know it on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def entry(row, what, value, goal=None, *, at_least=True, unit="x", spread=None):
    """Return one number with its goal, as tables and the site show it."""
    value = float(value)
    met = None if goal is None else bool(value >= goal if at_least else value <= goal)
    return {
        "row": row,
        "what": what,
        "value": value,
        "goal": goal,
        "at_least": at_least,
        "met": met,
        "unit": unit,
        "spread": spread,
    }


def verdict(value, goal):
    """Return "met" where value <= goal, else "not met"."""
    return "met" if value <= goal else "not met"


def print_table(title, header, rows):
    """Print rows of strings under a header, the first column left-aligned."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    print(f"\n{title}")
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells))


def print_entries(title, entries):
    """Print numbers with their goals, see `entry`."""
    rows = []
    for each in entries:
        goal = "" if each["goal"] is None else f"{'>=' if each['at_least'] else '<='} {each['goal']:g}"
        spread = "" if each["spread"] is None else f"{each['spread'][0]:.3g} to {each['spread'][1]:.3g}"
        met = {None: "", True: "met", False: "not met"}[each["met"]]
        rows.append(
            [each["row"], each["what"], f"{each['value']:.3g} {each['unit']}".rstrip(), spread, goal, met]
        )
    print_table(title, ["row", "what", "value", "quartiles", "goal", "verdict"], rows)


class Kept:
    """What a peer gave, by name, in a file: a long run can be ended in parts, and ours repeated alone."""

    def __init__(self, name, fast):
        self.path = RESULTS / f"{name}{'_fast' if fast else ''}.json"
        self.values = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def of(self, name, make):
        """Return the value that is kept, or the one that `make` gives, which is kept then."""
        if name not in self.values:
            self.values[name] = make()
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(json.dumps(self.values, indent=1) + "\n", encoding="utf-8")
        return self.values[name]


def save(name, record, figure):
    """Write json and PNG into the results and say where; a smoke run never replaces a measurement."""
    RESULTS.mkdir(exist_ok=True)
    stem = f"{name}_fast" if record["fast"] else name
    (RESULTS / f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    figure.savefig(RESULTS / f"{stem}.png", dpi=150, bbox_inches="tight")
    print(f"\nwritten: benchmarks/results/{stem}.json and {stem}.png")
