"""Scores of targets with holes."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..support.types import SparseOrDense

__all__ = ["ScoresObserved"]


class ScoresObserved(RegressorMixin):
    """A regressor whose score takes NaN in a two-dimensional y for entries that were not observed."""

    def score(self, X: SparseOrDense, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R^2, averaged over outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Test inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            True targets. Where a two-dimensional y is NaN it was not observed: R^2 of an output is that of
            its observed rows, and outputs without any have no part in the average.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        Y = np.asarray(y)
        if Y.ndim != 2 or Y.dtype.kind != "f" or not np.isnan(Y).any():
            return super().score(X, y, sample_weight)
        predicted = np.reshape(self.predict(X), Y.shape)
        weight = np.ones(len(Y)) if sample_weight is None else np.asarray(sample_weight)
        seen = ~np.isnan(Y)
        scores = [
            r2_score(Y[rows, j], predicted[rows, j], sample_weight=weight[rows])
            for j, rows in enumerate(seen.T)
            if rows.any()
        ]
        return float(np.mean(scores))
