"""Unpenalised constants of latent functions, integrated out: P = R - R1 (1'R1)^-1 1'R."""

import numpy as np
from scipy.linalg import solve_triangular

from .curved import lower_cholesky

__all__ = ["ConstantTerms"]

_SMALLEST = 1e-16


class ConstantTerms:
    """What constants add to R and V.

    Parameters
    ----------
    prior : DensePrior or FactorPrior
        K.
    curved : object with `times`
        R, see `curved`.
    H : ndarray of shape (m, q)
        Directions of the constants of m latent functions; q = 0 without any.

    Attributes
    ----------
    RJ : ndarray of shape (q, n, m)
        R J, J the constants H_k in all rows.
    U : ndarray of shape (q, n, m)
        J - K R J: how much of a constant the latent functions do not take up.

    Raises
    ------
    IndefiniteKernelError
        If T is not positive definite, as it may be where log p is not concave.

    Notes
    -----
    With T = J'R J: V grows by U T^-1 U', R becomes P = R - R J T^-1 J'R, and the log evidence has
    -1/2 log|T|.
    """

    def __init__(self, prior, curved, H):
        self.H, n = H, len(prior)
        if not H.size:  # as often as not, and at every step towards a mode
            self.RJ = self.U = np.empty((0, n, len(H)))
            self.L = np.empty((0, 0))
            return
        J = [np.broadcast_to(h, (n, len(h))) for h in H.T]
        self.RJ = np.stack([curved.times(j) for j in J])
        self.U = np.stack([j - prior.times(rj) for j, rj in zip(J, self.RJ, strict=True)])
        T = self.RJ.sum(axis=1) @ H
        # a little more than 0 where no row has any curvature left
        self.L = lower_cholesky(0.5 * (T + T.T) + _SMALLEST * np.eye(len(T)))

    @property
    def log_det(self):
        """log|T|."""
        return 2.0 * np.log(np.diag(self.L)).sum()

    def solve(self, x):
        """Return T^-1 x for x (q, ...)."""
        if not len(self.L):
            return x
        columns = x.reshape(len(x), -1)
        half = solve_triangular(self.L, columns, lower=True, check_finite=False)
        return solve_triangular(self.L, half, lower=True, trans="T", check_finite=False).reshape(x.shape)

    def uncertainty(self, U):
        """Return the blocks of U T^-1 U' of rows with U (q, n, m): (n, m, m)."""
        return np.einsum("qij,qik->ijk", U, self.solve(U))

    def times(self, V):
        """Return U T^-1 U'V for V (n, m)."""
        return np.einsum("qij,q->ij", self.U, self.solve(np.einsum("qij,ij->q", self.U, V)))

    def halves(self):
        """Return l, r (n, q m) with (l r' + r l')/2 = 1/2 sum_c R_c J T^-1 J'R_c, what -P/2 adds to -R/2."""
        right = self.RJ
        left = 0.5 * self.solve(right)
        return tuple(
            np.moveaxis(part, 1, 0).reshape(part.shape[1], part.shape[0] * part.shape[2])
            for part in (left, right)
        )
