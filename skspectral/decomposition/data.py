"""What a model is fitted to."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..kernels.gram import scattered
from ..linalg.rows import Rows, span
from ..support.pickling import WithoutCache

__all__ = ["Data"]


@dataclass(frozen=True)
class Data(WithoutCache):
    """Rows: inputs, targets, weights and mean functions.

    Attributes
    ----------
    X : ndarray or sparse matrix of n rows
        Inputs, or the kernel matrix where it is given.
    Y : ndarray of shape (n, m)
        Targets; NaN where an output was not observed.
    weight : ndarray of shape (n,) or None
        Relative precisions; 0 means that a row is absent, None that all weights are 1.
    basis : ndarray of shape (n, functions) or None
        Unpenalised mean functions at the rows.
    """

    X: np.ndarray
    Y: np.ndarray
    weight: np.ndarray | None = None
    basis: np.ndarray | None = None

    @classmethod
    def with_intercept(cls, X, Y, weight, fit_intercept):
        """Return rows whose mean is a constant, or 0 without an intercept."""
        return cls(X, Y, weight, np.ones((len(Y), 1)) if fit_intercept else None)

    def __len__(self):
        return len(self.Y)

    @cached_property
    def observed(self):
        """Which outputs were observed in which rows, (n, m)."""
        return ~np.isnan(self.Y)

    @property
    def has_holes(self):
        """Whether an output was not observed in some row."""
        return not self.observed.all()

    def by_pattern(self):
        """Return (outputs, rows) of all outputs that were observed in the same rows of positive weight.

        Rows where they were not observed have weight 0, and outputs that were never observed are left out.
        """
        seen = self.observed & self.present[:, None]
        patterns, which = np.unique(seen, axis=1, return_inverse=True)
        groups = [np.flatnonzero(which.ravel() == i) for i in range(patterns.shape[1])]
        groups = sorted((group for group in groups if seen[:, group[0]].any()), key=lambda group: group[0])
        return [(outputs, self._of_pattern(outputs, seen[:, outputs[0]])) for outputs in groups]

    def _of_pattern(self, outputs, seen):
        Y = np.where(seen[:, None], self.Y[:, outputs], 0.0)
        weight = seen.astype(np.float64) if self.weight is None else np.where(seen, self.weight, 0.0)
        return replace(self, Y=Y, weight=None if seen.all() and self.weight is None else weight)

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.Y.shape[1]

    @cached_property
    def rows(self):
        """Weights and mean functions as linear algebra needs them."""
        return Rows.make(len(self), self.basis, self.weight)

    @cached_property
    def standardised(self):
        """Targets outside the mean space with unit mean square, their scale, and Q'y; see `Rows`."""
        return self.rows.standardise(self.Y)

    @property
    def present(self):
        """Which rows have positive weight, (n,)."""
        return np.ones(len(self), dtype=bool) if self.weight is None else self.weight > 0

    def shuffled(self, gram):
        """Return indices of the rows in an order that looks random and depends on their content alone."""
        if self.has_holes:
            Y = np.where(self.observed, self.Y, 0.0)
            Y = np.where(self.observed, Y - Y.sum(axis=0) / np.maximum(self.observed.sum(axis=0), 1), 0.0)
        else:
            Y = self.Y - self.Y.sum(axis=0) / len(self)
        size = np.abs(Y).max(axis=0)
        Y = (Y / np.where(size > 0, size, 1.0)).sum(axis=1)
        return np.argsort(np.mod(gram.fingerprint(self.X) + scattered(Y), 1.0), kind="stable")

    def subset(self, keep):
        """Return some of the rows, by index or mask, with functions of the same mean that they tell apart."""
        weight = None if self.weight is None else self.weight[keep]
        basis = None if self.basis is None else span(self.basis[keep])
        return Data(self.X[keep], self.Y[keep], weight, basis)

    def detrended(self):
        """Return the targets less their least-squares fit by mean functions, (n, m)."""
        if self.basis is None:
            return self.Y
        rows = self.rows
        return self.Y - self.basis @ (rows.R_inv @ (rows.Q.T @ (rows.sqrt_weight * self.Y)))

    def of_present_rows(self):
        """Return the rows of positive weight."""
        present = self.present
        return self if present.all() else self.subset(present)

    def of_varying_outputs(self):
        """Return the rows without outputs that are no more than mean functions, None if all are."""
        varies = self.standardised[0].any(axis=0)
        if varies.all():
            return self
        return replace(self, Y=self.Y[:, varies]) if varies.any() else None
