"""Curvatures that couple all rows through the squares of a low-rank matrix, without matrices n x n.

    W = diag(d) + c (E E') o (E E') - B B',    E (n, q), B (n, q) or none, o the product of entries.

Everything follows from the sums S_abk = sum_i E_ia E_ib V_ik, a third-order tensor of size q^2 m: for the
columns of V, W V and V'W V cost O(n q^2 m), and memory is O(n (q + m) + q^2 m). Nothing is approximated.
"""

import numpy as np

__all__ = ["CoupledCurvature", "SquaredProducts"]


class SquaredProducts:
    """(E E') o (E E'), whose entries are the squares of those of E E'.

    Parameters
    ----------
    E : ndarray of shape (n, q)
        Any matrix.
    """

    def __init__(self, E):
        self.E = E

    def moments(self, V):
        """Return S (q, q, m) with S_abk = sum_i E_ia E_ib V_ik for V (n, m)."""
        q = self.E.shape[1]
        S = np.empty((q, q, V.shape[1]))
        for a in range(q):
            S[a, a:] = self.E[:, a:].T @ (self.E[:, a, None] * V)
            S[a:, a] = S[a, a:]
        return S

    def spread(self, S):
        """Return sum_ab E_ia E_ib S_abk, (n, m), for S that is symmetric in a and b."""
        out = np.zeros((len(self.E), S.shape[2]))
        for a in range(len(S)):
            both = 2.0 * S[a, a:]
            both[0] *= 0.5
            out += self.E[:, a, None] * (self.E[:, a:] @ both)
        return out

    def forms(self, M):
        """Return e_i'M e_i of all rows, (n,)."""
        return np.einsum("ia,ia->i", self.E @ M, self.E)


class CoupledCurvature:
    """W, with the verbs that `curved` needs of a curvature.

    Parameters
    ----------
    diagonal : ndarray of shape (n,)
        d.
    E : ndarray of shape (n, q)
        What couples rows.
    factor : float
        c.
    B : ndarray of shape (n, q), default=None
        What is taken off.
    """

    ndim = 2

    def __init__(self, diagonal, E, factor, B=None):
        self.diagonal, self.squares, self.factor, self.B = diagonal, SquaredProducts(E), factor, B

    def __matmul__(self, V):
        """Return W V, (n, m)."""
        coupled = self.factor * self.squares.spread(self.squares.moments(V))
        out = self.diagonal[:, None] * V + coupled
        return out if self.B is None else out - self.B @ (self.B.T @ V)

    def quadratic(self, V):
        """Return V'W V, (m, m)."""
        S = self.squares.moments(V).reshape(-1, V.shape[1])
        out = (self.diagonal[:, None] * V).T @ V + self.factor * (S.T @ S)
        if self.B is None:
            return out
        taken = self.B.T @ V
        return out - taken.T @ taken
