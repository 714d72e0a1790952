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
import time
import traceback
from itertools import pairwise
from multiprocessing.connection import Client, Listener
from types import CodeType, FunctionType

__all__ = ["ADDRESS", "Served", "is_in_functions", "listen", "replace_code"]

ADDRESS = "MUTATION_ADDRESS"
PROGRESS = "progress.txt"
# With a limit of memory an array of an absurd size is an error of a test and no burden of the machine.
_BYTES = 8 * 2**30
# The flag of code that has local variables: that of functions, not of modules and classes.
_OPTIMIZED = 1
_PASSED, _FAILED = 0, 1


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


class Served:
    """Plugin of pytest: in place of running what was collected, it runs what it is asked for, in forks."""

    def pytest_runtestloop(self, session):
        """Answer until the other side has no more questions."""
        tests = {item.nodeid: item for item in session.items}
        with Client(os.environ[ADDRESS], family="AF_UNIX") as asked:
            while (request := asked.recv()) is not None:
                asked.send(_run_in_fork(session, tests, *request))
        return True


def _run_in_fork(session, tests, path, data, chosen, limit):
    """Return how tests end on a mutated module ("passed", "failed" or "timed out"), and the last of them."""
    items = [tests[name] for name in chosen if name in tests]
    progress = session.config.rootpath / PROGRESS
    progress.write_text("")
    child = os.fork()
    if child == 0:
        os.setsid()
        os._exit(_run(session, items, session.config.rootpath / path, data, progress))
    code = _wait(child, limit)
    ended = {_PASSED: "passed", None: "timed out"}.get(code, "failed")
    return ended, (progress.read_text().splitlines() or ["no test was reached"])[-1]


def _wait(child, limit):
    """Return the exit code of a process, None after the limit; stop it and what it started."""
    end, code = time.monotonic() + limit, None
    while code is None and time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def _run(session, items, path, data, progress):
    """Run tests on a mutated module until one fails; return an exit code."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        replace_code(str(path), path.read_bytes(), data)
        with progress.open("w", buffering=1) as out:
            for item, following in pairwise([*items, None]):
                print(item.nodeid, file=out)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return _FAILED
        return _PASSED
    except BaseException:  # whatever a mutant throws through pytest itself was noticed
        traceback.print_exc()
        return _FAILED


def replace_code(path, original, mutated):
    """Give the functions of a file, loaded from the original text, the code of the mutated one."""
    renewed = dict(_pairs(compile(original, path, "exec"), compile(mutated, path, "exec")))
    gc.collect()
    for function in (f for f in gc.get_objects() if isinstance(f, FunctionType)):
        if function.__code__.co_filename == path:
            function.__code__ = renewed.get(function.__code__, function.__code__)


def _pairs(old, new):
    """Yield the codes of functions that stand for each other, as far as the same functions are in both."""
    old_inside, new_inside = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    if [code.co_name for code in old_inside] == [code.co_name for code in new_inside]:
        for pair in zip(old_inside, new_inside, strict=True):
            if pair[0].co_flags & _OPTIMIZED:
                yield pair
            yield from _pairs(*pair)
