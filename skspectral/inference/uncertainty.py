"""How well the data determine the variances: standard errors and profile-likelihood intervals.

Everything is about the (restricted) evidence of one output as a function of both variances, inside the
bounds given by the user. With x = log noise_ratio and b = noise_var in standardised units,

    -2 log p = n log b + A(x)/b + H(x) + const,

whose minimum over b is n log b^ + n + H with b^ = A/n. The values within a threshold c of the minimum
form a region of (x, b). At a given x it is an interval of b whose ends are, with t = log(b^/b), the roots of

    exp(t) - 1 - t = (c + min - f(x))/n.

The extremes over the region of log b, of log b - x and of x are the ends of the profile-likelihood
intervals of noise, signal and their ratio: searches in one variable, O(n) per evaluation, that see the
whole region and therefore both limits.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri

from ..criteria import CRITERIA, Box, profile
from ..criteria.evidence import evidence_log_hessian
from ..linalg.rotated import Rotated
from ..support.intervals import check_coverage
from .tuned import search_range, tune
from .tuning import zoom
from .variances import VarianceBounds

__all__ = ["VarianceUncertainty", "variance_uncertainty"]

_GRID_STEP = 0.25
_BISECTIONS = 45
_NEWTON_STEPS = 12
# An extreme over x is looked for on a grid, then nine times closer: its value is exact to rounding.
_POINTS = 65
_ZOOMS = 9
# Relative distance from a bound that is rounding: x is tuned to 1e-10.
_SLACK = 1e-8
# Keeps a standard error finite where the evidence is flat to rounding.
_LEAST_INFORMATION = 1e-12


@dataclass(frozen=True)
class VarianceUncertainty:
    """Uncertainty of the variances of one output, by the (restricted) evidence.

    Attributes
    ----------
    status : str
        As in :class:`TuningResult`, of the evidence: "interior", "noise_free", "resolution", "pure_noise",
        "bound" or "fixed".
    noise_variance, signal_variance, noise_ratio : float
        Where the evidence is largest.
    noise_se, signal_se : float
        Standard errors of log noise_variance and log signal_variance from the exact Hessian. Infinite for
        a variance at the limit 0, where its logarithm is not determined; 0 for one that is fixed or held
        by a bound, and the other's is then conditional on it.
    correlation : float
        Of the two logarithms; 0 unless both are free.
    noise_interval, signal_interval, ratio_interval : tuple of float
        Profile-likelihood intervals (lower, upper): all values at which the evidence, maximised over the
        other variance, is within the threshold of its maximum. The lower end is 0 and the upper end
        infinite where the evidence does not fall far enough; bounds given to the estimator cut them.
    coverage : float
        Nominal coverage of the intervals.

    Notes
    -----
    With h = -2 log p, the Hessian by (log noise_var, log signal_var) is D h'' D + diag(D h') with
    D = diag(noise_var, signal_var), and the covariance of both logarithms is its inverse times 2. An
    interval holds the values whose h, minimised over the other variance, exceeds the minimum by no more
    than the `coverage` quantile of chi-squared with one degree of freedom. Where there are several such
    intervals (a second local maximum), this is the one that spans them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.3, 60)
    >>> gp = SpectralGPRegressor(RBF(1.5), optimizer=None).fit(X, y)
    >>> uncertainty = gp.variance_uncertainty()[0]
    >>> round(uncertainty.noise_se, 2)
    0.19
    >>> low, high = np.sqrt(uncertainty.noise_interval)
    >>> bool(low < 0.3 < high)
    True
    """

    status: str
    noise_variance: float
    signal_variance: float
    noise_ratio: float
    noise_se: float
    signal_se: float
    correlation: float
    noise_interval: tuple
    signal_interval: tuple
    ratio_interval: tuple
    coverage: float


def variance_uncertainty(rotated, bounds=None, coverage=0.95):
    """Return the `VarianceUncertainty` of every output.

    Parameters
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    bounds : VarianceBounds, default=None
        Bounds on both variances.
    coverage : float, default=0.95
        Nominal coverage of the intervals.

    Returns
    -------
    tuple of VarianceUncertainty
    """
    coverage, bounds = check_coverage(coverage), bounds or VarianceBounds()
    best = tune(rotated, CRITERIA["evidence"], bounds)
    intervals = _intervals(rotated, bounds, best, coverage)
    return tuple(
        VarianceUncertainty(
            best.tuning[j].status,
            float(best.noise_var[j]),
            float(best.signal_var[j]),
            float(best.noise_ratio[j]),
            *_standard_errors(best, bounds, j),
            *intervals[j],
            coverage,
        )
        for j in range(rotated.n_outputs)
    )


def _standard_errors(best, bounds, j):
    """Return both standard errors and the correlation of output j."""
    variances = np.array([best.noise_var[j], best.signal_var[j]])
    held = np.array([_is_held(v, b) for v, b in zip(variances, (bounds.noise, bounds.signal), strict=True)])
    status, varies = best.tuning[j].status, best.rotated.varies[j]
    no_noise, no_signal = status in ("noise_free", "resolution"), status == "pure_noise"
    at_limit = ~held & np.array([no_noise or not varies, no_signal or not varies])
    free = ~held & ~at_limit
    se = np.where(at_limit, np.inf, 0.0)
    if not free.any():
        return *se.tolist(), 0.0
    standard = replace(best.rotated.select([j]), scale=np.ones(1))  # logarithms do not depend on units
    information = (
        0.5 * evidence_log_hessian(standard, *(variances / best.rotated.scale[j] / best.rotated.scale[j]))[0]
    )
    if free.all():
        return _invert(information)
    se[free] = np.sqrt(1.0 / np.maximum(np.diag(information)[free], _LEAST_INFORMATION))
    return *se.tolist(), 0.0


def _is_held(value, interval):
    """Return whether a variance is fixed or sits on a bound that is not 0 or infinity."""
    low, high = interval
    return (low > 0 and value <= low * (1 + _SLACK)) or (np.isfinite(high) and value >= high * (1 - _SLACK))


def _invert(information):
    """Return standard errors and correlation of a 2 x 2 information; infinite where it is not positive."""
    (a, b), (_, c) = information.tolist()  # numbers, whose quotients overflow without a word
    if not (a > 0 and c > 0):
        return np.inf, np.inf, 0.0
    # what is known of each beside the other: products of a, b and c may be beyond all numbers
    noise, signal = a - b * (b / c), c - b * (b / a)
    if not (noise > 0 and signal > 0):
        return np.inf, np.inf, 0.0
    return noise**-0.5, signal**-0.5, -(b / a**0.5) / c**0.5


@dataclass(frozen=True)
class _Region:
    """Where -2 log p is at most `threshold`, for outputs that vary, as a region of (x, log b).

    Attributes
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    box : Box or None
        Bounds in standardised units.
    x_best, threshold : ndarray of shape (m,)
        Minimiser (maybe infinite) and the largest f inside.
    """

    rotated: Rotated
    box: Box | None
    x_best: np.ndarray
    threshold: np.ndarray

    @classmethod
    def make(cls, rotated, bounds, x_best, coverage):
        box = None if bounds.is_free else bounds.box(rotated.scale)
        f = profile(CRITERIA["evidence"](rotated, x_best[None]), x_best[None], box).f[0]
        return cls(rotated, box, x_best, f + chdtri(1, 1.0 - coverage))

    def contains(self, x):
        """Return whether any noise variance is inside at x, (k, m)."""
        return profile(CRITERIA["evidence"](self.rotated, x), x, self.box).f <= self.threshold

    def log_noise(self, x):
        """Return the smallest and largest log b inside at each x, (k, m) each; inf and -inf outside."""
        terms = CRITERIA["evidence"](self.rotated, x)
        free = profile(terms, x)
        depth = np.maximum(self.threshold - free.f, 0.0) / terms.n
        ends = [np.log(free.noise_var) - t for t in _depth_roots(depth)]
        if self.box is not None:
            with np.errstate(divide="ignore"):
                limits = [np.log(limit) for limit in self.box.noise_limits(x)[:2]]
            ends = [np.clip(end, *limits) for end in ends]
        inside = profile(terms, x, self.box).f <= self.threshold
        return np.where(inside, ends[0], np.inf), np.where(inside, ends[1], -np.inf)

    def ratio_ends(self, x_min, x_max):
        """Return the smallest and largest x inside (m,), and whether each is the end of the range."""
        grid = np.linspace(x_min, x_max, int(np.ceil((x_max - x_min) / _GRID_STEP)) + 1)
        inside, x_best = self.contains(grid[:, None]), np.clip(self.x_best, x_min, x_max)
        low = np.minimum(np.where(inside, grid[:, None], np.inf).min(axis=0), x_best)
        high = np.maximum(np.where(inside, grid[:, None], -np.inf).max(axis=0), x_best)
        below, above = np.searchsorted(grid, low) - 1, np.searchsorted(grid, high, side="right")
        at_min, at_max = below < 0, above == len(grid)
        low = np.where(at_min, low, self._edge(low, grid[np.maximum(below, 0)]))
        high = np.where(at_max, high, self._edge(high, grid[np.minimum(above, len(grid) - 1)]))
        return low, high, at_min, at_max

    def _edge(self, inside, outside):
        """Return the last points inside on the ways to points outside, by bisection, (m,)."""
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            is_in = self.contains(middle[None])[0]
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        return inside


def _depth_roots(depth):
    """Return the positive and the negative root of exp(t) - 1 - t = depth, for depth >= 0.

    Newton's method from bounds beyond the roots, which a convex function approaches from one side.
    """
    root = np.sqrt(2.0 * depth)
    return _newton(np.log1p(depth + root), depth), _newton(-(depth + root), depth)


def _newton(t, depth):
    for _ in range(_NEWTON_STEPS):
        slope = np.expm1(t)
        step = np.divide(slope - t - depth, slope, out=np.zeros_like(t), where=slope != 0)
        t = t - step
    return t


def _intervals(rotated, bounds, best, coverage):
    """Return the intervals of noise, signal and ratio of every output."""
    intervals = [_of_constant(best, j) for j in range(rotated.n_outputs)]
    varying = np.flatnonzero(rotated.varies)
    if len(varying):
        part = rotated.select(varying)
        region = _Region.make(part, bounds, np.log(best.noise_ratio[varying]), coverage)
        ends = _profile_intervals(region, bounds)
        for column, j in enumerate(varying):
            intervals[j] = tuple((float(low[column]), float(high[column])) for low, high in ends)
    return intervals


def _of_constant(best, j):
    """Return the intervals of an output without variation: its variances alone, or anything without data."""
    anything = (0.0, np.inf)
    if best.rotated.n_free == 0:
        return anything, anything, anything
    return *((float(v[j]), float(v[j])) for v in (best.noise_var, best.signal_var)), anything


def _profile_intervals(region, bounds):
    """Return (lower, upper) of noise, signal and ratio, each (m,), in the units of y."""
    unit = region.rotated.scale**2
    x_min, x_max, is_limit = search_range(region.rotated, bounds)
    x_low, x_high, at_min, at_max = region.ratio_ends(x_min, x_max)
    noise_free, pure_noise = at_min & is_limit[0], at_max & is_limit[1]
    noise, signal = _variance_ends(region, x_low, x_high, pure_noise)
    with np.errstate(over="ignore"):  # an end that is beyond all numbers is infinite
        noise, signal = np.exp(np.log(unit) + noise), np.exp(np.log(unit) + signal)
    if region.rotated.s.any():
        noise[0] = np.where(noise_free, 0.0, noise[0])
    else:  # a kernel of zeros says nothing about the signal
        signal[1] = np.inf
    signal[0] = np.where(pure_noise, 0.0, signal[0])
    ratio = np.where(noise_free, 0.0, np.exp(x_low)), np.where(pure_noise, np.inf, np.exp(x_high))
    return (
        np.clip(noise, *bounds.noise),
        np.clip(signal, *bounds.signal),
        np.clip(ratio, *bounds.noise_ratio),
    )


def _variance_ends(region, x_low, x_high, pure_noise):
    """Return the extremes of log b and of log b - x over the region, (2, m) each."""
    points = np.linspace(x_low, x_high, _POINTS)
    noise, signal = np.empty((2, len(x_low))), np.empty((2, len(x_low)))
    limit = region.log_noise(np.full((1, len(x_low)), np.inf))
    for end, sign in enumerate((1.0, -1.0)):
        best = zoom(lambda x, e=end, s=sign: s * region.log_noise(x)[e], points, _ZOOMS)[1]
        noise[end] = sign * np.where(pure_noise, np.minimum(best, sign * limit[end][0]), best)
        least = zoom(lambda x, e=end, s=sign: s * (region.log_noise(x)[e] - x), points, _ZOOMS)[1]
        signal[end] = sign * least
    return noise, signal
