"""What learning is about where the noise changes with the inputs: the kernels of mean and log noise."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..decomposition.plan import Route
from ..inference.changing_noise import ChangingNoise, changing_noise
from ..kernels.algebra import contract, contract_diagonal
from ..kernels.gram import make_gram
from ..kernels.parts import parameter_names
from ..linalg.curved import DensePrior, FactorPrior
from ..linalg.factors import Factor, pivoted_cholesky
from ..support.threads import threads_for
from .latent_task import LatentFit, LatentTask, warn_of_cost
from .step_factors import contract_factor

__all__ = ["MeanProcess", "NoiseTask"]

# Trace of what the factor of the log noise's kernel misses beside a matrix for the mean, signal variance
# included: beside curvatures of at most 2 it moves the log evidence by no more than that.
_TAU = 1e-9
# The same of certified factors: of that of the mean, in units of the noise of each row. Factors are asked for
# this share of it, so that most are fine enough for the noise that is found with them.
_TAU_SHARE, _REQUESTED = 1e-3, 0.1
# Noise variance, in units of that of the targets, for which the first factor of a mean is made; rounds of
# factors.
_FIRST_NOISE, _ROUNDS = 0.01, 4
# Rank of the mean's factor up to which products are too small for threads to pay.
_NARROW = 50
# Power of n up to which ranks of factors pay beside the matrix: n r^3 beside n^3.
_LARGEST_POWER = 2.0 / 3.0
# Squared differences, in squared units of the targets, that these are not taken to resolve.
RESOLUTION = 1e-10
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MeanProcess:
    """The mean: its kernel and signal variance are to the log noise what parameters are to a likelihood.

    Attributes
    ----------
    kernel : Kernel
        Core kernel.
    signal_var : float
        Its factor, in squared units of the targets.
    signal_bounds : tuple of float
        Bounds of the factor, equal where it is fixed.
    has_constant : bool
        Whether it has an unpenalised constant.
    X : ndarray or None
        The rows, where there are any yet.
    factor : Factor or None
        What stands for its kernel matrix at the rows; None for the matrix itself.
    """

    kernel: object
    signal_var: float
    signal_bounds: tuple
    has_constant: bool
    X: object = None
    factor: Factor | None = None

    is_log_concave: ClassVar[bool] = False
    has_units: ClassVar[bool] = False

    @property
    def learns_signal(self):
        """Whether the signal variance is learned."""
        return self.signal_bounds[0] < self.signal_bounds[1]

    @property
    def names(self):
        """Names of what is learned."""
        return [*(["signal_variance"] if self.learns_signal else []), *parameter_names(self.kernel)]

    @property
    def theta(self):
        """Logs of what is learned."""
        return np.concatenate([np.log([self.signal_var] * self.learns_signal), self.kernel.theta])

    @property
    def bounds(self):
        """Bounds of theta."""
        signal = np.log([self.signal_bounds] * self.learns_signal).reshape(-1, 2)
        return np.concatenate([signal, self.kernel.bounds.reshape(-1, 2)])

    def with_theta(self, theta):
        """Return the mean with other parameters."""
        first = int(self.learns_signal)
        signal = float(np.exp(theta[0])) if first else self.signal_var
        return replace(self, kernel=self.kernel.clone_with_theta(theta[first:]), signal_var=signal)

    def prior(self):
        """Return K_mu at the rows; the matrix with a diagonal that is larger by what rounding needs."""
        if self.factor is not None:
            return FactorPrior(self.factor.Phi, self.signal_var, self.factor.L)
        K = make_gram(self.kernel).square(self.X)
        K.flat[:: len(K) + 1] += len(K) * _EPS * np.diag(K).max()
        return DensePrior(K, self.signal_var)

    @cached_property
    def missed(self):
        """What the factor misses of the prior variances at the rows, (n,); None for the matrix itself."""
        if self.factor is None:
            return None
        explained = np.einsum("ij,ij->i", self.factor.Phi, self.factor.Phi)
        return self.signal_var * np.maximum(self._diagonal - explained, 0.0)

    @property
    def _diagonal(self):
        return make_gram(self.kernel).diagonal(self.X)

    def gradient(self, sensitivity):
        """Return the derivatives by theta from those by K_mu."""
        by_signal = [self._by_signal(sensitivity)] if self.learns_signal else []
        by_kernel = self._by_kernel(sensitivity) if self.kernel.n_dims else []
        return np.concatenate([by_signal, by_kernel])

    def _by_signal(self, sensitivity):
        missed = 0.0 if self.factor is None else sensitivity.by_diagonal @ self._diagonal
        return sensitivity.by_log_scale + missed

    def _by_kernel(self, sensitivity):
        if self.factor is None:
            return contract(self.kernel, sensitivity.weights, self.X)
        explained = contract_factor(self.kernel, sensitivity.weights, self.X, self.factor)
        return explained + contract_diagonal(self.kernel, sensitivity.by_diagonal, self.X)


@dataclass(frozen=True)
class NoiseTask(LatentTask):
    """A `LatentTask` whose latent function is the log noise, and whose likelihood is a `MeanProcess`.

    Targets are in a unit of their own, `unit` in those of the user; weights are relative precisions.
    """

    may_be_single = False

    def start_from_fewer(self, fit, few, rows, vain=None):
        """Return no start."""
        return None

    @property
    def log_unit(self):
        """What the log evidence of targets in the user's unit is less by: a density of n - q numbers."""
        return (len(self) - int(self.likelihood.has_constant)) * np.log(self.unit)

    @property
    def log_units(self):
        """Logs of the units of the outer variables: the signal variance of the mean has one."""
        units = np.zeros(len(self.start))
        if self.likelihood.learns_signal:
            units[len(units) - len(self.likelihood.theta)] = 2.0 * np.log(self.unit)
        return units

    def observations(self, likelihood, factor=None):
        """Return the targets around a mean that is to be integrated out."""
        mean, data = replace(likelihood, X=self.data.X, factor=factor), self.data
        prior, y = mean.prior(), data.Y[:, 0]
        return ChangingNoise(mean, prior, y, self._weight, mean.has_constant, RESOLUTION, mean.missed)

    @cached_property
    def _weight(self):
        return np.ones(len(self)) if self.data.weight is None else self.data.weight

    def fit(self, point, start=None, square=None):
        """Return the `LatentFit` at a point: by factors of both kernels where the plan wants them.

        Certified factors are fine enough for the noise of `start`, and are made anew where the noise that is
        found needs finer ones.
        """
        D = _FIRST_NOISE / self._weight if start is None else start.approximation.weighted_mean.D
        for _ in range(_ROUNDS):
            mean, noise = self._factors(point, D)
            observations = self.observations(point.likelihood, mean)
            prior = FactorPrior(noise.Phi, point.signal_var, noise.L)
            with self.threads(observations):
                fit = LatentFit(point, changing_noise(prior, observations, self.max_iter), noise)
            if mean is None or self.plan.route(len(self)) is Route.OF_RANK or self.is_certified(fit):
                break
            D = fit.approximation.weighted_mean.D
        return fit

    def threads(self, observations):
        """Return a context in which BLAS uses as many threads as pay: one, beside a factor of small rank."""
        factor = observations.likelihood.factor
        is_narrow = factor is not None and factor.rank <= _NARROW
        return threads_for(len(self), factor.rank if is_narrow else None)

    def is_certified(self, fit):
        """Return whether factors change the log evidence of a fit by no more than the usual tolerance."""
        observations = fit.approximation.observations
        if observations.missed is None:
            return True
        of_mean = float((observations.missed / fit.approximation.weighted_mean.D).sum())
        return max(of_mean, fit.point.signal_var * fit.factor.tau) <= _TAU_SHARE

    def warn_of_cost(self, fit):
        """Tell where factors had to do that are not certified."""
        if self.plan.route(len(self)) is Route.AFFORDABLE and not self.is_certified(fit):
            warn_of_cost(len(self), self.plan.factor_rank(len(self)))

    def _factors(self, point, D):
        """Return factors of the mean's kernel, None for the matrix itself, and of the log noise's kernel."""
        route, n = self.plan.route(len(self)), len(self)
        if route is Route.EXACT:
            return None, self._noise_factor(point, _TAU)
        if route is Route.OF_RANK:
            rank = self.plan.factor_rank(n)
            return self._mean_factor(point, rank=rank), self._noise_factor(point, 0.0, rank=rank)
        by_force = route is Route.CERTIFIED
        rank = n if by_force else min(self.plan.factor_rank(n), max(1, int(n**_LARGEST_POWER)))
        options = {"rank": rank, "unless_hopeless": not by_force}
        tau, weight = _REQUESTED * _TAU_SHARE, point.likelihood.signal_var / D
        mean = self._mean_factor(point, tau=tau, weight=weight, **options)
        noise = self._noise_factor(point, tau, **options)
        is_fine = mean.tau <= tau and point.signal_var * noise.tau <= tau
        if by_force or is_fine:
            return mean, noise
        if route is Route.CERTIFIED_OR_EXACT:
            return None, self._noise_factor(point, _TAU)
        return self._mean_factor(point, rank=rank, drawn=True), self._noise_factor(point, tau, rank=rank)

    def _mean_factor(self, point, **options):
        return pivoted_cholesky(make_gram(point.likelihood.kernel), self.data.X, **options)

    def _noise_factor(self, point, tau, **options):
        """Return a factor of the log noise's kernel; tau with its signal variance."""
        gram = make_gram(self.kernel_at(point.theta))
        return pivoted_cholesky(gram, self.data.X, tau=tau / point.signal_var, **options)
