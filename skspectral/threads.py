"""How many BLAS threads pay.

numpy and scipy bring a BLAS each, with threads of its own that spin while they wait. Code that goes back
and forth between the two on matrices of moderate size spends more time with threads in each other's way
than it gains from them: on two cores, learning at n = 2000 took twice as long with two threads as with one,
and six times as long where factors of low rank do the work.
"""

from contextlib import nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["threads_for"]

# Entries of a matrix up to which steps that mix both libraries run on one thread.
_ONE_THREAD_UP_TO = 5000**2


def threads_for(n, rank=None):
    """Return a context in which BLAS uses as many threads as pay for mixed work on n rows.

    On a matrix of n x n entries, or of n x rank where a factor stands in for it.
    """
    if n * (n if rank is None else rank) > _ONE_THREAD_UP_TO:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller():
    return ThreadpoolController()
