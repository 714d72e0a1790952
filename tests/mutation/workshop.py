"""Copies of the tree in which tests run, several side by side, while the work tree stays as it is."""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from .calls import CALLS
from .choice import path_of
from .forks import ADDRESS, OUT_OF_TIME, is_in_functions, listen
from .plugin import CHOSEN

__all__ = ["Run", "Workshop", "in_workshops"]

# What the tests need.
_COPIED = ("skspectral", "tests", "pyproject.toml", "README.md")
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "COLUMNS": "400"}
# With a limit of memory, as in a fork.
_PYTEST = """
import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
sys.exit(pytest.main())
"""
# Exit codes of pytest. A mutant may rename cases: where none is left that was chosen, none has noticed it.
_PASSED, _WRONG_USAGE, _NO_TESTS = 0, 4, 5


@dataclass(frozen=True)
class Run:
    """How a run of tests ended ("passed", "failed" or "timed out"), in which test, after how many seconds."""

    ended: str
    test: str
    seconds: float


class Workshop:
    """A copy of the tree in which one module at a time is replaced: in a fork, or in the file."""

    def __init__(self, root, names):
        self.tree = Path(tempfile.mkdtemp(prefix="mutants-")).resolve()
        self.paths, self.process, self.collected = [path_of(name) for name in names], None, None
        for name in _COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(root / name, self.tree / name)
        self.environment = os.environ | _ENVIRONMENT | {"PYTHONPATH": str(self.tree)}

    def close(self):
        """Stop what runs, and remove the copy."""
        self._stop()
        if self.collected is not None:
            self.collected.close()
        shutil.rmtree(self.tree, ignore_errors=True)

    def check_import(self):
        """Refuse to go on where another copy of the package would be imported than this one."""
        command = [sys.executable, "-c", "import skspectral; print(skspectral.__file__)"]
        done = subprocess.run(command, cwd=self.tree, env=self.environment, capture_output=True, text=True)
        imported = Path(done.stdout.strip()).resolve()
        if done.returncode or self.tree not in imported.parents:
            raise SystemExit(f"Tests in {self.tree} would import {imported}. {done.stderr}")

    def run_unmutated(self, path):
        """Run a test file; return the run, what was noted of calls, and the names of tests that fail."""
        run = self._forking.run(path, None, None)
        return run, *json.loads((self.tree / CALLS).read_text())

    def run_mutant(self, mutant, limits):
        """Run tests on a mutant, given by their names with the seconds of computing that each may take."""
        original = (self.tree / mutant.path).read_bytes()
        if not is_in_functions(original, mutant.data, mutant.path):
            return self._run_from_file(mutant, limits)
        return self._forking.run(mutant.path, mutant.data, limits)

    @property
    def _forking(self):
        if self.collected is None:
            self.collected = Collected(self)
        return self.collected

    def _run_from_file(self, mutant, limits):
        """Run tests in a process of their own, and put the module back."""
        (self.tree / CHOSEN).write_text(json.dumps(limits))
        module = self.tree / mutant.path
        original, times = module.read_bytes(), module.stat()
        module.write_bytes(mutant.data)
        try:
            # what is compiled is the original, which Python tells from the mutant by its time and size
            return self._run_process(sorted({_place(test) for test in limits}))
        finally:
            with contextlib.suppress(FileNotFoundError):  # where the workshop was closed meanwhile
                module.write_bytes(original)
                os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _run_process(self, paths):
        """Run the chosen tests among those of some files, until the first failure."""
        options = ["-p", "tests.mutation.plugin", "-n", "0", "-x", "-vv", "--tb=no", "-rfE"]
        started = time.monotonic()
        code, output = self._execute([sys.executable, "-c", _PYTEST, *options, *paths])
        if code == _WRONG_USAGE:
            raise RuntimeError(f"pytest cannot run {paths}:\n{output[-2000:]}")
        ended = {_PASSED: "passed", _NO_TESTS: "passed"} | {-number: "timed out" for number in OUT_OF_TIME}
        ended = ended.get(code, "failed")
        return Run(ended, last_test(output) if ended != "passed" else "", time.monotonic() - started)

    def _execute(self, command):
        """Return exit code and output; a session of its own can be stopped whole."""
        output = self.tree / "output.txt"
        with output.open("w") as out:
            self.process = subprocess.Popen(
                command,
                cwd=self.tree,
                env=self.environment | {"PYTHONDONTWRITEBYTECODE": "1", "MUTATION_CHOSEN": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = self.process.wait()
        self._stop()
        return code, output.read_text(errors="replace")

    def _stop(self):
        """Stop the tests and the processes that they started."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Collected:
    """The tests of a workshop, collected in a process that forks for each mutant."""

    def __init__(self, workshop):
        address = str(workshop.tree / "address")
        options = ["-p", "tests.mutation.plugin", "-n", "0", "-s", "-q", "--tb=no"]
        with listen(address) as listener, (workshop.tree / "forks.txt").open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *workshop.paths],
                cwd=workshop.tree,
                env=workshop.environment | {ADDRESS: address},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.connection = listener.accept()

    def run(self, path, data, limits):
        """Run tests on a mutated module, or, where data is None, those of a path as they are."""
        started = time.monotonic()
        self.connection.send((path, data, limits))
        ended, test = self.connection.recv()
        return Run(ended, test if ended != "passed" else "", time.monotonic() - started)

    def close(self):
        """End the process."""
        with contextlib.suppress(OSError):
            self.connection.send(None)
        self.connection.close()
        self.process.kill()
        self.process.wait()


def _place(test):
    """Return the file of a test."""
    return test.partition("::")[0]


def last_test(output):
    """Return the test that failed, or else the one that was running."""
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, flags=re.MULTILINE)
    started = re.findall(r"^(\S+\.py::.+?)(?: [A-Z]+(?: .*)?)?$", output, flags=re.MULTILINE)
    return (failed[:1] or started[-1:] or ["no test was reached"])[0].strip()


def in_workshops(root, jobs, names, task, items):
    """Yield task(workshop, item) of every item as it is done, in as many workshops as jobs.

    In each the test files of some names are collected.
    """
    workshops, free = [Workshop(root, names) for _ in range(jobs)], queue.SimpleQueue()
    for workshop in workshops:
        free.put(workshop)

    def work(item):
        workshop = free.get()
        try:
            return task(workshop, item)
        finally:
            free.put(workshop)

    pool = ThreadPoolExecutor(jobs)
    try:
        workshops[0].check_import()
        for future in as_completed([pool.submit(work, item) for item in items]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for workshop in workshops:
            workshop.close()
