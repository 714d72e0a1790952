"""Orthonormal vectors that stay in the reflectors of a QR decomposition."""

import numpy as np
from scipy.linalg import eigh, svd
from scipy.linalg.lapack import dgemqrt, dgeqrt

__all__ = ["ReflectedVectors", "left_singular"]

# Reflectors that are applied together.
_BLOCK = 64


class ReflectedVectors:
    """Orthonormal vectors Q_f W kept as the Householder reflectors of a QR decomposition.

    By geqrt and gemqrt, which only read the reflectors. (ormqr writes into them and puts back what was there,
    which threads that share them, and memory that is mapped for reading, do not survive.)

    Parameters
    ----------
    reflectors, blocks
        As LAPACK's geqrt returns them.
    W : ndarray of shape (r, k)
        Orthonormal columns in the coordinates of R.
    """

    def __init__(self, reflectors, blocks, W):
        self.reflectors, self.blocks, self.W = reflectors, blocks, W
        self.shape = len(reflectors), W.shape[1]

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        """Return the chosen vectors, ``vectors[:, columns]``."""
        every_row, columns = index
        if every_row != slice(None):
            raise IndexError("Reflected vectors have no rows to choose from; use np.asarray first.")
        return ReflectedVectors(self.reflectors, self.blocks, self.W[:, columns])

    def __matmul__(self, weights):
        """Return Q_f [W weights; 0]."""
        padded = np.zeros((len(self), weights.shape[1]), order="F")
        padded[: len(self.W)] = self.W @ weights
        return self._apply(padded, "N")

    @property
    def T(self):
        """The transpose, for products with (n, k) arrays."""
        return _Transposed(self)

    def __array__(self, dtype=None, copy=None):
        return self @ np.eye(self.shape[1])

    def _apply(self, block, trans):
        if not block.shape[1]:
            return block
        return dgemqrt(self.reflectors, self.blocks, block, side="L", trans=trans, overwrite_c=True)[0]


class _Transposed:
    def __init__(self, vectors):
        self.vectors = vectors

    def __matmul__(self, Z):
        rotated = self.vectors._apply(np.array(Z, order="F"), "T")
        return self.vectors.W.T @ rotated[: len(self.vectors.W)]


def left_singular(both, q, *, by_squares=False):
    """Return the left singular vectors U, singular values and U'Phi of what Phi has outside span(Q).

    Parameters
    ----------
    both : ndarray of shape (n, q + r)
        [Q, Phi]; it is overwritten.
    q : int
        Columns of Q.
    by_squares : bool, default=False
        Whether to go through the eigenvalues of R R', twice as fast as the singular values of R, where
        values below the square root of rounding are not needed.
    """
    n, columns = both.shape
    if n < columns:
        Q, Phi = both[:, :q], both[:, q:]
        U, root_s, Vt = svd(Phi - Q @ (Q.T @ Phi), full_matrices=False, check_finite=False)
        return U - Q @ (Q.T @ U), root_s, root_s[:, None] * Vt
    reflectors, blocks, _ = dgeqrt(min(_BLOCK, columns), both, overwrite_a=True)
    R = np.triu(reflectors[q:columns, q:])
    if by_squares:
        s, W = eigh(R @ R.T, overwrite_a=True, driver="evd", check_finite=False)
        root_s, W = np.sqrt(np.maximum(s[::-1], 0.0)), W[:, ::-1]
        loadings = W.T @ R
    else:
        W, root_s, Vt = svd(R, full_matrices=False, overwrite_a=True, check_finite=False)
        loadings = root_s[:, None] * Vt
    return ReflectedVectors(reflectors, blocks, np.concatenate([np.zeros((q, len(W))), W])), root_s, loadings
