"""What is said of the two variances beforehand: bounds and priors."""

from dataclasses import dataclass

import numpy as np

from ..criteria import Box
from ..criteria.form import Profile
from .tuning import zoom

__all__ = [
    "LARGEST",
    "LARGEST_VARIANCE",
    "VarianceBounds",
    "VariancePrior",
    "finite_ratio",
    "resolvable_ratios",
]

LARGEST = float(np.finfo(np.float64).max)
# A predictive variance that leaves room to add noise and a Student-t's tails to it.
LARGEST_VARIANCE = 0.1 * LARGEST
# Above this ratio to the largest eigenvalue the fit differs from pure noise by less than a millionth.
_LARGEST_RATIO = 1e6

# Factor within which the mean square of targets is near what bounds allow.
_NEARLY = 2.0
# Step in x of the difference where a prior leaves no closed form.
_STEP = 1e-4
# Looks that narrow log noise_var from half a unit down to rounding.
_ZOOMS = 16


def finite_ratio(noise_var, noise_ratio):
    """Return the signal variance noise_var / noise_ratio, at most the largest number there is."""
    with np.errstate(over="ignore"):
        return np.minimum(noise_var / noise_ratio, LARGEST)


def resolvable_ratios(largest, resolution):
    """Return the smallest and largest noise ratio that make a difference.

    Parameters
    ----------
    largest : float
        Largest eigenvalue of K, or a bound on it.
    resolution : float
        A noise ratio below it is lost in the rounding of K; 0 means that K is 0.
    """
    finite = np.finfo(np.float64)
    return resolution or finite.eps * largest, min(
        largest, 0.5 * finite.max / _LARGEST_RATIO
    ) * _LARGEST_RATIO


@dataclass(frozen=True)
class VarianceBounds:
    """Bounds of the noise and the signal variance in the units of y squared."""

    noise: tuple = (0.0, np.inf)
    signal: tuple = (0.0, np.inf)

    @property
    def noise_ratio(self):
        """Smallest and largest noise ratio inside the bounds."""
        (noise_min, noise_max), (signal_min, signal_max) = self.noise, self.signal
        if signal_max == 0:
            return np.inf, np.inf
        low = 0.0 if noise_min == 0 else noise_min / signal_max
        high = noise_max / signal_min if signal_min > 0 else np.inf
        return low, 0.0 if noise_max == 0 else high

    def allow_no_noise(self, n, scale):
        """Return whether the noise may be no more than the rounding of n targets of size `scale` (m,)."""
        rounding = n * np.finfo(np.float64).eps
        return self.noise[1] <= rounding * scale.min() ** 2 and self.noise_ratio[0] <= rounding

    @property
    def of_signal(self):
        """The bounds of the signal variance alone, for where the noise is no more than jitter."""
        return VarianceBounds(signal=self.signal)

    @property
    def is_free(self):
        """Whether nothing is bounded."""
        return self.noise == self.signal == (0.0, np.inf)

    @property
    def is_fixed(self):
        """Whether nothing is left to tune."""
        return self.noise[0] == self.noise[1] and self.signal[0] == self.signal[1]

    def hold_both(self, size, kernel_variance):
        """Return whether targets of a size are too small, or too large, for both variances at once."""
        if min(self.noise[1] - self.noise[0], self.signal[1] - self.signal[0]) == 0:
            return False  # one of them has no choice at all, and the other follows it
        (low, high), least = zip(self.noise, self.signal, strict=True), min(self.noise[0], self.signal[0])
        too_small = least > 0 and size <= np.sqrt(_NEARLY * (low[0] + low[1] * kernel_variance))
        return bool(too_small or size >= np.sqrt((high[0] + high[1] * kernel_variance) / _NEARLY))

    def box(self, scale):
        """Return the bounds in standardised units, one entry per output."""
        with np.errstate(over="ignore"):
            noise, signal = ([end / scale / scale for end in ends] for ends in (self.noise, self.signal))
        return Box(np.minimum(noise[0], LARGEST), noise[1], np.minimum(signal[0], LARGEST), signal[1])

    def noise_limits(self, x):
        """Return the smallest and largest noise variance allowed at log noise ratios, in the units of y."""
        return Box(*self.noise, *self.signal).noise_limits(x)[:2]


@dataclass(frozen=True)
class VariancePrior:
    """Prior densities of the two variances: frozen scipy distributions in the units of y squared, or None."""

    noise: object = None
    signal: object = None

    def penalty(self, noise_var, signal_var):
        """Return -2 log density, broadcast over its arguments."""
        pairs = ((self.noise, noise_var), (self.signal, signal_var))
        return sum(-2.0 * prior.logpdf(value) for prior, value in pairs if prior is not None)

    def medians(self, bounds, default):
        """Return the medians of noise and signal variance within bounds; a default for one without prior."""
        triples = zip((self.noise, self.signal), (bounds.noise, bounds.signal), default, strict=True)
        return tuple(
            other if prior is None else float(np.clip(prior.median(), *interval))
            for prior, interval, other in triples
        )

    def profile(self, terms, x, scale, box):
        """Return the `Profile` of the penalised criterion: no closed form, so a search over log noise_var.

        A grid and a zoom find the best noise_var b at each x. How b moves with x makes no difference to the
        slope unless it is on a bound of the signal variance and moves along: the slope is a difference of
        values at such b. Slower than `criteria.profile`, and used only where there are such priors.
        """

        def value(b, h=0.0):
            """At x + h, with A and H carried there."""
            fit = terms.n * np.log(b) + (terms.A + h * terms.A1) / b - terms.n + terms.H + h * terms.H1
            return fit + self.penalty(b * scale**2, b * scale**2 / np.exp(x + h))

        box = box or Box(0.0, np.inf, 0.0, np.inf)
        lower, upper, lower_moves, upper_moves = box.noise_limits(x)
        grid = np.linspace(-16.0, 16.0, 129).reshape(-1, *(1 for _ in terms.A.shape))
        log_b, f = zoom(
            lambda log_b: value(np.clip(np.exp(log_b), lower, upper)),
            np.log(terms.A / terms.n) + grid,
            _ZOOMS,
        )
        b = np.clip(np.exp(log_b), lower, upper)
        moves = (b <= lower) & lower_moves | (b >= upper) & upper_moves
        with np.errstate(invalid="ignore"):  # inf - inf where the prior excludes a point
            behind, ahead = (value(b * np.exp(h * moves), h) for h in (-_STEP, _STEP))
            slope = np.where(np.isfinite(x), (ahead - behind) / (2 * _STEP), 0.0)
        return Profile(f, slope, np.full_like(slope, np.nan), b)
