"""How many BLAS threads pay.

numpy and scipy bring a BLAS each, with threads of its own that spin while they wait. Code that goes back
and forth between the two on matrices of moderate size spends more time with threads in each other's way
than it gains from them: on two cores, learning at n = 2000 took twice as long with two threads as with one,
and six times as long where factors of low rank do the work.
"""

import threading
from contextlib import nullcontext

from threadpoolctl import ThreadpoolController

__all__ = ["threads_for"]

# Entries of a matrix up to which steps that mix both libraries run on one thread.
_ONE_THREAD_UP_TO = 5000**2


class _OneThread:
    """A context in which BLAS uses one thread, until the last of those inside has left.

    A limit of threadpoolctl holds for the process and puts back what it found. Where fits overlap in
    threads, the second would find the first one's limit, and leave it behind.
    """

    def __init__(self):
        self._lock, self._inside, self._controller, self._limit = threading.Lock(), 0, None, None

    def __enter__(self):
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_one_thread = _OneThread()


def threads_for(n, rank=None):
    """Return a context in which BLAS uses as many threads as pay for mixed work on n rows.

    On a matrix of n x n entries, or of n x rank where a factor stands in for it.
    """
    return nullcontext() if n * (n if rank is None else rank) > _ONE_THREAD_UP_TO else _one_thread
