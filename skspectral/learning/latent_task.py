"""What learning is about where the likelihood is not a normal one: kernel, signal variance and likelihood."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..decomposition.data import Data
from ..decomposition.plan import Plan, Route
from ..inference.approximate import laplace, mode_of
from ..inference.modes import FOUND, Mode
from ..inference.observations import observe
from ..inference.variances import VariancePrior
from ..kernels.gram import make_gram
from ..likelihoods.protocol import Likelihood
from ..linalg.curved import DensePrior, FactorPrior
from ..linalg.factors import Factor, pivoted_cholesky
from ..support.exceptions import LowRankWarning, warn_user

__all__ = ["LatentFit", "LatentTask", "Point", "warn_of_cost"]

# A factor stands in for K where what it misses, times the largest curvature, has this trace: the log
# evidence is then off by about half of that.
_TAU_SHARE = 1e-3
# What single precision is off by in -2 log evidence, beside the sum of all curvatures times prior variances;
# sum up to which that is little beside a step on the way, and rows from which it pays.
_OFF_BY, _TAME, _MANY = 1e-7, 8e4, 200
# Twice what another step towards a mode would add, relatively, at which it is found well enough for learning.
_FOUND_ROUGHLY = 1e-10
# Distance of two kernels, in log units, of which neither has a factor of small rank if the other has none.
_BESIDE = 0.5
# Share of n up to which the rank of a factor pays.
_LARGEST_SHARE = 0.3


@dataclass(frozen=True)
class Point:
    """Values of all that is learned.

    Attributes
    ----------
    signal_var : float
        Factor of the kernel.
    theta : ndarray of shape (p,)
        Logs of the core kernel's parameters.
    likelihood : Likelihood
        With its own parameters.
    """

    signal_var: float
    theta: np.ndarray
    likelihood: Likelihood

    def is_beside(self, other):
        """Return whether the kernel is about that of another point, None for no point."""
        if other is None:
            return False
        ways = np.append(self.theta - other.theta, np.log(self.signal_var / other.signal_var))
        return bool(np.abs(ways).max() < _BESIDE)


@dataclass(frozen=True)
class LatentFit:
    """An approximate posterior at one point.

    Attributes
    ----------
    point : Point
        The point.
    approximation : Approximation or Mode
        The posterior; a mode alone where it is no more than a start.
    factor : Factor or None
        The factor that stood for K, None for K itself.
    vain : Point or None
        Where a factor was last looked for in vain: it need not be looked for again beside it.
    """

    point: Point
    approximation: object
    factor: Factor | None
    vain: Point | None = None

    @property
    def off_by(self):
        """About how much rounding there is in -2 log evidence, beside double precision."""
        prior = self.approximation.prior
        return _OFF_BY * float(prior.diagonal @ self.approximation.curved.W) if prior.is_single else 0.0


@dataclass(frozen=True)
class LatentTask:
    """Rows, a kernel, a likelihood, and how the posterior is approximated.

    Outer variables are the logs of the signal variance (where its bounds leave a choice), of the kernel's
    and of the likelihood's parameters, in this order.

    Attributes
    ----------
    data : Data
        Rows of positive weight with one column of targets. With a basis, latent functions have a constant.
    kernel : Kernel or "precomputed"
        Core kernel at its starting values.
    likelihood : Likelihood
        At its starting values.
    approximate : callable
        `laplace`, `bound` or `variational`.
    signal_start : float
        Start of the signal variance.
    signal_bounds : tuple of float
        Its bounds, equal where it is fixed.
    theta_prior : callable or None
        theta -> (-2 log density, gradient).
    signal_prior : VariancePrior or None
        Prior of the signal variance.
    plan : Plan
        When a factor stands in for K.
    n_classes : int or None
        Number of classes, for likelihoods of classes.
    max_iter : int
        Limit of the steps towards a mode.
    integrated : bool
        Whether constants are integrated out of the evidence.
    unit : float
        Of latent values and targets, in units of the user, in which the prior of the signal variance is.
    is_rough : bool
        Whether modes and matrices need only be as exact as steps of learning need them.
    given : Kernel or None
        The kernel as it was given, where the signal variance is one of its parameters.
    """

    data: Data
    kernel: object
    likelihood: Likelihood
    approximate: object = laplace
    signal_start: float = 1.0
    signal_bounds: tuple = (1e-5, 1e5)
    theta_prior: object = None
    signal_prior: VariancePrior | None = None
    plan: Plan = field(default_factory=Plan)
    n_classes: int | None = None
    max_iter: int = 100
    integrated: bool = True
    unit: float = 1.0
    is_rough: bool = False
    given: object = None

    def __len__(self):
        return len(self.data)

    @property
    def has_constant(self):
        """Whether latent functions have unpenalised constants."""
        return self.data.basis is not None

    @property
    def is_precomputed(self):
        """Whether the kernel is a given matrix, without parameters."""
        return isinstance(self.kernel, str)

    @property
    def is_laplace(self):
        """Whether the evidence is Laplace's."""
        return self.approximate is laplace

    @property
    def learns_signal(self):
        """Whether the signal variance is one of the outer variables."""
        return self.signal_bounds[0] < self.signal_bounds[1]

    @cached_property
    def start(self):
        """Outer variables at the starting values."""
        signal = np.log([self.signal_start]) if self.learns_signal else np.empty(0)
        theta = np.empty(0) if self.is_precomputed else self.kernel.theta
        return np.concatenate([signal, theta, self.likelihood.theta])

    @cached_property
    def bounds(self):
        """Bounds of the outer variables, (variables, 2)."""
        signal = np.log([self.signal_bounds]) if self.learns_signal else np.empty((0, 2))
        theta = np.empty((0, 2)) if self.is_precomputed else self.kernel.bounds.reshape(-1, 2)
        return np.concatenate([signal, theta, self.likelihood.bounds])

    def point(self, variables):
        """Return the values that outer variables stand for."""
        n_signal, n_likelihood = int(self.learns_signal), len(self.likelihood.names)
        theta = variables[n_signal : len(variables) - n_likelihood]
        signal = float(np.exp(variables[0])) if n_signal else self.signal_start
        own = variables[len(variables) - n_likelihood :]
        return Point(signal, theta, self.likelihood.with_theta(own))

    @property
    def log_unit(self):
        """What the log evidence of targets in the user's unit is less by: a density of sum w - q numbers."""
        weight = len(self) if self.data.weight is None else self.data.weight.sum()
        return (weight - int(self.has_constant and self.integrated)) * np.log(self.unit)

    @cached_property
    def log_units(self):
        """Logs of the units of the outer variables."""
        moved = (
            replace(self, likelihood=self.likelihood.in_units(1.0 / self.unit)) if self.unit != 1.0 else self
        )
        own = moved.likelihood.theta - self.likelihood.theta
        signal = [2.0 * np.log(self.unit)] if self.learns_signal else []
        return np.concatenate([signal, np.zeros(len(self.start) - len(own) - len(signal)), own])

    def kernel_at(self, theta):
        """Return the core kernel with other parameters."""
        return self.kernel if self.is_precomputed else self.kernel.clone_with_theta(theta)

    def subset(self, keep):
        """Return the task of some of the rows."""
        return replace(self, data=self.data.subset(keep), plan=self.plan.for_rows(len(keep)))

    @property
    def has_all_classes(self):
        """Whether every class has a row; True for targets that are no classes."""
        return self.n_classes is None or len(np.unique(self.data.Y)) == self.n_classes

    def observations(self, likelihood):
        """Return the targets under a likelihood."""
        return observe(likelihood, self.data.Y[:, 0], self.data.weight, self.n_classes)

    @property
    def value_of_nothing(self):
        """-2 log density of the targets at starting values, where latent functions are constant."""
        observations = self.observations(self.likelihood)
        constants = observations.starting_constants() * self.has_constant
        return -2.0 * observations.log_density(np.tile(constants, (len(self), 1)))

    def fit(self, point, start=None, square=None):
        """Return the `LatentFit` at a point, from the mode of another fit.

        `square`, if given, makes the kernel matrix of the rows at theta in the place of the kernel itself.
        """
        observations = self.observations(point.likelihood)
        prior, factor, vain = self._prior(point, observations, start, square)
        approximation = self.approximate(
            prior,
            observations,
            has_constant=self.has_constant,
            integrated=self.integrated,
            start=None if start is None else start.approximation,
            max_iter=self.max_iter,
            found=_FOUND_ROUGHLY if self.is_rough else FOUND,
        )
        return LatentFit(point, approximation, factor, vain)

    def start_from_fewer(self, fit, few, rows, vain=None):
        """Return a start from the fit to a few of the rows: their duals, and 0 for the others; None if none.

        Where log p is not concave, the mode that few rows have may not be the one of all. `vain` is where a
        factor is known not to stand for K.
        """
        if fit is None or not self.likelihood.is_log_concave:
            return None
        mode = mode_of(fit.approximation)
        A = np.zeros((len(rows), mode.A.shape[1]))
        A[np.searchsorted(rows, few)] = mode.A
        return LatentFit(fit.point, Mode(A, np.zeros_like(A), mode.constants, -np.inf), None, vain)

    @property
    def may_be_single(self):
        """Whether single precision may be enough, and pays: of one latent function with K itself.

        Softmax, curvatures that may be negative, and bounds whose points of contact are found in many rounds
        need all digits.
        """
        is_plain = self.likelihood.is_log_concave and not self.likelihood.is_joint
        return self.is_rough and is_plain and self.is_laplace and len(self) >= _MANY

    def largest_trace(self, point, start):
        """Return up to which trace of the kernel single precision is enough for a point near another fit."""
        largest = _largest_curvature(self.observations(point.likelihood), start)
        return _TAME / (point.signal_var * largest)

    def is_of_matrix(self, point):
        """Return whether steps of learning at a point factorise the matrix itself, in single precision."""
        if not self.may_be_single:
            return False
        trace = self.kernel_at(point.theta).diag(self.data.X).sum()
        if trace > self.largest_trace(point, None):
            return False
        return self._factor(point, self.observations(point.likelihood), None) is None

    def threads(self, observations):
        """Return a context in which BLAS uses as many threads as pay: those of the descent around it."""
        return nullcontext()

    def _prior(self, point, observations, start, square):
        """Return the prior, the factor that stands for K, and where one was last looked for in vain."""
        vain = None if start is None else start.vain
        factor = None if point.is_beside(vain) else self._factor(point, observations, start)
        if factor is None:
            K = (square or self._square)(point.theta)
            return DensePrior(K, point.signal_var), None, vain if point.is_beside(vain) else point
        return FactorPrior(factor.Phi, point.signal_var, factor.L), factor, None

    def _square(self, theta):
        return make_gram(self.kernel_at(theta)).square(self.data.X)

    def _factor(self, point, observations, start):
        """Return a factor where the plan wants one, or where one of small rank is exact to tolerance."""
        n, route = len(self), self.plan.route(len(self))
        if route is Route.EXACT:
            return None
        gram = make_gram(self.kernel_at(point.theta))
        gram.check(self.data.X)
        if route in (Route.OF_RANK, Route.AFFORDABLE):
            if route is Route.AFFORDABLE:
                warn_of_cost(n, self.plan.factor_rank(n))
            return pivoted_cholesky(gram, self.data.X, rank=self.plan.factor_rank(n))
        tau = _TAU_SHARE / (point.signal_var * _largest_curvature(observations, start))
        by_force = self.plan.forces_factors
        rank = n if by_force else max(1, int(_LARGEST_SHARE * n))
        factor = pivoted_cholesky(gram, self.data.X, tau=tau, rank=rank, unless_hopeless=not by_force)
        return factor if by_force or factor.tau <= tau else None


def _largest_curvature(observations, start):
    """Return the largest curvature of a row at the mode of another fit, or where a fit starts."""
    F = observations.starting_constants()[None, :] if start is None else mode_of(start.approximation).F
    return observations.largest_step_curvature(F)


def warn_of_cost(n, rank):
    """Tell that a factor of a rank that no certificate has asked for stands in for the matrix."""
    warn_user(
        f"The kernel matrix of {n} rows costs too much time or memory; a factor of rank {rank} stands in. "
        "Set rank to choose another.",
        LowRankWarning,
    )
