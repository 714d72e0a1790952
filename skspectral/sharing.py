"""Sharing of decompositions between fits on the same rows and kernel.

A search over parameters fits many estimators that differ only in what comes after the decomposition.
Within `shared_decompositions` equal requests are answered by one computation, across threads.
"""

import threading
from collections import OrderedDict
from contextlib import contextmanager

import joblib

__all__ = ["decomposition", "shared_decompositions"]

_active = []


class _Cache:
    """The most recent decompositions by key; each is computed once, by whoever asks first."""

    def __init__(self, size):
        self.size, self._entries, self._lock = size, OrderedDict(), threading.Lock()

    def get(self, key, make):
        with self._lock:
            entry = self._entries.setdefault(key, {"lock": threading.Lock()})
            self._entries.move_to_end(key)
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)
        with entry["lock"]:
            if "value" not in entry:
                entry["value"] = make()
            return entry["value"]


@contextmanager
def shared_decompositions(size):
    """Keep the latest `size` decompositions for whoever asks for the same again."""
    _active.append(_Cache(size))
    try:
        yield
    finally:
        _active.pop()


def decomposition(make, kernel, *arrays):
    """Return make(), or what it returned before for the same kernel and arrays while sharing is on.

    Parameters
    ----------
    make : callable
        Computes the decomposition.
    kernel : object
        What determines the kernel; compared by content where it can be pickled, else by identity.
    *arrays : ndarray, sparse matrix or None
        Rows, weights and settings, compared by content.
    """
    if not _active:
        return make()
    try:
        kernel_key = joblib.hash(kernel)
    except Exception:  # a local function cannot be pickled, and any object may object
        kernel_key = repr(kernel)
    return _active[-1].get((kernel_key, joblib.hash(arrays)), make)
