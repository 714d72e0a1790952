"""Where a descent in all of the user's parameters, from the user's own values, would end.

The other objectives of learning tune the variances along with every step and never see a constant or a noise
level as the user wrote it. That is faster, and may lead into another valley. On few rows the descent that
scikit-learn would make is followed too, so that its end is a candidate: L-BFGS-B on the log evidence by all
parameters of the kernel as it was given.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from ..kernels.attached import attach
from ..kernels.pairs import Pairs
from ..kernels.parameters import free_parameters, set_theta
from ..kernels.parts import split_kernel
from ..linalg.quadratic import inverse_root
from ..linalg.resolvent import Resolvent
from ..support.exceptions import IndefiniteKernelError

__all__ = ["MAX_ROWS", "UserPath", "follow_user_path", "is_followed"]

# Rows up to which it is followed.
MAX_ROWS = 1000
# What GaussianProcessRegressor adds to the diagonal of K.
_JITTER = 1e-10
# Difference of -2 log density up to which a path may be in a known valley, and of one step that is nothing.
_SAME_LEVEL, _LITTLE = 0.1, 1e-3
# Smallest and largest inverse of a curvature.
_INVERSE_CURVATURES = 1e-9, 1e9


@dataclass(frozen=True)
class UserPath:
    """Where the path ended.

    Attributes
    ----------
    x : ndarray of shape (p + 1,)
        Theta of the core kernel and the log noise ratio.
    value : float
        -2 log density there, as a `ResolventObjective` has it.
    n_calls : int
        Factorisations on the way.
    is_known : bool
        Whether the path came to a point from which its end was known, and was left there.
    curvature : callable
        Returns the second derivatives of the value by x, as far as the path got to know them.
    """

    x: np.ndarray
    value: float
    n_calls: int
    is_known: bool
    curvature: Callable


def follow_user_path(task, is_known=None, below=np.inf, level=None):
    """Return the `UserPath` of a task that `is_followed`.

    Parameters
    ----------
    task : Task
        What is learned.
    is_known : callable, default=None
        Says of a point (theta, log noise ratio) of the path whether its end is known from there.
    below : float, default=inf
        The value below which it is asked.
    level : float, default=None
        A value near which the path ends as soon as it does not get on: in a flat valley that is known.
    """
    objective, view = _GivenObjective(task), _CoreView(task)

    def is_known_at(theta, value):
        return is_known is not None and objective.as_ours(value) < below and bool(is_known(view.at(theta)))

    previous = np.inf

    def stop_where_known(intermediate_result):
        nonlocal previous
        value = objective.as_ours(intermediate_result.fun)
        is_level = level is not None and abs(value - level) < _SAME_LEVEL and previous - value < _LITTLE
        previous = value
        if is_level or is_known_at(intermediate_result.x, intermediate_result.fun):
            raise StopIteration

    settings = {"method": "L-BFGS-B", "jac": True, "bounds": task.given.bounds}
    result = minimize(objective, task.given.theta, callback=stop_where_known, **settings)
    return UserPath(
        view.at(result.x),
        objective.as_ours(result.fun),
        objective.n_calls,
        is_known_at(result.x, result.fun),
        lambda: view.curvature(result.x, result.hess_inv.todense()),
    )


def is_followed(task):
    """Return whether a task has few rows, none of them weighted, one output, and a noise to start from."""
    if task.given is None or task.data.weight is not None or not task.is_single:
        return False
    return len(task) <= MAX_ROWS and bool(task.given_parts.noise_start)


class _CoreView:
    """Theta of the core kernel and the log noise ratio, as functions of theta of the given kernel."""

    def __init__(self, task):
        self._kernel, self._box = clone(task.given), task.kernel.bounds.T
        self._parameters = list(free_parameters(self._kernel))

    def _unbounded(self, theta):
        set_theta(self._parameters, theta)
        parts = split_kernel(self._kernel)
        return np.append(parts.core.theta, np.log(parts.noise_start / (parts.signal_start or 1.0)))

    def at(self, theta):
        """Return the point, inside of the bounds of the core kernel."""
        x = self._unbounded(theta)
        return np.append(np.clip(x[:-1], *self._box), x[-1])

    def curvature(self, theta, inverse):
        """Return that of -2 log density with the signal variance at its best, from an inverse in theta.

        The functions are linear where there is a single noise, and differences exact.
        """
        here, steps = self._unbounded(theta), np.eye(len(theta))
        slopes = np.stack([self._unbounded(theta + step) - here for step in steps], axis=1)
        root = inverse_root(slopes @ inverse @ slopes.T, *_INVERSE_CURVATURES)
        return 2.0 * root @ root.T


class _GivenObjective:
    """-log evidence by all parameters of the given kernel, noise included, with its gradient."""

    def __init__(self, task):
        rows = task.data.rows
        Z, scale, _ = task.data.standardised
        self.rows, self.y, self.n_calls = rows, Z[:, 0] * scale[0], 0
        self._constant = rows.n_free * (1.0 + 2.0 * np.log(scale[0]))
        self._kernel = attach(task.given, task.data.X)

    def as_ours(self, value):
        """Return the value of a `ResolventObjective` where this one is given."""
        return 2.0 * float(value) - self._constant

    @np.errstate(over="ignore", invalid="ignore")  # a kernel beyond all numbers has no evidence
    def __call__(self, theta):
        self.n_calls += 1
        values = self._kernel.at(theta)
        if not np.isfinite(values.K.sum()):
            return np.inf, np.zeros_like(theta)
        try:
            resolvent = Resolvent.from_gram(values.K.matrix(len(self.y)), self.rows, _JITTER)
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(theta)
        dual = resolvent.apply(self.y)
        value = 0.5 * (self.y @ dual + resolvent.log_det)
        G = self.rows.unweighted_sensitivity(resolvent.inverse().sensitivity(dual, 1.0))
        return value, 0.5 * values.contract(Pairs.of_triangle(G))
