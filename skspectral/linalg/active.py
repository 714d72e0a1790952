"""What a few functions, each with a prior variance of its own, leave for all the others to explain."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dgeqrf, dorgqr, dposv, dtpmqrt, dtpqrt, dtrtri

__all__ = ["Active", "FunctionValues", "descent_direction"]

# Share of phi'phi below which a function is taken for a combination of the active ones.
_DEPENDENT = 1e-10
# Dimensions that all columns may have, at first; random combinations of columns to check it; what is left of
# these then, and what more dimensions may remove.
_FEW, _CHECKS, _NEGLIGIBLE, _HOPEFUL = 64, 4, 1e-14, 1e-7
# Columns that LAPACK treats at a time, and where both parts of a matrix are triangular.
_BLOCK, _SMALL_BLOCK = 64, 8
_TINY = np.finfo(np.float64).tiny
# What is added to the expected curvature of functions alike.
_FLATTEST = 1e-10
# How much of the expected curvature may be added to the curvature, and the gradient at which it replaces it.
_SHARES = 0.01 * 2.0 ** np.arange(8)
_FAR = 0.5


@dataclass(frozen=True)
class FunctionValues:
    """Functions and a target on the rows, or in any orthonormal basis of a space that holds the functions.

    Attributes
    ----------
    Phi : ndarray of shape (n, k)
        One column for each function, of length 1 or 0.
    y : ndarray of shape (n,)
        The target.
    outside : float
        Squared length of what the target has outside of that space.
    is_triangular : bool
        Whether Phi is square and upper triangular.
    """

    Phi: np.ndarray
    y: np.ndarray
    outside: float = 0.0
    is_triangular: bool = False

    @classmethod
    def on_rows(cls, Phi, Y):
        """Return the functions with each column of Y (n, m), on fewer than n coordinates where that is so."""
        n, k = Phi.shape
        triangular = n > 2 * k
        if triangular:
            R, coordinates, outside = _triangular(Phi, Y)
        else:
            Q = _span_of_few(Phi)
            if Q is None:
                return [cls(Phi, y) for y in Y.T]
            R, coordinates = Q.T @ Phi, Q.T @ Y
            outside = np.sum((Y - Q @ coordinates) ** 2, axis=0)
        return [cls(R, y, float(r), triangular) for y, r in zip(coordinates.T, outside, strict=True)]

    @cached_property
    def yy(self):
        """Squared length of the target."""
        return float(self.y @ self.y) + self.outside

    def __len__(self):
        return self.Phi.shape[1]

    def most_alike(self, j):
        """Return the other function whose column is nearest to that of j or its opposite, or None."""
        alike = np.abs(self.Phi[:, j] @ self.Phi)
        alike[j] = -1.0
        return int(np.argmax(alike)) if len(alike) > 1 else None

    def among(self, a):
        """Return the functions a alone, on as many coordinates where there are more."""
        Phi = self.Phi[:, a]
        if len(Phi) < len(a):
            return FunctionValues(Phi, self.y, self.outside)
        R, y, outside = _triangular(Phi, self.y[:, None])
        return FunctionValues(R, y[:, 0], float(outside[0]) + self.outside, True)


class Active:
    """The model y ~ N(0, C), C = I + Phi diag(d) Phi', of functions Phi with prior variances d >= 0.

    A function is active where d > 0. Noise has variance 1: d are prior variances relative to the noise.

    Parameters
    ----------
    values : FunctionValues
        All functions and the target.
    d : ndarray of shape (k,)
        Prior variances, 0 for a function that is not active.

    Attributes
    ----------
    members : ndarray of shape (M,)
        Active functions, in the order of their coefficients.
    undetermined : ndarray of shape (M,)
        Posterior over prior variance of their coefficients, 1 - d S without its cancellation.
    rest : float
        y'C^-1 y.
    log_det : float
        log|C|.
    S, Q : ndarray of shape (k,)
        phi_i'C^-1 phi_i and phi_i'C^-1 y of every function; good for those that are not active.
    S_members, Q_members : ndarray of shape (M,)
        The same of active functions, without differences of large numbers.

    Notes
    -----
    With the QR decomposition of the active columns above an identity, [Phi D^1/2; I] = [Q_1; Q_2] R,

        C^-1 = I - Q_1 Q_1',   log|C| = 2 log|R|,   Q_2 = R^-1,
        covariance of coefficients D^1/2 Q_2 Q_2' D^1/2.

    Orthogonality keeps the digits that the normal equations lose where functions are alike and noise is
    small, which is the ordinary case for smooth kernels. A function that enters appends a column: O(n k). Any
    other change starts afresh, O(n M^2), and n M k where S and Q of all functions are asked for. Where Phi is
    triangular both parts are, and stay so.
    """

    def __init__(self, values, d):
        self.values = values
        self.d = np.array(d, dtype=np.float64)
        self.refresh()

    def refresh(self):
        """Compute everything from d."""
        self.members = np.flatnonzero(self.d)
        self._on_rows = self._watched = self._room = None
        if self.values.is_triangular and 0 < len(self.members) == len(self.values):
            self._decompose_triangles()
        else:
            self._decompose()

    def _decompose(self):
        """Compute what is known of the active functions."""
        M = len(self.members)
        factor, tau = _reflectors(self._augmented(self.members))
        self._reflectors = factor, tau
        self._Q2 = np.triu(dtrtri(factor[:M, :M])[0]) if M else np.zeros((0, 0))
        self.log_det = 2.0 * np.log(np.abs(factor.diagonal()[:M])).sum()
        self._settle(factor[:M, M], factor[M, M] ** 2)

    def _decompose_triangles(self):
        """Do the same where all functions are active and triangular: a quarter of the work."""
        M, columns = len(self.members), self.values.Phi * np.sqrt(self.d)
        R, V, T, _ = dtpqrt(M, min(M, _SMALL_BLOCK), np.asfortranarray(columns), np.eye(M, order="F"))
        w, rest, _ = dtpmqrt(M, V, T, self.values.y[:, None], np.zeros((M, 1)), trans="T")
        self._reflectors, self._Q2 = None, dtrtri(R)[0]
        self.log_det = 2.0 * np.log(np.abs(R.diagonal())).sum()
        self._settle(w[:, 0], rest[:, 0] @ rest[:, 0])

    def _augmented(self, a):
        """Return [Phi D^1/2, y; I, 0]: the last column of its R is Q_1'y above the root of y'C^-1 y."""
        n, M = len(self.values.y), len(a)
        columns = np.zeros((n + M, M + 1), order="F")
        np.multiply(self.values.Phi[:, a], np.sqrt(self.d[a]), out=columns[:n, :M])
        columns[:n, M] = self.values.y
        columns[n + np.arange(M), np.arange(M)] = 1.0
        return columns

    def _settle(self, w, rest):
        """Compute what is known of the active functions, given w = Q_1'y and y'C^-1 y."""
        d = self.d[self.members]
        self._w, self.rest, self._among = w, rest + self.values.outside, None
        self.undetermined = np.einsum("ij,ij->i", self._Q2, self._Q2)
        self.S_members = (1.0 - self.undetermined) / d
        self.Q_members = self._Q2 @ w / np.sqrt(d)

    def _rows(self):
        """Return Q_1 and C^-1 y, which only other functions ask for."""
        if self._on_rows is None:
            n, M = len(self.values.y), len(self.members)
            if self._reflectors is None:
                self._decompose()
            factor, tau = self._reflectors
            Q1 = dorgqr(factor[:, :M], tau[:M], lwork=_BLOCK * M)[0][:n] if M else np.zeros((n, 0))
            self._on_rows = Q1, self.values.y - Q1 @ self._w
        return self._on_rows

    def _watch(self):
        """Return S and Q of all functions, with what rounding left of S."""
        if self._watched is None:
            Q1, left = self._rows()
            self._watched = _outside(Q1, self.values.Phi), left @ self.values.Phi
        return self._watched

    @property
    def S(self):
        """phi_i'C^-1 phi_i, 0 where the active functions span function i."""
        S = self._watch()[0]
        return np.where(S < _DEPENDENT, 0.0, S)

    @property
    def Q(self):
        """phi_i'C^-1 y."""
        return self._watch()[1]

    def move(self, j, d_new):
        """Change the prior variance of one function."""
        enters = self.d[j] == 0
        self.d[j] = d_new
        if enters:
            self._append(j)
        else:
            self.refresh()

    def _append(self, j):
        """Take in function j: a new last column of Q_1 and Q_2."""
        (S, Q), (_, left), M = self._watch(), self._rows(), len(self.members)
        new, lower, pivot = self._new_column(self.values.Phi[:, j], np.sqrt(self.d[j]))
        w, t = new @ self.values.y, new @ self.values.Phi
        Q1, Q2 = self._with_room()
        Q1[:, M], Q2[:M, M], Q2[M, M] = new, lower, 1.0 / pivot
        self._Q2, self._on_rows = Q2[: M + 1, : M + 1], (Q1[:, : M + 1], left - w * new)
        self._watched = S - t**2, Q - w * t
        self.members = np.append(self.members, j)
        self.log_det += 2.0 * np.log(pivot)
        self._settle_appended(np.append(self._w, w))

    def _with_room(self):
        """Return matrices that begin with Q_1 and Q_2 and have room for another column."""
        M = len(self.members)
        if self._room is None or self._room[0].shape[1] == M:
            parts, size = (self._rows()[0], self._Q2), 2 * M + 8
            self._room = np.empty((len(parts[0]), size), order="F"), np.zeros((size, size), order="F")
            for large, part in zip(self._room, parts, strict=True):
                large[: len(part), :M] = part
        return self._room

    def _new_column(self, phi, root):
        """Return the new column, its upper and lower part, and the new diagonal entry of R."""
        Q1, Q2 = self._rows()[0], self._Q2
        t = Q1.T @ phi
        new, lower = root * (phi - Q1 @ t), -root * (Q2 @ t)
        t = Q1.T @ new + Q2.T @ lower  # twice: what rounding left of the others
        new, lower = new - Q1 @ t, lower - Q2 @ t
        pivot = np.sqrt(new @ new + lower @ lower + 1.0)
        return new / pivot, lower / pivot, pivot

    def _settle_appended(self, w):
        left, lower = self._on_rows[1], self._Q2 @ w
        self._settle(w, left @ left + lower @ lower)

    def of_others(self, Phi):
        """Return phi'C^-1 phi and phi'C^-1 y of other functions (n, k), 0 where the active ones span them."""
        Q1, left = self._rows()
        S = _outside(Q1, Phi)
        return np.where(S < _DEPENDENT, 0.0, S), left @ Phi

    def with_function(self, Phi, here, values):
        """Return phi'C^-1 phi of other functions (n, k), and what the active ones leave of each at a point.

        `here` (k, M) and `values` (k,) are the active and the other function at these points.
        """
        Q1, _ = self._rows()
        T, S = Q1.T @ Phi, np.maximum(_outside(Q1, Phi), 0.0)
        explained = np.sqrt(self.d[self.members])[:, None] * (self._Q2 @ T)
        return S, values - np.einsum("kj,jk->k", here, explained)

    def members_left_out(self):
        """Return phi_i'C_i^-1 phi_i, phi_i'C_i^-1 y and y'C_i^-1 y of active i, C_i the C without it."""
        share, d, q = self.undetermined, self.d[self.members], self.Q_members
        return self.S_members / share, q / share, self.rest + d * q**2 / share

    def among_members(self):
        """Return d_i^1/2 phi_i'C^-1 phi_j d_j^1/2 for all active i and j, (M, M)."""
        if self._among is None:
            self._among = np.eye(len(self.members)) - self._Q2 @ self._Q2.T
        return self._among

    def coefficients(self):
        """Return the posterior means of the coefficients of the active functions."""
        return self.d[self.members] * self.Q_members

    def covariance_root(self):
        """Return A (M, M) with the posterior covariance AA' of these coefficients, noise of variance 1."""
        return np.sqrt(self.d[self.members])[:, None] * self._Q2


