"""How many BLAS threads pay.

numpy and scipy bring a BLAS each, with threads of its own that spin while they wait. Code that goes back
and forth between the two on matrices of moderate size spends more time with threads in each other's way
than it gains from them: on two cores, learning at n = 2000 took twice as long with two threads as with one,
and six times as long where factors of low rank do the work.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property

from threadpoolctl import ThreadpoolController

__all__ = ["at_most", "available_threads", "map_in_threads", "threads_for"]

# Entries of a matrix up to which steps that mix both libraries run on one thread, and up to which numpy's
# part does, while scipy's factorisations have all of them.
_ONE_THREAD_UP_TO, _NUMPY_ON_ONE_UP_TO = 600**2, 5000**2


class _Limits:
    """Limits on the threads of BLAS that overlap: the smallest holds, and the last to leave lifts them all.

    A limit of threadpoolctl holds for the process and puts back what it found. Where fits overlap in
    threads, the second would find the first one's limit, and leave it behind. So what was there before any
    limit is kept here, and every change sets what follows from those inside, however often it is repeated:
    an interrupt may come between any two lines.
    """

    def __init__(self):
        self.forget()

    def forget(self):
        """Start anew: after a fork, those inside are threads of another process."""
        self._lock, self._inside = threading.RLock(), {}
        self._before, self._last = None, {}

    @cached_property
    def _controller(self):
        return ThreadpoolController()

    def enter(self, who, limit, is_numpys):
        with self._lock:
            self._inside[who] = limit, is_numpys
            self._settle()

    def leave(self, who):
        with self._lock:
            self._inside.pop(who, None)
            self._settle()

    def available(self):
        """Return how many threads BLAS has without these limits."""
        with self._lock:
            now = self._blas() if self._before is None else self._before
            return min((pool.num_threads for pool in now), default=1)

    def _settle(self):
        """Set the smallest limit of those inside, or what was there before any of them."""
        if self._inside:
            if self._before is None:
                self._before, self._last = self._blas(), {}
            for pool in self._before:
                limits = [
                    limit for limit, is_numpys in self._inside.values() if pool.is_numpys or not is_numpys
                ]
                self._set(pool, min([pool.num_threads, *limits]))
        elif self._before is not None:
            for pool in self._before:
                self._set(pool, pool.num_threads)
            self._before = None

    def _set(self, pool, num_threads):
        """Set the threads of a pool, unless that is what was set last."""
        if self._last.get(pool.library.filepath) != num_threads:
            self._last.pop(pool.library.filepath, None)  # until it is set, an interrupt leaves it unknown
            pool.set(num_threads)
            self._last[pool.library.filepath] = num_threads

    def _blas(self):
        libraries = self._controller.lib_controllers
        return [_Pool(lib, lib.num_threads) for lib in libraries if lib.user_api == "blas"]


@dataclass(frozen=True)
class _Pool:
    """The threads of a BLAS, and how many it had."""

    library: object
    num_threads: int

    @property
    def is_numpys(self):
        """Whether it is numpy's; one that cannot be told apart counts as numpy's too."""
        return "scipy.libs" not in self.library.filepath

    def set(self, num_threads):
        # New versions of threadpoolctl listen only to the first thread that set a limit, until that one lets
        # go. The last to leave need not be the first who came.
        let_go = getattr(self.library, "clear_controlling_thread", lambda force: None)
        let_go(force=True)
        self.library.set_num_threads(num_threads)
        let_go(force=True)


_limits = _Limits()
available_threads = _limits.available


def _lift_in_child():
    """Lift limits of the parent in a forked child, where nobody is left to do it."""
    before = _limits._before
    _limits.forget()
    for pool in before or ():
        pool.set(pool.num_threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lift_in_child)


@contextmanager
def at_most(limit, *, is_numpys=False):
    """A context in which BLAS uses at most so many threads: all of it, or numpy's alone."""
    who = object()
    try:
        _limits.enter(who, limit, is_numpys)
        yield
    finally:
        try:
            _limits.leave(who)
        except BaseException:  # an interrupt on the way out
            _limits.leave(who)
            raise


def threads_for(n, rank=None):
    """Return a context in which BLAS uses as many threads as pay for mixed work on n rows.

    On a matrix of n x n entries, or of n x rank where a factor stands in for it, whose work is numpy's and
    scipy's in turn.
    """
    entries = n * (n if rank is None else rank)
    if entries > _NUMPY_ON_ONE_UP_TO:
        return nullcontext()
    return at_most(1, is_numpys=rank is None and entries > _ONE_THREAD_UP_TO)


def map_in_threads(function, items):
    """Return the results of a function for all items, which as many threads work on as BLAS would have.

    Each of them has BLAS for itself, on one thread: better than threads inside of BLAS where the work is cut
    into items anyway. A single item has all of BLAS.
    """
    if len(items) == 1:
        return [function(items[0])]
    n_threads = min(available_threads(), len(items))
    with at_most(1):
        if n_threads <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(function, items))
