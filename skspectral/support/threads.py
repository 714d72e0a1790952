"""How many BLAS threads pay.

numpy and scipy bring a BLAS each, with threads of its own that spin while they wait. Code that goes back
and forth between the two on matrices of moderate size spends more time with threads in each other's way
than it gains from them: on two cores, learning at n = 2000 took twice as long with two threads as with one,
and six times as long where factors of low rank do the work.
"""

import threading
from contextlib import contextmanager, nullcontext
from functools import cached_property

from threadpoolctl import ThreadpoolController

__all__ = ["at_most", "available_threads", "threads_for"]

# Entries of a matrix up to which steps that mix both libraries run on one thread.
_ONE_THREAD_UP_TO = 5000**2


class _Limits:
    """Limits on the threads of BLAS that overlap: the smallest holds, and the last to leave lifts them all.

    A limit of threadpoolctl holds for the process and puts back what it found. Where fits overlap in
    threads, the second would find the first one's limit, and leave it behind.
    """

    def __init__(self):
        self._lock, self._active = threading.Lock(), []
        self._outermost, self._before = None, None

    @cached_property
    def _controller(self):
        return ThreadpoolController()

    def enter(self, limit):
        with self._lock:
            if not self._active:
                self._before = self._now()
                self._outermost = self._controller.limit(limits=limit, user_api="blas")
            elif limit < min(self._active):
                self._controller.limit(limits=limit, user_api="blas")
            self._active.append(limit)

    def leave(self, limit):
        with self._lock:
            self._active.remove(limit)
            if self._active:
                self._controller.limit(limits=min(self._active), user_api="blas")
            else:
                self._outermost.restore_original_limits()

    def available(self):
        """Return how many threads BLAS has without these limits."""
        with self._lock:
            return self._before if self._active else self._now()

    def _now(self):
        pools = self._controller.info()
        return min((pool["num_threads"] for pool in pools if pool["user_api"] == "blas"), default=1)


_limits = _Limits()
available_threads = _limits.available


@contextmanager
def at_most(limit):
    """A context in which BLAS uses at most so many threads."""
    _limits.enter(limit)
    try:
        yield
    finally:
        _limits.leave(limit)


def threads_for(n, rank=None):
    """Return a context in which BLAS uses as many threads as pay for mixed work on n rows.

    On a matrix of n x n entries, or of n x rank where a factor stands in for it.
    """
    return nullcontext() if n * (n if rank is None else rank) > _ONE_THREAD_UP_TO else at_most(1)
