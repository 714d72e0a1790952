"""A kernel matrix factorised at a single noise ratio, for outer steps that need no spectrum."""

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from ..support.exceptions import IndefiniteKernelError
from .rows import Rows, add_outer

__all__ = ["OFF_BY_OF_SINGLE", "InverseResolvent", "Resolvent"]

# By how much single precision is off in -2 log evidence, beside the trace of K over the noise ratio, as far
# as was seen where that is below 1e6, and 0.01 or more in all; 1e-7 is usual.
OFF_BY_OF_SINGLE = 5e-7

# Rows of a triangle up to which LAPACK inverts it column by column without loss, and up to which it pays to
# see to it that the rest of the inverse is products of blocks.
_COLUMN_BY_COLUMN, _BY_BLOCKS_UP_TO = 64, 1000


class _Routines(NamedTuple):
    """What is asked of BLAS and LAPACK, in one precision."""

    potrf: object
    potrs: object
    potri: object
    trtri: object
    lauum: object
    trmm: object
    syr: object

    @classmethod
    def of(cls, letter):
        """Return the routines whose names begin with a letter."""
        return cls(
            *(getattr(lapack, letter + name, None) or getattr(blas, letter + name) for name in cls._fields)
        )


_ROUTINES = {np.dtype(np.float64): _Routines.of("d"), np.dtype(np.float32): _Routines.of("s")}


@dataclass(frozen=True)
class Resolvent:
    """M = (PKP + gI)^-1 outside the mean space, at a single noise ratio g, by one Cholesky factorisation.

    A fifteenth of a spectrum's cost, and a sixth with the inverse itself; half of that where K is of float32.

    Attributes
    ----------
    factor : ndarray of shape (n, n)
        L of PKP + shift QQ' + gI = LL', zeros above it, in BLAS's order.
    shift : float
        Eigenvalue that the mean space was given in the factorisation; 0 where there is none.
    log_det : float
        log |A'KA + gI|, A a basis of the complement of the mean space.
    noise_ratio : float
        g.
    rows : Rows
        Weights and mean functions; all rows are present.
    """

    factor: np.ndarray
    shift: float
    log_det: float
    noise_ratio: float
    rows: Rows

    @classmethod
    def from_gram(cls, K, rows, noise_ratio):
        """Factorise; K is overwritten.

        Raises
        ------
        IndefiniteKernelError
            If PKP + gI is not positive definite.
        """
        rows.project(K)
        shift = 0.0
        if rows.n_mean:  # an eigenvalue like the largest there: g alone would spoil the condition
            shift = float(np.trace(K))
            Q = rows.Q.astype(K.dtype, copy=False)
            add_outer(K, K.dtype.type(shift) * Q, Q)
        K.flat[:: len(K) + 1] += noise_ratio
        factor, info = _ROUTINES[K.dtype].potrf(K.T, lower=True, overwrite_a=True)
        if info:
            raise IndefiniteKernelError(-noise_ratio, 0.0)
        pivots = factor.diagonal().astype(np.float64, copy=False)
        log_det = 2.0 * float(np.log(pivots).sum()) - rows.n_mean * log(shift + noise_ratio)
        return cls(factor, shift, log_det, noise_ratio, rows)

    def apply(self, Z):
        """Return M Z for columns Z (n, k), or one (n,), without part in the mean space."""
        solved = _ROUTINES[self.factor.dtype].potrs(self.factor, Z, lower=True)[0]
        return solved.reshape(Z.shape).astype(np.float64, copy=False)

    def evidence(self, z):
        """Return A and H of the evidence (see `criteria`) of a standardised target z (n,), and its dual.

        A = sum e v = g z'Mz and H = -sum log v = log|A'KA + gI| - (n - q) log g.
        """
        g, n, dual = self.noise_ratio, len(z) - self.rows.n_mean, self.apply(z)
        return g * (z @ dual), self.log_det - n * log(g), dual

    def inverse(self):
        """Return M itself, made in the memory of the factor: this object is of no use any more."""
        return InverseResolvent(_inverse(self.factor), self.shift, self.noise_ratio, self.rows)


@dataclass(frozen=True)
class InverseResolvent:
    """M itself, for the slopes of the evidence.

    Attributes
    ----------
    triangle : ndarray of shape (n, n)
        Lower triangle of (PKP + shift QQ' + gI)^-1, zeros above it, in BLAS's order.
    shift, noise_ratio, rows
        As in `Resolvent`.
    """

    triangle: np.ndarray
    shift: float
    noise_ratio: float
    rows: Rows

    def evidence_slopes(self, A, dual):
        """Return A' = A - g^2 |Mz|^2 and H' = -sum u = g tr M - (n - q), from A and the dual Mz."""
        g, n = self.noise_ratio, len(dual) - self.rows.n_mean
        residual = g * dual  # its square, not that of g, which may be beyond all numbers
        trace = self.triangle.diagonal().sum(dtype=np.float64) - self.rows.n_mean / (self.shift + g)
        return A - residual @ residual, g * trace - n

    def sensitivity(self, dual, scale):
        """Return the upper triangle (n, n) of M - scale dual dual', in the memory of the inverse."""
        syr = _ROUTINES[self.triangle.dtype].syr
        G = syr(-scale, dual, lower=1, a=self.triangle, overwrite_a=True)
        for q in self.rows.Q.T:
            G = syr(-1.0 / (self.shift + self.noise_ratio), q, lower=1, a=G, overwrite_a=True)
        return G.T


def _inverse(factor):
    """Return the lower triangle of (L L')^-1, in the memory of L."""
    routines = _ROUTINES[factor.dtype]
    if not _COLUMN_BY_COLUMN < len(factor) <= _BY_BLOCKS_UP_TO:
        return routines.potri(factor, lower=True, overwrite_c=True)[0]
    _invert_triangle(factor, routines)
    return routines.lauum(factor, lower=True, overwrite_c=True)[0]


def _invert_triangle(L, routines):
    """Overwrite L by its inverse, of [[A, 0], [B, C]] by [[A^-1, 0], [-C^-1 B A^-1, C^-1]]."""
    if len(L) <= _COLUMN_BY_COLUMN:
        L[:] = routines.trtri(L, lower=True)[0]
        return
    half = len(L) // 2
    A, B, C = L[:half, :half], L[half:, :half], L[half:, half:]
    _invert_triangle(A, routines)
    _invert_triangle(C, routines)
    trmm = routines.trmm
    B[:] = trmm(1.0, C, trmm(-1.0, A, B, side=1, lower=1), lower=1, overwrite_b=True)
