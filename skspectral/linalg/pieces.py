"""A tridiagonal matrix T in short pieces: quadratic forms of (I + T/g)^-1 at many g without its eigenvectors.

The first half of LAPACK's divide and conquer. Eigenvectors of all pieces cost next to nothing; to join them
takes nearly all of the time, and is left to a tridiagonal system with one unknown for each cut.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg.lapack import dpttrf, dpttrs, dstev

from ..support.pickling import WithoutCache
from .shifted import LEAST_SHARE, in_blocks

__all__ = ["Pieces", "PiecewiseTargets"]

# Rows of a piece, at least and in units of the root of all: more take longer to diagonalise, fewer make more
# cuts.
_SIZE, _SIZE_BY_ROOT = 16, 0.75


@dataclass(frozen=True)
class Pieces:
    """T = D - sum_j |e_j| z_j z_j', D of blocks V diag(d) V' that do not touch, z_j across the j-th cut.

    z_j is 1 in the last row before the cut and minus the sign of e_j, the entry of T that it cuts off, in the
    first row after it. So D is T plus something positive: its eigenvalues are no smaller than those of T.

    Attributes
    ----------
    starts : ndarray of shape (p + 1,)
        First row of each piece, and the number of rows.
    values : ndarray of shape (p, size)
        Eigenvalues of the pieces, and ones where a piece is shorter than others.
    vectors : ndarray of shape (p, size, size)
        Their eigenvectors, 0 where a piece is shorter.
    cut_off : ndarray of shape (p - 1,)
        e_j.
    """

    starts: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    cut_off: np.ndarray

    @classmethod
    def of(cls, diagonal, off_diagonal):
        """Cut a tridiagonal matrix of at least six rows and diagonalise its pieces, O(n)."""
        n = len(diagonal)
        n_pieces = max(3, round(n / max(_SIZE, _SIZE_BY_ROOT * np.sqrt(n))))
        starts = np.arange(n_pieces + 1) * n // n_pieces
        cuts, size = starts[1:-1], int(np.diff(starts).max())
        cut_off, diagonal = off_diagonal[cuts - 1], np.array(diagonal)
        np.add.at(diagonal, np.append(cuts - 1, cuts), np.tile(np.abs(cut_off), 2))
        values, vectors = np.ones((n_pieces, size)), np.zeros((n_pieces, size, size))
        for i, (start, end) in enumerate(pairwise(starts)):
            length = end - start
            found = dstev(diagonal[start:end], off_diagonal[start : end - 1])
            values[i, :length], vectors[i, :length, :length] = found[:2]
        return cls(starts, values, vectors, cut_off)

    def coordinates(self, B):
        """Return V'B in all pieces, (p, size, m)."""
        padded = np.zeros((*self.values.shape, B.shape[1]))
        for piece, (start, end) in zip(padded, pairwise(self.starts), strict=True):
            piece[: end - start] = B[start:end]
        return self.vectors.transpose(0, 2, 1) @ padded

    @cached_property
    def ends(self):
        """Eigenvectors in the first and in the last row of each piece, (p, size) each."""
        last = np.diff(self.starts)[:, None, None] - 1
        return self.vectors[:, 0], np.take_along_axis(self.vectors, last, axis=1)[:, 0]


