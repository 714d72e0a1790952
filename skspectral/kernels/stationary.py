"""Kernels that are functions of the squared distance between inputs in units of their length scales.

With D_ij = |z_i - z_j|^2 / 2 and z = x / length_scale, such a kernel is k(D), and with its weight w = -dk/dD

    dK_ij / dlog length_scale_k = w_ij (z_ik - z_jk)^2,      summed over all inputs  2 w_ij D_ij.

The sums over pairs of W_ij (z_ik - z_jk)^2, W = G * w, of all inputs k come from one product W Z: no array
larger than K is made.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, Matern, RationalQuadratic

__all__ = [
    "Radial",
    "WeightedPairs",
    "half_squared_distances",
    "radial",
    "scaled_inputs",
    "share_by_alpha",
]

# Half squared lengths beyond which the rounding of |a|^2 + |b|^2 - 2ab, about eps times them, would be seen.
_CANCELLING = 5e4


@dataclass(frozen=True)
class Radial:
    """A kernel as a function of the half squared distance D.

    Attributes
    ----------
    value : callable
        (D, alpha) -> k(D), which may use the memory of D.
    weight : callable
        (D, K, alpha) -> -dk/dD from D and the values K, without another exponential.
    is_smooth : bool
        Whether the weight is bounded, so that rounding of D is no more than rounding of K.
    """

    value: Callable
    weight: Callable
    is_smooth: bool = True


def _gaussian(D, _):
    return np.exp(np.negative(D, out=D), out=D)


def _exponential(D, _):
    return _gaussian(np.sqrt(2.0 * D), None)


def _matern_3(D, _):
    a = np.sqrt(6.0 * D, out=D)
    return (1.0 + a) * np.exp(-a)


def _matern_5(D, _):
    a = np.sqrt(10.0 * D, out=D)
    return (1.0 + a * (1.0 + a / 3.0)) * np.exp(-a)


def _rational(D, alpha):
    D /= alpha
    np.log1p(D, out=D)
    D *= -alpha
    return np.exp(D, out=D)


def _weight_of_exponential(D, K, _):
    a = np.sqrt(2.0 * D)
    return np.divide(K, a, out=np.zeros_like(a), where=a > 0)


def _weight_of_matern_5(D, K, _):
    a = np.sqrt(10.0 * D)
    return (5.0 / 3.0) * K * (1.0 + a) / (1.0 + a * (1.0 + a / 3.0))


_GAUSSIAN = Radial(_gaussian, lambda D, K, _: K)
_RATIONAL = Radial(_rational, lambda D, K, alpha: K / (1.0 + D / alpha))
_MATERN = {
    0.5: Radial(_exponential, _weight_of_exponential, is_smooth=False),
    1.5: Radial(_matern_3, lambda D, K, _: 3.0 * K / (1.0 + np.sqrt(6.0 * D))),
    2.5: Radial(_matern_5, _weight_of_matern_5),
    np.inf: _GAUSSIAN,
}


def radial(kernel):
    """Return the `Radial` of a scikit-learn kernel, None if it is not one that is known here."""
    if type(kernel) is RBF:
        return _GAUSSIAN
    if type(kernel) is RationalQuadratic:
        return _RATIONAL
    return _MATERN.get(kernel.nu) if type(kernel) is Matern else None


def share_by_alpha(D, alpha):
    """Return dlog K/dlog alpha of a rational quadratic kernel K = (1 + D/alpha)^-alpha."""
    base = 1.0 + D / alpha
    return D / base - alpha * np.log(base)


@dataclass(frozen=True)
class WeightedPairs:
    """What all derivatives of sum_ij G_ij k(x_i, z_j) are made of, k a function of the distance.

    Attributes
    ----------
    kernel : Kernel
        Of which `radial` knows the shape.
    A, B : ndarray of shape (n, p) and (n_z, p)
        Inputs in units of the length scale.
    D, GK, W : ndarray of shape (n, n_z)
        Half squared distances, G * k, and G * w with w = -dk/dD.
    """

    kernel: object
    A: np.ndarray
    B: np.ndarray
    D: np.ndarray
    GK: np.ndarray
    W: np.ndarray

    @classmethod
    def of(cls, kernel, G, X, Z=None):
        """Return those of weights G and inputs X and Z, X for Z=None."""
        shape, alpha = radial(kernel), getattr(kernel, "alpha", None)
        A, B = scaled_inputs(kernel.length_scale, X, Z)
        D = half_squared_distances(A, B, exactly=not shape.is_smooth)
        if Z is None:
            np.fill_diagonal(D, 0.0)
        K = shape.value(D.copy(), alpha)
        W = shape.weight(D, K, alpha) * G
        return cls(kernel, A, B, D, W if shape is _GAUSSIAN else G * K, W)

    def by_parameters(self):
        """Return the derivatives by logarithms of the parameters, by name."""
        length_scale, alpha = self.kernel.length_scale, getattr(self.kernel, "alpha", None)
        if np.ndim(length_scale) and len(length_scale) > 1:
            return {"length_scale": _direction_sums(self.W, self.A, self.B)}
        slopes = {"length_scale": 2.0 * np.vdot(self.W, self.D)}
        if alpha is not None:
            slopes["alpha"] = np.vdot(self.GK, share_by_alpha(self.D, alpha))
        return slopes

    def by_second(self):
        """Return the derivatives by the second inputs, sum_i G_ij dk(x_i, z_j)/dz_j, (n_z, p)."""
        sums = self.W.T @ self.A - self.W.sum(axis=0)[:, None] * self.B
        return sums / self.kernel.length_scale


def scaled_inputs(length_scale, X, Z=None):
    """Return X and Z (X for Z=None) in units of the length scale, with the mean of the second taken off.

    Small coordinates lose less in |a|^2 + |b|^2 - 2ab, and with the mean of Z each row of a result depends
    on its own x only.
    """
    X, Z = _rows(X, length_scale), None if Z is None else _rows(Z, length_scale)
    centre = (X if Z is None else Z).mean(axis=0)
    A = (X - centre) / length_scale
    return A, A if Z is None else (Z - centre) / length_scale


def half_squared_distances(A, B, *, exactly=False):
    """Return |a_i - b_j|^2 / 2, non-negative, by one GEMM, or from differences where rounding would show."""
    half_B = 0.5 * np.einsum("ij,ij->i", B, B)
    if exactly or half_B.max(initial=0.0) > _CANCELLING:
        return 0.5 * cdist(A, B, "sqeuclidean")
    D = A @ B.T
    np.subtract(0.5 * np.einsum("ij,ij->i", A, A)[:, None], D, out=D)
    D += half_B
    return np.maximum(D, 0.0, out=D)


def _direction_sums(W, A, B):
    """Return sum_ij W_ij (a_ik - b_jk)^2 for every input k."""
    if 0.5 * np.einsum("ij,ij->i", B, B).max(initial=0.0) > _CANCELLING:
        return np.array([np.vdot(W, np.subtract.outer(a, b) ** 2) for a, b in zip(A.T, B.T, strict=True)])
    return W.sum(axis=1) @ A**2 + W.sum(axis=0) @ B**2 - 2.0 * np.einsum("ik,ik->k", A, W @ B)


def _rows(X, length_scale):
    """Return inputs as rows of float64, checked to have as many columns as there are length scales."""
    X = np.atleast_2d(np.asarray(X, dtype=np.float64))
    if np.size(length_scale) not in (1, X.shape[1]):
        raise ValueError(
            f"length_scale has {np.size(length_scale)} entries but the kernel sees {X.shape[1]} columns. "
            "Pass one number, or one for each column."
        )
    return X
