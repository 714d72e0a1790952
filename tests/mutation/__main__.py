"""Draw mutants, judge them, tell which survive: python -m tests.mutation --help."""

import argparse
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from .choice import FileOfTests, batches, names_of_tests, path_of, state_of
from .report import HARMLESS, Log, line, read_harmless, summary, why_harmless, write_report
from .sample import draw, every, read_sources
from .workshop import in_workshops

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("criteria", "linalg", "inference", "decomposition", "learning")
# Seconds that a test may compute beyond a multiple of its usual time.
_ALLOWANCE = 5.0


def main(arguments=None):
    """Run the tool."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # the usual way out, which cleans up
    if not options.slow:
        os.environ["PYTEST_ADDOPTS"] = "-m 'not slow'"
    sources = read_sources(ROOT, options.paths)
    if options.functions is None:
        mutants = draw(sources, options.number, options.seed)
    else:
        mutants = every(sources, options.functions)
    if options.list:
        print(*(line(mutant.record) for mutant in mutants), sep="\n")
        return
    log, reasons = Log(options.log), reasons_of(mutants)
    judge_open(mutants, reasons, options, log)
    entries = [final(log.entries[mutant.key], reasons[mutant.key]) for mutant in mutants]
    tell(entries)
    if options.report is not None:
        write_report(options.report, entries)


def parse(arguments):
    """Return the options of the command line."""
    rooms = [f"skspectral/{floor}" for floor in FLOORS]
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--number", type=int, default=300, help="of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are judged side by side")
    parser.add_argument("--paths", nargs="+", default=rooms, help="folders or files, relative to the project")
    parser.add_argument(
        "--functions", help="in place of a sample all mutants of functions, by regular expression"
    )
    parser.add_argument("--tests", nargs="+", help="names of test files, without test_ and .py; else all")
    parser.add_argument("--log", type=Path, help="json lines, read and added to; keep it out of the project")
    parser.add_argument("--report", type=Path, help="where the report goes: .md or .json")
    parser.add_argument("--again", action="store_true", help="judge survivors of the log once more")
    parser.add_argument("--patience", type=float, default=5.0, help="time limit over a test's usual time")
    parser.add_argument(
        "--quick", type=float, default=20.0, help="usual time of the tests that all mutants get"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="usual time of the tests that survivors of quick ones get",
    )
    parser.add_argument("--slow", action="store_true", help="run tests that are marked as slow, too")
    parser.add_argument("--list", action="store_true", help="show the sample and run nothing")
    return parser.parse_args(arguments)


def reasons_of(mutants):
    """Return, by key, why mutants are known to change nothing; None where that is not known."""
    rows = read_harmless((ROOT / HARMLESS).read_text())
    return {mutant.key: why_harmless(rows, mutant) for mutant in mutants}


def judge_open(mutants, reasons, options, log):
    """Judge the mutants that are not judged yet; print and record each."""
    waiting = [m for m in mutants if is_open(log.entries.get(m.key), reasons[m.key], options.again)]
    print(f"{len(mutants)} mutants, {len(waiting)} of them to be judged", flush=True)
    if not waiting:
        return
    judge = Judge(run_unmutated(options, log), reasons, options.patience, (options.quick, options.seconds))
    names = options.tests or names_of_tests(ROOT)
    for number, entry in enumerate(in_workshops(ROOT, options.jobs, names, judge, waiting), 1):
        log.add(entry)
        by = f"{entry['by']}, " if entry["by"] else ""
        print(f"{number:4d} {entry['verdict']:10s} {line(entry)}  [{by}{entry['seconds']} s]", flush=True)


def is_open(entry, reason, again):
    """Return whether a mutant is to be judged, given its entry in the log and why it may change nothing."""
    if entry is None or (entry["verdict"] == "equivalent" and reason is None):
        return True
    return again and entry["verdict"] == "survived" and reason is None


def run_unmutated(options, log):
    """Return the `FileOfTests` of the numerical tests, and tell which are left out as they fail anyway."""
    also = " slow" if options.slow else ""
    names = options.tests or names_of_tests(ROOT)
    keys = {name: f"{name} {state_of(ROOT, name)}{also}" for name in names}

    def measure(workshop, name):
        run, calls, failed = workshop.run_unmutated(path_of(name))
        for test in failed:
            print(f"{test} fails without a mutation, and is left out. Mend it.", flush=True)
        return {"key": keys[name], "verdict": "unmutated", "seconds": round(run.seconds, 1)} | packed(calls)

    unknown = [name for name, key in keys.items() if key not in log.entries]
    print(f"{len(unknown)} test files to be run without mutation", flush=True)
    for entry in in_workshops(ROOT, options.jobs, names, measure, unknown) if unknown else ():
        log.add(entry)
    return [FileOfTests.from_calls(unpacked(log.entries[key])) for key in keys.values()]


def packed(calls):
    """Return test -> (seconds, functions) with numbers in place of names of functions, for a short log."""
    functions = sorted(set().union(*(names for _, names in calls.values())))
    number = {name: k for k, name in enumerate(functions)}
    tests = {test: [seconds, [number[name] for name in names]] for test, (seconds, names) in calls.items()}
    return {"functions": functions, "tests": tests}


def unpacked(entry):
    """Undo `packed`."""
    names = entry["functions"]
    return {
        test: (seconds, [names[k] for k in numbers]) for test, (seconds, numbers) in entry["tests"].items()
    }


@dataclass(frozen=True)
class Judge:
    """Runs the tests of a mutant.

    Attributes
    ----------
    files : list of FileOfTests
        The tests as they are without a mutation.
    reasons : dict
        Key of a mutant -> why it is known to change nothing, or None.
    patience : float
        Time limit of a test over its usual time.
    seconds : tuple of float
        Usual time of the quick tests, and of those that come after them.
    """

    files: list
    reasons: dict
    patience: float
    seconds: tuple

    def __call__(self, workshop, mutant):
        """Return the record of a mutant with its verdict: killed, timed out, survived or equivalent."""
        harmless = self.reasons[mutant.key] is not None
        spent = 0.0
        for batch in batches(mutant, self.files, *self.seconds)[: 1 if harmless else None]:
            limits = {test: _ALLOWANCE + self.patience * usual for test, usual in batch.items()}
            run = workshop.run_mutant(mutant, limits)
            spent += run.seconds
            if run.ended != "passed":
                break
        unnoticed = "equivalent" if harmless else "survived"
        verdict = {"failed": "killed", "passed": unnoticed}.get(run.ended, run.ended)
        return mutant.record | {"verdict": verdict, "by": run.test, "seconds": round(spent, 1)}


def final(entry, reason):
    """Return an entry as it is reported: a survivor that is known to change nothing is equivalent."""
    verdict = "equivalent" if entry["verdict"] == "survived" and reason else entry["verdict"]
    return entry | {"verdict": verdict, "reason": reason or ""}


def tell(entries):
    """Print the summary, the survivors, and what the table of mutants that change nothing has wrong."""
    print("", *summary(entries), "", sep="\n")
    for entry in entries:
        if entry["verdict"] == "survived":
            print("survived:", line(entry))
        elif entry["verdict"] != "equivalent" and entry["reason"]:
            print(f"{entry['verdict']} by {entry['by']}, but listed in {HARMLESS}:", line(entry))


if __name__ == "__main__":
    main()
