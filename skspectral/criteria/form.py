"""The common form n log A + H of all criteria, its profile over the variances and its bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from math import inf, log

import numpy as np
from scipy.special import xlogy

__all__ = [
    "Box",
    "Criterion",
    "Profile",
    "Terms",
    "count_sum",
    "in_blocks",
    "outer_sum",
    "profile",
    "profile_at_one",
    "shrinkage",
    "value_at",
]

# Entries per block of a grid evaluation: about 1 MiB per temporary, so that they stay in cache.
_BLOCK_ENTRIES = 2**17
# The same for functions of few temporaries, which then stay in the inner cache.
_CACHED_ENTRIES = 2**15
# The exponential of it is a number.
_LARGEST_LOG = 700.0


@dataclass(frozen=True)
class Terms:
    """A and H of f = n log A + H at given x, each with two derivatives, shapes (k, m) or (k, 1)."""

    n: float
    A: np.ndarray
    A1: np.ndarray
    A2: np.ndarray
    H: np.ndarray
    H1: np.ndarray
    H2: np.ndarray


@dataclass(frozen=True)
class Criterion:
    """A criterion by name.

    Attributes
    ----------
    name : str
        What users call it.
    terms : callable
        (rotated, x) -> Terms.
    sensitivity : callable
        (rotated, x, b) -> dF/dK, the derivative of sum_m (A/b + H) by the weighted, projected kernel
        matrix, (n, n), at each output's own x and noise variance b, shapes (m,). Dense spectra only.
    is_density : bool
        Whether f is -2 log of a density of y (up to a constant) whose noise variance is A/n.
    needs_rows : bool
        Whether temporaries are (rows, k, m) instead of (k, directions): leave-one-out.
    is_unbounded : bool
        Whether f may fall for ever as the noise vanishes, whatever the data.
    """

    name: str
    terms: Callable
    sensitivity: Callable
    is_density: bool
    needs_rows: bool = False
    is_unbounded: bool = False

    def __call__(self, rotated, x):
        """Return the `Terms` at x, evaluated in blocks that fit in cache."""
        x = np.asarray(x, dtype=np.float64)
        entries = rotated.s.size * (rotated.n_outputs if self.needs_rows else x.shape[1])
        rows = max(1, _BLOCK_ENTRIES // max(entries, 1))
        if len(x) <= rows:
            return self.terms(rotated, x)
        parts = [self.terms(rotated, x[i : i + rows]) for i in range(0, len(x), rows)]
        fields = ("A", "A1", "A2", "H", "H1", "H2")
        return Terms(parts[0].n, *(np.concatenate([getattr(p, f) for p in parts]) for f in fields))

    def score(self, rotated, n, f):
        """Return the public value of f, in the units of y and greater is better.

        A log density for densities, minus a mean squared error, weighted, for the others.
        """
        if self.is_density:
            return rotated.log_jacobian(n) - 0.5 * (n * (np.log(2 * np.pi) + 1.0) + f)
        return -np.exp(f) * rotated.scale**2 / rotated.counts.mean_weight


@dataclass(frozen=True)
class Box:
    """Bounds on both variances in the standardised units of y, one entry per output."""

    noise_min: np.ndarray
    noise_max: np.ndarray
    signal_min: np.ndarray
    signal_max: np.ndarray

    def noise_limits(self, x):
        """Return the smallest and largest noise_var allowed at x, and whether each moves with g.

        signal_var = noise_var / g must respect its bounds too: noise_var lies between
        max(noise_min, g signal_min) and min(noise_max, g signal_max).
        """
        g = np.exp(x)
        # inf * 0: no signal bound in the pure-noise limit; a bound beyond all numbers is infinite
        with np.errstate(invalid="ignore", over="ignore"):
            from_below = np.where(self.signal_min > 0, g * self.signal_min, 0.0)
            from_above = np.where(np.isinf(g), np.inf, g * self.signal_max)
        lower = np.maximum(self.noise_min, from_below)
        upper = np.minimum(self.noise_max, from_above)
        return lower, upper, from_below > self.noise_min, from_above < self.noise_max

    def clipped(self, noise_var, x):
        """Return noise variances moved into what is allowed at x."""
        lower, upper, *_ = self.noise_limits(x)
        return np.minimum(np.maximum(noise_var, lower), upper)

    @cached_property
    def of_first(self):
        """The four bounds of the first output, as numbers."""
        ends = self.noise_min, self.noise_max, self.signal_min, self.signal_max
        return tuple(float(end[0]) for end in ends)

    def face(self, name):
        """Return the box in which the variance of a bound stays there, and the other one is free.

        `name` is that of the bound; None means a box without any.
        """
        ends = {"noise_min": 0.0, "noise_max": np.inf, "signal_min": 0.0, "signal_max": np.inf}
        if name is not None:
            variance = name.partition("_")[0]
            ends |= {f"{variance}_min": getattr(self, name), f"{variance}_max": getattr(self, name)}
        return Box(*(np.broadcast_to(end, self.noise_min.shape) for end in ends.values()))

    def select(self, outputs):
        """Return the bounds of the given outputs."""
        return Box(
            self.noise_min[outputs],
            self.noise_max[outputs],
            self.signal_min[outputs],
            self.signal_max[outputs],
        )


@dataclass(frozen=True)
class Profile:
    """f at given x with its derivatives, and the noise variance that attains it, shapes (k, m)."""

    f: np.ndarray
    f1: np.ndarray
    f2: np.ndarray
    noise_var: np.ndarray


def profile(terms, x, box=None):
    """Minimise n log b + A/b - n + H over the noise variance b at each x.

    Notes
    -----
    Without a box the minimiser is b = A/n and f = n log(A/n) + H. The function of b falls and then
    rises, so with a box it is A/n clipped to the box: still exact, and f stays continuously
    differentiable in x (at a switch the derivative by b is 0). With L = log b and L' = A'/A inside,
    0 on a bound of noise_var and 1 on a bound of signal_var = b/g,

        f'  = n L' + (A' - A L')/b + H'
        f'' = (A'' - 2 A' L' + A L'^2)/b + H'',

    since L'' is 0 on a bound and has the factor n - A/b, which is 0, inside.
    """
    n, A, A1, A2 = terms.n, terms.A, terms.A1, terms.A2
    b, L1 = A / max(n, 1), A1 / A
    if box is not None:
        lower, upper, lower_moves, upper_moves = box.noise_limits(x)
        low, high = b < lower, b > upper
        b = np.minimum(np.maximum(b, lower), upper)
        L1 = np.where(low, lower_moves, np.where(high, upper_moves, L1))
    f = value_at(terms, b)
    with np.errstate(over="ignore", invalid="ignore"):  # as in `value_at`
        f1 = n * L1 + (A1 - A * L1) / b + terms.H1
        f2 = (A2 - 2.0 * A1 * L1 + A * L1**2) / b + terms.H2
    return Profile(f, f1, f2, b)


def profile_at_one(n, A, A1, H, H1, g, box=None):
    """Return f, f', the noise variance, and the name of the bound that holds a variance, or None.

    At a single noise ratio g of one output, from numbers: the same as `profile`, for steps that are so many
    that arrays of one entry would be seen. f is infinite where rounding has left nothing of A.
    """
    A, A1, H, H1 = float(A), float(A1), float(H), float(H1)  # whose quotients overflow without a word
    if not A > 0:
        return inf, 0.0, 0.0, None
    b, L1, held_by = A / max(n, 1), A1 / A, None
    if box is not None:
        noise_min, noise_max, signal_min, signal_max = box.of_first
        lower, upper = max(noise_min, g * signal_min), min(noise_max, g * signal_max)
        if b < lower:
            b, held_by = lower, "signal_min" if g * signal_min > noise_min else "noise_min"
        elif b > upper:
            b, held_by = upper, "signal_max" if g * signal_max < noise_max else "noise_max"
        if held_by is not None:
            L1 = float(held_by.startswith("signal"))
    return n * log(b) + A / b - n + H, n * L1 + (A1 - A * L1) / b + H1, b, held_by


def value_at(terms, b):
    """Return f = n log b + A/b - n + H at a noise variance b that need not be the best.

    -inf at b = 0, which is chosen only where A = 0 too; inf where A is beyond all multiples of b.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        misfit = np.where(b > 0, terms.A / b, 0.0)
    return xlogy(terms.n, b) + misfit - terms.n + terms.H


def shrinkage(s, x, factor=1.0):
    """Return g/(factor s + g) at each x, shape (k, 1 or m, len(s)); 1 at x = inf."""
    largest = s.max(initial=0.0) or 1.0  # g may be as far from 1 as the eigenvalues are
    ratio = np.exp(np.minimum(np.log(largest) - x, _LARGEST_LOG))[..., None] * (factor * (s / largest))
    ratio += 1.0
    return np.divide(1.0, ratio, out=ratio)


def outer_sum(left, right):
    """Return sum_m (left_m right_m' + right_m left_m')/2 of the columns of two (n, m) arrays."""
    half = 0.5 * left @ right.T
    return half + half.T


def in_blocks(function):
    """Evaluate function(rotated, noise_var, signal_var) on blocks of trial values that fit in cache."""

    @wraps(function)
    def blocked(rotated, noise_var, signal_var):
        trial = np.broadcast_arrays(np.atleast_1d(noise_var), np.atleast_1d(signal_var))
        rows = max(1, _CACHED_ENTRIES // rotated.s.size)
        starts = range(0, len(trial[0]), rows)
        return np.concatenate([function(rotated, *(t[i : i + rows] for t in trial)) for i in starts])

    return blocked


def count_sum(weights, count):
    """Return sum_i weights_i count_i, (k, 1 or m)."""
    return weights @ count
