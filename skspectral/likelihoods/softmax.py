"""The softmax and its averages over normal latent values."""

from functools import cache

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats.qmc import Sobol

from .quadrature import Noise

__all__ = ["average_of_correlated", "log_average_of_independent", "log_softmax", "one_minus"]

# Sobol points of the average over correlated latent values, and entries of its temporaries.
_LOG2_POINTS, _BLOCK_ENTRIES = 11, 2**20
# The largest of f_c + Gumbel lies this far below and above the means, beside 8 standard deviations of f.
_GUMBEL_BELOW, _GUMBEL_ABOVE, _GUMBEL_VAR = 4.0, 28.0, np.pi**2 / 6.0
# Grid of the integral over the largest value: step in its narrowest standard deviation, and most nodes.
_STEP, _MOST_NODES = 0.4, 1000
# Logs of distribution functions below this are alike: no class is the largest there.
_LOWEST = -1e5


def log_softmax(f):
    """Return f - log sum exp(f) in each row; exact for a class that is almost certain.

    The largest entry leaves the sum, which becomes log1p of the others: log(1 + 1e-20) is not 0 here.
    """
    f = np.asarray(f, dtype=np.float64)
    top = np.argmax(f, axis=1)[:, None]
    shifted = f - np.take_along_axis(f, top, axis=1)
    others = np.exp(shifted)
    np.put_along_axis(others, top, 0.0, axis=1)
    return shifted - np.log1p(others.sum(axis=1, keepdims=True))


def one_minus(P):
    """Return 1 - p of each class as the sum of the other classes, for the largest p of a row."""
    rest = 1.0 - P
    top = np.argmax(P, axis=1)[:, None]
    others = P.copy()
    np.put_along_axis(others, top, 0.0, axis=1)
    np.put_along_axis(rest, top, others.sum(axis=1, keepdims=True), axis=1)
    return rest


def log_average_of_independent(mean, sd):
    """Return log E softmax(f) for independent f_c ~ N(mean_c, sd_c^2), arrays (n, C).

    Notes
    -----
    The class is where f_c + (Gumbel noise) is largest, and these sums are independent. With F_c and F_c' the
    distribution function and density of one of them, P(c) is the integral of F_c' prod_{j != c} F_j: one
    integral for any number of classes, by the trapezoidal rule.
    """
    nodes = _count_nodes(mean, sd)
    return _in_blocks(lambda mean, sd: _log_largest(mean, sd, nodes), nodes, mean, sd)


def average_of_correlated(mean, root):
    """Return E softmax(mean + root z), z standard normal, for arrays (n, C) and (n, C, r).

    Notes
    -----
    The mean over 2048 Sobol points and their mirror images, the same points for every row.
    """
    z = _normal_points(root.shape[2])
    return _in_blocks(lambda mean, root: _mean_softmax(mean, root, z), len(z), mean, root)


def _in_blocks(function, nodes, mean, other):
    rows = max(1, _BLOCK_ENTRIES // (nodes * mean.shape[1]))
    starts = range(0, max(len(mean), 1), rows)
    return np.concatenate([function(mean[i : i + rows], other[i : i + rows]) for i in starts])


def _gumbel_log_cdf(r):
    return -np.exp(np.minimum(-r, 700.0))  # exp overflows beyond 709


def _gumbel_log_density(r):
    return -r + _gumbel_log_cdf(r)


_GUMBEL = Noise(_gumbel_log_density, _gumbel_log_cdf, 0.7)


def _span(mean, sd):
    """Return where the largest of f_c + Gumbel lies: above every lower end, below the highest upper one."""
    low = (mean - 8.0 * sd).max(axis=1, keepdims=True) - _GUMBEL_BELOW
    return low, (mean + 8.0 * sd).max(axis=1, keepdims=True) + _GUMBEL_ABOVE


def _count_nodes(mean, sd):
    """Return how many nodes resolve the narrowest sum f_c + Gumbel of any row."""
    if not len(mean):
        return 2
    low, high = _span(mean, sd)
    step = _STEP * np.sqrt(_GUMBEL_VAR + sd.min(axis=1, keepdims=True) ** 2)
    return min(int(np.max((high - low) / step)) + 2, _MOST_NODES)


def _log_largest(mean, sd, nodes):
    """Return log P(f_c + Gumbel is the largest) by the trapezoidal rule over its value, (n, C)."""
    low, high = _span(mean, sd)
    t = low + (high - low) * np.linspace(0.0, 1.0, nodes)  # (n, nodes)
    x, sd = t[:, :, None] - mean[:, None, :], sd[:, None, :]
    log_cdf = np.maximum(_GUMBEL.log_cdf_with_normal(x, sd), _LOWEST)
    log_others = log_cdf.sum(axis=2, keepdims=True) - log_cdf
    log_P = logsumexp(_GUMBEL.log_density_with_normal(x, sd) + log_others, axis=1)
    return log_P - logsumexp(log_P, axis=1, keepdims=True)


@cache
def _normal_points(dimension):
    """Return Sobol points turned into normal ones with their mirror images; centred in their cells."""
    points = Sobol(dimension, scramble=False).random_base2(_LOG2_POINTS)
    z = ndtri(points + 0.5 / 2**_LOG2_POINTS)
    return np.concatenate([z, -z])


def _mean_softmax(mean, root, z):
    f = mean[:, :, None] + root @ z.T  # (n, C, points)
    P = np.exp(f - f.max(axis=1, keepdims=True))
    return (P / P.sum(axis=1, keepdims=True)).mean(axis=2)
