"""The evidence and its derivatives from a factor of K, for the steps of kernel learning."""

from copy import copy
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from ..support.exceptions import IndefiniteKernelError
from .moments import FeatureSpectrum

__all__ = ["FactorTerms"]

# Relative rounding of sums of squares.
_ERROR = 8.0 * np.finfo(np.float64).eps


class FactorTerms:
    """The evidence and its sensitivity from a factor's Gram matrix S = Phi'P Phi, O(n r^2) without an SVD.

    For outer steps, where half of the digits are enough. With B = S + gI the resolvent outside the mean
    space is M = (I - P Phi B^-1 Phi'P)/g, and M Phi = P Phi B^-1.

    Parameters
    ----------
    factor : Factor
        Of the unweighted kernel matrix.
    rows : Rows
        Weights and mean functions.
    Z : ndarray of shape (n, m)
        Standardised targets.
    """

    def __init__(self, factor, rows, Z):
        self.factor, self.rows, self.Z = factor, rows, Z
        root = rows.sqrt_weight
        self.Phi = factor.Phi if (root == 1.0).all() else root * factor.Phi
        self.QPhi = rows.Q.T @ self.Phi
        self.S = self.Phi.T @ self.Phi - self.QPhi.T @ self.QPhi
        self.PhiZ = self.Phi.T @ Z

    def at(self, g):
        """Return A, A', H, H' (see `criteria`) of a single output at g, B^-1 and the residual v y."""
        r = len(self.S)
        L = _cholesky_with_jitter(self.S, g)
        L_inv = solve_triangular(L, np.eye(r), lower=True, check_finite=False)
        B_inv = L_inv.T @ L_inv
        residual = self._residual(B_inv @ self.PhiZ)
        # not below what rounding of y alone leaves: it may even be negative
        A = max(float((self.Z * residual).sum()), _ERROR**2 * float((self.Z**2).sum()))
        A1 = A - float((residual**2).sum())
        H = 2.0 * np.log(np.diag(L)).sum() - r * np.log(g)
        return A, A1, H, g * np.trace(B_inv) - r, B_inv, residual

    @cached_property
    def spectrum(self):
        """Eigenvalues of P Phi Phi'P."""
        return FeatureSpectrum.from_moments(self.S, self.rows.counts, (self.QPhi**2).sum(), _ERROR)

    def rotated(self, scale):
        """Return a `Rotated` for tuning by the evidence."""
        return self.spectrum.rotate(self.PhiZ, (self.Z**2).sum(axis=0), scale)

    def null_root(self):
        """Return rows with the inner products of what the factor does not reach of the targets, (m, m)."""
        spectrum = self.spectrum
        y_tilde = spectrum.V.T @ self.PhiZ / np.sqrt(spectrum.s)[:, None]
        size, V = eigh(self.Z.T @ self.Z - y_tilde.T @ y_tilde)
        return (V * np.sqrt(np.maximum(size, 0.0))).T

    def with_targets(self, Z):
        """Return the same factor with other targets."""
        other = copy(self)
        other.Z, other.PhiZ = Z, self.Phi.T @ Z
        return other

    def several(self, g):
        """Return sum_m B_m^-1 and the residuals v_m y_m of outputs with noise ratios g (m,)."""
        s, V = self.spectrum.s, self.spectrum.V
        inverse = 1.0 / (s[:, None] + g)
        weights = V @ (inverse * (V.T @ self.PhiZ))
        return (V * inverse.sum(axis=1)) @ V.T, self._residual(weights)

    def sensitivity(self, B_inv, residual, scale):
        """Return dF/dK(X, Z) and dF/dK(Z, Z), Z the landmarks, where dF/dK = sum_m (M_m - scale_m a_m a_m').

        a_m are the residuals v_m y_m, scale_m is 1/(g_m b_m), and B_inv is the sum of B_m^-1.

        K~ = C K(Z,Z)^-1 C' with C = K(X, Z) = Phi L', so with G = dF/dK~

            dF = 2 tr((G Phi L^-1)' dC) - tr(L^-T Phi'G Phi L^-1 dK(Z, Z)).
        """
        L, Q = self.factor.L, self.rows.Q
        along = self.Phi.T @ residual  # a is orthogonal to the mean space
        GPhi = self.Phi @ B_inv - Q @ (self.QPhi @ B_inv) - (scale * residual) @ along.T
        inner = self.S @ B_inv - (scale * along) @ along.T
        to_landmarks = solve_triangular(L, GPhi.T, lower=True, trans="T", check_finite=False).T
        half = solve_triangular(L, inner, lower=True, trans="T", check_finite=False)
        among = solve_triangular(L, half.T, lower=True, trans="T", check_finite=False)
        return 2.0 * self.rows.sqrt_weight * to_landmarks, -0.5 * (among + among.T)

    def _residual(self, weights):
        """Return Z - P Phi weights."""
        return self.Z - self.Phi @ weights + self.rows.Q @ (self.QPhi @ weights)


def _cholesky_with_jitter(S, g):
    """Return the lower Cholesky factor of S + gI, with no more added than rounding of S took away."""
    identity = np.eye(len(S))
    jitter = len(S) * np.finfo(np.float64).eps * np.trace(S)
    for shift in (g, g + jitter, g + 10.0 * jitter, g + 100.0 * jitter):
        try:
            return cholesky(S + shift * identity, lower=True, check_finite=False)
        except LinAlgError:
            continue
    raise IndefiniteKernelError(-g, jitter)
