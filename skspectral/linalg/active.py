"""What a few functions, each with a prior variance of its own, leave for all the others to explain."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular

__all__ = ["Active", "FunctionValues", "descent_direction"]

# Share of phi'phi below which a function is taken for a combination of the active ones.
_DEPENDENT = 1e-10
# Smallest curvature that a Newton step believes, relative to the largest.
_FLATTEST = 1e-10


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
    """

    Phi: np.ndarray
    y: np.ndarray
    outside: float = 0.0

    @classmethod
    def on_rows(cls, Phi, Y):
        """Return the functions with each column of Y (n, m), on fewer than n coordinates where that is so."""
        n, k = Phi.shape
        if n <= 2 * k:
            return [cls(Phi, y) for y in Y.T]
        Q, R = qr(Phi, mode="economic", check_finite=False)
        left = Y - Q @ (Q.T @ Y)
        return [cls(R, Q.T @ y, float(r @ r)) for y, r in zip(Y.T, left.T, strict=True)]

    @property
    def yy(self):
        """Squared length of the target."""
        return float(self.y @ self.y) + self.outside

    def __len__(self):
        return self.Phi.shape[1]

    def among(self, a):
        """Return the functions a alone."""
        Phi = self.Phi[:, a]
        if len(Phi) <= 2 * len(a):
            return FunctionValues(Phi, self.y, self.outside)
        (values,) = FunctionValues.on_rows(Phi, self.y[:, None])
        return FunctionValues(values.Phi, values.y, values.outside + self.outside)


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
    other change starts afresh, O(n M^2), and n M k where S and Q of all functions are asked for.
    """

    def __init__(self, values, d):
        self.values = values
        self.d = np.array(d, dtype=np.float64)
        self.refresh()

    def refresh(self):
        """Compute everything from d."""
        self.members = np.flatnonzero(self.d)
        a, n = self.members, len(self.values.y)
        root = np.sqrt(self.d[a])
        augmented = np.vstack([self.values.Phi[:, a] * root, np.eye(len(a))])
        Q, R = qr(augmented, mode="economic", check_finite=False)
        self._Q1 = Q[:n]
        self._Q2 = solve_triangular(R, np.eye(len(a)), check_finite=False)
        self.log_det = 2.0 * np.log(np.abs(np.diag(R))).sum()
        self._watched = None
        self._settle()

    def _settle(self):
        """Compute what is known of the active functions and the target."""
        d, y = self.d[self.members], self.values.y
        w = self._Q1.T @ y
        left = y - self._Q1 @ w
        self._left = left
        self.rest = left @ left + np.sum((self._Q2 @ w) ** 2) + self.values.outside
        self.undetermined = np.einsum("ij,ij->i", self._Q2, self._Q2)
        self.S_members = (1.0 - self.undetermined) / d
        self.Q_members = self._Q2 @ w / np.sqrt(d)

    def _watch(self):
        if self._watched is None:
            Phi = self.values.Phi
            T = self._Q1.T @ Phi
            self._watched = np.einsum("ij,ij->j", Phi, Phi) - np.einsum("ij,ij->j", T, T)
        return self._watched

    @property
    def S(self):
        """phi_i'C^-1 phi_i, 0 where the active functions span function i."""
        S = self._watch()
        return np.where(S < _DEPENDENT, 0.0, S)

    @property
    def Q(self):
        """phi_i'C^-1 y."""
        return self._left @ self.values.Phi

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
        S, phi, root = self._watch(), self.values.Phi[:, j], np.sqrt(self.d[j])
        t = self._Q1.T @ phi
        new = root * (phi - self._Q1 @ t)
        lower = -root * (self._Q2 @ t)
        t = self._Q1.T @ new + self._Q2.T @ lower  # twice: what rounding left of the others
        new, lower = new - self._Q1 @ t, lower - self._Q2 @ t
        pivot = np.sqrt(new @ new + lower @ lower + 1.0)
        self._Q1 = np.column_stack([self._Q1, new / pivot])
        M = len(self.members)
        Q2 = np.zeros((M + 1, M + 1))
        Q2[:M, :M], Q2[:M, M], Q2[M, M] = self._Q2, lower / pivot, 1.0 / pivot
        self._Q2 = Q2
        self.members = np.append(self.members, j)
        self.log_det += 2.0 * np.log(pivot)
        self._watched = S - ((new / pivot) @ self.values.Phi) ** 2
        self._settle()

    def of_others(self, Phi):
        """Return phi'C^-1 phi and phi'C^-1 y of other functions (n, k), 0 where the active ones span them."""
        T = self._Q1.T @ Phi
        S = np.einsum("ij,ij->j", Phi, Phi) - np.einsum("ij,ij->j", T, T)
        return np.where(S < _DEPENDENT, 0.0, S), self._left @ Phi

    def with_function(self, Phi, here, values):
        """Return phi'C^-1 phi of other functions (n, k), and what the active ones leave of each at a point.

        `here` (k, M) and `values` (k,) are the active and the other function at these points.
        """
        T = self._Q1.T @ Phi
        S = np.maximum(np.einsum("ij,ij->j", Phi, Phi) - np.einsum("ij,ij->j", T, T), 0.0)
        explained = np.sqrt(self.d[self.members])[:, None] * (self._Q2 @ T)
        return S, values - np.einsum("kj,jk->k", here, explained)

    def members_left_out(self):
        """Return phi_i'C_i^-1 phi_i, phi_i'C_i^-1 y and y'C_i^-1 y of active i, C_i the C without it."""
        share, d, q = self.undetermined, self.d[self.members], self.Q_members
        return self.S_members / share, q / share, self.rest + d * q**2 / share

    def among_members(self):
        """Return d_i^1/2 phi_i'C^-1 phi_j d_j^1/2 for all active i and j, (M, M)."""
        return np.eye(len(self.members)) - self._Q2 @ self._Q2.T

    def coefficients(self):
        """Return the posterior means of the coefficients of the active functions."""
        return self.d[self.members] * self.Q_members

    def covariance_root(self):
        """Return A (M, M) with the posterior covariance AA' of these coefficients, noise of variance 1."""
        return np.sqrt(self.d[self.members])[:, None] * self._Q2


def descent_direction(gradient, H):
    """Return the Newton direction -|H|^-1 gradient: negative curvature counts by its size."""
    w, U = eigh(H, check_finite=False)
    size = np.abs(w)
    size = np.maximum(size, _FLATTEST * size.max(initial=1.0))
    return -U @ (U.T @ gradient / size)
