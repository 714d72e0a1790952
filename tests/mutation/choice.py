"""Which tests are run on a mutant: those that call the mutated function, quick ones first."""

import hashlib
from dataclasses import dataclass

__all__ = ["Batch", "FileOfTests", "batches", "names_of_tests", "path_of", "state_of"]

DOCTESTS = "doctests"
# Tests that look at no numbers of these rooms, or only at such as others look at more closely.
_NOT_NUMERICAL = {"architecture", "dask", "displays", "kernel_algebra", "mutation_tool", "persistence"}
_NOT_NUMERICAL |= {
    "faults",
    "fuzz",
    "latent_checks",
    "readme",
    "sklearn_checks",
    "sklearn_own_tests",
    "threads",
}
# Usual time of the tests that are tried first, of each test function the quickest case, and of those after.
_QUICK_SECONDS = 20.0
_SECONDS = 120.0


def names_of_tests(root):
    """Return the names of the numerical tests: what stands between "test_" and ".py", and the doctests."""
    names = {path.stem.removeprefix("test_") for path in (root / "tests").glob("test_*.py")}
    return sorted(names - _NOT_NUMERICAL | {DOCTESTS})


def path_of(name):
    """Return what pytest is given for a name."""
    return "skspectral" if name == DOCTESTS else f"tests/test_{name}.py"


def state_of(root, name):
    """Return a key of tests together with what they may import, to know when they must be run again."""
    helpers = [path for path in (root / "tests").glob("*.py") if not path.stem.startswith("test_")]
    own = [root / path_of(name)] if name != DOCTESTS else []
    files = sorted([*(root / "skspectral").rglob("*.py"), *helpers, *own])
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


@dataclass(frozen=True)
class FileOfTests:
    """What a run without mutation showed.

    Attributes
    ----------
    path : str
        The file, or the package for its doctests.
    seconds : float
        Time of all of it.
    tests : dict
        Test -> its seconds.
    callers : dict
        Function, as "module name", -> tests that call it; module -> tests that call any of its functions.
    """

    path: str
    seconds: float
    tests: dict
    callers: dict

    @classmethod
    def from_calls(cls, path, seconds, calls):
        """Turn round what the plugin noted: test -> (seconds, functions)."""
        callers = {}
        for test, (_, functions) in calls.items():
            for key in {*functions, *(function.split(" ")[0] for function in functions)}:
                callers.setdefault(key, []).append(test)
        return cls(path, seconds, {test: own for test, (own, _) in calls.items()}, callers)


@dataclass(frozen=True)
class Batch:
    """Files to run, the chosen tests among theirs in order (None means all), and their usual time."""

    paths: list
    chosen: list | None
    seconds: float


def batches(mutant, files):
    """Return two batches of tests that call the mutated function: the quickest of each, then more of them.

    What stands outside of functions is looked for in the tests that call any function of the module. Where
    no test calls it, all files are run: a process that a test started may have.
    """
    key = f"{mutant.path} {mutant.function}" if mutant.function else mutant.path
    calling = [(file.tests[test], test, file.path) for file in files for test in file.callers.get(key, ())]
    if not calling:
        return [Batch([file.path for file in files], None, sum(file.seconds for file in files))]
    first = _within(_QUICK_SECONDS, _quickest(calling))
    rest = [case for case in sorted(calling) if case[1] not in set(first.chosen)]
    return [first, _within(_SECONDS, rest)] if rest else [first]


def _quickest(cases):
    """Return the quickest case of every test function."""
    quickest = {}
    for case in sorted(cases):
        quickest.setdefault(case[1].split("[")[0], case)
    return list(quickest.values())


def _within(limit, cases):
    """Return the batch of the first cases, one at least, that take no longer together."""
    ends = [sum(case[0] for case in cases[: k + 1]) for k in range(len(cases))]
    cases = cases[: max(1, sum(end <= limit for end in ends))]
    return Batch(
        sorted({path for *_, path in cases}), [test for _, test, _ in cases], sum(c[0] for c in cases)
    )
