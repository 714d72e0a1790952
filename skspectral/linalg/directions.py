"""Directions of descent by curvatures that need not be positive."""

import numpy as np
from scipy.linalg.blas import idamax
from scipy.linalg.lapack import dposv

__all__ = ["descent_direction", "largest_size", "scoring_direction"]

# What is added to the expected curvature of functions alike.
_FLATTEST = 1e-10
# How much of the expected curvature may be added to the curvature.
_SHARES = 0.01 * 2.0 ** np.arange(8)


def largest_size(x):
    """Return the largest size of an entry of x (M,), which BLAS finds in one go; 0 without any."""
    return abs(float(x[idamax(x)])) if x.size else 0.0


def scoring_direction(gradient, expected):
    """Return the step for the mean of the curvature over targets of the model, which is never negative.

    With |gradient| on its diagonal no single entry of the step is much longer than 1.
    """
    return _solved(_safe(gradient, expected), gradient, overwrite=True)[0]


def descent_direction(gradient, H, expected):
    """Return the Newton direction -H^-1 gradient; where H has negative curvature, with `expected` added.

    That is near a saddle, and as little of it as will do is added: the step is long in the directions that
    lead away.
    """
    direction, is_bowl = _solved(H, gradient)
    return direction if is_bowl else _beside_saddle(gradient, H, _safe(gradient, expected))


def _safe(gradient, expected):
    safe = expected.copy()
    safe.flat[:: len(gradient) + 1] += np.abs(gradient) + _FLATTEST
    return safe


def _solved(curvature, gradient, overwrite=False):
    """Return the step to the bottom of a bowl, and whether it is one; else the steepest descent."""
    # the other order of a symmetric matrix is LAPACK's
    _, direction, info = dposv(curvature.T, -gradient, overwrite_a=overwrite)
    return (direction, True) if info == 0 else (-gradient, False)


def _beside_saddle(gradient, H, safe):
    """Return the step for the least of some shares of `safe` with which H is a bowl, found by bisection."""
    low, high, direction = 0, len(_SHARES), None
    while low < high:
        middle = (low + high) // 2
        step, is_bowl = _solved(H + _SHARES[middle] * safe, gradient, overwrite=True)
        if is_bowl:
            high, direction = middle, step
        else:
            low = middle + 1
    return _solved(safe, gradient)[0] if direction is None else direction
