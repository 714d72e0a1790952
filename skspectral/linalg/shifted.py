"""Quadratic forms of (I + T/g)^-1, T tridiagonal, for one target at many g: all systems are solved as one.

Each g costs O(n) with a factor of a few nanoseconds, and nothing is prepared. For many targets `pieces` does
less work.
"""

import numpy as np
from scipy.linalg.lapack import dpttrf, dpttrs

__all__ = ["LEAST_SHARE", "in_blocks", "unexplained_of_one"]

# Entries of a term that are looked at together, so that they stay in cache.
_BLOCK_ENTRIES = 2**15
# A ratio to the largest eigenvalue below which nothing changes but the power of g.
LEAST_SHARE = 1e-300


def in_blocks(terms, ratios, entries):
    """Return arrays, rows for each of the ratios (k, ...), made for some ratios at a time.

    `entries` is how many numbers a term has for one of them.
    """
    rows = max(1, _BLOCK_ENTRIES // entries)
    if len(ratios) <= rows:
        return terms(ratios)
    parts = [terms(ratios[i : i + rows]) for i in range(0, len(ratios), rows)]
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def unexplained_of_one(diagonal, off_diagonal, b, ratios):
    """Return A = b'(I + T/g)^-1 b and its first two derivatives by log g, (k, 1) each.

    With x = (I + T/g)^-1 b and y = (T/g) x,

        A = b'x,   A' = x'y,   A'' = (y - x)'(I + T/g)^-1 y,

    in which no two large numbers cancel.

    Parameters
    ----------
    diagonal, off_diagonal : ndarray of shape (n,) and (n - 1,)
        T, positive semi-definite.
    b : ndarray of shape (n,)
        The target.
    ratios : ndarray of shape (k, 1)
        Noise ratios g, infinite ones too.
    """
    ratios = np.maximum(ratios, LEAST_SHARE * diagonal.max())

    def terms(ratios):
        T = _Stack(diagonal / ratios, off_diagonal / ratios)
        x = T.resolved(np.tile(b, len(ratios)))
        y = T.times(x)
        A, A1 = x @ b, np.einsum("kn,kn->k", x, y)
        A2 = np.einsum("kn,kn->k", y - x, T.resolved(y))
        return tuple(term[:, None] for term in (A, A1, A2))

    return in_blocks(terms, ratios, len(b))


class _Stack:
    """Tridiagonal matrices T (k, n), and I + T as blocks of one tridiagonal matrix that do not touch."""

    def __init__(self, diagonal, off_diagonal):
        self.diagonal, self.off_diagonal = diagonal, off_diagonal
        between = np.zeros_like(diagonal)
        between[:, :-1] = off_diagonal
        self._factors = dpttrf((1.0 + diagonal).ravel(), between.ravel()[:-1])[:2]

    def resolved(self, Z):
        """Return (I + T)^-1 z for all of them, (k, n)."""
        return dpttrs(*self._factors, Z.ravel())[0].reshape(self.diagonal.shape)

    def times(self, X):
        """Return T x for all of them, (k, n)."""
        product = self.diagonal * X
        product[:, 1:] += self.off_diagonal * X[:, :-1]
        product[:, :-1] += self.off_diagonal * X[:, 1:]
        return product