def _reflectors(A):
    """Return the QR decomposition of A (Fortran order, overwritten) as LAPACK keeps it."""
    return dgeqrf(A, lwork=_BLOCK * A.shape[1], overwrite_a=1)[
        :2
    ]  # its default is room for small blocks only


def _triangular(Phi, Y):
    """Return columns and targets in a basis in which the columns are triangular, and |y|^2 outside of it."""
    k = Phi.shape[1]
    columns = np.empty((len(Phi), k + Y.shape[1]), order="F")
    columns[:, :k], columns[:, k:] = Phi, Y
    factor, _ = _reflectors(columns)
    return np.triu(factor[:k, :k]), factor[:k, k:], np.sum(np.triu(factor[k:, k:]) ** 2, axis=0)


def _span_of_few(Phi):
    """Return an orthonormal basis of all columns (n, k), r of them for r <= n/4; None if that is not enough.

    The columns of smooth functions have few dimensions, to rounding. Random combinations of all of them span
    these, and others show it: what is left of them is hardly ever smaller than what is left of a column.
    """
    n, k = Phi.shape
    size, random = _FEW, np.random.default_rng(0)
    while size <= min(n, k) // 4:
        mixed = Phi @ random.normal(size=(k, size + _CHECKS))
        Q, check = qr(mixed[:, :size], mode="economic", check_finite=False)[0], mixed[:, size:]
        left = check - Q @ (Q.T @ check)
        left -= Q @ (Q.T @ left)
        share = np.linalg.norm(left) / max(np.linalg.norm(check), _TINY)
        if share <= _NEGLIGIBLE:
            return Q
        size = 2 * size if share < _HOPEFUL else n
    return None


