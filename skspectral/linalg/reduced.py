"""K = Q T Q' with T tridiagonal: what can be said of K + gI, O(n) for each g, without eigenvectors."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dptsv, dpttrf, dpttrs, dsterf

try:
    from scipy.linalg.lapack import dstevd
except ImportError:  # an older scipy, with which eigenvectors are formed at once
    dstevd = None

from ..support.pickling import WithoutCache
from .coordinates import Coordinates

__all__ = ["Reduced", "ReducedCoordinates", "check_converged", "dstevd"]

# Entries of a block of noise ratios that are looked at together: they stay in cache.
_BLOCK_ENTRIES = 2**16


@dataclass(frozen=True)
class Reduced(WithoutCache):
    """A tridiagonal matrix T.

    Attributes
    ----------
    diagonal, off_diagonal : ndarray of shape (n,) and (n - 1,)
        Its entries.
    """

    diagonal: np.ndarray
    off_diagonal: np.ndarray

    def __len__(self):
        return len(self.diagonal)

    def exceeds(self, least):
        """Return whether all eigenvalues are larger than a number."""
        return dpttrf(self.diagonal - least, self.off_diagonal)[2] == 0

    def eigenvalues(self):
        """Return the eigenvalues in ascending order, O(n^2)."""
        s, info = dsterf(self.diagonal, self.off_diagonal)
        check_converged(info)
        return s

    @cached_property
    def eigen(self):
        """Eigenvalues in ascending order and eigenvectors (n, n), O(n^3)."""
        s, V, info = dstevd(self.diagonal, self.off_diagonal, compute_v=1)
        check_converged(info)
        return s, V

    def solved(self, B):
        """Return T^-1 B of a positive definite T."""
        return dptsv(self.diagonal, self.off_diagonal, B)[2]

    def over(self, ratios):
        """Return the `_Shrinkage` of T/g for each g of `ratios` (k,)."""
        return _Shrinkage(self, ratios)


class _Shrinkage:
    """(I + T/g)^-1 for several g: one tridiagonal matrix, in which their blocks do not touch."""

    def __init__(self, T, ratios):
        self.diagonal = T.diagonal / ratios[:, None]
        self.off_diagonal = np.zeros_like(self.diagonal)
        np.divide(T.off_diagonal, ratios[:, None], out=self.off_diagonal[:, :-1])
        self._pivots, self._below, _ = dpttrf(
            1.0 + self.diagonal.ravel(), self.off_diagonal.ravel()[:-1], overwrite_d=True
        )
        self._is_far = ratios > np.abs(T.diagonal).max()

    def __matmul__(self, B):
        """Return (I + T/g)^-1 B for B of shape (columns, k, n)."""
        flat = np.array(B).reshape(len(B), -1)
        return dpttrs(self._pivots, self._below, flat.T, overwrite_b=True)[0].T.reshape(B.shape)

    def explained(self, B, shrunk):
        """Return T/g (I + T/g)^-1 B, given `shrunk`, the rest of B.

        Far above all eigenvalues, where next to nothing is explained, as a product with T/g and not as a
        difference.
        """
        result = B - shrunk
        if self._is_far.any():
            d, e, far = self.diagonal[self._is_far], self.off_diagonal[self._is_far], shrunk[:, self._is_far]
            product = d * far
            product[..., 1:] += e[:, :-1] * far[..., :-1]
            product[..., :-1] += e[:, :-1] * far[..., 1:]
            result[:, self._is_far] = product
        return result


@dataclass(frozen=True)
class ReducedCoordinates(WithoutCache):
    """Targets in the basis Q of a `Reduced` whose eigenvalues are all far above rounding.

    The same to users as `Coordinates`; those in the eigenbasis are made for who asks for them.

    Attributes
    ----------
    T : Reduced
        K = Q T Q'.
    B : ndarray of shape (n, m)
        Q'y / scale.
    n_vectors : int
        Eigenvectors outside the mean space; the others, of the largest eigenvalues, span that.
    """

    T: Reduced
    B: np.ndarray
    n_vectors: int

    @cached_property
    def in_eigenbasis(self):
        """The `Coordinates` of the same targets."""
        V = self.T.eigen[1][:, : self.n_vectors]
        return Coordinates(V.T @ self.B, np.zeros(self.n_outputs))

    @property
    def y_tilde(self):
        """Coordinates in the eigenbasis, (r, m)."""
        return self.in_eigenbasis.y_tilde

    @property
    def null_energy(self):
        """Squared length of what the eigenvectors do not reach, (m,): they reach all."""
        return self.in_eigenbasis.null_energy

    @property
    def energy(self):
        """Squared coordinates in the eigenbasis, and 0 for the null directions, (r + 1, m)."""
        return self.in_eigenbasis.energy

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.B.shape[1]

    @property
    def vary(self):
        """Whether each output is anything but 0, (m,)."""
        return self.B.any(axis=0)

    def hidden_energy(self, _):
        """Return the squared length along the directions of eigenvalue 0, (m,): there are none."""
        return np.zeros(self.n_outputs)

    def unexplained(self, x, _):
        """Return A = b'(I + T/g)^-1 b and its first two derivatives by x = log g, see `Coordinates`.

        With c = (I + T/g)^-1 b, d = b - c and e = (I + T/g)^-1 d: A = b'c, A' = c'd, A'' = (d - c)'e.
        """
        ratios, rows = np.exp(x), max(1, _BLOCK_ENTRIES // self.B.size)
        parts = [self._unexplained(ratios[i : i + rows]) for i in range(0, len(x), rows)]
        return tuple(np.concatenate(terms) for terms in zip(*parts, strict=True))

    def _unexplained(self, ratios):
        B = self._stacked(ratios.shape)
        shrinkage = self.T.over(ratios.ravel())
        shrunk = shrinkage @ B
        explained = shrinkage.explained(B, shrunk)
        pairs = (B, shrunk), (shrunk, explained), (explained - shrunk, shrinkage @ explained)
        products = (np.einsum("ckn,ckn->ck", *pair) for pair in pairs)
        return tuple(product.T.reshape(len(ratios), self.n_outputs) for product in products)

    def _stacked(self, shape):
        """Return B for ratios of shape (k, 1), as (m, k, n), or one ratio an output, (1, k m, n)."""
        n, m = self.B.shape
        if shape[1] == m:
            return np.broadcast_to(self.B.T, (shape[0], m, n)).reshape(1, -1, n)
        return np.broadcast_to(self.B.T[:, None], (m, shape[0], n))

    def resolved(self, spectrum, noise_ratio):
        """Return U y~/(s + g) = Q (T + gI)^-1 b for noise ratios (m,), (n, m)."""
        shrunk = self.T.over(noise_ratio) @ self.B.T[None]
        return spectrum.U.reflected(shrunk[0].T / noise_ratio)

    def leak(self, _, resolution):
        """Return the squared length that inexact eigenvectors let out of their span, see `Coordinates`."""
        return ((resolution * self.T.solved(self.B)) ** 2).sum(axis=0)

    def select(self, outputs):
        """Return the same for the given outputs only (repetitions allowed)."""
        return replace(self, B=self.B[:, outputs])


def check_converged(info):
    """Refuse eigenvalues that LAPACK did not find."""
    if info:
        raise np.linalg.LinAlgError("The eigenvalues of a symmetric matrix did not converge.")
