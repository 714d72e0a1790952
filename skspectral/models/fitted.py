"""A fitted model: all that predictions and other methods need, made once at the end of a fit."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..decomposition.data import Data
from ..decomposition.decompose import Decomposition
from ..inference.averaging import AveragedSolution
from ..inference.jackknife import JackknifePlus
from ..inference.mean_summary import MeanSummary
from ..inference.solution import Solution
from ..inference.variances import VarianceBounds
from ..support.intervals import normal_interval
from ..support.threads import threads_for
from .mean_functions import MeanFunctions

__all__ = ["Fitted", "as_objects", "by_output"]

# Entries of the largest array that predictions make, a block of rows at a time: 32 MiB, of which a few live.
_BLOCK_ENTRIES = 2**22
# Part of it that is enough for all but products with eigenvectors of a kernel matrix, which gain by many
# columns: 4 MiB are used again from block to block, and 32 MiB come fresh from the system, page by page.
_PARTS = 8


@dataclass(frozen=True)
class Fitted:
    """Means, spreads, intervals and samples of m outputs at new inputs.

    `prior` of the methods is the kernel among the new inputs: its diagonal (n_new,), or all of it for joint
    results.

    Attributes
    ----------
    gram : gram object
        The kernel.
    data : Data
        The rows of the fit.
    bounds : VarianceBounds
        Bounds of both variances.
    decomposition : Decomposition
        Of the kernel matrix or of its stand-in.
    solution : Solution
        Coefficients and, unless averaged, variances.
    y_ndim : int
        Dimensions of the user's y.
    mean_functions : MeanFunctions
        The functions whose coefficients are beta.
    averaged : AveragedSolution or None
        The mixture over variances, where there is one.
    """

    gram: object
    data: Data
    bounds: VarianceBounds
    decomposition: Decomposition
    solution: Solution
    y_ndim: int
    mean_functions: MeanFunctions
    averaged: AveragedSolution | None = None

    @property
    def parts(self):
        """Pairs of outputs and the model that they share: all of them, and this one."""
        return ((np.arange(self.data.n_outputs), self),)

    def solved_again(self, solve):
        """Return the model with the solution solve(part, outputs) of each of its parts."""
        return replace(self, solution=solve(self, self.parts[0][0]))

    @property
    def posteriors(self):
        """Posteriors of the variances of each output, None where these are maximised."""
        return None if self.averaged is None else self.averaged.posteriors

    def leave_one_out(self):
        """Return mean and variance of every row from all the others, and which entries the fit never saw.

        (n, m) each. Entries that the fit never saw hold nothing.
        """
        with threads_for(len(self.data)):
            mean, variance, absent = self.solution.leave_one_out()
        missed = self.solution.signal_var * self.missed_variance()[:, None]
        return mean, variance + missed, np.broadcast_to(absent[:, None], mean.shape)

    @cached_property
    def coefficients(self):
        """Coefficients of `cross` in the mean, (functions, m)."""
        return self.decomposition.coefficients(self.solution.range_dual)

    @property
    def members(self):
        """Pairs of probability and model, of which predictions are the mixture: this one alone."""
        return ((1.0, self),)

    @cached_property
    def evidence_bounds(self):
        """Lower and upper bounds (m,) on the log evidence of the exact kernel matrix."""
        return self.decomposition.bounds(self.solution)

    def mean(self, X):
        """Return means (n_new, m), a block of rows at a time."""
        return np.concatenate([self._mean(*self.cross(X[rows])) for rows in self.blocks(X, _PARTS)])

    def mean_and_spread(self, X, prior, include_noise):
        """Return means and standard deviations (n_new, m), or joint covariances (n_new, n_new, m)."""
        if np.ndim(prior) == 2:
            return self._mean_and_spread(X, prior, include_noise)
        blocks = self.blocks(X, 1 if self.decomposition.feature_map is None else _PARTS)
        parts = [self._mean_and_spread(X[rows], prior[rows], include_noise) for rows in blocks]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _mean_and_spread(self, X, prior, include_noise):
        joint = np.ndim(prior) == 2
        mean, basis, geometry = self._at(X, prior)
        if self.averaged is not None:
            spread = self.averaged.covariance if joint else self.averaged.std
            return mean, spread(geometry, basis, include_noise)
        variance = self.solution.honest(self.solution.predictive_variance(*geometry))
        if include_noise:
            variance += self.solution.noise_var * (np.eye(len(mean))[..., None] if joint else 1.0)
        return mean, variance if joint else np.sqrt(variance)

    def interval(self, X, prior, coverage, include_noise):
        """Return the ends of intervals with equal tails, (n_new, m) both."""
        if self.averaged is None:
            return normal_interval(*self.mean_and_spread(X, prior, include_noise), coverage)
        ends = []
        for rows in self.blocks(X):
            _, basis, geometry = self._at(X[rows], prior[rows])
            ends.append(self.averaged.interval(geometry, basis, coverage, include_noise))
        return tuple(np.concatenate(end) for end in zip(*ends, strict=True))

    def output_covariance(self, X, prior, include_noise):
        """Return the covariance between correlated outputs at each new input, (n_new, m, m)."""
        parts = [
            self.solution.output_covariance(*self._at(X[rows], prior[rows])[2], include_noise)
            for rows in self.blocks(X)
        ]
        return np.concatenate(parts)

    def jackknife_interval(self, X, coverage):
        """Return the ends of jackknife+ intervals, (n_new, m) both, at the variances of the solution."""
        with threads_for(len(self.data)):
            return self._jackknife_interval(JackknifePlus(self.solution, coverage), X)

    def _jackknife_interval(self, jackknife, X):
        ends = []
        for rows in self.blocks(X, jackknife.n_arrays):
            cross, basis = self.cross(X[rows])
            ends.append(jackknife.interval(self.project(cross, np.zeros(cross.shape[0]), basis)[0], basis))
        return tuple(np.concatenate(end) for end in zip(*ends, strict=True))

    def sample(self, X, prior, n_samples, rng, include_noise):
        """Return draws from the joint distribution, (n_new, m, n_samples)."""
        if self.solution.is_undetermined.any():
            raise ValueError(
                "There is no distribution to draw from: targets without variation do not determine the "
                "variances. Give more rows, or bound the variances by ConstantKernel and WhiteKernel."
            )
        mean, basis, geometry = self._at(X, prior)
        if self.averaged is not None:
            return self.averaged.sample(geometry, basis, include_noise, n_samples, rng)
        return mean[..., None] + self.solution.draw(geometry, include_noise, n_samples, rng)

    def beta_covariance(self):
        """Return the covariance of beta, (functions, functions, m).

        Coefficient j is the prediction where the mean functions are those of a unit vector and the kernel
        is 0: (F'C^-1 F)^-1 is the covariance of such predictions.
        """
        q = len(self.solution.beta)
        unit, nothing = np.eye(q), np.zeros((q, len(self.coefficients)))
        geometry = self.project(nothing, np.zeros((q, q)), unit)
        if self.averaged is not None:
            return self.averaged.covariance(geometry, unit, include_noise=False)
        return self.solution.honest(self.solution.predictive_variance(*geometry))

    def mean_summaries(self):
        """Return the `MeanSummary` of every output."""
        beta, covariance = self.solution.beta, self.beta_covariance()
        dof = self.solution.rotated.n_free
        names = self.mean_functions.names
        return tuple(MeanSummary(names, beta[:, j], covariance[..., j], dof) for j in range(beta.shape[1]))

    def missed_variance(self):
        """Return what the features miss of k(x, x) at the training rows, (n,): 0 without features."""
        missed = self.decomposition.missed
        return np.zeros(len(self.data)) if missed is None else missed

    def blocks(self, X, n_arrays=1):
        """Yield slices of new rows whose kernel with all training rows, or features, have a bounded size.

        So have `n_arrays` of that size together.
        """
        size = max(1, _BLOCK_ENTRIES // (n_arrays * max(len(self.coefficients), 8 * self._n_nodes)))
        for start in range(0, max(X.shape[0], 1), size):
            yield slice(start, start + size)

    @property
    def _n_nodes(self):
        """Components of a prediction."""
        return 1 if self.averaged is None else max(len(p.weight) for p in self.averaged.posteriors)

    def prior(self, X, *, joint):
        """Return the kernel among new inputs, or its diagonal."""
        return self.gram.square(X) if joint else self.gram.diagonal(X)

    def mixtures(self, X, include_noise):
        """Return the predictive `StudentMixture` of every output."""
        _, basis, geometry = self._at(X, self.prior(X, joint=False))
        return self.averaged.mixtures(geometry, basis, include_noise)

    def cross(self, X):
        """Return what the coefficients multiply, see `Decomposition.values`, and mean functions or None."""
        return self.cross_with(self.gram, X), self.mean_functions(X)

    def cross_with(self, gram, X):
        """Return what the coefficients multiply in a part of the model that has a kernel of its own."""
        return self.decomposition.values(gram, X, self.data.X)

    @cached_property
    def _level(self):
        """A typical value of the kernel at the rows; 0 where the mean does not take it up."""
        return self._level_of(self.gram)

    def _level_of(self, gram):
        if self.decomposition.feature_map is not None or not len(self.solution.beta):
            return 0.0
        return float(gram.cross(self.data.X[:1], self.data.X).mean())

    def _mean(self, cross, basis):
        mean = self._expansion(cross, self._level)
        return mean if basis is None else mean + basis @ self.solution.beta

    def mean_of_part(self, gram, cross):
        """Return the mean of a part with a kernel of its own, from its values or features `cross`."""
        return self._expansion(cross, self._level_of(gram))

    def _expansion(self, cross, level):
        # A kernel that hardly varies has large coefficients whose sum is 0: what all of its values have in
        # common is multiplied apart, or it would drown the rest in rounding.
        if not level:
            return cross @ self.coefficients
        return (cross - level) @ self.coefficients + level * self.coefficients.sum(axis=0)

    def _at(self, X, prior):
        """Return means, mean functions and the geometry that spreads are made of."""
        cross, basis = self.cross(X)
        return self._mean(cross, basis), basis, self.project(cross, prior, basis)

    def project(self, cross, prior, basis):
        """Return the geometry of points, see `Projection`, from what `cross` returns."""
        return self.decomposition.projection.project(cross, prior, basis)


def by_output(fitted, values_of, axis=-1):
    """Return arrays of the parts of a fitted model, put together in the order of its outputs.

    Parameters
    ----------
    fitted : Fitted or FittedParts
        Its `parts` are pairs of outputs and models.
    values_of : callable
        Model of a part -> array with an axis of its outputs.
    axis : int, default=-1
        Which axis that is.
    """
    outputs = np.concatenate([outputs for outputs, _ in fitted.parts])
    values = np.concatenate([values_of(part) for _, part in fitted.parts], axis=axis)
    return np.take(values, np.argsort(outputs), axis=axis)


def as_objects(results):
    """Return results as an array of objects."""
    array = np.empty(len(results), dtype=object)
    array[:] = results
    return array
