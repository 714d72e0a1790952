"""What a run without mutation shows: how long tests take, and which functions of the package they call."""

import json
import os
import sys
import threading
import time

import pytest

__all__ = ["CALLS", "Calls"]

CALLS = "calls.json"


class Calls:
    """Plugin of pytest: each test's seconds of computing, which do not depend on what else the machine does,
    and the functions of the package that it calls, as (file, qualified name).
    """

    def __init__(self, root):
        self.root, self.tests, self.failed = root, {}, []
        self._codes, self._of_fixture = set(), {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Note the code that runs during a test, or that has run for the fixtures that it shares."""
        self._codes, started = set(), time.process_time()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            fixtures = [each for many in item._fixtureinfo.name2fixturedefs.values() for each in many]
            codes = self._codes.union(*(self._of_fixture.get(fixture, ()) for fixture in fixtures))
            self.tests[item.nodeid] = (round(time.process_time() - started, 3), self._names(codes))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """Note the code that runs for a fixture: the next tests have it without running it."""
        before, self._codes = self._codes, set()
        try:
            return (yield)
        finally:
            self._of_fixture.setdefault(fixturedef, set()).update(self._codes)
            self._codes |= before

    def _note(self, frame, event, _):
        if event == "call":
            self._codes.add(frame.f_code)

    def leave_out_last(self):
        """Forget the last test, which failed; return its name."""
        self.failed.append(list(self.tests)[-1])
        del self.tests[self.failed[-1]]
        return self.failed[-1]

    def write(self):
        """Write what was noted of tests that passed, and the names of those that failed."""
        (self.root / CALLS).write_text(json.dumps([self.tests, self.failed]))

    def _names(self, codes):
        package = f"{self.root / 'skspectral'}{os.sep}"
        ours = {code for code in codes if code.co_filename.startswith(package)}
        return sorted({f"{os.path.relpath(code.co_filename, self.root)} {code.co_qualname}" for code in ours})
