"""Plugin of pytest for a workshop: it notes which functions tests call, or runs chosen tests in order.

Both by files beside pyproject.toml: `CALLS` is written if the environment has MUTATION_CALLS, and the tests
named in `CHOSEN` are run, in that order and no others, if it has MUTATION_CHOSEN. With an address of `forks`
it runs what it is asked for.
"""

import json
import os
import sys
import threading
import time

import pytest

from .forks import ADDRESS, Served

__all__ = ["CALLS", "CHOSEN"]

CALLS, CHOSEN = "calls.json", "chosen.json"


class Calls:
    """For each test its seconds and the functions of the package that it calls, as (file, qualified name)."""

    def __init__(self, root):
        self.root, self.tests = root, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Note the code that runs during a test, its fixtures included."""
        codes = set()

        def note(frame, event, _):
            if event == "call":
                codes.add(frame.f_code)

        started = time.perf_counter()
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.tests[item.nodeid] = (round(time.perf_counter() - started, 3), self._names(codes))

    def pytest_sessionfinish(self):
        """Write what was noted."""
        (self.root / CALLS).write_text(json.dumps(self.tests))

    def _names(self, codes):
        package = f"{self.root / 'skspectral'}{os.sep}"
        ours = {code for code in codes if code.co_filename.startswith(package)}
        return sorted({f"{os.path.relpath(code.co_filename, self.root)} {code.co_qualname}" for code in ours})


class Chosen:
    """Keeps the chosen tests, in their order."""

    def __init__(self, tests):
        self.place = {test: number for number, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Drop and sort what was collected."""
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])


def pytest_configure(config):
    """Do what the environment asks for."""
    if "MUTATION_CALLS" in os.environ:
        config.pluginmanager.register(Calls(config.rootpath))
    if "MUTATION_CHOSEN" in os.environ:
        config.pluginmanager.register(Chosen(json.loads((config.rootpath / CHOSEN).read_text())))
    if ADDRESS in os.environ:
        config.pluginmanager.register(Served())
