"""Kernels as matrices: K(X, X), K(X, Z) and the diagonal of K(X, X).

This room knows inputs and kernels. It knows nothing of targets, variances or factorisations.
Every kind of kernel gets the same three verbs, so that nothing downstream asks which kind it has.
"""

from dataclasses import dataclass, field

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .kernel_algebra import evaluate

__all__ = ["PAIRWISE_NAMES", "KernelGram", "PairwiseGram", "PrecomputedGram", "make_gram"]

PAIRWISE_NAMES = frozenset(PAIRWISE_KERNEL_FUNCTIONS)

# Largest |K - K'| relative to max |K| that is taken for rounding in a matrix made elsewhere.
_SYMMETRY_TOLERANCE = 1e-6


@dataclass(frozen=True)
class PairwiseGram:
    """A kernel known to :func:`sklearn.metrics.pairwise.pairwise_kernels`: a name or a callable."""

    metric: object
    params: dict = field(default_factory=dict)

    def square(self, X):
        """Return a fresh K(X, X) that the caller may overwrite."""
        K = _fresh(self.cross(X, X))
        return _symmetrised(K) if callable(self.metric) else K

    def cross(self, X, Z):
        """Return K(X, Z)."""
        return pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **self.params)

    def factor(self, X):
        """Return Phi with K = Phi Phi' where that is exact and smaller than K, else None."""
        return X if self.metric == "linear" and X.shape[1] < X.shape[0] else None


@dataclass(frozen=True)
class KernelGram:
    """A :mod:`sklearn.gaussian_process.kernels` kernel."""

    kernel: Kernel

    def square(self, X):
        """Return a fresh K(X, X) that the caller may overwrite."""
        return evaluate(self.kernel, X)

    def cross(self, X, Z):
        """Return K(X, Z)."""
        return evaluate(self.kernel, X, Z)

    def diagonal(self, X):
        """Return the diagonal of K(X, X) without forming it."""
        return self.kernel.diag(X)

    def factor(self, X):
        """Return None: no exact factor is known for a general kernel."""
        return None


@dataclass(frozen=True)
class PrecomputedGram:
    """Matrices made by the caller: what is passed as X is the kernel matrix itself."""

    def square(self, K):
        """Return a checked copy of K, which the caller may overwrite; float32 stays float32."""
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs the square matrix K(X_train, X_train) in fit, got shape "
                f"{K.shape}. Pass K with one row and one column per training row."
            )
        return _symmetrised(np.array(K, order="C"))

    def cross(self, K_cross, _):
        """Return K(X, X_train) as it was passed."""
        return np.asarray(K_cross, dtype=np.float64)

    def factor(self, K):
        """Return None: K is all there is."""
        return None


def make_gram(kernel, params=None):
    """Return the gram object of a kernel given by name, callable, sklearn GP kernel or 'precomputed'."""
    if isinstance(kernel, Kernel):
        return KernelGram(kernel)
    if isinstance(kernel, str) and kernel == "precomputed":
        return PrecomputedGram()
    return PairwiseGram(kernel, dict(params or {}))


def _fresh(K):
    return np.ascontiguousarray(K, dtype=np.float64)


def _symmetrised(K):
    largest = np.abs(K).max(initial=0.0)
    asymmetry = np.abs(K - K.T).max(initial=0.0)
    if asymmetry > _SYMMETRY_TOLERANCE * largest:
        raise ValueError(
            f"The kernel matrix is not symmetric: |K - K'| reaches {asymmetry:.3g} where the largest "
            f"entry is {largest:.3g}. Pass a symmetric matrix, for example (K + K.T) / 2, or a kernel "
            "with k(a, b) = k(b, a)."
        )
    return 0.5 * (K + K.T) if asymmetry else K
