"""Tests that are collected once and run in a fork for each mutant, which saves their imports each time.

The process that collects is pytest with `Served` as a plugin. It answers requests, each a mutated module and
the tests to run on it, with how the run ended. In the fork the functions of the module get their mutated
code in place, so that whoever imported them has it too. What changes outside of functions (a constant, a
default) has been used when the fork begins: `is_in_functions` tells, and such mutants need a process each.
"""

import contextlib
import gc
import os
import resource
import signal
import traceback
from itertools import pairwise
from multiprocessing.connection import Client, Listener
from types import CodeType, FunctionType

from .calls import Calls

__all__ = ["ADDRESS", "OUT_OF_TIME", "Served", "is_in_functions", "limited", "listen", "renewed_codes"]

ADDRESS = "MUTATION_ADDRESS"
PROGRESS = "progress.txt"
# With a limit of memory an array of an absurd size is an error of a test and no burden of the machine.
_BYTES = 8 * 2**30
# The flag of code that has local variables: that of functions, not of modules and classes.
_OPTIMIZED = 1
_PASSED, _FAILED = 0, 1
# The signals of timers, that of computing first, and how many times as long the other one waits.
OUT_OF_TIME = (signal.SIGPROF, signal.SIGALRM)
_BUSY = 30.0
_UNMUTATED_SECONDS = 600.0


def listen(address):
    """Return the listener that a process with `Served` calls."""
    return Listener(address, family="AF_UNIX")


def is_in_functions(original, mutated, path):
    """Return whether two texts of a module differ only inside of functions."""
    return _outside(compile(original, path, "exec")) == _outside(compile(mutated, path, "exec"))


def _outside(code):
    """Return what a module or class does, with names in place of the functions in it."""
    constants = [_outside_of_constant(constant) for constant in code.co_consts]
    return (code.co_name, code.co_code, code.co_names, constants)


def _outside_of_constant(constant):
    if not isinstance(constant, CodeType):
        return type(constant), constant
    return constant.co_name if constant.co_flags & _OPTIMIZED else _outside(constant)


@contextlib.contextmanager
def limited(seconds):
    """End the process, by one of `OUT_OF_TIME`, where what is inside computes for longer.

    However busy the machine is; what waits for others is ended too, after many times as long.
    """
    timers = {signal.ITIMER_PROF: seconds, signal.ITIMER_REAL: _BUSY * seconds}
    for timer, limit in timers.items():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0.0)


class Served:
    """Plugin of pytest: in place of running what was collected, it runs what it is asked for, in forks."""

    def pytest_runtestloop(self, session):
        """Answer until the other side has no more questions."""
        with Client(os.environ[ADDRESS], family="AF_UNIX") as asked:
            while (request := asked.recv()) is not None:
                asked.send(_answer(session, *request))
        return True


def _answer(session, path, data, limits):
    """Return how tests end ("passed", "failed" or "timed out"), and the last of them.

    With a mutated module: the tests of `limits`, test -> seconds. Without one (data is None): all tests of a
    path, and what they call is noted.
    """
    if data is None:
        items = [item for item in session.items if item.nodeid.startswith(path)]
        return _in_fork(session, _noting, items)
    tests = {item.nodeid: item for item in session.items}
    items = [tests[name] for name in limits if name in tests]
    place = session.config.rootpath / path
    renewed = list(
        renewed_codes(str(place), place.read_bytes(), data)
    )  # here, where it touches no fresh copy
    return _in_fork(session, _mutated, items, renewed, limits)


def _in_fork(session, work, items, *arguments):
    """Return how `work` on tests ends in a process of its own, and its last test."""
    progress = session.config.rootpath / PROGRESS
    progress.write_text("")
    child = os.fork()
    if child == 0:
        os.setsid()
        os._exit(_code(work, session, items, progress, *arguments))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started
    ended = {_PASSED: "passed"} | dict.fromkeys((-number for number in OUT_OF_TIME), "timed out")
    return ended.get(code, "failed"), (progress.read_text().splitlines() or ["no test was reached"])[-1]


def _code(work, session, items, progress, *arguments):
    """Return an exit code."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        with progress.open("w", buffering=1) as out:
            return _PASSED if work(session, items, out, *arguments) else _FAILED
    except BaseException:  # whatever a mutant throws through pytest itself was noticed
        traceback.print_exc()
        return _FAILED


def _noting(session, items, out):
    """Run tests and note what those that pass call."""
    calls = Calls(session.config.rootpath)
    session.config.pluginmanager.register(calls)
    limits = dict.fromkeys((item.nodeid for item in items), _UNMUTATED_SECONDS)
    while items and not _run(session, items, out, limits):
        session.testsfailed, failed = 0, calls.leave_out_last()
        items = items[[item.nodeid for item in items].index(failed) + 1 :]
    calls.write()
    return True


def _mutated(session, items, out, renewed, limits):
    """Run tests with functions that have other code, and return whether all pass."""
    for function, code in renewed:
        function.__code__ = code
    return _run(session, items, out, limits)


def _run(session, items, out, limits):
    """Run tests until one fails; return whether none did."""
    for item, following in pairwise([*items, None]):
        print(item.nodeid, file=out)
        with limited(limits[item.nodeid]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


def renewed_codes(path, original, mutated):
    """Yield the functions of a file, loaded from the original text, with their code in the mutated one."""
    renewed = dict(_pairs(compile(original, path, "exec"), compile(mutated, path, "exec")))
    for function in (f for f in gc.get_objects() if type(f) is FunctionType):
        if function.__code__.co_filename == path and function.__code__ in renewed:
            yield function, renewed[function.__code__]


def _pairs(old, new):
    """Yield the codes of functions that stand for each other, as far as the same functions are in both."""
    old_inside, new_inside = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    if [code.co_name for code in old_inside] == [code.co_name for code in new_inside]:
        for pair in zip(old_inside, new_inside, strict=True):
            if pair[0].co_flags & _OPTIMIZED:
                yield pair
            yield from _pairs(*pair)
