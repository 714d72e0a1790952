"""The derivative of a number by a kernel matrix, of which one triangle is enough."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Sensitivity", "TriangularSensitivity", "add_products", "dense_sensitivity", "upper_between"]

# Rows of a triangle that are made at a time.
_BLOCK = 200


@dataclass(frozen=True)
class Sensitivity:
    """Derivative of a number L by the kernel matrix.

    Attributes
    ----------
    weights : ndarray of shape (n, n) or pair of ndarray
        G with dL = sum_ij G_ij dK_ij, K without the prior's scale; for a factor, the same by K(X, Z) and by
        K(Z, Z), Z the landmarks.
    by_log_scale : float
        tr(G K): the derivative by the log of a factor of K.
    by_diagonal : ndarray of shape (n,) or None
        For a factor, derivatives by the variances k(x, x) of the rows, where L sees what the factor misses of
        them. `by_log_scale` is then without its part.
    """

    weights: object
    by_log_scale: float
    by_diagonal: object = None

    @property
    def upper(self):
        """A matrix whose upper triangle is that of the weights, where these are a matrix."""
        return self.weights


@dataclass(frozen=True)
class TriangularSensitivity:
    """A `Sensitivity` whose weights are known by their upper triangle; what is below it means nothing."""

    upper: np.ndarray
    by_log_scale: float

    @cached_property
    def weights(self):
        """G with dL = sum_ij G_ij dK_ij, (n, n)."""
        return np.triu(self.upper) + np.triu(self.upper, 1).T


def dense_sensitivity(prior, left, right, R):
    """Return the `Sensitivity` of G = (l r' + r l')/2 - R/2; R is overwritten."""
    G = np.hstack([left, right]) @ np.hstack([right, left]).T
    G -= R
    by_log_scale = 0.5 * float(np.vdot(G, prior.K))
    G *= 0.5 * prior.scale
    return Sensitivity(G, by_log_scale)


def upper_between(M, root, scale=1.0):
    """Return the upper triangle of scale w M w in the precision of M; what is below means nothing."""
    between, root = np.empty_like(M), root.astype(M.dtype, copy=False)
    for rows, columns in _upper_blocks(len(M)):
        block = np.multiply(M[rows, columns], root[columns], out=between[rows, columns])
        block *= scale * root[rows, None]
    return between


def add_products(G, left, right, scale):
    """Add the upper triangle of scale (l r' + r l') to G."""
    both = (scale * np.hstack([left, right])).astype(G.dtype)
    turned = np.hstack([right, left]).T.astype(G.dtype)
    for rows, columns in _upper_blocks(len(G)):
        G[rows, columns] += both[rows] @ turned[:, columns]


def _upper_blocks(n):
    """Return slices of rows and columns that cover the upper triangle, small enough for a cache."""
    return [(slice(i, i + _BLOCK), slice(i, None)) for i in range(0, n, _BLOCK)]
