"""The same as `curved` for the softmax, whose curvature couples the latent functions of the classes.

In every row the curvature is W = w (diag(p) - p p'), w the row's weight and p its probabilities. All classes
have the same prior K. W ignores what is common to all classes, so R 1 = 0 over classes, and V below stands
for rows that sum to 0.
"""

from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from ..support.exceptions import IndefiniteKernelError
from .curved import DensePrior, lower_cholesky
from .sensitivity import Sensitivity, dense_sensitivity

__all__ = ["AlikeClasses", "contrasts", "softmax_curved"]


def contrasts(n_classes):
    """Return an orthonormal basis (C, C - 1) of what differs between classes (Helmert's)."""
    H = np.triu(np.ones((n_classes, n_classes - 1)))
    H[np.arange(1, n_classes), np.arange(n_classes - 1)] = -np.arange(1.0, n_classes)
    return H / np.linalg.norm(H, axis=0)


def softmax_curved(prior, P, weight):
    """Return R for probabilities P (n, C) and weights (n,), in the form of the prior."""
    return (DenseSoftmax if isinstance(prior, DensePrior) else FactorSoftmax)(prior, P, weight)


class DenseSoftmax:
    """R for the softmax from one Cholesky factorisation of n x n for each class and one for their sum.

    Parameters
    ----------
    prior : DensePrior
        Prior of each class.
    P : ndarray of shape (n, C)
        Probabilities.
    weight : ndarray of shape (n,)
        Positive weights of the rows.

    Notes
    -----
    With D_c = diag(w p_c), B_c = I + D_c^1/2 K D_c^1/2 and E_c = D_c^1/2 B_c^-1 D_c^1/2 (Rasmussen & Williams
    (2006), section 3.5),

        R_cd = E_c [c = d] - E_c (sum E)^-1 E_d,    log|I + K W| = sum log|B_c| + log|sum E| - sum log w.

    The inverses of B_c are kept: C n^2 numbers.
    """

    def __init__(self, prior, P, weight):
        self.prior, self.root, self.weight = prior, np.sqrt(weight[:, None] * P), weight
        self.curved = [prior.curved(d) for d in (weight[:, None] * P).T]
        total = np.zeros_like(prior.K)
        for curved in self.curved:
            E = curved.inverse * curved.root
            E *= curved.root[:, None]
            total += E
        self.M = _cholesky_of_sum(total)

    @property
    def log_det(self):
        """log|I + K W|."""
        each = sum(curved.log_det for curved in self.curved)
        return each + 2.0 * np.log(np.diag(self.M)).sum() - np.log(self.weight).sum()

    def times(self, V):
        """Return R V for V (n, C)."""
        EV = self._each(V)
        common = _solve(self.M, _solve(self.M, EV.sum(axis=1)), trans="T")
        return EV - self._each(np.broadcast_to(common[:, None], V.shape))

    def _each(self, V):
        """Return E_c v_c of every class."""
        X = self.root * V
        return self.root * np.column_stack([c.inverse @ x for c, x in zip(self.curved, X.T, strict=True)])

    @cached_property
    def _halves(self):
        """M^-1 D_c^1/2 (I - B_c^-1) of every class, (C, n, n)."""
        halves = []
        for curved in self.curved:
            right = -curved.root[:, None] * curved.inverse
            right.flat[:: len(right) + 1] += curved.root
            halves.append(_solve(self.M, right))
        return np.stack(halves)

    def variances(self):
        """Return the blocks of V = K - K R K of each row, (n, C, C).

        From p^1/2 V p^1/2, whose error is rounding: what is right only up to a factor p^-1/2 for classes that
        a row excludes is multiplied by their p wherever it is used.
        """
        S = np.einsum("cmi,dmi->icd", self._halves, self._halves)
        for c, curved in enumerate(self.curved):
            S[:, c, c] += 1.0 - np.diag(curved.inverse)
        root = np.maximum(self.root, np.sqrt(np.finfo(np.float64).tiny))
        return S / root[:, :, None] / root[:, None, :]

    def sensitivity(self, left, right):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - sum_c R_cc/2."""
        total = np.zeros_like(self.prior.K)
        for curved in self.curved:
            E = curved.inverse * curved.root
            E *= curved.root[:, None]
            half = _solve(self.M, E)
            E -= half.T @ half
            total += E
        return dense_sensitivity(self.prior, left, right, total)


class FactorSoftmax:
    """R for the softmax from a factor K = Phi Phi': one Cholesky factorisation of r (C - 1) rows.

    Parameters
    ----------
    prior : FactorPrior
        Prior of each class.
    P : ndarray of shape (n, C)
        Probabilities.
    weight : ndarray of shape (n,)
        Positive weights of the rows.

    Notes
    -----
    In contrasts H (C, C - 1), W~ = H'W H, and A = I + sum_i W~_i x phi_i phi_i' has the blocks
    [c = d] I + Phi'diag(W~_cd) Phi: O(n (r (C - 1))^2). R = W - W F A^-1 F'W, F = I x Phi.
    """

    def __init__(self, prior, P, weight):
        self.prior, self.H = prior, contrasts(P.shape[1])
        PH = P @ self.H
        self.W = np.einsum("i,ic,cj,ck->ijk", weight, P, self.H, self.H)
        self.W -= weight[:, None, None] * PH[:, :, None] * PH[:, None, :]
        self.L = lower_cholesky(self._system())

    def _system(self):
        """Return the lower triangle of A, which is enough for its Cholesky factor."""
        (_, r), m = self.prior.Phi.shape, self.H.shape[1]
        A = np.zeros((m, r, m, r))
        for j in range(m):
            for k in range(j + 1):
                A[j, :, k] = self.prior.Phi.T @ (self.W[:, j, k, None] * self.prior.Phi)
        return A.reshape(m * r, m * r) + np.eye(m * r)

    @property
    def log_det(self):
        """log|I + K W|."""
        return 2.0 * np.log(np.diag(self.L)).sum()

    def times(self, V):
        """Return R V for V (n, C)."""
        WV = np.einsum("ijk,ik->ij", self.W, V @ self.H)
        inner = (self.prior.Phi.T @ WV).T.ravel()
        inner = _solve(self.L, _solve(self.L, inner), trans="T").reshape(self.H.shape[1], -1)
        back = self.prior.Phi @ inner.T
        return (WV - np.einsum("ijk,ik->ij", self.W, back)) @ self.H.T

    @cached_property
    def _inverse(self):
        """A^-1 as blocks, (m, r, m, r)."""
        (_, r), m = self.prior.Phi.shape, self.H.shape[1]
        half = _solve(self.L, np.eye(m * r))
        return (half.T @ half).reshape(m, r, m, r)

    def variances(self):
        """Return the blocks of V of each row, (n, C, C); what is common to all classes is left out."""
        Phi, m = self.prior.Phi, self.H.shape[1]
        S = np.empty((len(Phi), m, m))
        for j in range(m):
            for k in range(j + 1):
                S[:, j, k] = S[:, k, j] = np.einsum("ir,ir->i", Phi @ self._inverse[j, :, k], Phi)
        return self.H @ S @ self.H.T

    def sensitivity(self, left, right):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - sum_c R_cc/2; R F = W F A^-1."""
        R_Phi, m = np.zeros_like(self.prior.Phi), self.H.shape[1]
        for j in range(m):
            for k in range(m):
                R_Phi += self.W[:, j, k, None] * (self.prior.Phi @ self._inverse[k, :, j])
        return self.prior.sensitivity(left, right, R_Phi)


