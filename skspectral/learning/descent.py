"""Minimisation of an expensive smooth function in a box: projected BFGS that can inherit its curvature.

scipy's L-BFGS-B always starts from a unit Hessian. Here one problem is solved on ever more rows, and
what a coarser level learned about the curvature saves most of the steps of the next.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.utils.optimize import _check_optimize_result

__all__ = ["Descent", "lbfgs", "minimize_in_box"]

_ARMIJO = 1e-4
# Largest change of a (log) parameter in one step.
_MAX_STEP = 2.0
_MAX_HALVINGS = 12
# Smallest curvature relative to the largest.
_FLATTEST = 1e-12


@dataclass(frozen=True)
class Descent:
    """Where a minimisation ended.

    Attributes
    ----------
    x : ndarray of shape (p,)
        The point.
    evaluation : object
        What the objective returned there.
    curvature : ndarray of shape (p, p)
        Estimate of the Hessian (BFGS).
    """

    x: np.ndarray
    evaluation: object
    curvature: np.ndarray

    @property
    def value(self):
        """The objective at `x`."""
        return self.evaluation.value


def minimize_in_box(
    objective, start, lower, upper, *, curvature=None, tolerance=1e-7, max_steps=100, report=None
):
    """Minimise a function over lower <= x <= upper.

    Parameters
    ----------
    objective : callable
        Returns an object with `value`, which may be infinite where it is not defined, and `gradient`.
    start, lower, upper : ndarray of shape (p,)
        Starting point and box.
    curvature : ndarray of shape (p, p), default=None
        Positive definite guess of the Hessian.
    tolerance : float, default=1e-7
        Stop when the model promises, or two steps in a row bring, no more than this.
    max_steps : int, default=100
        Limit of the number of steps.
    report : callable, default=None
        report(step, x, evaluation) is called after every step.
    """
    x = np.clip(start, lower, upper)
    here = objective(x)
    B = _initial_curvature(here.gradient) if curvature is None else curvature.copy()
    fresh = curvature is None
    idle = n_steps = 0
    while n_steps < max_steps:
        gradient = here.gradient
        free = ~((x <= lower) & (gradient > 0) | (x >= upper) & (gradient < 0))
        if not gradient[free].any():
            break
        direction = _newton_direction(B, gradient, free)
        if -0.5 * (gradient @ direction) < tolerance and (idle or not fresh):
            break
        x_new, there = _line_search(
            objective, x, here.value + 0.1 * tolerance, gradient, direction, lower, upper
        )
        n_steps += 1
        if there is None:
            if fresh:
                break
            B, fresh = _initial_curvature(gradient), True
            continue
        idle = idle + 1 if here.value - there.value < tolerance else 0
        B = _updated(B, x_new - x, there.gradient - gradient, fresh)
        x, here, fresh = x_new, there, False
        if report is not None:
            report(n_steps, x, here)
        if idle >= 2:
            break
    return Descent(x, here, B)


def _initial_curvature(gradient):
    """Return a multiple of the identity whose first step is at most half a unit long."""
    return max(2.0 * np.linalg.norm(gradient), 1e-8) * np.eye(len(gradient))


def _newton_direction(B, gradient, free):
    """Return -B^-1 gradient in the free variables; curvature that rounding took is given back."""
    direction = np.zeros_like(gradient)
    b, V = np.linalg.eigh(B[np.ix_(free, free)])
    b = np.maximum(b, _FLATTEST * b[-1])
    direction[free] = -V @ (V.T @ gradient[free] / b)
    return direction * min(1.0, _MAX_STEP / max(np.abs(direction).max(), _MAX_STEP))


def _line_search(objective, x, value, gradient, direction, lower, upper):
    """Return the first point on the projected path that decreases enough from `value`, with its evaluation.

    The latter is None where there is no such point.
    """
    t = 1.0
    for _ in range(_MAX_HALVINGS):
        x_new = np.clip(x + t * direction, lower, upper)
        promised = gradient @ (x_new - x)
        there = objective(x_new)
        if np.isfinite(there.value) and there.value <= value + _ARMIJO * promised:
            return x_new, there
        if np.isfinite(there.value):  # minimum of the parabola through both values and the slope
            t *= np.clip(-0.5 * promised / (there.value - value - promised), 0.1, 0.5)
        else:
            t *= 0.25
    return x, None


def _updated(B, step, change, fresh):
    """Return the BFGS update of B, damped (Powell) so that it stays positive definite."""
    if fresh and step @ change > 0:
        B = (change @ change) / (step @ change) * np.eye(len(step))  # the scale of the curvature seen
    Bs = B @ step
    sBs = step @ Bs
    if sBs <= 0:
        return B
    agreement = step @ change
    if agreement < 0.2 * sBs:
        mix = 0.8 * sBs / (sBs - agreement)
        change = mix * change + (1.0 - mix) * Bs
    return B - np.outer(Bs, Bs) / sBs + np.outer(change, change) / (step @ change)


def lbfgs(obj_func, initial_theta, bounds):
    """Minimise by scipy's L-BFGS-B, an optimizer with scikit-learn's signature."""
    result = minimize(obj_func, initial_theta, method="L-BFGS-B", jac=True, bounds=bounds)
    _check_optimize_result("lbfgs", result)
    return result.x, result.fun
