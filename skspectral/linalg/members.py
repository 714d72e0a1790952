"""The prior variances of few functions change; all other functions are out of sight."""

from functools import partial

import numpy as np
from scipy.linalg.blas import ddot, dgemm, dgemv, dtrsm
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
    turn : callable or None
        turn(rows) takes rows (k, M_0) in the coordinates of the root of the model that this one was made of,
        by `scaled` or `without`, to those of its own root.

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

    # What is computed when asked for is kept in plain attributes: a cached property has a lock, which takes
    # as long as the arithmetic of few functions.
    def __init__(self, d, root, w, pull, rest, log_det, yy, turn=None):
        self.d, self.w, self.pull, self.rest, self.log_det, self.yy = d, w, pull, rest, log_det, yy
        self._root, self.turn = root, turn
        self._inverse = None

    @property
    def root(self):
        """Computed when asked for: the evidence does without, and not every step is taken."""
        if isinstance(self._root, tuple):
            before, shrunk = self._root
            self._root = self.turn(before)
            self._root *= shrunk[:, None]
        return self._root

    @property
    def inverse(self):
        """B^-1, (M, M)."""
        if self._inverse is None:
            self._inverse = self.root @ self.root.T
        return self._inverse

    @property
    def undetermined(self):
        """Posterior over prior variance of the coefficients, (M,)."""
        return self.inverse.diagonal()

    def among(self):
        """Return d_i^1/2 phi_i'C^-1 phi_j d_j^1/2 for all i and j, (M, M)."""
        V = -self.inverse
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
        W = dgemm(1.0, root, delta[:, None] * root, trans_a=1)
        W.flat[:: len(W) + 1] += 1.0
        L, info = dpotrf(W, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        w = dtrtrs(L, self.w, lower=1)[0]
        moved = dgemv(1.0, root, dtrtrs(L, w, lower=1, trans=1)[0])
        rest = self.rest + ddot(delta * self.pull, moved)
        log_det = self.log_det + float(np.add.reduce(x + 2.0 * np.log(L.diagonal())))
        turn = partial(dtrsm, 1.0, L, side=1, lower=1, trans_a=1)
        d, pull = self.d / (shrunk * shrunk), shrunk * moved
        return Members(d, (root, shrunk), w, pull, rest, log_det, self.yy, turn)

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
            return Members(none, np.zeros((0, 0)), none, none, self.yy, 0.0, self.yy, _to_nothing)
        factor, tau, *_ = dgeqrf(self.root[leave].T)
        log_det = self.log_det + 2.0 * np.log(np.abs(factor.diagonal())).sum()

        def turn(rows):
            return dormqr("R", "N", factor, tau, rows, _BLOCK * len(rows))[0][:, m:]

        root, w = turn(self.root[stay]), dormqr("L", "T", factor, tau, self.w[:, None], _BLOCK)[0][:, 0]
        rest = self.rest + w[:m] @ w[:m]
        pull = root @ w[m:]
        return Members(self.d[stay], root, w[m:], pull, float(rest), float(log_det), self.yy, turn)


def _to_nothing(rows):
    return rows[:, :0]
