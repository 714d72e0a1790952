"""Rows of all shapes, sizes, offsets, types and weights."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Sample", "draw_sample", "maybe"]

# Powers of ten of the units of inputs, targets and weights: mostly ordinary ones, sometimes the largest.
_ORDINARY, _EXTREME = 3.0, 150.0
_LARGEST_WEIGHT = 12.0


@dataclass(frozen=True)
class Sample:
    """Rows to fit, weights or None, and new rows of the same kind."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    X_new: np.ndarray

    def permuted(self, order):
        """Return the same rows in another order."""
        weight = None if self.weight is None else self.weight[order]
        return replace(self, X=self.X[order], y=self.y[order], weight=weight)

    def with_targets(self, y):
        """Return the same rows with other targets."""
        return replace(self, y=y)

    @property
    def targets(self):
        """Targets as (n, m) floats."""
        y = np.asarray(self.y, dtype=np.float64)
        return y.reshape(len(y), -1)

    def describe(self):
        """Return the facts in a few words."""
        weight = "none" if self.weight is None else f"{self.weight.min():.1e}..{self.weight.max():.1e}"
        return f"X {self.X.shape} {self.X.dtype} y {self.y.shape} {self.y.dtype} weights {weight}"


def maybe(rng, probability):
    """Return True with a probability."""
    return bool(rng.uniform() < probability)


def draw_sample(rng, *, positive=False):
    """Return a `Sample`; with `positive`, inputs are not negative."""
    n = _rows(rng)
    X = _inputs(rng, n + 4, int(rng.integers(1, 5)))
    X = np.abs(X) if positive else X
    X, X_new = X[:n], X[n:]
    if maybe(rng, 0.25):
        X = X[rng.integers(0, n, n)]  # duplicates
    y = _targets(rng, X)
    return Sample(_stored(rng, X), _stored_targets(rng, y), _weights(rng, n), X_new)


def _rows(rng):
    """Return a number of rows: beyond 64 a decomposition keeps its vectors in reflectors."""
    if maybe(rng, 0.2):
        return int(rng.choice([1, 2, 3, 4, 5]))
    return int(rng.integers(65, 130)) if maybe(rng, 0.2) else int(rng.integers(5, 60))


def _size(rng):
    """Return a unit: a power of ten."""
    widest = _EXTREME if maybe(rng, 0.15) else _ORDINARY
    return 10.0 ** rng.uniform(-widest, widest) if maybe(rng, 0.6) else 1.0


def _offset(rng):
    return 10.0 ** rng.uniform(0, 8) if maybe(rng, 0.2) else 0.0


def _inputs(rng, n, p):
    X = rng.normal(size=(n, p)) if maybe(rng, 0.7) else rng.integers(-3, 4, (n, p)).astype(float)
    if maybe(rng, 0.1):
        X[:, 0] = 1.0
    return (X + _offset(rng)) * _size(rng)


def _targets(rng, X):
    n, m = len(X), int(rng.integers(1, 4))
    spread = np.ptp(X, axis=0)
    Z = (X - X[0]) / np.where(spread > 0, spread, 1.0)
    noise = rng.choice([0.0, 1e-8, 1e-3, 0.3, 10.0])
    Y = np.sin(3.0 * Z @ rng.normal(size=(X.shape[1], m))) + noise * rng.normal(size=(n, m))
    if maybe(rng, 0.08):
        Y[:, 0] = 0.7
    Y = (Y + _offset(rng)) * _size(rng)
    return Y[:, 0] if maybe(rng, 0.6) else Y


def _weights(rng, n):
    if maybe(rng, 0.7):
        return None
    widest = _LARGEST_WEIGHT if maybe(rng, 0.3) else 1.0
    weight = 10.0 ** rng.uniform(-widest, widest, n)
    if maybe(rng, 0.4):
        weight[rng.uniform(size=n) < 0.3] = 0.0
    return weight


def _stored(rng, X):
    """Return X as users store it: other types, orders and strides."""
    if maybe(rng, 0.1) and np.abs(X).max() < 1e30:
        X = X.astype(np.float32)
    way = rng.choice(["as it is", "fortran", "strided", "read-only"])
    if way == "fortran":
        return np.asfortranarray(X)
    if way == "strided":
        return np.repeat(X, 2, axis=0)[::2]
    X.flags.writeable = way != "read-only"
    return X


def _stored_targets(rng, y):
    if maybe(rng, 0.1) and np.abs(y).max() < 1e8:
        return np.round(y).astype(np.int64)
    return y.astype(np.float32) if maybe(rng, 0.05) and 1e-30 < np.abs(y).max() < 1e30 else y
