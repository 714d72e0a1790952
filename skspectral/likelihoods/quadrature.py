"""Averages over a normal latent value and over a noise, and quantiles from cumulative distributions.

The sum of a normal latent value and a noise is needed for every relation between the two widths. A rule with
few nodes resolves only functions that vary slowly between its nodes, so the average is always taken over the
narrower of the two, of the density or distribution function of the wider.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logsumexp, ndtr

__all__ = ["Noise", "Rule", "count_quantile", "invert", "log_quietly", "normal_density", "normal_rule"]

# Exact for polynomials up to degree 63, about nine digits where the function is as wide as the normal.
NODES = 32
# Entries of a temporary: rows times nodes are evaluated in blocks of about 2 MiB.
_BLOCK_ENTRIES = 2**18
# Beyond this many standard deviations the normal is 0 to double precision beside its centre.
_FAR = 8.0
# Step in t of r = width sinh(t): at r = _FAR sd neighbours are 0.8 sd apart, an error of exp(-2 pi^2/0.8^2).
_SINH_STEP = 0.1
# Where tails like 1/r^2 hold less than 1e-10.
_LARGEST_NOISE = 1e10
# Halvings of a bracket: from its width to rounding.
_HALVINGS = 60


@dataclass(frozen=True)
class Rule:
    """Nodes and weights of an average; the weights sum to 1."""

    points: np.ndarray
    weights: np.ndarray

    def average(self, function, *rows):
        """Return sum_j weight_j function(*rows, point_j) for arrays `rows` of a common shape."""
        return self._in_blocks(lambda *block: function(*block, self.points) @ self.weights, rows)

    def log_average(self, log_function, *rows):
        """Return log sum_j weight_j exp(log_function(*rows, point_j)), without underflow."""
        log_weights = np.log(self.weights)
        return self._in_blocks(
            lambda *block: logsumexp(log_function(*block, self.points) + log_weights, axis=1), rows
        )

    def _in_blocks(self, function, rows):
        rows = np.broadcast_arrays(*rows)
        columns = [row.reshape(-1, 1) for row in rows]
        size = max(1, _BLOCK_ENTRIES // len(self.points))
        starts = range(0, max(rows[0].size, 1), size)
        parts = [function(*(column[i : i + size] for column in columns)) for i in starts]
        return np.concatenate(parts).reshape(rows[0].shape)


@cache
def normal_rule():
    """Return the Gauss-Hermite rule of the standard normal distribution."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return Rule(points, weights / weights.sum())


def normal_density(z):
    """Return the standard normal density."""
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


@dataclass(frozen=True)
class Noise:
    """A distribution on the line, to be added to a normal.

    Attributes
    ----------
    log_density, log_cdf : callable
        Elementwise functions of r.
    width : float
        The smallest distance over which the density changes its shape.
    """

    log_density: Callable
    log_cdf: Callable
    width: float

    def rule(self):
        """Return the trapezoidal rule in t, r = width sinh(t): even steps in r, then geometric ones."""
        reach = np.arcsinh(_LARGEST_NOISE / self.width)
        t = np.linspace(-reach, reach, 2 * int(reach / _SINH_STEP) + 1)
        points = self.width * np.sinh(t)
        weights = np.exp(self.log_density(points)) * np.cosh(t)
        weights /= weights.sum()
        counted = weights > 1e-18
        return Rule(points[counted], weights[counted])

    def log_cdf_with_normal(self, x, sd):
        """Return log P(noise + sd z <= x), z standard normal."""
        return self._with_normal(x, sd, self.log_cdf, lambda x, sd, r: ndtr((x - r) / sd))

    def log_density_with_normal(self, x, sd):
        """Return the log density of noise + sd z at x, z standard normal."""
        return self._with_normal(x, sd, self.log_density, lambda x, sd, r: normal_density((x - r) / sd) / sd)

    def _with_normal(self, x, sd, log_noise, normal):
        """Average the noise over the normal where that is narrow or far, else the normal over the noise.

        Within `_FAR` standard deviations the second average does not underflow, so its log is safe.
        """
        x, sd = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(sd, np.float64))
        narrow = (sd < self.width) | (np.abs(x) > _FAR * sd)
        out = np.empty(x.shape)
        out[narrow] = self._over_normal(log_noise, x[narrow], sd[narrow])
        out[~narrow] = np.log(self.rule().average(normal, x[~narrow], sd[~narrow]))
        return out

    def _over_normal(self, log_noise, x, sd):
        """Return log E exp(log_noise(x - sd z)), with nodes around the largest contribution z = c.

        The nodes c + z' carry the weight exp(-c z' - c^2/2): far out in a tail it is not the middle of the
        normal that counts.
        """
        c = self._largest_contribution(log_noise, x, sd)
        return normal_rule().log_average(
            lambda x, sd, c, z: log_noise(x - sd * (c + z)) - c * (z + 0.5 * c), x, sd, c
        )

    def _largest_contribution(self, log_noise, x, sd):
        """Return z of the largest log_noise(x - sd z) - z^2/2, the noise a parabola through three points."""
        h = 0.5 * self.width
        left, middle, right = log_noise(x - h), log_noise(x), log_noise(x + h)
        with np.errstate(invalid="ignore", over="ignore"):  # the tail of a distribution function is 0
            slope, bend = (right - left) / (2.0 * h), (right - 2.0 * middle + left) / h**2
            c = -sd * slope / (1.0 + sd**2 * np.maximum(-bend, 0.0))
        return np.where(np.isfinite(c), c, 0.0)


def log_quietly(values):
    """Return the logarithm, -inf at 0 without a warning: a probability that underflowed."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def invert(cdf, level, centre, step):
    """Return y with cdf(y) = level by bisection, all arguments arrays of a common shape.

    Parameters
    ----------
    cdf : callable
        Increasing in each entry of its argument.
    level : ndarray
        Between 0 and 1.
    centre, step : ndarray
        Where to look first, and how far to go first; the step doubles until the level is enclosed.
    """
    low = _beyond(lambda y: cdf(y) < level, centre, -step)
    high = _beyond(lambda y: cdf(y) >= level, centre, step)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = cdf(middle) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
        if np.all(high - low <= 1e-14 * (np.abs(middle) + step)):
            break
    return 0.5 * (low + high)


def count_quantile(cdf, level, start):
    """Return the smallest whole number k >= 0 with cdf(k) >= level, looking from `start` > 0."""
    low = np.full(np.shape(start), -1.0)
    high = np.ceil(_beyond(lambda k: cdf(np.ceil(k)) >= level, np.zeros_like(low), start))
    while np.any(high - low > np.maximum(1.0, 1e-15 * high)):  # beyond 2**53 neighbours are further apart
        middle = np.floor(0.5 * (low + high))
        below = cdf(middle) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def _beyond(is_beyond, centre, step):
    """Return centre + step 2^k with the smallest k >= 0, for each entry, for which `is_beyond` holds."""
    y = centre + step
    while not np.all(done := is_beyond(y)):
        step = np.where(done, step, 2.0 * step)
        y = centre + step
    return y
