"""A symmetric matrix as its diagonal and a vector of what is above it."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import squareform

__all__ = ["Pairs"]


@dataclass(frozen=True)
class Pairs:
    """A symmetric matrix, or the weights of the entries of one.

    Attributes
    ----------
    off : ndarray of shape (n (n - 1) / 2,) or float
        Entries above the diagonal. As weights of a contraction, those of both triangles together.
    diagonal : ndarray of shape (n,) or float
        Entries on it.
    """

    off: np.ndarray
    diagonal: np.ndarray

    @classmethod
    def of(cls, K):
        """Return the pairs of a symmetric matrix."""
        return cls(squareform(K, checks=False), K.diagonal().copy())

    @classmethod
    def of_triangle(cls, G):
        """Return the weights of both triangles of a symmetric matrix, of which the upper one is given."""
        off = squareform(_owner(G), checks=False)
        off *= 2.0
        return cls(off, G.diagonal().copy())  # a view would keep the matrix

    def matrix(self, n):
        """Return a fresh matrix of n rows."""
        off = self.off if np.ndim(self.off) else np.full(n * (n - 1) // 2, float(self.off))
        K = squareform(off, checks=False) if n > 1 else np.zeros((n, n))
        K.flat[:: n + 1] = self.diagonal
        return K

    def trace(self, n):
        """Return the trace of the matrix of n rows."""
        return float(np.sum(np.broadcast_to(self.diagonal, n)))

    @property
    def is_number(self):
        """Whether all entries are the same number."""
        return np.ndim(self.off) == 0 and np.ndim(self.diagonal) == 0 and self.off == self.diagonal

    def map(self, function, other=None):
        """Return a function of the entries, and of those of other pairs."""
        if other is None:
            return Pairs(function(self.off), function(self.diagonal))
        return Pairs(function(self.off, other.off), function(self.diagonal, other.diagonal))

    def __mul__(self, other):
        return self.map(np.multiply, other)

    def __add__(self, other):
        return self.map(np.add, other)

    def sum(self):
        """Return the sum of weights."""
        return np.sum(self.off) + np.sum(self.diagonal)

    def dot(self, other):
        """Return the sum of weights times entries."""
        return _dot(self.off, other.off) + _dot(self.diagonal, other.diagonal)


def _owner(G):
    """Return the array that a view of all of it, such as a transpose of its transpose, is a view of.

    scipy's `squareform` copies views before it reads them.
    """
    base = G.base
    is_whole = isinstance(base, np.ndarray) and base.shape == G.shape and base.strides == G.strides
    return base if is_whole else G


def _dot(weights, entries):
    return weights @ entries if np.ndim(entries) else entries * np.sum(weights)
