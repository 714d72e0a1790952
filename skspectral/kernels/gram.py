"""Kernels as matrices: all of K(X, X) or K(X, Z), or parts of them.

This room knows inputs and kernels. It knows nothing of targets, variances or factorisations.
Every kind of kernel gets the same verbs, so that nothing downstream asks which kind it has.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Kernel, RationalQuadratic
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from .algebra import evaluate

__all__ = [
    "HISTOGRAM_NAMES",
    "PAIRWISE_NAMES",
    "KernelGram",
    "PairwiseGram",
    "PrecomputedGram",
    "make_gram",
    "product",
]

PAIRWISE_NAMES = frozenset(PAIRWISE_KERNEL_FUNCTIONS)
# Kernels that are positive definite whatever their parameters, with values of 1 on the diagonal.
_POSITIVE_NAMES = frozenset({"rbf", "laplacian"})
# Kernels of histograms: non-negative dense inputs only.
HISTOGRAM_NAMES = frozenset({"chi2", "additive_chi2"})

_EPS, _EPS_OF_SINGLE = float(np.finfo(np.float64).eps), float(np.finfo(np.float32).eps)
# Largest |K - K'| relative to max |K| that is taken for rounding in a matrix made elsewhere.
_SYMMETRY_TOLERANCE = 1e-6
# Rows whose kernel among themselves is made to read off its diagonal, where nothing better is known.
_DIAGONAL_BLOCK = 64
# Large beside the number of rows, small beside the digits of a row's content.
_SCATTER = 12345.678
# Rows of a given matrix that are checked at a time, and columns that are made at a time for products.
_CHECK_BLOCK, _PRODUCT_BLOCK = 256, 512


class _OnRows:
    """Parts of K(X, X) that need no more than `cross`."""

    # Whether K is known to be positive semi-definite, so that a factor of it may be looked for.
    is_positive = False

    def check(self, X):
        """Do nothing: K(X, X) is square and symmetric by making."""

    def precision(self, X):
        """Return the relative error of entries: they are made here, in float64."""
        return _EPS

    def fingerprint(self, X):
        """Return a number in [0, 1) for each row: looks random, and depends on the row's content alone.

        Objects have no content that is known here: theirs depends on their place.
        """
        if getattr(X, "ndim", 1) != 2 or X.dtype.kind not in "fiub":
            return scattered(np.arange(X.shape[0], dtype=np.float64))
        direction = _direction(X.shape[1])
        return scattered(X @ direction if hasattr(X, "tocsr") else (X * direction).sum(axis=1))

    def columns(self, X, chosen):
        """Return the columns K(X, X[chosen])."""
        return self.cross(X, X[chosen])

    def block(self, X, chosen):
        """Return K(X[chosen], X[chosen])."""
        return self.cross(X[chosen], X[chosen])

    def rows(self, X, chosen):
        """Return the inputs X[chosen] as `cross` takes them."""
        return X[chosen]


@dataclass(frozen=True)
class PairwiseGram(_OnRows):
    """A kernel known to :func:`sklearn.metrics.pairwise.pairwise_kernels`: a name or a callable."""

    metric: object
    params: dict = field(default_factory=dict)

    def square(self, X):
        """Return a fresh K(X, X) that the caller may overwrite."""
        return _fresh(self.cross(X, X))

    def cross(self, X, Z):
        """Return K(X, Z)."""
        length = self._rbf_length(X, Z)
        if length is not None:
            return evaluate(RBF(length), X, None if Z is X else Z)
        params = {name: value for name, value in self.params.items() if value is not None}
        if self._is_of_histograms:
            X, Z = (np.require(each, requirements="W") for each in (X, Z))  # scikit-learn's loop asks for it
        with np.errstate(over="ignore"):  # infinite entries are refused where they matter, with a message
            return pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **params)

    def diagonal(self, X):
        """Return the diagonal of K(X, X), in blocks."""
        if self.is_positive:
            return np.ones(X.shape[0])
        blocks = (X[i : i + _DIAGONAL_BLOCK] for i in range(0, X.shape[0], _DIAGONAL_BLOCK))
        return np.concatenate([np.diag(self.cross(block, block)) for block in blocks])

    @property
    def is_positive(self):
        """Whether K is known to be positive semi-definite."""
        return isinstance(self.metric, str) and self.metric in _POSITIVE_NAMES

    @property
    def _is_of_histograms(self):
        return isinstance(self.metric, str) and self.metric in HISTOGRAM_NAMES

    def _rbf_length(self, X, Z):
        """Return the length scale of an RBF on dense inputs, None for anything else."""
        if self.metric != "rbf" or not (isinstance(X, np.ndarray) and isinstance(Z, np.ndarray)):
            return None
        gamma = self.params.get("gamma")
        gamma = 1.0 / X.shape[1] if gamma is None else gamma
        return 1.0 / np.sqrt(2.0 * gamma) if gamma > 0 else None

    def factor(self, X):
        """Return Phi with K = Phi Phi' where that is exact and smaller than K, else None."""
        return X if self.metric == "linear" and X.shape[1] < X.shape[0] else None


