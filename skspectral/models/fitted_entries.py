"""A fitted model of correlated outputs that were not all observed in all rows."""

from dataclasses import dataclass

import numpy as np

from ..inference.entries import EntriesSolution, solve_entries
from ..inference.mean_summary import MeanSummary
from ..support.intervals import normal_interval
from .parts import FittedParts

__all__ = ["FittedEntries", "check_entries", "correlate_entries"]

# Observed entries beyond which the dense system is refused.
_MOST_ENTRIES = 10_000
# Covariances with entries that are made at once.
_BLOCK_ENTRIES = 2**22


@dataclass(frozen=True)
class FittedEntries:
    """Means, spreads, intervals and samples of m correlated outputs; methods as those of `Fitted`.

    Attributes
    ----------
    alone : FittedParts
        The outputs alone.
    solution : EntriesSolution
        Covariances and coefficients.
    """

    alone: FittedParts
    solution: EntriesSolution

    averaged = None
    posteriors = None

    @property
    def data(self):
        """All rows."""
        return self.alone.data

    @property
    def y_ndim(self):
        """Dimensions of the user's y."""
        return self.alone.y_ndim

    @property
    def bounds(self):
        """Bounds of both variances, which covariances do not have."""
        return self.alone.bounds

    @property
    def mean_functions(self):
        """The functions of the mean, the same for all outputs."""
        return self.alone.mean_functions

    @property
    def parts(self):
        """Outputs and models of each pattern of rows, of outputs alone."""
        return self.alone.parts

    @property
    def decomposition(self):
        """That of the first output's rows."""
        return self.alone.decomposition

    @property
    def evidence_bounds(self):
        """The log evidence itself, twice."""
        return self.solution.log_evidence, self.solution.log_evidence

    def mean(self, X):
        """Return means (n_new, m), a block of rows at a time."""
        return np.concatenate([self._mean(X[rows])[0] for rows in self._blocks(X, 1)])

    def mean_and_spread(self, X, prior, include_noise):
        """Return means and standard deviations (n_new, m), or joint covariances (n_new, n_new, m)."""
        if np.ndim(prior) == 2:
            covariance = np.einsum("jajb->abj", self._joint(X, prior, include_noise))
            return self._mean(X)[0], covariance
        variance = np.einsum("njj->nj", self.output_covariance(X, prior, include_noise))
        return self.mean(X), np.sqrt(np.maximum(variance, 0.0))

    def interval(self, X, prior, coverage, include_noise):
        """Return the ends of intervals with equal tails, (n_new, m) both."""
        return normal_interval(*self.mean_and_spread(X, prior, include_noise), coverage)

    def sample(self, X, prior, n_samples, rng, include_noise):
        """Return draws from the joint distribution, (n_new, m, n_samples)."""
        mean, _ = self._mean(X)
        C = self._joint(X, prior, include_noise).reshape(mean.size, mean.size)
        draws = rng.multivariate_normal(mean.T.ravel(), C, n_samples, check_valid="ignore").T
        return draws.reshape(mean.shape[1], mean.shape[0], n_samples).swapaxes(0, 1)

    def output_covariance(self, X, prior, include_noise):
        """Return the covariance between outputs at each new input, (n_new, m, m)."""
        blocks = [self._among_outputs(X[rows], prior[rows]) for rows in self._blocks(X, self.data.n_outputs)]
        noise = self.solution.basis.noise_covariance if include_noise else 0.0
        return np.concatenate(blocks) + noise

    def mean_summaries(self):
        """Return the `MeanSummary` of every output; of those that do not vary, what they are alone."""
        summaries, names = list(self.alone.mean_summaries()), self.mean_functions.names
        solution = self.solution
        known = solution.system.mean_covariances(), solution.scale, solution.system.entries.means
        for j, covariance, unit, rows in zip(solution.varying, *known, strict=True):
            summaries[j] = MeanSummary(names, solution.beta[:, j], covariance * unit**2, rows.n_free)
        return tuple(summaries)

    def leave_one_out(self):
        """Return mean and variance of every row from all the others, and which entries the fit never saw."""
        solution, shape = self.solution, self.data.Y.shape
        system = solution.system
        mean, variance = np.zeros(shape), np.zeros(shape)
        absent = ~(self.data.observed & self.data.present[:, None])
        for j in np.setdiff1d(np.arange(shape[1]), solution.varying):
            mean[:, j] = self.data.Y[:, j]
        for i, chosen, residual, spread in system.left_out():
            outputs = system.entries.output[chosen]
            place, unit = (i, solution.varying[outputs]), solution.scale[outputs] / system.entries.root[i]
            mean[place] = self.data.Y[place] - residual * unit
            variance[place] = spread * unit**2
        return mean, variance, absent

    def missing(self, prior):
        """Return mean and variance of the entries that were not observed, given all that were, (n, m) each.

        The noise of a row's observed outputs tells of that of the missing ones.
        """
        X, solution = self.data.X, self.solution
        mean, noise = self.mean(X), solution.basis.noise_covariance
        root = solution.system.entries.root[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = mean + np.where(root > 0, solution.dual / root**2, 0.0) @ noise
        variance = np.einsum("njj->nj", self._among_outputs(X, prior, np.arange(len(X))))
        with np.errstate(divide="ignore"):
            return mean, variance + np.diag(noise) / root**2

    def _blocks(self, X, factor):
        size = max(1, _BLOCK_ENTRIES // (factor * max(len(self.data), len(self.solution.system.entries.y))))
        for start in range(0, max(len(X), 1), size):
            yield slice(start, start + size)

    def _mean(self, X):
        """Return means and kernel values."""
        k = self.alone.parts[0][1].gram.cross(X, self.data.X)
        mean = k @ self.solution.range_dual
        return (mean + self._functions(X) @ self.solution.beta if len(self.solution.beta) else mean), k

    def _functions(self, X):
        """Return mean functions at new inputs."""
        return self.mean_functions(X)

    def _among_outputs(self, X, prior, rows=None):
        """Return covariances between the outputs at each new input; of observations at `rows` of the fit."""
        solution, m = self.solution, self.data.n_outputs
        k, total = self._mean(X)[1], np.zeros((len(X), m, m))
        v = solution.varying
        F = self._functions(X) if len(solution.beta) else None
        for i in range(len(X)):
            points, outputs = np.full(len(v), i), np.arange(len(v))
            c = solution.signals(k, points, outputs)
            if rows is not None:
                root = solution.system.entries.root[i]
                c = c + solution.noises(np.full(len(v), rows[i]), outputs) / (root or 1.0)
            explained = solution.system.explained(c, None if F is None else F[points], outputs)
            total[i][np.ix_(v, v)] = -np.outer(solution.scale, solution.scale) * explained
        return total + prior[:, None, None] * solution.basis.signal_covariance

    def _joint(self, X, prior, include_noise):
        """Return the joint covariance of all outputs at all new inputs, (m, n_new, m, n_new)."""
        solution, n = self.solution, len(X)
        k, v = self._mean(X)[1], self.solution.varying
        points, outputs = np.tile(np.arange(n), len(v)), np.repeat(np.arange(len(v)), n)
        F = self._functions(X)[points] if len(solution.beta) else None
        explained = solution.system.explained(solution.signals(k, points, outputs), F, outputs)
        unit = solution.scale[outputs]
        total = np.einsum("jk,ab->jakb", solution.basis.signal_covariance, prior)
        part = (np.outer(unit, unit) * explained).reshape(len(v), n, len(v), n)
        total[np.ix_(v, np.arange(n), v, np.arange(n))] -= part
        if include_noise:
            total += np.einsum("jk,ab->jakb", solution.basis.noise_covariance, np.eye(n))
        return total


def correlate_entries(alone, K):
    """Return the model with covariances between outputs, given that of each output alone.

    Parameters
    ----------
    alone : FittedParts
        The outputs alone.
    K : ndarray of shape (n, n)
        Kernel matrix.
    """
    return FittedEntries(alone, solve_entries([(o, part.solution) for o, part in alone.parts], alone.data, K))


def check_entries(data, plan):
    """Refuse what the dense system of observed entries cannot do, before any work."""
    n_entries = int((data.observed & data.present[:, None]).sum())
    if n_entries > _MOST_ENTRIES:
        raise ValueError(
            f"outputs='correlated' with missing targets solves a dense system of all {n_entries} observed "
            f"entries, and at most {_MOST_ENTRIES} are feasible. Use outputs='independent', fewer rows, or "
            "only rows in which every output was observed."
        )
    if plan.forces_factors:
        raise ValueError(
            "outputs='correlated' with missing targets needs the kernel matrix, which method='low_rank' "
            "never forms. Use method='auto' or 'exact', or outputs='independent'."
        )
    if plan.may_repair:
        raise ValueError(
            "outputs='correlated' with missing targets needs the kernel matrix as it is, which "
            f"indefinite={plan.indefinite!r} may replace. Use indefinite='refuse', or outputs='independent'."
        )
