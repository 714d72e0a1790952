"""From inputs to features: a kernel, landmarks, and how a few rows decide on both."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..decomposition.data import Data
from ..decomposition.decompose import Problem, greedy_factor
from ..inference.variances import VarianceBounds
from ..kernels.gram import make_gram
from ..kernels.parts import default_kernel, split_kernel
from ..linalg.factors import FeatureMap, independent, pivoted_cholesky
from .statistics import FeatureStatistics

__all__ = ["SLAB", "Chunk", "Features", "checked_landmarks", "sample_size", "unit_kernel"]

# Rows among which landmarks are looked for: this many, or this many per landmark.
_SMALLEST_SAMPLE, _PER_LANDMARK = 1000, 10
# Share of the trace of K, on these rows, below which further landmarks are rounding.
_SPAN = 1e-12
# Rows whose features are held at a time.
SLAB = 8192


@dataclass(frozen=True)
class Chunk:
    """Validated rows: inputs (n, p), targets (n, m), weights (n,) or None; rows of weight 0 are dropped."""

    X: np.ndarray
    Y: np.ndarray
    weight: np.ndarray | None = None

    @classmethod
    def present(cls, X, Y, weight):
        """Return the rows of positive weight."""
        if weight is None or weight.all():
            return cls(X, Y, weight)
        return cls(X[weight > 0], Y[weight > 0], weight[weight > 0])

    def __len__(self):
        return len(self.X)

    def __getitem__(self, rows):
        return Chunk(self.X[rows], self.Y[rows], None if self.weight is None else self.weight[rows])

    def joined(self, other):
        """Return the rows of both, these first."""
        weight = None
        if self.weight is not None or other.weight is not None:
            parts = (np.ones(len(c)) if c.weight is None else c.weight for c in (self, other))
            weight = np.concatenate([*parts])
        return Chunk(np.concatenate([self.X, other.X]), np.concatenate([self.Y, other.Y]), weight)


@dataclass(frozen=True)
class Features:
    """Phi(x) = L^-1 k(Z, x) of a kernel of unit variance, with the bounds of its variances.

    Attributes
    ----------
    kernel : Kernel
        Without constant factor and noise.
    bounds : VarianceBounds
        What the user's kernel says of the two variances.
    feature_map : FeatureMap
        Landmarks Z and the Cholesky factor of K(Z, Z).
    """

    kernel: object
    bounds: VarianceBounds
    feature_map: FeatureMap

    @classmethod
    def choose(cls, sample, start, landmarks, selection, fit_intercept, random_state):
        """Return the features that a sample of rows suggests.

        Parameters
        ----------
        sample : Chunk
            Rows to choose from.
        start : tuple of Kernel and VarianceBounds
            See `unit_kernel`.
        landmarks : int or ndarray of shape (r, p)
            How many, or which.
        selection : {"pivots", "greedy"}
            How they are chosen.
        fit_intercept : bool
            Whether the greedy choice explains targets less a constant.
        random_state : int, RandomState instance or None
            Of the greedy choice.
        """
        core, bounds = start
        gram = make_gram(core)
        if np.ndim(landmarks):
            return cls(core, bounds, FeatureMap(*independent(gram, landmarks)))
        rank = min(int(landmarks), len(sample))
        if selection == "greedy":
            seed = 0 if random_state is None else check_random_state(random_state).randint(2**31)
            data = Data.with_intercept(sample.X, sample.Y, sample.weight, fit_intercept)
            factor = greedy_factor(Problem(gram, data, bounds=bounds), rank, seed)
        else:
            trace = float(gram.diagonal(sample.X).sum())
            factor = pivoted_cholesky(gram, sample.X, tau=_SPAN * trace, rank=rank)
        return cls(core, bounds, factor.feature_map)

    @property
    def rank(self):
        """Number of features."""
        return len(self.feature_map.L)

    def __call__(self, X):
        """Return the features of inputs, (n, r)."""
        return self.feature_map(make_gram(self.kernel), X)

    def values(self, X):
        """Return what predictions are made of, see `FeatureMap`."""
        return self.feature_map.values(make_gram(self.kernel), X)

    def prior(self, X):
        """Return k(x, x) of inputs, (n,)."""
        return make_gram(self.kernel).diagonal(X)

    def statistics(self, chunk):
        """Return the `FeatureStatistics` of a chunk, a slab at a time."""
        total = FeatureStatistics.nothing(self.rank, chunk.Y.shape[1])
        for i in range(0, len(chunk), SLAB):
            slab = chunk[i : i + SLAB]
            prior = self.prior(slab.X)
            total = total + FeatureStatistics.from_rows(self(slab.X), slab.Y, slab.weight, prior)
        return total


def sample_size(landmarks, learns):
    """Return how many rows are needed to choose landmarks and learn, 1 where nothing is left to find."""
    if np.ndim(landmarks) and not learns:
        return 1
    count = len(landmarks) if np.ndim(landmarks) else int(landmarks)
    return max(_SMALLEST_SAMPLE, _PER_LANDMARK * count)


def unit_kernel(kernel, sample, landmarks):
    """Return the core of unit variance and the bounds of the variances.

    Parameters
    ----------
    kernel : Kernel or None
        None means RBF with the length of `SpectralGPRegressor`, from the landmarks if they are given.
    sample : Chunk
        Some of the rows.
    landmarks : int or ndarray of shape (r, p)
        How many, or which.
    """
    if np.ndim(landmarks) == 0 and not len(sample):
        raise ValueError("There are no rows of positive weight to choose landmarks from. Pass landmarks.")
    if kernel is None:
        X, weight = (landmarks, None) if np.ndim(landmarks) else (sample.X, sample.weight)
        return default_kernel(X, weight), VarianceBounds()
    parts = split_kernel(clone(kernel))
    return parts.core, VarianceBounds(parts.noise_bounds, parts.signal_bounds)


def checked_landmarks(landmarks, n_columns):
    """Return landmarks as an array, or how many there shall be."""
    if np.ndim(landmarks) == 0:
        return int(landmarks)
    Z = np.array(landmarks, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[1] != n_columns or not len(Z):
        raise ValueError(
            f"landmarks have shape {Z.shape} but the inputs have {n_columns} columns. Pass an array of shape "
            f"(n_landmarks, {n_columns}), or a number to have them chosen."
        )
    if not np.isfinite(Z).all():
        raise ValueError("landmarks have NaN or infinite entries. Pass finite inputs.")
    return Z
