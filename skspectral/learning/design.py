"""Points around learned kernel parameters over which predictions are averaged.

The posterior density of theta = log parameters is known at single points, each of which costs a
decomposition. Around its maximum with curvature H, theta = optimum + H^-1/2 z is about N(0, 1) in z.

* One parameter: a grid in z on both sides, until the density is negligible or a bound is reached.
* Several: a central composite design, the centre, two points on every axis, and the corners of a fractional
  factorial, all but the centre at the radius r = 1.1 sqrt(p). Weights make the mean square of z exact for a
  normal density, and are corrected by the density at the points (Rue, Martino and Chopin 2009, "Approximate
  Bayesian inference for latent Gaussian models by using integrated nested Laplace approximations").
"""

from dataclasses import dataclass

import numpy as np

from ..linalg.quadratic import inverse_root
from .objectives import profiled_evidence

__all__ = ["KernelPosterior", "explore"]

# Step of the differences of the gradient, in log units, and one for what is known much better than that.
_STEP, _SHORT_STEP = 0.05, 5e-4
# How much larger a curvature over short steps is that the other steps have passed by.
_PASSED_BY = 4.0
# Standard deviations in log units: a flat density has no end, and a narrow one needs no more than rounding.
_WIDEST, _NARROWEST = 1.0, 1e-4
# Step and largest number of steps to each side of a grid, and the log density below which it ends.
_GRID_STEP, _MOST_STEPS, _NEGLIGIBLE = 0.75, 8, -5.0
# Radius of the design over sqrt(p).
_RADIUS = 1.1
# Columns of a Hadamard matrix in natural order whose products of up to four are no constants (resolution V).
_COLUMNS = (1, 2, 4, 8, 15, 16, 32, 51, 64, 85, 106)


@dataclass(frozen=True)
class KernelPosterior:
    """Posterior of learned kernel parameters: points and their probabilities.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters, as in ``kernel_.theta``.
    parameters : ndarray of shape (k, p)
        Values of the parameters, those of `kernel_` first.
    weight : ndarray of shape (k,)
        Posterior probability of each point; the sum is 1.
    """

    names: tuple
    parameters: np.ndarray
    weight: np.ndarray


def explore(task, theta, log_density):
    """Return points theta_k (k, p), the first of them the optimum, and their probabilities (k,).

    Parameters
    ----------
    task : Task
        What was learned; all outputs vary.
    theta : ndarray of shape (p,)
        The optimum, in log units.
    log_density : callable
        theta -> log posterior density up to a constant; minus infinity where there is none. It is called once
        for every point.
    """
    axes = _axes(task, theta)
    if not axes.any():
        return theta[None], np.ones(1)
    search = _grid if len(theta) == 1 else _composite
    points, log_weight = search(theta, axes, _Bounded(log_density, task.kernel.bounds))
    weight = np.exp(log_weight - log_weight.max())
    kept = weight > 0
    return points[kept], weight[kept] / weight.sum()


class _Bounded:
    """A log density that is not asked for outside of its bounds."""

    def __init__(self, log_density, bounds):
        self.log_density, self.bounds = log_density, bounds

    def __call__(self, theta):
        slack = 1e-12 * (1.0 + np.abs(theta))
        inside = (theta >= self.bounds[:, 0] - slack).all() and (theta <= self.bounds[:, 1] + slack).all()
        return self.log_density(theta) if inside else -np.inf


def _axes(task, theta):
    """Return the columns H^-1/2 (p, p), H the curvature of -log density by differences of its gradient.

    The period of many waves is known to less than a step, and says nothing beyond that: short steps find it.
    Where a maximum seems to be none over either step, or another one over a quarter of the short step, it is
    narrower than these: there is nothing to average, and its axis is 0.
    """
    H, flat = np.array([_curvature(task, theta, k, _STEP) for k in range(len(theta))]), _WIDEST**-2
    known = np.zeros(len(theta), dtype=bool)
    for k, (low, high) in enumerate(task.kernel.bounds):
        close_by = _curvature(task, theta, k, _SHORT_STEP)
        least, most = sorted([H[k, k], close_by[k]])
        if close_by[k] > max(_PASSED_BY * H[k, k], flat):
            H[k] = H[:, k] = close_by
            closer = _curvature(task, theta, k, _SHORT_STEP / 4.0)[k]
            known[k] = not close_by[k] / _PASSED_BY < closer < _PASSED_BY * close_by[k]
        else:
            known[k] = low < theta[k] < high and least < -flat and most <= flat
    H[known], H[:, known] = 0.0, 0.0
    H[known, known] = _NARROWEST**-2  # an axis of its own
    axes = inverse_root(H, flat, _NARROWEST**-2)
    axes[known] = 0.0
    return axes


def _curvature(task, theta, k, step):
    """Return second derivatives of -log density by parameter k and all others, over a step to both sides."""
    low, high = task.kernel.bounds[k]
    ends = np.repeat(theta[None], 2, axis=0)
    ends[:, k] = np.clip(theta[k] + np.array([step, -step]), low, high)
    ahead, behind = (_slope(task, end) for end in ends)
    return (ahead - behind) / (ends[0, k] - ends[1, k])


def _slope(task, theta):
    _, gradient = profiled_evidence(task, theta, eval_gradient=True)
    return task.with_prior(theta, 0.0, -2.0 * gradient)[1] / 2.0


def _grid(theta, axes, log_density):
    points, values = [theta], [log_density(theta)]
    for sign in (1.0, -1.0):
        for step in range(1, _MOST_STEPS + 1):
            point = theta + sign * step * _GRID_STEP * axes[:, 0]
            value = log_density(point)
            points.append(point)
            values.append(value)
            if value < max(values) + _NEGLIGIBLE:
                break
    return np.array(points), np.array(values)


def _composite(theta, axes, log_density):
    z, share = composite_design(len(theta))
    points = theta + z @ axes.T
    values = np.array([log_density(point) for point in points])
    return points, np.log(share) + values + 0.5 * z**2 @ axes.any(axis=0)


def composite_design(p):
    """Return points z (k, p) and the probabilities (k,) that a normal density gives them.

    The centre, 2p points on the axes and, for up to 11 parameters, 2 to 128 corners.
    """
    radius = _RADIUS * np.sqrt(p)
    outside = np.concatenate([radius * np.eye(p), -radius * np.eye(p), _RADIUS * _corners(p)])
    share = np.full(len(outside) + 1, 1.0 / (_RADIUS**2 * len(outside)))
    share[0] = 1.0 - _RADIUS**-2
    return np.concatenate([np.zeros((1, p)), outside]), share


def _corners(p):
    """Return corners of the cube (k, p), entries +-1, none for more parameters than are known."""
    if p > len(_COLUMNS):
        return np.empty((0, p))
    size = 2 ** int(_COLUMNS[p - 1]).bit_length()
    rows = np.arange(size)
    signs = [(-1.0) ** np.bitwise_count(rows & column) for column in _COLUMNS[:p]]
    return np.column_stack(signs)
