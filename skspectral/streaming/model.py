"""What a stream has seen so far, and the tuned model that follows from it."""

from dataclasses import dataclass, replace

import numpy as np

from ..inference.solution import Solution
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
    """A tuned model: all that predictions need, a slab of rows at a time."""

    features: Features
    solution: Solution
    y_ndim: int

    @property
    def intercept(self):
        """The constant of every output, (m,); 0 without an intercept."""
        beta = self.solution.beta
        return beta[0] if len(beta) else np.zeros(beta.shape[1])

    def mean(self, X):
        """Return the predictive means at X."""
        return self._in_slabs(lambda x: self.features(x) @ self.solution.range_dual + self.intercept, X)

    def std(self, X, include_noise):
        """Return the predictive standard deviations at X."""
        noise = self.solution.noise_var if include_noise else 0.0
        return self._in_slabs(lambda x: np.sqrt(self._latent_variance(x) + noise), X)

    def _latent_variance(self, X):
        prior, basis = self.features.prior(X), np.ones((len(X), len(self.solution.beta)))
        geometry = self.solution.spectrum.project_features(self.features(X), prior, basis)
        return self.solution.predictive_variance(*geometry)

    def _in_slabs(self, function, X):
        columns = np.concatenate([function(X[i : i + SLAB]) for i in range(0, max(len(X), 1), SLAB)])
        return columns[:, 0] if self.y_ndim == 1 else columns
