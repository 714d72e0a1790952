"""Where scikit-learn's optimizer would end on all rows, from the user's own values, for two classes.

Levels of few rows may lead past a valley that all rows see from the user's start. The descent that
scikit-learn would make, L-BFGS-B on the log evidence by all parameters of the kernel as it was given, is
followed on all rows, as long as it does not come into a valley that is known.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from ..kernels.parts import split_kernel
from .descent import NEIGHBOURHOOD

__all__ = ["LatentPath", "follow_latent_path", "is_path_followed"]

# Rows up to which the path is followed.
_MAX_ROWS = 800
# Difference of -2 log evidence up to which a path may be in a known valley, and of one step that is nothing.
_SAME_LEVEL, _LITTLE = 0.1, 1e-3
# -2 log evidence, less that of a latent function that is constant, below which an end explains something.
_MORE_THAN_NOTHING = 2.0


@dataclass(frozen=True)
class LatentPath:
    """Where the path ended.

    Attributes
    ----------
    x : ndarray of shape (p,)
        Outer variables.
    value : float
        -2 log evidence there.
    is_known : bool
        Whether the path came to a valley that is known, and was left there.
    """

    x: np.ndarray
    value: float
    is_known: bool


def is_path_followed(task):
    """Return whether scikit-learn has the task too, two classes by Laplace's evidence, and rows are few."""
    return task.n_classes == 2 and task.is_laplace and not task.is_precomputed and len(task) <= _MAX_ROWS


def follow_latent_path(objective, known=None):
    """Return the `LatentPath` of an objective's task.

    Parameters
    ----------
    objective : LatentObjective
        Of the task; its calls are counted.
    known : Descent, default=None
        The end of another descent, in whose valley the path need not be followed.
    """
    walk = _Walk(objective, known if known is not None and _explains(objective.task, known) else None)
    view = walk.view
    settings = {"method": "L-BFGS-B", "jac": True, "bounds": view.bounds}
    result = minimize(walk, view.start, callback=walk.stop_where_known, **settings)
    return LatentPath(view.at(result.x), 2.0 * float(result.fun), walk.is_known)


def _explains(task, end):
    """Return whether an end is none of the plateaus without a signal, which have valleys all around."""
    return end.value < task.value_of_nothing - _MORE_THAN_NOTHING


class _Walk:
    """-log evidence by the parameters as the user has them, and when to leave its descent."""

    def __init__(self, objective, known):
        self.objective, self.known, self.view = objective, known, _View(objective.task)
        self.is_known, self._previous = False, np.inf

    def __call__(self, theta):
        at = self.objective(self.view.at(theta))
        return 0.5 * at.value, 0.5 * self.view.pulled_back(at.gradient)

    def stop_where_known(self, intermediate_result):
        """Leave the path where its end is known."""
        value, decrease = 2.0 * float(intermediate_result.fun), self._previous - 2.0 * intermediate_result.fun
        self._previous = value
        if self.known is None:
            return
        is_near = np.abs(self.view.at(intermediate_result.x) - self.known.x).max() <= NEIGHBOURHOOD
        self.is_known = is_near and value < self.known.value + self._close
        if self.is_known or (abs(value - self.known.value) < _SAME_LEVEL and decrease < _LITTLE):
            raise StopIteration

    @cached_property
    def _close(self):
        """More than a short way from the known end costs."""
        return max(1.0, 0.5 * np.abs(self.known.curvature).sum())


class _View:
    """Outer variables as functions of theta of the given kernel, which are linear."""

    def __init__(self, task):
        self.task, self._box = task, task.bounds.T
        if task.given is None:
            self.start, self.bounds, self._slopes = task.start, task.bounds, np.eye(len(task.start))
        else:
            self.start, self.bounds = task.given.theta, task.given.bounds
            here = self._variables(self.start)
            ahead = [self._variables(theta) - here for theta in self.start + np.eye(len(self.start))]
            self._slopes = np.stack(ahead, axis=1)

    def _variables(self, theta):
        parts = split_kernel(self.task.given.clone_with_theta(theta))
        signal = [np.log(parts.signal_start)] if self.task.learns_signal else []
        return np.append(signal, parts.core.theta)

    def at(self, theta):
        """Return the outer variables, inside of their bounds."""
        return np.clip(self.task.start + self._slopes @ (theta - self.start), *self._box)

    def pulled_back(self, gradient):
        """Return derivatives by theta."""
        return self._slopes.T @ gradient
