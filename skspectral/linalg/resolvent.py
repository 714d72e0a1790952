"""A kernel matrix factorised at a single noise ratio, for outer steps that need no spectrum."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr, dtrmm
from scipy.linalg.lapack import dlauum, dpotrf, dpotri, dtrtri

from ..support.exceptions import IndefiniteKernelError
from .rows import Rows, add_outer

__all__ = ["Resolvent"]

# Rows of a triangle up to which LAPACK inverts it column by column without loss, and up to which it pays to
# see to it that the rest of the inverse is products of blocks.
_COLUMN_BY_COLUMN, _BY_BLOCKS_UP_TO = 64, 1000


@dataclass(frozen=True)
class Resolvent:
    """M = (PKP + gI)^-1 outside the mean space, at a single noise ratio g, by one Cholesky factorisation.

    A sixth of a spectrum's cost.

    Attributes
    ----------
    triangle : ndarray of shape (n, n)
        Lower triangle of (PKP + shift QQ' + gI)^-1, zeros above it, in BLAS's order.
    shift : float
        Eigenvalue that the mean space was given in the factorisation.
    log_det : float
        log |A'KA + gI|, A a basis of the complement of the mean space.
    noise_ratio : float
        g.
    rows : Rows
        Weights and mean functions; all rows are present.
    """

    triangle: np.ndarray
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
        # The mean space gets an eigenvalue like the others: g alone there would spoil the condition.
        shift = float(np.trace(K)) / len(K)
        if rows.n_mean:
            add_outer(K, shift * rows.Q, rows.Q)
        K.flat[:: len(K) + 1] += noise_ratio
        factor, info = dpotrf(K.T, lower=True, clean=True, overwrite_a=True)
        if info:
            raise IndefiniteKernelError(-noise_ratio, 0.0)
        log_det = 2.0 * np.log(factor.diagonal()).sum() - rows.n_mean * np.log(shift + noise_ratio)
        return cls(_inverse(factor), shift, log_det, noise_ratio, rows)

    def apply(self, z):
        """Return M z for a z (n,) without part in the mean space."""
        return dsymv(1.0, self.triangle, z, lower=1)

    def apply_all(self, Z):
        """Return M Z for columns Z (n, k) without part in the mean space."""
        return dsymm(1.0, self.triangle, Z, lower=1)

    def evidence_terms(self, z):
        """Return A, A', H, H' of the evidence (see `criteria`) of a standardised target z (n,), and its dual.

        A = sum e v = g z'Mz and A' = A - g^2 |Mz|^2;
        H = -sum log v = log|A'KA + gI| - (n - q) log g and H' = -sum u = g tr M - (n - q).
        """
        g, n = self.noise_ratio, len(z) - self.rows.n_mean
        dual = self.apply(z)
        A = g * (z @ dual)
        residual = g * dual  # its square, not that of g, which may be beyond all numbers
        A1 = A - residual @ residual
        H = self.log_det - n * np.log(g)
        trace = self.triangle.diagonal().sum() - self.rows.n_mean / (self.shift + g)
        return A, A1, H, g * trace - n, dual

    def sensitivity(self, dual, scale):
        """Return the upper triangle (n, n) of M - scale dual dual', in the memory of the resolvent."""
        G = dsyr(-scale, dual, lower=1, a=self.triangle, overwrite_a=True)
        for q in self.rows.Q.T:
            G = dsyr(-1.0 / (self.shift + self.noise_ratio), q, lower=1, a=G, overwrite_a=True)
        return G.T


def _inverse(factor):
    """Return the lower triangle of (L L')^-1, in the memory of L."""
    if not _COLUMN_BY_COLUMN < len(factor) <= _BY_BLOCKS_UP_TO:
        return dpotri(factor, lower=True, overwrite_c=True)[0]
    _invert_triangle(factor)
    return dlauum(factor, lower=True, overwrite_c=True)[0]


def _invert_triangle(L):
    """Overwrite L by its inverse, of [[A, 0], [B, C]] by [[A^-1, 0], [-C^-1 B A^-1, C^-1]]."""
    if len(L) <= _COLUMN_BY_COLUMN:
        L[:] = dtrtri(L, lower=True)[0]
        return
    half = len(L) // 2
    A, B, C = L[:half, :half], L[half:, :half], L[half:, half:]
    _invert_triangle(A)
    _invert_triangle(C)
    B[:] = dtrmm(1.0, C, dtrmm(-1.0, A, B, side=1, lower=1), lower=1, overwrite_b=True)
