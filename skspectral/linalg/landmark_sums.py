"""Sums over rows that a model of fixed landmarks is learned from, and what goes back to the rows.

With landmarks Z, C = K(X, Z) and K(Z, Z) = L L', the features of weighted rows are Phi = W^1/2 C L^-T. Beside
them stand the orthonormal mean functions Q and the standardised targets Y. All that the evidence of
Phi Phi' and its lower bound need is

    J'J  with  J = [Phi, Q, Y],    and    tau = sum_i w_i (k(x_i, x_i) - |phi(x_i)|^2),

sums over rows, whatever the order and the place of the rows. The derivative by C is linear in J again, so a
second pass over the rows gives the slope by the kernel's parameters (`Sensitivity`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from ..support.exceptions import IndefiniteKernelError
from .factors import FeatureMap
from .moments import FeatureSpectrum

__all__ = ["LandmarkSums", "RowBlock", "Sensitivity", "joined_features", "smooth_feature_map"]

_EPS = np.finfo(np.float64).eps
# What is added to the diagonal of K(Z, Z), in units of r eps of its mean: landmarks that become alike as
# length scales grow stay in use, and the features stay smooth.
_JITTER = 64.0


@dataclass(frozen=True)
class RowBlock:
    """Some of the rows as sums see them.

    Attributes
    ----------
    X : array of n rows
        Inputs.
    root : ndarray of shape (n, 1)
        Square roots of the weights.
    Q : ndarray of shape (n, q)
        Their part of the orthonormal mean functions of all rows.
    Y : ndarray of shape (n, m)
        Their part of the targets, weighted, without the mean functions, and of unit mean square.
    """

    X: np.ndarray
    root: np.ndarray
    Q: np.ndarray
    Y: np.ndarray


def smooth_feature_map(gram, landmarks):
    """Return x -> L^-1 k(Z, x) with L L' = K(Z, Z) + jitter I.

    The jitter is always there, a fixed share of the mean of the diagonal, so that nothing jumps as the kernel
    changes. K(Z, Z) + jitter I is larger than K(Z, Z), so the features still take away no more than K has.
    """
    A = gram.cross(landmarks, landmarks)
    identity = np.eye(len(A))
    jitter = _jitter_share(len(A)) * np.diag(A).mean()
    for factor in (1.0, 1e2, 1e4):
        try:
            L = cholesky(A + (factor * jitter or 1.0) * identity, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return FeatureMap(landmarks, L)
    raise IndefiniteKernelError(-factor * jitter, jitter)


def _jitter_share(r):
    return _JITTER * r * _EPS


def joined_features(feature_map, gram, block):
    """Return J = [W^1/2 Phi, Q, Y] of a block, (n, r + q + m)."""
    Phi = feature_map(gram, block.X)
    Phi *= block.root
    return np.concatenate([Phi, block.Q, block.Y], axis=1)


@dataclass(frozen=True)
class LandmarkSums:
    """J'J and tau of weighted rows; two of them add up to those of all their rows.

    Attributes
    ----------
    moments : ndarray of shape (r + q + m, r + q + m)
        J'J, see the module's docstring.
    tau : float
        Weighted trace of what the features miss of K.
    n_features, n_mean : int
        r and q.
    """

    moments: np.ndarray
    tau: float
    n_features: int
    n_mean: int

    @classmethod
    def of(cls, J, gram, block):
        """Return the sums of a block with joined features J."""
        r = J.shape[1] - block.Q.shape[1] - block.Y.shape[1]
        features = J[:, :r]
        missed = block.root[:, 0] ** 2 * gram.diagonal(block.X) - np.einsum("ij,ij->i", features, features)
        return cls(J.T @ J, float(np.maximum(missed, 0.0).sum()), r, block.Q.shape[1])

    def __add__(self, other):
        """Return the sums of the rows of both."""
        return LandmarkSums(self.moments + other.moments, self.tau + other.tau, self.n_features, self.n_mean)

    @property
    def gram(self):
        """Phi'Phi, mean functions not projected out."""
        return self.moments[: self.n_features, : self.n_features]

    @property
    def QPhi(self):
        """Q'Phi, (q, r)."""
        return self.moments[self.n_features : self.n_features + self.n_mean, : self.n_features]

    @property
    def PhiY(self):
        """Phi'Y, (r, m); the targets have no part in the mean space."""
        return self.moments[: self.n_features, self.n_features + self.n_mean :]

    @property
    def energy(self):
        """Squared lengths of the targets, (m,)."""
        return np.diag(self.moments)[self.n_features + self.n_mean :]

    def spectrum(self, counts):
        """Return the eigenvalues of P Phi Phi'P, O(r^3)."""
        # eigh errs by r eps; sums of n terms by about root(n) eps
        error = 8.0 * _EPS * max(self.n_features, np.sqrt(counts.n_rows))
        S = self.gram - self.QPhi.T @ self.QPhi
        return FeatureSpectrum.from_moments(S, counts, (self.QPhi**2).sum(), error)


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives of the lower bound F, the sum over outputs, with variances at their optimum.

    Attributes
    ----------
    by_cross : ndarray of shape (r + q + m, r)
        N with dF/dC = W^1/2 J N: what a block of rows needs to know.
    among : ndarray of shape (r, r)
        dF/dK(Z, Z).
    by_diagonal : float
        dF/dk(x_i, x_i) is this times w_i.

    Notes
    -----
    With S = Phi'P Phi, B_m = S + g_m I, beta_m = B_m^-1 Phi'y_m and the residuals a_m = y_m - P Phi beta_m,
    the derivative by K~ = Phi Phi' of the part without tau is sum_m (M_m - a_m a_m'/(g_m b_m)), M_m the
    resolvent outside the mean space, and M_m Phi = P Phi B_m^-1. The last part, n log(1 + tau/(n g_m)), has
    the derivative c = sum_m n/(n g_m + tau) by tau = sum_i w_i k(x_i, x_i) - |Phi|^2. Together

        G Phi = P Phi sum_m B_m^-1 - sum_m a_m (a_m'Phi)/(g_m b_m) - c Phi
        dF/dC = 2 W^1/2 G Phi L^-1,    dF/dK(Z, Z) = -L^-T Phi'G Phi L^-1.
    """

    by_cross: np.ndarray
    among: np.ndarray
    by_diagonal: float

    @classmethod
    def at(cls, sums, spectrum, L, g, b):
        """Return the derivatives at noise ratios g and noise variances b of the standardised targets, (m,).

        Parameters
        ----------
        sums : LandmarkSums
            Of all rows.
        spectrum : FeatureSpectrum
            Of these sums.
        L : ndarray of shape (r, r)
            Of the feature map.
        g, b : ndarray of shape (m,)
            Noise ratios and noise variances.
        """
        n, s, V = spectrum.counts.n_free, spectrum.s[:, None], spectrum.V
        inverse, scale = 1.0 / (s + g), 1.0 / g / b  # g b may be too large a number
        rotated = V.T @ sums.PhiY
        beta, along = V @ (inverse * rotated), V @ (rotated / (1.0 + s / g))
        B_inv, c = (V * inverse.sum(axis=1)) @ V.T, float((min(n, 1) / (g + sums.tau / max(n, 1))).sum())
        to_residuals = (scale * along).T
        N = np.concatenate(
            [
                B_inv - c * np.eye(len(L)) + beta @ to_residuals,
                -sums.QPhi @ (B_inv + beta @ to_residuals),
                -to_residuals,
            ]
        )
        inner = (V * (s * inverse).sum(axis=1)) @ V.T - along @ to_residuals - c * sums.gram
        among = -_divided(_divided(inner, L).T, L)
        among = 0.5 * (among + among.T)
        among.flat[:: len(L) + 1] += _jitter_share(len(L)) / len(L) * np.trace(among)
        return cls(2.0 * _divided(N, L), among, c)


def _divided(N, L):
    """Return N L^-1."""
    return solve_triangular(L, N.T, lower=True, trans="T", check_finite=False).T
