"""Which tests are run on a mutant: those that call the mutated function, quick ones first."""

import hashlib
from dataclasses import dataclass
from itertools import accumulate

__all__ = ["FileOfTests", "batches", "names_of_tests", "path_of", "state_of"]

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
    tests : dict
        Test -> its seconds of computing.
    callers : dict
        Function, as "module name", -> tests that call it; module -> tests that call any of its functions.
    """

    tests: dict
    callers: dict

    @classmethod
    def from_calls(cls, calls):
        """Turn round what the plugin noted: test -> (seconds, functions)."""
        callers = {}
        for test, (_, functions) in calls.items():
            for key in {*functions, *(function.split(" ")[0] for function in functions)}:
                callers.setdefault(key, []).append(test)
        return cls({test: own for test, (own, _) in calls.items()}, callers)


def batches(mutant, files, quick, seconds):
    """Return two dicts, test -> its usual seconds: the quickest case of each that calls the mutated function,
    which take `quick` seconds together, then more cases and slower tests, which take `seconds`.

    What stands outside of functions is looked for in the tests that call any function of the module. Where
    no test calls it, all are run, the quickest first: a process that a test started may have.
    """
    key = f"{mutant.path} {mutant.function}" if mutant.function else mutant.path
    calling = {test: file.tests[test] for file in files for test in file.callers.get(key, ())}
    calling = calling or {test: own for file in files for test, own in file.tests.items()}
    cases = sorted(calling.items(), key=lambda case: (case[1], case[0]))
    first = _within(quick, _quickest(cases))
    rest = [case for case in cases if case[0] not in first]
    return [first, _within(seconds, rest)] if rest else [first]


def _quickest(cases):
    """Return the quickest case of every test function."""
    quickest = {}
    for case in cases:
        quickest.setdefault(case[0].split("[")[0], case)
    return list(quickest.values())


def _within(limit, cases):
    """Return the first cases, one at least, that take no longer together."""
    ends = list(accumulate(seconds for _, seconds in cases))
    return dict(cases[: max(1, sum(end <= limit for end in ends))])
