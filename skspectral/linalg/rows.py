"""What is known of the rows before any kernel: weights and unpenalised mean functions."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from scipy.linalg import qr, svd
from scipy.linalg.blas import dgemm, sgemm

from ..support.exceptions import NonFiniteKernelError, RankDeficientBasisWarning, warn_user

__all__ = ["RowCounts", "Rows", "add_outer", "check_kernel_values", "check_target_size", "span"]

_EPS = np.finfo(np.float64).eps
# Its square is a number, with some room above.
_LARGEST_SCALE = 1e152
# What is left of a column outside the mean space, relative to its length, when it was inside.
_VANISHED = 1e-10
# Lengths from here to its inverse are those of columns whose squares have all their digits.
_MODERATE = 1e-140
# What is left of a column, likewise, above which rounding left nothing of the mean in it.
_LITTLE_LOST = 0.1


@dataclass(frozen=True)
class RowCounts:
    """What criteria ask of the rows: numbers, which are sums where the rows themselves are not kept.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    n_mean : int
        Dimension q of the mean space.
    half_log_weight : float
        1/2 sum log w: the log Jacobian of the weighting.
    mean_weight : float
        Mean of the weights.
    """

    n_rows: int
    n_mean: int
    half_log_weight: float
    mean_weight: float

    @property
    def n_free(self):
        """Directions outside the mean space, n - q."""
        return self.n_rows - self.n_mean


@dataclass(frozen=True)
class Rows:
    """What is known of the rows before any kernel: weights and unpenalised mean functions.

    A weight is a relative precision: row i has noise variance noise_var / w_i, and a row of weight 0 is
    absent. Weights enter by scaling: K, y and F stand for W^1/2 K W^1/2, W^1/2 y and W^1/2 F everywhere,
    and n is the number of rows present, whatever their weights.

    Attributes
    ----------
    sqrt_weight : ndarray of shape (n, 1)
        Square roots of the weights.
    Q : ndarray of shape (n, q)
        Orthonormal basis of span(F); q = 0 without mean functions.
    R_inv : ndarray of shape (functions, q)
        F @ R_inv = Q; the pseudo-inverse of R where F has dependent columns.
    """

    sqrt_weight: np.ndarray
    Q: np.ndarray
    R_inv: np.ndarray

    @classmethod
    def make(cls, n, basis=None, sample_weight=None):
        """Return the rows of n samples with mean functions `basis` (n, functions) and weights (n,)."""
        if sample_weight is None:
            root = np.ones((n, 1))
        else:
            root = np.sqrt(np.asarray(sample_weight, dtype=np.float64)).reshape(n, 1)
        if basis is None:
            return cls(root, np.zeros((n, 0)), np.zeros((0, 0)))
        return cls(root, *_orthonormal_basis(root * np.asarray(basis, dtype=np.float64)))

    def __len__(self):
        return len(self.sqrt_weight)

    @property
    def n_mean(self):
        """Dimension q of the mean space."""
        return self.Q.shape[1]

    @cached_property
    def _are_weighted(self):
        return not (self.sqrt_weight == 1.0).all()

    @cached_property
    def present(self):
        """Which rows have positive weight, (n,)."""
        return self.sqrt_weight[:, 0] > 0

    @cached_property
    def counts(self):
        """The numbers that criteria ask for."""
        if not self._are_weighted:
            return RowCounts(len(self), self.n_mean, 0.0, float(len(self) > 0))
        root = self.sqrt_weight[self.present]
        weights = float((root**2).mean()) if len(root) else 0.0
        return RowCounts(len(root), self.n_mean, float(np.log(root).sum()), weights)

    @property
    def n_free(self):
        """Rows present less q: the directions outside the mean space."""
        return self.counts.n_free

    def standardise(self, Y):
        """Return the targets outside the mean space with unit mean square, their scale, and Q'y.

        The scale is 1 and the target 0 where nothing but rounding is left.
        """
        Y = self.sqrt_weight * Y
        negligible, basis_part = _rounding(Y), np.zeros((self.n_mean, Y.shape[1]))
        for _ in range(2 if self.n_mean else 0):  # the second time, what rounding of long sums left behind
            left = self.Q.T @ Y
            Y -= self.Q @ left
            basis_part += left
        scale = _root_mean_square(Y, self.n_free)
        varies = scale > negligible
        check_target_size(scale[varies])
        Z = np.divide(Y, scale, out=np.zeros_like(Y), where=varies)
        return Z, np.where(varies, scale, 1.0), basis_part

    def rounding(self, Y):
        """Return the size of what rounding may leave of targets outside the mean space, (m,)."""
        return _rounding(self.sqrt_weight * Y)

    def unit_columns(self, K, overwrite=False):
        """Return columns weighted, outside the mean space and of unit length, and their lengths before.

        Both are 0 where nothing but rounding is left.
        """
        if self._are_weighted or not overwrite:
            K = self.sqrt_weight * K
        K, before, largest = _with_lengths(K)
        length = before
        for _ in range(2 if self.n_mean else 0):
            K -= self.Q @ (self.Q.T @ K)
            length = np.sqrt(np.einsum("ij,ij->j", K, K))
            if np.all(length > _LITTLE_LOST * before):
                break  # what rounding left of the mean is little beside the column
        K, length = _of_unit_length(K, length, length > _VANISHED * before)
        return K, length * largest

    def unit_coordinates(self, F, chosen):
        """Return what `unit_columns` makes of chosen columns of FF' for F (n, r), without these columns.

        As coordinates (r, len(chosen)) in an orthonormal basis, the lengths, and the basis (n, r).
        """
        F_left = self.sqrt_weight * F
        in_mean = self.Q.T @ F_left
        for _ in range(2 if self.n_mean else 0):
            F_left -= self.Q @ (self.Q.T @ F_left)
        basis, R = qr(F_left, mode="economic", overwrite_a=True, check_finite=False)
        K = R @ F[chosen].T
        length = np.sqrt(np.einsum("ij,ij->j", K, K))
        before = np.sqrt(length**2 + ((in_mean @ F[chosen].T) ** 2).sum(axis=0))
        return *_of_unit_length(K, length, length > _VANISHED * before), basis

    def levels(self, K):
        """Return coefficients of the mean functions in columns K, (functions, k): means, for a constant."""
        return self.R_inv @ (self.Q.T @ (self.sqrt_weight * K))

    def unweighted_sensitivity(self, G):
        """Return W^1/2 G W^1/2 in place: the derivative by K, given that by W^1/2 K W^1/2."""
        if self._are_weighted:
            G *= self.sqrt_weight
            G *= self.sqrt_weight.T
        return G

    def project(self, K):
        """Overwrite K by P W^1/2 K W^1/2 P with P = I - QQ', and return W^1/2 K W^1/2 Q.

        A rank-2q update in place: with B = Q(Q'KQ)/2 - KQ it is K + QB' + BQ'. K may be of float32.
        """
        if self._are_weighted:
            with np.errstate(over="ignore"):
                K *= self.sqrt_weight
                K *= self.sqrt_weight.T
            check_kernel_values(K)
        if not self.n_mean:
            return np.zeros((len(K), 0), dtype=K.dtype)
        Q = self.Q.astype(K.dtype, copy=False)
        KQ = K @ Q
        B = K.dtype.type(0.5) * Q @ (Q.T @ KQ) - KQ
        add_outer(K, Q, B)
        add_outer(K, B, Q)
        return KQ


def check_kernel_values(K):
    """Refuse entries of a kernel matrix that are not finite."""
    if not np.isfinite(K).all():
        raise NonFiniteKernelError()


def span(F):
    """Return as many columns as F (n, functions) has independent ones, with the same span."""
    return F if F.shape[1] == 1 else _orthonormal_columns(F)[0]


def _orthonormal_basis(F):
    """Return Q, R_inv with F R_inv = Q, dropping directions that the rows do not determine."""
    Q, R_inv = _orthonormal_columns(F)
    if Q.shape[1] < F.shape[1]:
        warn_user(
            f"Only {Q.shape[1]} of {F.shape[1]} mean functions can be told apart on {F.shape[0]} rows; "
            "the shortest coefficient vector is used, in units in which all functions have length 1. Give "
            "more rows or fewer functions.",
            RankDeficientBasisWarning,
        )
    return Q, R_inv


def _orthonormal_columns(F):
    # Columns of length 1: the units of a mean function must not decide what is rounding.
    length = _root_mean_square(F, 1.0)
    length = np.where(length > 0, length, 1.0)
    Q, size, Vt = svd(F / length, full_matrices=False)
    kept = size > max(F.shape) * _EPS * size.max(initial=0.0)
    return np.ascontiguousarray(Q[:, kept]), Vt[kept].T / size[kept] / length[:, None]


def add_outer(K, A, B):
    """Add A B' to a C-ordered symmetric sum in place (as its transpose B A', in BLAS's order)."""
    gemm = sgemm if K.dtype == np.float32 else dgemm
    gemm(1.0, B, A, beta=1.0, c=K.T, trans_b=True, overwrite_c=True)


def check_target_size(scale):
    """Refuse targets, of root mean square `scale`, whose variances are too large or small to be numbers."""
    beyond = ~((scale < _LARGEST_SCALE) & (scale > 1.0 / _LARGEST_SCALE))
    if beyond.any():
        raise ValueError(
            f"The targets have a root mean square of {scale[beyond][0]:.3g}, times the square roots of the "
            f"weights. It must lie between {1.0 / _LARGEST_SCALE:g} and {_LARGEST_SCALE:g}, for its square "
            "to be a number. Divide y, or the weights, by a constant."
        )


def _of_unit_length(K, length, kept):
    """Return columns over their lengths, in place, and the lengths; 0 where they are not kept."""
    K *= np.where(kept, 1.0 / np.where(kept, length, 1.0), 0.0)
    return K, np.where(kept, length, 0.0)


def _with_lengths(K):
    """Return columns over factors with which squares neither overflow nor vanish, lengths, and factors."""
    with np.errstate(over="ignore"):
        length = np.sqrt(np.einsum("ij,ij->j", K, K))
    if np.all((length > _MODERATE) & (length < 1.0 / _MODERATE)):
        return K, length, 1.0
    largest = np.maximum(K.max(axis=0, initial=0.0), -K.min(axis=0, initial=0.0))
    K /= np.where(largest > 0, largest, 1.0)
    return K, np.sqrt(np.einsum("ij,ij->j", K, K)), largest


def _rounding(Y):
    """Return what a constant y leaves behind, rounding of Q(Q'y): a few ulp of its size."""
    return np.abs(Y).max(axis=0, initial=0.0) * (_EPS * max(32.0, sqrt(len(Y))))


def _root_mean_square(Y, n_free):
    """Return the rms of each column over n_free directions, safe from overflow and underflow."""
    size = np.abs(Y).max(axis=0, initial=0.0)
    safe = np.where(size > 0, size, 1.0)
    return size * np.sqrt(((Y / safe) ** 2).sum(axis=0) / max(n_free, 1.0))
