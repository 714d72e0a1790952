"""What estimators share that predict from few kernel functions, and how they are put together."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..decomposition.data import Data
from ..linalg.dictionary import Dictionary
from ..support.intervals import check_coverage, normal_interval
from ..support.shapes import like_targets
from ..support.types import FloatArray, SparseOrDense
from ..support.validation import check_weights
from .by_name import ByKernelName
from .expansion import FittedExpansion, candidates

__all__ = ["SparseExpansion", "SparseRegression", "assemble"]


def assemble(dictionary, data, functions, coefficients, spread, y_ndim, offset=0.0):
    """Return the fitted expansion of m outputs, and the rows whose functions some of them use.

    Parameters
    ----------
    dictionary : Dictionary
        Candidate functions.
    data : Data
        Rows.
    functions, coefficients : list of m ndarrays
        Positions in the dictionary of the functions that an output uses, and their coefficients.
    spread : callable
        spread(j, functions) returns the `Spread` of output j, given which of the used functions are its own.
    y_ndim : int
        Dimensions of the user's y.
    offset : float or ndarray of shape (m,), default=0
        What is added to the constant that makes residuals 0 on average.
    """
    used = np.unique(np.concatenate([dictionary.centres[a] for a in functions]))
    own = [np.searchsorted(used, dictionary.centres[a]) for a in functions]
    theta = np.zeros((len(used), len(own)))
    for j, (a, values) in enumerate(zip(own, coefficients, strict=True)):
        theta[a, j] = values
    few, rows = Dictionary(dictionary.gram, data.X, data.rows, used), data.rows
    levels = _levels(few)
    intercept = offset + rows.levels(data.Y).sum(axis=0) - levels.sum(axis=0) @ theta
    spreads = tuple(spread(j, a) for j, a in enumerate(own))
    constant_var = float(np.sum(rows.R_inv**2))
    return FittedExpansion(few, theta, intercept, levels, constant_var, spreads, y_ndim), used


def _levels(dictionary):
    """Return coefficients of mean functions in all kernel functions, made only where there are both."""
    rows, k = dictionary.rows, len(dictionary)
    if not (k and rows.n_mean):
        return np.zeros((rows.R_inv.shape[0], k))
    return rows.levels(dictionary.raw(np.arange(k)))


class SparseExpansion(ByKernelName, BaseEstimator):
    """What estimators share that predict from few kernel functions."""

    _parameter_constraints: dict = {
        **ByKernelName._parameter_constraints,
        "fit_intercept": ["boolean"],
        "verbose": ["verbose"],
    }

    def _data(self, X, Y, sample_weight):
        """Return rows of positive weight, and where they were; a given matrix must be square."""
        if self._is_precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs the square matrix K(X_train, X_train) in fit, got shape "
                f"{X.shape}. Pass K with one row and one column per training row; column j is the function "
                "of row j, and K need not be symmetric."
            )
        data = Data.with_intercept(X, Y, check_weights(sample_weight, X), self.fit_intercept)
        kept = np.flatnonzero(data.present)
        if len(kept) == len(data):
            return data, kept
        present = data.of_present_rows()
        X = present.X[:, kept] if self._is_precomputed else present.X
        return Data(X, present.Y, present.weight, present.basis), kept

    def _dictionary(self, data, gram):
        return Dictionary(gram, data.X, data.rows, candidates(data, gram))


class SparseRegression(SparseExpansion):
    """What such regressors share."""

    def predict(
        self,
        X: SparseOrDense,
        return_std: bool = False,
        include_noise: bool = True,
        include_prior: bool = False,
    ) -> FloatArray | Any:
        """Predict by the kernel functions of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.
        return_std : bool, default=False
            Whether to return standard deviations, too.
        include_noise : bool, default=True
            Whether they are those of new observations (of weight 1) or of the function alone.
        include_prior : bool, default=False
            Whether they include what a function centred at the new row itself might add. Without it, they
            shrink to those of a constant far from the data, where all functions of the model are 0; with it,
            they grow there to the standard deviation that the function has a priori at a typical training
            row. It costs O(n_samples) kernel values for each new row.

        Returns
        -------
        mean : ndarray of shape (n_new,) or (n_new, n_outputs)
            Predictions.
        std : ndarray of the same shape
            Only with ``return_std=True``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._input_rules)
        X = X[:, self._columns] if self._is_precomputed else X
        fitted = self._fitted
        mean = like_targets(fitted.mean(X), fitted.y_ndim)
        if not return_std:
            return mean
        if include_prior and not self._knows_prior:
            raise ValueError(
                "include_prior=True needs the kernel of new rows with all others and a prior variance of the "
                f"function; {type(self).__name__} with kernel={self.kernel!r} has none. Use a kernel that is "
                "not precomputed and RelevanceVectorRegressor, or include_prior=False."
            )
        return mean, like_targets(fitted.std(X, include_noise, include_prior), fitted.y_ndim)

    @property
    def _knows_prior(self):
        return not self._is_precomputed and self._fitted.spreads[0].active is not None

    def predict_interval(
        self,
        X: SparseOrDense,
        coverage: float = 0.95,
        include_noise: bool = True,
        include_prior: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        """Return normal intervals with equal tails.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows.
        coverage : float, default=0.95
            Probability of an interval.
        include_noise, include_prior
            As of `predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n_new,) or (n_new, n_outputs)
        """
        coverage = check_coverage(coverage)
        mean, std = self.predict(X, True, include_noise, include_prior)
        return normal_interval(mean, std, coverage)
