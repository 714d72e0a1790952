"""A fitted expansion in kernel functions: means and spreads at new inputs."""

from dataclasses import dataclass

import numpy as np

from ..linalg.active import Active
from ..linalg.dictionary import Dictionary

__all__ = ["FittedExpansion", "Spread", "candidates"]

# Entries of the largest array that predictions make, a block of rows at a time.
_BLOCK_ENTRIES = 2**22
# Rows beyond which functions are those of some rows only.
_MOST_CANDIDATES = 20_000


def candidates(data, gram):
    """Return the rows whose functions are candidates, in an order that looks random."""
    return data.shuffled(gram)[:_MOST_CANDIDATES]


@dataclass(frozen=True)
class Spread:
    """How uncertain one output is.

    Attributes
    ----------
    functions : ndarray of shape (M,)
        Which of the functions it uses.
    root : ndarray of shape (M, k)
        Their coefficients have covariance noise_var root root'.
    noise_var : float
        Variance of the noise, as an observation of weight 1 has it.
    coefficient_var : float
        Factor of root root': the noise variance, or what stands for it where noise is not normal.
    signal_var : float
        Prior variance of the function at a typical row.
    active : Active or None
        The model on the rows, for `include_prior`.
    lengths : ndarray of shape (M,) or None
        Lengths of the columns that `active` knows as columns of length 1.
    """

    functions: np.ndarray
    root: np.ndarray
    noise_var: float
    coefficient_var: float
    signal_var: float = 0.0
    active: Active | None = None
    lengths: np.ndarray | None = None


@dataclass(frozen=True)
class FittedExpansion:
    """f(x) = intercept + sum_j coefficient_j k(x, x_j) for m outputs.

    Attributes
    ----------
    dictionary : Dictionary
        The functions that some output uses, on the training rows.
    coefficients : ndarray of shape (k, m)
        Coefficients, 0 where an output does not use a function.
    intercept : ndarray of shape (m,)
        Constants.
    levels : ndarray of shape (functions, k)
        Means of the functions over the rows, which the constant takes up; no rows without a constant.
    constant_var : float
        Variance of the constant over that of the noise, given the coefficients.
    spreads : tuple of Spread
        One for each output.
    y_ndim : int
        Dimensions of the user's y.
    """

    dictionary: Dictionary
    coefficients: np.ndarray
    intercept: np.ndarray
    levels: np.ndarray
    constant_var: float
    spreads: tuple
    y_ndim: int

    def _blocks(self, X, width):
        size = max(1, _BLOCK_ENTRIES // max(width, 1))
        return (slice(i, i + size) for i in range(0, max(X.shape[0], 1), size))

    def _cross(self, X):
        if not len(self.dictionary):
            return np.zeros((X.shape[0], 0))
        everything = np.arange(len(self.dictionary))
        return np.asarray(self.dictionary.gram.cross(X, self.dictionary.inputs(everything)), np.float64)

    def mean(self, X):
        """Return means (n_new, m)."""
        blocks = self._blocks(X, len(self.dictionary))
        # around the levels: a kernel that hardly varies has large coefficients that cancel
        parts = [self._centred(self._cross(X[rows])) @ self.coefficients for rows in blocks]
        return np.concatenate(parts) + self.intercept + self.levels.sum(axis=0) @ self.coefficients

    def _centred(self, cross):
        return cross - self.levels.sum(axis=0)

    def std(self, X, include_noise, include_prior):
        """Return standard deviations (n_new, m)."""
        width = len(self.dictionary.rows) if include_prior else len(self.dictionary)
        parts = [self._variance(X[rows], include_noise, include_prior) for rows in self._blocks(X, width)]
        return np.sqrt(np.concatenate(parts))

    def _variance(self, X, include_noise, include_prior):
        cross = self._centred(self._cross(X))
        beyond = self._functions_at(X) if include_prior else None
        columns = []
        for spread in self.spreads:
            here = cross[:, spread.functions]
            variance = np.sum((here @ spread.root) ** 2, axis=1) + self.constant_var
            variance = spread.coefficient_var * variance + (spread.noise_var if include_noise else 0.0)
            columns.append(variance if beyond is None else variance + _own_function(spread, here, *beyond))
        return np.column_stack(columns)

    def _functions_at(self, X):
        """Return columns of the functions centred at new inputs, and their values there, centred too."""
        gram, rows = self.dictionary.gram, self.dictionary.rows
        raw = np.asarray(gram.cross(self.dictionary.X, X), np.float64)
        values = np.asarray(gram.diagonal(X), np.float64)
        level = rows.levels(raw).sum(axis=0)
        K = rows.sqrt_weight * raw
        return K - rows.Q @ (rows.Q.T @ K), values - level


def _own_function(spread, here, columns, values):
    """Return the variance that a function centred at the new input itself would add.

    With prior variance signal_var/k(x, x)^2 it is e^2/(1/d + s): s = phi'C^-1 phi on the rows, e what is left
    of the function at x after the active ones; noise of variance 1.
    """
    if spread.noise_var == 0:
        return 0.0
    S, e = spread.active.with_function(columns, here / spread.lengths, values)
    peak = np.where(values != 0, values**2, 1.0)
    ratio = np.where(values != 0, spread.signal_var / peak, 0.0) / spread.noise_var
    return spread.noise_var * ratio * e**2 / (1.0 + ratio * S)
