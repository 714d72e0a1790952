"""Small matrices between outputs: the basis in which correlated outputs are independent."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dposv

__all__ = [
    "OutputBasis",
    "conditional",
    "eigenbasis",
    "positive_inverse",
    "positive_solve",
    "row_space",
    "triangle",
]

# Directions of the targets that are shorter than this, relative to the longest, are sums of the others.
_DEPENDENT = 1e-11


@dataclass(frozen=True)
class OutputBasis:
    """Covariances between m outputs, signal `back diag(signal) back'` and noise `back back'`.

    The columns of Y `forth'` are outputs without correlation, with signal variances `signal` and unit noise.

    Attributes
    ----------
    back : ndarray of shape (m, k)
        What independent outputs of unit noise are multiplied by to give the outputs.
    forth : ndarray of shape (k, m)
        Its inverse, or left inverse where k < m.
    signal : ndarray of shape (k,)
        Signal variances of the independent outputs, none negative.
    """

    back: np.ndarray
    forth: np.ndarray
    signal: np.ndarray

    @classmethod
    def of_variances(cls, signal, noise):
        """Return the basis of outputs without correlation, of variances (m,) each; the noise is positive."""
        root = np.sqrt(noise)
        return cls(np.diag(root), np.diag(1.0 / root), signal / noise)

    def __len__(self):
        return len(self.signal)

    @property
    def signal_covariance(self):
        """Covariance of the signals, (m, m)."""
        return _symmetric((self.back * self.signal) @ self.back.T)

    @property
    def noise_covariance(self):
        """Covariance of the noise, (m, m)."""
        return _symmetric(self.back @ self.back.T)

    @cached_property
    def log_det_noise(self):
        """log |noise covariance| of square bases."""
        return float(2.0 * np.linalg.slogdet(self.back)[1])

    def within(self, directions, left_inverse):
        """Return the basis of outputs that are `directions` (m, k) times those of this one."""
        return OutputBasis(directions @ self.back, self.forth @ left_inverse, self.signal)


def row_space(Z):
    """Return orthonormal directions B (m, k) that span the rows of Z (n, m) up to rounding, Z = Z B B'."""
    _, size, Vt = np.linalg.svd(triangle(Z))
    kept = size > _DEPENDENT * size.max(initial=0.0)
    return np.eye(Z.shape[1]) if kept.all() else Vt[kept].T


def triangle(Z):
    """Return R (m, m) with R'R = Z'Z, without forming that product."""
    R = np.linalg.qr(Z, mode="r")
    return np.concatenate([R, np.zeros((Z.shape[1] - len(R), Z.shape[1]))])


def eigenbasis(M):
    """Return eigenvalues, ascending, and orthonormal eigenvectors of a small symmetric matrix."""
    return np.linalg.eigh(M)


def positive_solve(H, rhs):
    """Return H^-1 rhs by a Cholesky factorisation, None where H is not positive definite."""
    if not (np.diag(H) > 0).all():
        return None
    root = np.sqrt(np.diag(H))  # units of the unknowns differ
    scale = root.reshape(-1, *(1 for _ in rhs.shape[1:]))
    _, solution, failed = dposv(H / np.outer(root, root), rhs / scale, lower=True, overwrite_a=True)
    return solution / scale if not failed and np.isfinite(solution).all() else None


def positive_inverse(H):
    """Return H^-1, None where H is not positive definite."""
    return positive_solve(H, np.eye(len(H)))


def _symmetric(V):
    return 0.5 * (V + V.T)


def conditional(mean, total, wanted, observed):
    """Return means and standard deviations of outputs given some of them, row by row, (n, m) each.

    Parameters
    ----------
    mean : ndarray of shape (n, m)
        Before anything was observed.
    total, wanted : ndarray of shape (n, m, m)
        Covariances of observations, and of what is predicted: observations too, or what is behind them.
    observed : ndarray of shape (n, m)
        Observations, NaN where there is none.

    Notes
    -----
    mean + C_o S^-1 (y_o - mean_o) with S the covariance of the outputs o that were observed and C_o the
    columns o of `wanted`: noise that was observed is not that of the function.
    """
    mean, variance = mean.copy(), np.einsum("njj->nj", wanted).copy()
    known = ~np.isnan(observed)
    for i in np.flatnonzero(known.any(axis=1)):
        o = known[i]
        size, Q = np.linalg.eigh(total[i][np.ix_(o, o)])
        kept = size > _DEPENDENT * size.max(initial=0.0)
        C = wanted[i][:, o] @ Q[:, kept]
        mean[i] += (C / size[kept]) @ (Q[:, kept].T @ (observed[i, o] - mean[i, o]))
        variance[i] -= (C**2 / size[kept]).sum(axis=1)
    return mean, np.sqrt(np.maximum(variance, 0.0))