@dataclass(frozen=True)
class PiecewiseTargets(WithoutCache):
    """Targets in the eigenbases of pieces.

    Attributes
    ----------
    pieces : Pieces
        Of T.
    C : ndarray of shape (p, size, m)
        V'b.
    """

    pieces: Pieces
    C: np.ndarray

    def unexplained(self, ratios):
        """Return A = b'(I + T/g)^-1 b and its first two derivatives by log g, (k, m) each.

        With v = g/(d + g), r = Z'Vv V'b and N = g/|e| - Z'VvV'Z, both scaled by (|e|/g)^1/2,

            A = sum v (V'b)^2 + r'N^-1 r,

        in which v' = v(1 - v), and derivatives of N have the same first term.

        Parameters
        ----------
        ratios : ndarray of shape (k, 1) or (k, m)
            Noise ratios g, infinite ones too.
        """
        n_pieces, _, m = self.C.shape
        return in_blocks(self._unexplained, ratios, n_pieces * m)

    def _unexplained(self, ratios):
        A, r, N = self._sums(ratios)
        q = N.solve(r[0])
        N_q = N.times(q)
        q1 = N.solve(r[1] - N_q[1])
        rq, qNq = np.einsum("dkmr,kmr->dkm", r, q), np.einsum("kmr,dkmr->dkm", q, N_q)
        turning = np.einsum("kmr,kmr->km", r[1] - N_q[1], q1)
        return A[0] + rq[0], A[1] + 2.0 * rq[1] - qNq[1], A[2] + 2.0 * (rq[2] + turning) - qNq[2]

    def _sums(self, ratios):
        """Return sum v (V'b)^2 (3, k, m), r (3, k, m, cuts) and N: for v and its two derivatives."""
        ratios = np.maximum(ratios, LEAST_SHARE * self.pieces.values.max())
        over_g = self.pieces.values / ratios[..., None, None]  # (k, 1 or m, p, size)
        scale = np.sqrt(np.abs(self.pieces.cut_off) / ratios[..., None])  # (k, 1 or m, cuts)
        weights = np.empty((3, *over_g.shape))
        v = np.divide(1.0, 1.0 + over_g, out=weights[0])
        u = over_g * v
        vu = np.multiply(v, u, out=weights[1])
        np.multiply(vu, u - v, out=weights[2])
        energy, first, last, first_first, last_last, first_last = self._products(weights)
        sign = -np.sign(self.pieces.cut_off)
        r = scale * (last[..., :-1] + sign * first[..., 1:])
        diagonal = 1.0 - scale**2 * (last_last[..., :-1] + first_first[..., 1:])
        across = -scale[..., :-1] * scale[..., 1:] * sign[:-1] * first_last[..., 1:-1]
        return energy.sum(axis=-1), r, _Tridiagonals(diagonal, across)

    def _products(self, weights):
        """Return weighted sums in each piece, (3, k, 1 or m, p): of the six arrays of `_terms`."""
        m = self.C.shape[2]
        if weights.shape[2] == m > 1:
            of_outputs, of_ends = self._terms
            own = [np.einsum("dkmps,psm->dkmp", weights, term) for term in of_outputs]
            return *own, *(np.einsum("dkmps,ps->dkmp", weights, term) for term in of_ends)
        k, _, n_pieces, size = weights.shape[1:]
        together = weights.reshape(-1, n_pieces, size).transpose(1, 0, 2) @ self._stacked_terms
        together = together.transpose(1, 2, 0).reshape(3, k, -1, n_pieces)
        ends = (together[:, :, 3 * m + i, None] for i in range(3))
        return *(together[:, :, i * m : (i + 1) * m] for i in range(3)), *ends

    @cached_property
    def _terms(self):
        """Squared targets, and targets times the first and the last row of V; and products of these rows."""
        first, last = self.pieces.ends
        of_outputs = self.C**2, first[..., None] * self.C, last[..., None] * self.C
        return of_outputs, (first**2, last**2, first * last)

    @cached_property
    def _stacked_terms(self):
        of_outputs, of_ends = self._terms
        return np.concatenate([*of_outputs, np.stack(of_ends, axis=-1)], axis=-1)


class _Tridiagonals:
    """Symmetric matrices of r rows, (3, k, 1 or m) of them: N and its two derivatives."""

    def __init__(self, diagonal, off_diagonal):
        self.diagonal, self.off_diagonal = diagonal, off_diagonal

    def times(self, Q):
        """Return the products of all of them with vectors (k, m, r)."""
        result = self.diagonal * Q
        result[..., 1:] += self.off_diagonal * Q[..., :-1]
        result[..., :-1] += self.off_diagonal * Q[..., 1:]
        return result

    def solve(self, R):
        """Return N^-1 R for right-hand sides (k, m, r): m for each of k matrices, or one for each."""
        if self.diagonal.shape[2] == R.shape[1]:
            flat = np.ascontiguousarray(R).reshape(1, -1)
            return dpttrs(*self._factors, flat.T)[0].reshape(R.shape)
        flat = R.transpose(1, 0, 2).reshape(R.shape[1], -1)
        return dpttrs(*self._factors, flat.T)[0].T.reshape(R.shape[1], -1, R.shape[2]).transpose(1, 0, 2)

    @cached_property
    def _factors(self):
        """Those of one tridiagonal matrix, in which all N are blocks that do not touch."""
        between = np.zeros(self.diagonal[0].shape)
        between[..., :-1] = self.off_diagonal[0]
        return dpttrf(self.diagonal[0].ravel(), between.ravel()[:-1])[:2]
