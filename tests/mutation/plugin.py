"""Plugin of pytest for a workshop: it runs chosen tests in order, or whatever it is asked for, in forks.

The tests named in `CHOSEN`, a file beside pyproject.toml with their time limits, are run, in that order and
no others, if the environment has MUTATION_CHOSEN. With an address of `forks` it runs what it is asked for.
"""

import json
import os

import pytest

from .forks import ADDRESS, Served, limited

__all__ = ["CHOSEN"]

CHOSEN = "chosen.json"


class Chosen:
    """Keeps the chosen tests, in their order, and limits their time."""

    def __init__(self, limits):
        self.limits, self.place = limits, {test: number for number, test in enumerate(limits)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Drop and sort what was collected."""
        items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """End the process where a test takes too long."""
        with limited(self.limits[item.nodeid]):
            return (yield)


def pytest_configure(config):
    """Do what the environment asks for."""
    if "MUTATION_CHOSEN" in os.environ:
        config.pluginmanager.register(Chosen(json.loads((config.rootpath / CHOSEN).read_text())))
    if ADDRESS in os.environ:
        config.pluginmanager.register(Served())
