"""Sharing of decompositions between fits on the same rows and kernel.

A search over parameters fits many estimators that differ only in what comes after the decomposition.
Within `shared_decompositions` equal requests are answered by one computation, across threads.
"""

import copy
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import is_dataclass

import joblib

from ..support.exceptions import IndefiniteKernelError
from .decompose import decompose

__all__ = ["decompose_shared", "shared", "shared_decompositions"]


class _Once:
    """A decomposition made by whoever asks first; that the kernel is indefinite is remembered as well."""

    def __init__(self):
        self._lock, self._value, self._refusal = threading.Lock(), None, None

    def get(self, make):
        with self._lock:
            if self._value is None and self._refusal is None:
                try:
                    self._value = make()
                except IndefiniteKernelError as error:
                    self._refusal = copy.copy(error)  # without its traceback, which holds the matrix
        if self._refusal is not None:
            raise copy.copy(self._refusal)
        return self._value


class _Cache:
    """The most recently used decompositions by key, none while `size` is 0."""

    def __init__(self):
        self.size, self._entries, self._lock = 0, OrderedDict(), threading.Lock()

    def resize(self, change):
        with self._lock:
            self.size += change
            self._forget_the_oldest()

    def get(self, key, make):
        with self._lock:
            entry = self._entries.setdefault(key, _Once())
            self._entries.move_to_end(key)
            self._forget_the_oldest()
        return entry.get(make)

    def _forget_the_oldest(self):
        while len(self._entries) > self.size:
            self._entries.popitem(last=False)


# One for all threads: those that evaluate candidates are not the one that began the search. Searches
# under way at the same time add up their sizes.
_cache = _Cache()


@contextmanager
def shared_decompositions(size):
    """Keep the latest `size` decompositions for whoever asks for the same again."""
    _cache.resize(size)
    try:
        yield
    finally:
        _cache.resize(-size)


def shared(make, *what):
    """Return make(), or what it returned before for the same `what` while sharing is on.

    Kernels, arrays and settings are compared by content where they can be pickled, else by identity.
    """
    return _cache.get(_key(what), make) if _cache.size else make()


def decompose_shared(problem, plan):
    """Return `decompose` of a problem, shared with others of the same kernel and rows.

    Targets, given noise ratios and bounds of the variances count only where the decomposition depends on
    them.
    """
    data, n = problem.data, len(problem.data)
    looked_at = (data.Y, problem.noise_ratio, problem.bounds) if plan.looks_at_targets(n) else None
    what = problem.gram, data.X, data.weight, data.basis, plan.route(n), plan.rank, plan.indefinite, looked_at
    return shared(lambda: decompose(problem, plan), *what)


class _Itself:
    """An object compared by identity, and kept alive so that no other takes its address."""

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, _Itself) and self.thing is other.thing

    def __hash__(self):
        return id(self.thing)


def _key(thing):
    """Return a hashable that is equal for equal content, as far as that can be told."""
    try:
        return joblib.hash(thing)
    except Exception:  # a local function cannot be pickled, and any object may object
        parts = _parts(thing)
    if parts is None:
        return _Itself(thing)
    return (type(thing), *((name, _key(part)) for name, part in parts))


def _parts(thing):
    """Return the named parts of what is no more than their sum, else None."""
    if is_dataclass(thing):
        return vars(thing).items()
    if isinstance(thing, dict):
        return thing.items()
    return enumerate(thing) if isinstance(thing, tuple) else None
