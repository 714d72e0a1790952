"""Orthonormal vectors that stay in the reflectors of a decomposition."""

from functools import cached_property
from numbers import Integral

import numpy as np
from scipy.linalg import eigh, svd
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dgemqrt, dgeqrt, dsyevd, dsytrd, dsytrd_lwork, dtrtri

from .reduced import Reduced, ReducedCoordinates, check_converged, dstevd

__all__ = ["ReducedVectors", "ReflectedVectors", "left_singular", "symmetric_eigen"]

# Reflectors that are applied together, unless it is to so few columns that the preparation costs more.
_BLOCK, _FEW_COLUMNS = 64, 4
# Rows up to which eigenvectors are formed at once, which is as fast as to do without.
_SMALL = 64


class ReflectedVectors:
    """Orthonormal vectors [0; Q_f W], Q_f kept as Householder reflectors, with rows of W on top of it.

    By geqrt's form and gemqrt, which only read the reflectors. (ormqr writes into them and puts back what was
    there, which threads that share them, and memory that is mapped for reading, do not survive.)

    Parameters
    ----------
    reflectors, blocks
        As LAPACK's geqrt returns them.
    W : ndarray of shape (offset + r, k)
        Orthonormal columns in the coordinates of R.
    offset : int, default=0
        First rows that no reflector touches; as many zeros follow below the vectors of the reflectors.
    """

    def __init__(self, reflectors, blocks, W, offset=0):
        self.reflectors, self.blocks, self.W, self.offset = reflectors, blocks, W, offset
        self.shape = len(reflectors), W.shape[1]

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        """Return the chosen vectors, ``vectors[:, columns]``; the numbers of a single one."""
        every_row, columns = index
        if every_row != slice(None):
            raise IndexError("Reflected vectors have no rows to choose from; use np.asarray first.")
        if isinstance(columns, Integral):
            return np.asarray(self[:, [columns]])[:, 0]
        return ReflectedVectors(self.reflectors, self.blocks, self.W[:, columns], self.offset)

    def __matmul__(self, weights):
        """Return Q_f [W weights; 0]."""
        return self._reflected(_times(self.W, weights))

    @property
    def T(self):
        """The transpose, for products with (n, k) arrays."""
        return _Transposed(self)

    def __array__(self, dtype=None, copy=None):
        return self._reflected(self.W)

    def _reflected(self, coordinates):
        reflected = self._apply(self._below_offset(coordinates), "N")
        return np.concatenate([coordinates[: self.offset], reflected[: len(self) - self.offset]])

    def _coordinates(self, Z):
        """Return Q_f'Z in the coordinates of W."""
        rotated = self._apply(self._below_offset(Z), "T")
        return np.concatenate([Z[: self.offset], rotated[: self._n_coordinates - self.offset]])

    @property
    def _n_coordinates(self):
        return len(self.W)

    def _below_offset(self, Z):
        """Return what reflectors act on, with zeros below."""
        padded = np.zeros((len(self), Z.shape[1]), order="F")
        padded[: len(Z) - self.offset] = Z[self.offset :]
        return padded

    def _apply(self, Z, trans):
        if not Z.shape[1]:
            return Z
        blocks = self._blocks_for(Z.shape[1])
        return dgemqrt(self.reflectors, blocks, Z, side="L", trans=trans, overwrite_c=True)[0]

    def _blocks_for(self, n_columns):
        return self.blocks


