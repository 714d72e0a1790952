"""Ridges at many given penalties: K = Q T Q' is enough, no eigenvectors are made."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.linalg.lapack import dormqr, dptsv, dsytrd

from .rows import Rows, add_outer, check_kernel_values
from .spectrum import norm, resolution_of

__all__ = ["Tridiagonal"]

# Reflectors that LAPACK applies together, unless it is to so few columns that the preparation costs more.
_BLOCK, _FEW_COLUMNS = 64, 8
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Tridiagonal:
    """PKP + cQQ' = H T H', T tridiagonal, H a product of reflectors, P = I - QQ' off the mean space.

    A third of the cost of a `Spectrum`, for rows that are all present. Each further penalty costs O(n).

    Attributes
    ----------
    diagonal, off_diagonal : ndarray of shape (n,) and (n - 1,)
        T.
    reflectors, scales : ndarray of shape (n, n - 1) and (n - 1,)
        H, which does not touch the first row: its vectors below the diagonal, as LAPACK's ormqr reads them.
    resolution : float
        Below it an eigenvalue is rounding, as in `Spectrum`.
    rows : Rows
        Weights and mean functions.
    KQ : ndarray of shape (n, q)
        K times the mean functions.
    """

    diagonal: np.ndarray
    off_diagonal: np.ndarray
    reflectors: np.ndarray
    scales: np.ndarray
    resolution: float
    rows: Rows
    KQ: np.ndarray

    @classmethod
    def from_gram(cls, K, basis=None, sample_weight=None, *, precision=_EPS):
        """Reduce a kernel matrix of at least two rows, O(n^3); K is overwritten.

        Raises
        ------
        IndefiniteKernelError
            As `Spectrum.from_gram`.
        """
        check_kernel_values(K)
        n, rows = len(K), Rows.make(len(K), basis, sample_weight)
        KQ = rows.project(K)
        size = norm(K)
        if rows.n_mean:
            # Deflated as in `Spectrum`: with an eigenvalue of 0 there, what rounding leaves of the mean
            # functions in y would grow by 1/g^2.
            add_outer(K, (2.0 * size or 1.0) * rows.Q, rows.Q)
        # The transpose of a C-ordered symmetric matrix is itself in LAPACK's order: no copy.
        reduced, d, e, scales, _ = dsytrd(K.T, lower=True, lwork=_BLOCK * n, overwrite_a=True)
        ends = [
            eigvalsh_tridiagonal(d, e, select="i", select_range=(i, i), check_finite=False)[0]
            for i in (0, n - 1 - rows.n_mean)
        ]
        bound = max(ends[1], 0.0) + norm(rows.Q.T @ KQ)
        resolution = resolution_of(np.array(ends), bound, precision, size)
        # vectors begin below the diagonal: columns of n entries that start at the second one
        reflectors = reduced.ravel(order="F")[1 : 1 + n * (n - 1)].reshape(n, n - 1, order="F")
        return cls(d, e, reflectors, scales, resolution, rows, KQ)

    def ridge(self, Y, noise_ratios):
        """Return dual coefficients and mean coefficients at given noise ratios, in the units of Y.

        Parameters
        ----------
        Y : ndarray of shape (n, m)
            Targets.
        noise_ratios : ndarray of shape (k, m)
            Positive penalties, larger than `resolution`.

        Returns
        -------
        dual : ndarray of shape (n, k * m)
            W^1/2 H (T + gI)^-1 H'y, m columns for every row of `noise_ratios`.
        beta : ndarray of shape (functions, k * m)
            R^-1 (Q'y - Q'K alpha).
        """
        k, m = noise_ratios.shape
        Z, scale, basis_part = self.rows.standardise(Y)
        Z, ratios = self._reflected(Z, "T"), noise_ratios.ravel()
        output = np.tile(np.arange(m), k)
        solved = np.empty((len(Z), k * m), order="F")
        for g in np.unique(ratios):
            columns = np.flatnonzero(ratios == g)
            solved[:, columns] = dptsv(self.diagonal + g, self.off_diagonal, Z[:, output[columns]])[2]
        dual = self._reflected(solved, "N") * scale[output]
        beta = self.rows.R_inv @ (basis_part[:, output] - self.KQ.T @ dual)
        return self.rows.sqrt_weight * dual, beta

    def _reflected(self, Z, trans):
        """Return HZ, or H'Z for trans="T"."""
        Z = np.array(Z, order="F")
        columns = Z.shape[1]
        room = columns if columns < _FEW_COLUMNS else _BLOCK * columns  # without more room, no blocks
        Z[1:] = dormqr("L", trans, self.reflectors, self.scales, Z[1:], room)[0]
        return Z
