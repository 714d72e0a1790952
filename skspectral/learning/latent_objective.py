"""An approximate evidence as a function of kernel, signal variance and likelihood, with its gradient."""

from functools import cached_property, partial

import numpy as np

from ..kernels.algebra import contract
from ..kernels.attached import attach
from ..kernels.pairs import Pairs
from ..support.exceptions import IndefiniteKernelError
from .evaluation import Evaluation
from .step_factors import contract_factor

__all__ = ["LatentObjective", "approximate_evidence", "gradient"]

# Logs at which a prior is looked at for its slope.
_DIFFERENCE = np.array([-1e-6, 0.0, 1e-6])


class LatentObjective:
    """-2 log evidence, and -2 log of the priors, as a function of the outer variables.

    Every evaluation starts from the mode of the one before.

    Parameters
    ----------
    task : LatentTask
        What is learned.
    start : LatentFit, default=None
        Of a similar problem on the same rows, from whose mode the first evaluation starts.
    """

    def __init__(self, task, start=None):
        self.task, self.last, self.n_calls = task, start, 0
        self._at = None

    def __call__(self, variables):
        """Return the `Evaluation` at the outer variables; the last one is kept, where descents meet."""
        if self._at is None or not np.array_equal(self._at[0], variables):
            self._at = variables.copy(), *self._evaluated(variables)
        return self._at[1]

    def fit(self, variables):
        """Return the approximate posterior at the outer variables."""
        self(variables)
        return self.task.fit(self.task.point(variables)) if self._at[2] is None else self._at[2]

    def _evaluated(self, variables):
        self.n_calls += 1
        point = self.task.point(variables)
        kernel = None if self.task.is_precomputed else self._kernel_at(point)
        try:
            fit = self.task.fit(point, self.last, None if kernel is None else kernel.square)
        except IndefiniteKernelError:
            return Evaluation.undefined(variables), None
        if not np.isfinite(fit.approximation.log_evidence):
            return Evaluation.undefined(variables), None
        self.last = fit
        penalty, slope = self._priors(point)
        contract_square = None if kernel is None else kernel.contract
        gradient = partial(_gradient_with, self.task, fit, contract_square, slope)
        return Evaluation(penalty - 2.0 * fit.approximation.log_evidence, gradient), fit

    def _kernel_at(self, point):
        """Return the kernel on the rows at a point, of single precision where that is enough."""
        limit = self.task.largest_trace(point, self.last) if self.task.may_be_single else -np.inf
        return _KernelOnRows(self, len(self.task), limit)

    @cached_property
    def kernel(self):
        """The kernel attached to the rows."""
        return attach(self.task.kernel, self.task.data.X)

    @cached_property
    def kernel_in_single(self):
        """The same in single precision."""
        return attach(self.task.kernel, self.task.data.X, np.float32)

    def _priors(self, point):
        """Return -2 log of the priors and its derivatives by the outer variables."""
        task, penalty = self.task, 0.0
        first, slope = int(task.learns_signal), np.zeros_like(task.start)
        if task.theta_prior is not None:
            penalty, by_theta = task.theta_prior(point.theta)
            slope[first : first + len(point.theta)] += by_theta
        if task.signal_prior is not None and first:
            behind, here, ahead = task.signal_prior.penalty(
                1.0, point.signal_var * task.unit**2 * np.exp(_DIFFERENCE)
            )
            penalty, slope[0] = penalty + here, (ahead - behind) / (_DIFFERENCE[2] - _DIFFERENCE[0])
        return penalty, slope


def _gradient_with(task, fit, contract_square, slope):
    with task.threads(fit.approximation.observations):
        return slope - 2.0 * gradient(task, fit, contract_square)


class _KernelOnRows:
    """The matrix of a kernel on n rows at one theta, and contractions there.

    Of single precision where its trace is no larger than a limit.
    """

    def __init__(self, objective, n, limit):
        self._objective, self._n, self._limit = objective, n, limit

    def square(self, theta):
        """Return a fresh K at theta."""
        if self._limit > 0:
            self._values = self._objective.kernel_in_single.at(theta)
            if self._values.K.trace(self._n) <= self._limit:
                return self._values.K.matrix(self._n).astype(np.float32, copy=False)
        self._values = self._objective.kernel.at(theta)
        return self._values.K.matrix(self._n)

    def contract(self, G):
        """Return sum_ij G_ij dK_ij/dtheta at the theta that `square` was called with.

        G is symmetric; its upper triangle is used.
        """
        return self._values.contract(Pairs.of_triangle(G))


def approximate_evidence(task, theta, eval_gradient):
    """Return the approximate log evidence at logs in the user's units and, on request, its gradient."""
    fit = task.fit(task.point(theta - task.log_units))
    value = fit.approximation.log_evidence - task.log_unit
    return (value, gradient(task, fit)) if eval_gradient else value


def gradient(task, fit, contract_square=None):
    """Return the derivatives of the log evidence by the outer variables.

    `contract_square`, if given, contracts weights of the kernel matrix in the place of the kernel itself.
    """
    sensitivity = fit.approximation.sensitivity()
    by_signal = [sensitivity.by_log_scale] if task.learns_signal else []
    return np.concatenate(
        [
            by_signal,
            _by_theta(task, fit, sensitivity, contract_square),
            fit.approximation.likelihood_gradient(),
        ]
    )


def _by_theta(task, fit, sensitivity, contract_square):
    if not len(fit.point.theta):
        return np.empty(0)
    if fit.factor is None and contract_square is not None:
        return contract_square(sensitivity.upper)
    kernel = task.kernel_at(fit.point.theta)
    if fit.factor is None:
        return contract(kernel, sensitivity.weights, task.data.X)
    return contract_factor(kernel, sensitivity.weights, task.data.X, fit.factor)
