"""What a stream has seen so far, and the tuned model that follows from it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..criteria.lower_bound import certain_evidence
from ..inference.tuned import Tuned, tune
from ..linalg.moments import FeatureSpectrum
from ..support.shapes import like_targets
from .features import SLAB, Chunk, Features
from .statistics import FeatureStatistics

__all__ = ["Model", "State"]


@dataclass(frozen=True)
class State:
    """What was seen: statistics of features, or rows that wait for features."""

    y_ndim: int
    features: Features | None
    statistics: FeatureStatistics
    waiting: Chunk | None = None

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.statistics.n_outputs

    @property
    def n_rows(self):
        """Rows of positive weight so far."""
        return self.statistics.n_rows if self.waiting is None else len(self.waiting)

    def with_rows(self, chunk, report=None):
        """Return the state after more rows."""
        total = self.statistics
        for i in range(0, len(chunk), SLAB):
            total = total + self.features.statistics(chunk[i : i + SLAB])
            if report is not None:
                report(total.n_rows, self.features.rank)
        return replace(self, statistics=total)

    def waiting_with(self, chunk):
        """Return the state after more rows that wait for features."""
        return replace(self, waiting=chunk if self.waiting is None else self.waiting.joined(chunk))

    def started(self, features, report=None):
        """Return the state with features, the waiting rows summed."""
        nothing = FeatureStatistics.nothing(features.rank, self.n_outputs)
        return State(self.y_ndim, features, nothing).with_rows(self.waiting, report)


@dataclass(frozen=True)
class Model:
    """A tuned model: all that predictions need, a slab of rows at a time.

    Attributes
    ----------
    features : Features
        From inputs to features.
    tuned : Tuned
        The variances.
    spectrum : FeatureSpectrum
        Of the features' scatter.
    QPhi : ndarray of shape (q, r)
        root(sum w) times the mean of the features, with an intercept.
    R_inv : ndarray of shape (q, q)
        1 / root(sum w), with an intercept.
    coef : ndarray of shape (r, m)
        Coefficients of the features.
    intercept : ndarray of shape (m,)
        The constants; 0 without an intercept.
    y_ndim : int
        Dimensions of the user's y.
    """

    features: Features
    tuned: Tuned
    spectrum: FeatureSpectrum
    QPhi: np.ndarray
    R_inv: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    y_ndim: int

    @classmethod
    def make(cls, state, criterion, fit_intercept, by_bound):
        """Return the model that follows from what was seen."""
        statistics, r = state.statistics, state.features.rank
        spectrum, rotated = statistics.decompose(fit_intercept), statistics.rotate(fit_intercept)
        if by_bound and criterion.name == "evidence":
            criterion = certain_evidence(statistics.missed)
        tuned = tune(rotated, criterion, state.features.bounds)
        coef = spectrum.coefficients(rotated, tuned.noise_ratio)
        q, root = spectrum.counts.n_mean, np.sqrt(statistics.weight)
        mean_features, mean_targets = statistics.mean[:r], statistics.mean[r:]
        return cls(
            state.features,
            tuned,
            spectrum,
            QPhi=np.tile(root * mean_features, (q, 1)),
            R_inv=np.full((q, q), 1.0 / (root or 1.0)),
            coef=coef,
            intercept=q * (mean_targets - mean_features @ coef),
            y_ndim=state.y_ndim,
        )

    @cached_property
    def _coefficients(self):
        return self.features.feature_map.coefficients(self.coef)

    @cached_property
    def _projection(self):
        return self.features.feature_map.projection(self.spectrum.of_features(self.QPhi, self.R_inv))

    def mean(self, X):
        """Return the predictive means at X."""
        return self._in_slabs(lambda x: self.features.values(x) @ self._coefficients + self.intercept, X)

    def std(self, X, include_noise):
        """Return the predictive standard deviations at X."""
        noise = self.tuned.noise_var if include_noise else 0.0
        return self._in_slabs(lambda x: np.sqrt(self._latent_variance(x) + noise), X)

    def _latent_variance(self, X):
        prior, basis = self.features.prior(X), np.ones((len(X), len(self.QPhi)))
        geometry = self._projection.project(self.features.values(X), prior, basis)
        return self.tuned.honest(self.tuned.predictive_variance(*geometry))

    def _in_slabs(self, function, X):
        columns = np.concatenate([function(X[i : i + SLAB]) for i in range(0, max(len(X), 1), SLAB)])
        return like_targets(columns, self.y_ndim)
