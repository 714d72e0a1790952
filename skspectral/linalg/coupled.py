"""Curvatures that couple all rows through the squares of a low-rank matrix, without matrices n x n.

    W = diag(d) + c (E E') o (E E') - B B',    E (n, q), B (n, q) or none, o the product of entries.

Everything follows from the moments S_abk = sum_i E_ia E_ib V_ik, a third-order tensor of size q^2 m: for the
columns of V, W V and V'W V cost O(n q^2 m), and memory is O(n (q + m) + q^2 m). Nothing is approximated.

For steps towards a mode there is a cheaper curvature, W with the sum of each row of (E E') o (E E') on its
diagonal: what it is for latent values that hardly change where E E' is large.
"""

import numpy as np

__all__ = ["CoupledCurvature", "LumpedCurvature", "SquaredProducts"]

# Columns up to which a product with each of them is faster than one with all for each row of moments.
_FEW = 3


class SquaredProducts:
    """(E E') o (E E'), whose entries are the squares of those of E E'.

    Parameters
    ----------
    E : ndarray of shape (n, q)
        Any matrix.
    """

    def __init__(self, E):
        self.E = E
        self._last, self._last_span = (None, None), (None, None, None)

    def moments(self, V):
        """Return S (q, q, m) with S_abk = sum_i E_ia E_ib V_ik for V (n, m).

        Those of the last V of many columns are kept, as long as it is the same object.
        """
        if V.shape[1] <= _FEW:
            return self._few_moments(V)
        if self._last[0] is not V:
            self._last = V, self._many_moments(V)
        return self._last[1]

    def _few_moments(self, V):
        return np.stack([(self.E.T * v) @ self.E for v in V.T], axis=2)

    def _many_moments(self, V):
        q = self.E.shape[1]
        S = np.empty((q, q, V.shape[1]))
        for a in range(q):
            S[a, a:] = self.E[:, a:].T @ (self.E[:, a, None] * V)
            S[a:, a] = S[a, a:]
        return S

    def spread(self, S):
        """Return sum_ab E_ia E_ib S_abk, (n, m), for S that is symmetric in a and b."""
        if S.shape[2] <= _FEW:
            return np.stack([self.forms(S[:, :, k]) for k in range(S.shape[2])], axis=1)
        out = np.zeros((len(self.E), S.shape[2]))
        for a in range(len(S)):
            both = 2.0 * S[a, a:]
            both[0] *= 0.5
            out += self.E[:, a, None] * (self.E[:, a:] @ both)
        return out

    def span(self, V, M):
        """Return moments and their spread of V M, for V (n, m) and M (m, k); those of the last are kept."""
        if self._last_span[0] is not V or self._last_span[1] is not M:
            S = self.moments(V) @ M
            self._last_span = V, M, (S, self.spread(S))
        return self._last_span[2]

    def forms(self, M):
        """Return e_i'M e_i of all rows, (n,)."""
        return np.einsum("ia,ia->i", self.E @ M, self.E)

    @property
    def row_sums(self):
        """Sums of the rows of the matrix, (n,)."""
        return self.forms(self.E.T @ self.E)


class LumpedCurvature:
    """diag(d) - B B', with the verbs that `curved` needs of a curvature.

    Parameters
    ----------
    diagonal : ndarray of shape (n,)
        d.
    B : ndarray of shape (n, q), default=None
        What is taken off.
    """

    ndim = 2

    def __init__(self, diagonal, B=None):
        self.diagonal, self.B = diagonal, B

    def __matmul__(self, V):
        """Return W V, (n, m)."""
        out = self.diagonal[:, None] * V
        return out if self.B is None else out - self.B @ (self.B.T @ V)

    def quadratic(self, V):
        """Return V'W V, (m, m)."""
        out = (self.diagonal[:, None] * V).T @ V
        if self.B is None:
            return out
        taken = self.B.T @ V
        return out - taken.T @ taken

    def times_span(self, V, M):
        """Return W V M for V (n, m) and M (m, k)."""
        return self @ (V @ M)


class CoupledCurvature(LumpedCurvature):
    """W itself.

    Parameters
    ----------
    diagonal, B
        As in `LumpedCurvature`.
    squares : SquaredProducts
        What couples rows.
    factor : float
        c.
    """

    def __init__(self, diagonal, squares, factor, B=None):
        super().__init__(diagonal, B)
        self.squares, self.factor = squares, factor

    def lumped(self):
        """Return the curvature with the coupling of each row on its diagonal."""
        return LumpedCurvature(self.diagonal + self.factor * self.squares.row_sums, self.B)

    def __matmul__(self, V):
        """Return W V, (n, m)."""
        return super().__matmul__(V) + self.factor * self.squares.spread(self.squares.moments(V))

    def quadratic(self, V):
        """Return V'W V, (m, m)."""
        S = self.squares.moments(V).reshape(-1, V.shape[1])
        return super().quadratic(V) + self.factor * (S.T @ S)

    def times_span(self, V, M):
        """Return W V M for V (n, m) and M (m, k), from the moments of V, which may be at hand."""
        return super().__matmul__(V @ M) + self.factor * self.squares.span(V, M)[1]