def _outside(Q1, Phi):
    """Return phi'phi - |Q_1'phi|^2 of each column."""
    T = Q1.T @ Phi
    return np.einsum("ij,ij->j", Phi, Phi) - np.einsum("ij,ij->j", T, T)


def descent_direction(gradient, H, expected):
    """Return the Newton direction -H^-1 gradient, with `expected` and |gradient| in place of H if need be.

    `expected` is the mean of H over targets of the model, which is never negative. It is needed where H has
    negative curvature; with |gradient| on its diagonal no single entry of the step is much longer than 1.
    Where the gradient is small this is near a saddle, and as little of it as will do is added to H: the step
    is long in the directions that lead away.
    """
    direction, is_bowl = _solved(H, gradient)
    if is_bowl:
        return direction
    safe = expected + np.diag(np.abs(gradient) + _FLATTEST)
    is_far = np.abs(gradient).max() > _FAR
    return _solved(safe, gradient)[0] if is_far else _beside_saddle(gradient, H, safe)


def _solved(curvature, gradient):
    """Return the step to the bottom of a bowl, and whether it is one; else the steepest descent."""
    _, direction, info = dposv(curvature, -gradient)
    return (direction, True) if info == 0 else (-gradient, False)


def _beside_saddle(gradient, H, safe):
    """Return the step for the least of some shares of `safe` with which H is a bowl, found by bisection."""
    low, high, direction = 0, len(_SHARES), None
    while low < high:
        middle = (low + high) // 2
        step, is_bowl = _solved(H + _SHARES[middle] * safe, gradient)
        if is_bowl:
            high, direction = middle, step
        else:
            low = middle + 1
    return _solved(safe, gradient)[0] if direction is None else direction