class AlikeClasses:
    """R for a curvature that is the same for all contrasts of the classes: R_1 x (I - 11'/C).

    Parameters
    ----------
    curved : DenseCurved or FactorCurved
        R_1 of one latent function.
    n_classes : int
        C; 1 stands for a single latent function.
    """

    def __init__(self, curved, n_classes):
        self.one, self.n_classes = curved, n_classes
        self.n_contrasts = max(1, n_classes - 1)

    @property
    def log_det(self):
        """log|I + K W|."""
        return self.n_contrasts * self.one.log_det

    def times(self, V):
        """Return R V for V (n, C)."""
        return self.one.times(V if self.n_classes == 1 else V - V.mean(axis=1, keepdims=True))

    def explained(self, cross):
        """Return c'R_1 c for each row of `cross`."""
        return self.one.explained(cross)

    def variances(self):
        """Return the variances of one latent function."""
        return self.one.variances()

    def sensitivity(self, left, right):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - (C - 1) R_1/2."""
        k = self.n_contrasts
        part = self.one.sensitivity(left / k, right)
        weights = part.weights
        weights = tuple(k * w for w in weights) if isinstance(weights, tuple) else weights
        if isinstance(weights, np.ndarray):
            weights = k * weights
        return Sensitivity(weights, k * part.by_log_scale)


def _cholesky_of_sum(total):
    """Return the Cholesky factor of a positive definite sum; what rounding took is given back if it must."""
    try:
        return lower_cholesky(total)
    except IndefiniteKernelError:
        jitter = len(total) * np.finfo(np.float64).eps * np.diag(total).max()
        return lower_cholesky(total + jitter * np.eye(len(total)))


def _solve(L, X, trans="N"):
    return solve_triangular(L, X, lower=True, trans=trans, check_finite=False)
