"""A kernel matrix factorised at a single noise ratio, for outer steps that need no spectrum."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from ..support.exceptions import IndefiniteKernelError
from .rows import Rows, add_outer

__all__ = ["Resolvent"]


@dataclass(frozen=True)
class Resolvent:
    """(PKP + gI)^-1 at a single noise ratio g, by one Cholesky factorisation: a sixth of a spectrum's cost.

    Attributes
    ----------
    inverse : ndarray of shape (n, n)
        The inverse outside the mean space; 0 on it.
    log_det : float
        log |A'KA + gI|, A a basis of the complement of the mean space.
    noise_ratio : float
        g.
    rows : Rows
        Weights and mean functions; all rows are present.
    """

    inverse: np.ndarray
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
        shift = float(np.trace(K)) / len(K) or 1.0
        if rows.n_mean:
            add_outer(K, shift * rows.Q, rows.Q)
        K.flat[:: len(K) + 1] += noise_ratio
        factor, info = dpotrf(K.T, lower=True, clean=True, overwrite_a=True)
        if info:
            raise IndefiniteKernelError(-noise_ratio, 0.0)
        log_det = 2.0 * np.log(np.diag(factor)).sum() - rows.n_mean * np.log(shift + noise_ratio)
        half, _ = dpotri(factor, lower=True, overwrite_c=True)
        half.flat[:: len(K) + 1] *= 0.5
        inverse = half + half.T
        if rows.n_mean:
            add_outer(inverse, -rows.Q / (shift + noise_ratio), rows.Q)
        return cls(inverse, log_det, noise_ratio, rows)

    def evidence_terms(self, Z):
        """Return A, A', H, H' of the evidence (see `criteria`) of a standardised target Z (n,), and its dual.

        A = sum e v = g z'Mz and A' = A - g^2 |Mz|^2 with M the inverse outside the mean space;
        H = -sum log v = log|A'KA + gI| - (n - q) log g and H' = -sum u = g tr M - (n - q).
        """
        g, n = self.noise_ratio, len(Z) - self.rows.n_mean
        dual = self.inverse @ Z
        A = g * (Z @ dual)
        A1 = A - g**2 * (dual @ dual)
        H = self.log_det - n * np.log(g)
        H1 = g * np.trace(self.inverse) - n
        return A, A1, H, H1, dual