@dataclass(frozen=True)
class KernelGram(_OnRows):
    """A :mod:`sklearn.gaussian_process.kernels` kernel."""

    kernel: Kernel

    @property
    def is_positive(self):
        """Whether K is known to be positive semi-definite: pairwise kernels may be of any kind."""
        return isinstance(self.kernel, (RBF, RationalQuadratic))

    def square(self, X):
        """Return a fresh K(X, X) that the caller may overwrite."""
        return evaluate(self.kernel, X)

    def cross(self, X, Z):
        """Return K(X, Z)."""
        return evaluate(self.kernel, X, Z)

    def columns(self, X, chosen):
        """Return columns of K(X, X), with the white noise on its diagonal that K(X, Z) does not have."""
        K = self.cross(X, X[chosen])
        K[chosen, np.arange(len(chosen))] = self.kernel.diag(X[chosen])
        return K

    def block(self, X, chosen):
        """Return the block of K(X, X) among the chosen rows."""
        return evaluate(self.kernel, X[chosen])

    @np.errstate(over="ignore")
    def diagonal(self, X):
        """Return the diagonal of K(X, X) without forming it."""
        return self.kernel.diag(X)

    def factor(self, X):
        """Return None: no exact factor is known for a general kernel."""
        return None


@dataclass(frozen=True)
class PrecomputedGram:
    """Matrices made by the caller: what is passed as X is the kernel matrix itself."""

    is_positive = False

    def square(self, K):
        """Return a checked copy of K in float64, which the caller may overwrite."""
        _check_square(K)
        return _symmetrised(np.array(K, dtype=np.float64, order="C"))

    def fingerprint(self, K):
        """Return a number in [0, 1) for each row that depends on the values of its entries alone."""
        return scattered(np.einsum("ij,ij->i", K, K))

    def precision(self, K):
        """Return the relative error of entries, larger for what was made in float32 or rounded to it."""
        if K.dtype == np.float32:
            return _EPS_OF_SINGLE
        corner = np.triu(K[:_CHECK_BLOCK, :_CHECK_BLOCK], 1)
        with np.errstate(over="ignore"):
            is_rounded = np.array_equal(corner, corner.astype(np.float32)) and np.mod(corner, 1.0).any()
        return _EPS_OF_SINGLE if is_rounded else _EPS

    def check(self, K):
        """Refuse a K that is not square or not symmetric, without another array of its size."""
        _check_square(K)
        n, largest, asymmetry = len(K), 0.0, 0.0
        for i in range(0, n, _CHECK_BLOCK):
            rows = slice(i, i + _CHECK_BLOCK)
            largest = max(largest, np.abs(K[rows]).max(initial=0.0))
            asymmetry = max(asymmetry, np.abs(K[rows] - K[:, rows].T).max(initial=0.0))
        _check_symmetry(asymmetry, largest)

    def cross(self, K_cross, rows):
        """Return K(X, X_train) as it was passed, or the columns of given training rows."""
        K_cross = np.asarray(K_cross, dtype=np.float64)
        return K_cross[:, rows] if np.ndim(rows) == 1 else K_cross

    def columns(self, K, chosen):
        """Return columns of K."""
        return np.asarray(K[:, chosen], dtype=np.float64)

    def block(self, K, chosen):
        """Return the block of K among the chosen rows."""
        return np.asarray(K[np.ix_(chosen, chosen)], dtype=np.float64)

    def rows(self, K, chosen):
        """Return the chosen indices: there are no inputs."""
        return chosen

    def diagonal(self, K):
        """Return the diagonal of K."""
        return np.array(np.diag(K), dtype=np.float64)

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


@lru_cache(maxsize=16)
def _direction(n_inputs):
    """Return numbers by which inputs are added up, the same each time."""
    return np.random.default_rng(0).uniform(1.0, 2.0, n_inputs)


def scattered(values):
    """Return numbers mapped to [0, 1) so that neighbours are far apart; equal ones stay equal."""
    largest = np.abs(values).max(initial=0.0)
    values = values / np.exp2(np.frexp(largest)[1] - 1)  # whose squares are numbers
    spread = values.std() or 1.0
    return np.mod((values - values.mean()) / spread * _SCATTER, 1.0)


def product(gram, X, V, report=None):
    """Return K(X, X) V for V (n, k) without K: every column is made once, a block of them at a time.

    `report`, if given, is called with the number of rows done.
    """
    n = X.shape[0]
    KV = np.empty_like(V)
    for i in range(0, n, _PRODUCT_BLOCK):
        rows = np.arange(i, min(i + _PRODUCT_BLOCK, n))
        KV[rows] = gram.columns(X, rows).T @ V
        if report is not None:
            report(i + len(rows))
    return KV


def _fresh(K):
    return np.ascontiguousarray(K, dtype=np.float64)


def _check_square(K):
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs the square matrix K(X_train, X_train) in fit, got shape "
            f"{K.shape}. Pass K with one row and one column per training row."
        )


def _symmetrised(K):
    asymmetry = np.abs(K - K.T).max(initial=0.0)
    _check_symmetry(asymmetry, np.abs(K).max(initial=0.0))
    return 0.5 * (K + K.T) if asymmetry else K


def _check_symmetry(asymmetry, largest):
    if asymmetry > _SYMMETRY_TOLERANCE * largest:
        raise ValueError(
            f"The kernel matrix is not symmetric: |K - K'| reaches {asymmetry:.3g} where the largest "
            f"entry is {largest:.3g}. Pass a symmetric matrix, for example (K + K.T) / 2, or a kernel "
            "with k(a, b) = k(b, a)."
        )
