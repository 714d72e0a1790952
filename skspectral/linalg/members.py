"""The prior variances of few functions change; all other functions are out of sight."""

import math
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgeqrf, dormqr, dpotrf, dtrtri, dtrtrs

__all__ = ["Members"]

# Columns that LAPACK treats at a time.
_BLOCK = 64


class Members:
    """The model y ~ N(0, C), C = I + Phi D Phi', of M functions that are all active. It never changes.

    Attributes
    ----------
    d : ndarray of shape (M,)
        Prior variances relative to the noise, all positive.
    root : ndarray of shape (M, M)
        B^-1 = root root' for B = I + D^1/2 Phi'Phi D^1/2.
    w : ndarray of shape (M,)
        Target in the coordinates of root: D^1/2 Phi'C^-1 y = root w.
    pull : ndarray of shape (M,)
        That product, d_i^1/2 Q_i.
    rest, log_det : float
        y'C^-1 y and log|C|.
    yy : float
        y'y.

    Notes
    -----
    For prior variances d exp(x) and E = diag exp(x/2),

        B_new = E (B + Delta) E,   Delta = diag(exp(-x) - 1),
        W = root'(B + Delta)root = I + root'Delta root = LL',
        root_new = E^-1 root L^-T,   w_new = L^-1 w,   log|C_new| = log|C| + sum(x) + log|W|,
        y'C_new^-1 y = y'C^-1 y + sum_i Delta_i pull_i (root W^-1 w)_i.

    W is as well conditioned as x is small, however alike the functions are and however little noise there is:
    nothing is lost that an orthogonal decomposition of all columns keeps, for a Cholesky decomposition of W.
    """

    def __init__(self, d, root, w, pull, rest, log_det, yy):
        self.d, self.w, self.pull, self.rest, self.log_det, self.yy = d, w, pull, rest, log_det, yy
        self._root = root

    @cached_property
    def root(self):
        """Computed when asked for: the evidence does without, and not every step is taken."""
        if isinstance(self._root, np.ndarray):
            return self._root
        before, L, shrunk = self._root
        return dtrsm(1.0, L, before, side=1, lower=1, trans_a=1) * shrunk[:, None]

    @cached_property
    def undetermined(self):
        """Posterior over prior variance of the coefficients, (M,)."""
        return np.einsum("ij,ij->i", self.root, self.root)

    def among(self):
        """Return d_i^1/2 phi_i'C^-1 phi_j d_j^1/2 for all i and j, (M, M)."""
        V = self.root @ self.root.T
        np.negative(V, out=V)
        V.flat[:: len(V) + 1] += 1.0
        return V

    def left_out(self):
        """Return phi_i'C_i^-1 phi_i, phi_i'C_i^-1 y and y'C_i^-1 y of each i, C_i the C without it."""
        share = self.undetermined
        return (
            (1.0 - share) / (self.d * share),
            self.pull / (np.sqrt(self.d) * share),
            self.rest + self.pull**2 / share,
        )

    def scaled(self, x):
        """Return the model with prior variances d exp(x); None where rounding leaves no such model."""
        root, delta, shrunk = self.root, np.expm1(-x), np.exp(-0.5 * x)
        W = root.T @ (root * delta[:, None])
        W.flat[:: len(W) + 1] += 1.0
        L, info = dpotrf(W, lower=1, overwrite_a=1)
        if info:
            return None
        w = dtrtrs(L, self.w, lower=1)[0]
        moved = root @ dtrtrs(L, w, lower=1, trans=1)[0]
        rest = self.rest + (delta * self.pull) @ moved
        log_det = self.log_det + x.sum() + 2.0 * np.log(L.diagonal()).sum()
        return Members(
            self.d * np.exp(x), (root, L, shrunk), w, shrunk * moved, float(rest), float(log_det), self.yy
        )

    def joined(self, d, common, square, with_target):
        """Return the model with one more function, of prior variance d, which is the last one then.

        Given its products with the functions (M,), with itself and with the target. With t = root'D^1/2
        common, its S = square - t't and its Q = with_target - w't, the triangle R = root^-1 gains the column
        d^1/2 t above (1 + d S)^1/2.
        """
        t = (np.sqrt(self.d) * common) @ self.root
        S, Q = max(square - t @ t, 0.0), with_target - self.w @ t
        long = math.sqrt(1.0 + d * S)
        w = np.array([math.sqrt(d) * Q / long])
        return self.bordered(np.array([d]), math.sqrt(d) * t[:, None], np.array([[long]]), w)

    def bordered(self, d, above, corner, w):
        """Return the model with m more functions, of which the triangle R and the target's w are known.

        The columns of R are `above` (M, m) and the triangle `corner` (m, m) below, those of its inverse
        -root above corner^-1 and corner^-1.
        """
        size, m = len(self.d), len(d)
        inverse = dtrtri(corner)[0]
        root = np.zeros((size + m, size + m), order="F")
        root[:size, :size] = self.root
        root[:size, size:] = -(self.root @ (above @ inverse))
        root[size:, size:] = inverse
        d, w_new = np.concatenate([self.d, d]), np.concatenate([self.w, w])
        rest, log_det = self.rest - w @ w, self.log_det + 2.0 * np.log(corner.diagonal()).sum()
        return Members(d, root, w_new, root @ w_new, float(rest), float(log_det), self.yy)

    def without(self, leave):
        """Return the model without some functions, by a mask of them.

        With Q R the QR decomposition of the rows of root that leave, transposed, all others lose what they
        have in common with the first columns of Q: log|C_new| = log|C| + 2 log|R|.
        """
        stay, m = ~leave, np.count_nonzero(leave)
        if m == len(leave):
            none = np.zeros(0)
            return Members(none, np.zeros((0, 0)), none, none, self.yy, 0.0, self.yy)
        factor, tau, *_ = dgeqrf(self.root[leave].T)
        log_det = self.log_det + 2.0 * np.log(np.abs(factor.diagonal())).sum()
        size = _BLOCK * len(leave)
        root = dormqr("R", "N", factor, tau, self.root[stay], size)[0][:, m:]
        w = dormqr("L", "T", factor, tau, self.w[:, None], size)[0][:, 0]
        rest = self.rest + w[:m] @ w[:m]
        return Members(self.d[stay], root, w[m:], root @ w[m:], float(rest), float(log_det), self.yy)