class ReducedVectors(ReflectedVectors):
    """The eigenvectors Q V of K = Q T Q', T = V diag(s) V': V is made when it is first used.

    Parameters
    ----------
    reflectors, tau
        Q, which leaves the first row alone, as LAPACK's sytrd returns it.
    reduced : Reduced
        T.
    n_vectors : int
        How many of them, those of the smallest eigenvalues.
    """

    def __init__(self, reflectors, tau, reduced, n_vectors):
        self.reflectors, self.tau, self.offset = reflectors, tau, 1
        self.reduced, self.shape = reduced, (len(reduced), n_vectors)

    @cached_property
    def blocks(self):
        """Factors of blocks of reflectors, made when they first pay."""
        return _block_factors(self.reflectors, self.tau)

    def _blocks_for(self, n_columns):
        return self.tau[None] if n_columns <= _FEW_COLUMNS else self.blocks

    @property
    def _n_coordinates(self):
        return len(self)

    @cached_property
    def W(self):
        """V of these vectors."""
        return self.reduced.eigen[1][:, : self.shape[1]]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("W", "blocks")}

    def __getitem__(self, index):
        every_row, columns = index
        if every_row == slice(None) and isinstance(columns, slice) and columns == slice(columns.stop):
            n_vectors = len(range(*columns.indices(self.shape[1])))
            return ReducedVectors(self.reflectors, self.tau, self.reduced, n_vectors)
        return super().__getitem__(index)

    def reflected(self, coordinates):
        """Return Q coordinates."""
        return self._reflected(coordinates)

    def coordinates_of(self, Z, reliable_from):
        """Return the `ReducedCoordinates` of targets (n, m)."""
        return ReducedCoordinates(self.reduced, self._coordinates(Z), self.shape[1], reliable_from)


class _Transposed:
    def __init__(self, vectors):
        self.vectors = vectors

    @property
    def T(self):
        return self.vectors

    def __matmul__(self, Z):
        return _times(self.vectors.W.T, self.vectors._coordinates(Z))


def _times(A, B):
    """Return A B by scipy's BLAS, as reflectors are applied.

    The threads of numpy's would get in the way of its own, which spin for a while.
    """
    return dgemm(1.0, A, B) if A.flags.f_contiguous else dgemm(1.0, A.T, B, trans_a=True)


def symmetric_eigen(A):
    """Return eigenvalues in ascending order and eigenvectors of a symmetric matrix, which is overwritten.

    A = Q T Q' with T tridiagonal, T = V diag(s) V', and the eigenvectors U = Q V stay in the reflectors of Q:
    half of the time of forming them. V waits for who asks, which leaves two thirds of that.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        In BLAS's order.
    """
    n = len(A)
    if n <= _SMALL or dstevd is None:
        s, U, info = dsyevd(A, lower=1, overwrite_a=1)
        check_converged(info)
        return s, U
    reduced, diagonal, off, tau, _ = dsytrd(A, lower=1, lwork=int(dsytrd_lwork(n, lower=1)[0]), overwrite_a=1)
    reflectors, T = _below_diagonal(reduced), Reduced(diagonal, off)
    return T.eigenvalues(), ReducedVectors(reflectors, tau, T, n)


def _below_diagonal(A):
    """Return the columns of A, without the last, from below the diagonal on, as (n, n - 1): without a copy.

    They begin at the second entry, and end with the first entry of the next column, which is set to 0.
    """
    n = len(A)
    A[0, 1:] = 0.0
    return A.ravel(order="K")[1 : 1 + n * (n - 1)].reshape(n, n - 1, order="F")


def _block_factors(reflectors, tau):
    """Return the triangular factors T of blocks of reflectors, I - V T V', as geqrt would.

    T^-1 has 1/tau on its diagonal and the products v_i'v_j above it.
    """
    n = len(tau)
    size = min(_BLOCK, n)
    blocks = np.zeros((size, n), order="F")
    for start in range(0, n, size):
        columns = slice(start, min(start + size, n))
        top, below = reflectors[columns, columns], reflectors[columns.stop :, columns]
        top = np.tril(top, -1) + np.eye(len(top))
        _fill_block(blocks[: len(top), columns], top.T @ top + below.T @ below, tau[columns])
    return blocks


def _fill_block(T, products, tau):
    """Fill in T of one block; a reflector with tau = 0 is the identity, and T^-1 does not exist."""
    if tau.all():
        inverse = np.triu(products, 1)
        np.fill_diagonal(inverse, 1.0 / tau)
        T[:] = dtrtri(inverse)[0]
        return
    for i, t in enumerate(tau):
        T[i, i] = t
        T[:i, i] = -t * (T[:i, :i] @ products[:i, i])


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
