"""Additive noise of a given shape: y = f + scale r, r with density exp(rho(r))."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from .protocol import Derivatives, Likelihood
from .quadrature import Noise

__all__ = ["LocationScale", "robust_spread"]

# A start with noise of a third of the spread of y: the signal then explains nine tenths of the variance.
_START_FRACTION = 1.0 / 3.0
# Makes the median of |r| estimate the standard deviation of normal data.
_MEDIAN_TO_SD = 1.4826


class LocationScale(Likelihood):
    """Base of the additive noises: a family defines rho(r) and what belongs to r, this class the rest.

    Notes
    -----
    With r = (y - f)/scale, log p = rho(r) - log scale, and primes for d/dr,

        d log p/df     = -rho'/scale        by log scale:  (rho' + r rho'')/scale
        d^2 log p/df^2 = rho''/scale^2      by log scale:  -(2 rho'' + r rho''')/scale^2
        d^3 log p/df^3 = -rho'''/scale^3

    and log p by log scale is -(1 + r rho'). The learned parameter is scale, or another one with
    scale = parameter**exponent.
    """

    parameters: ClassVar[tuple[str, ...]] = ("scale",)
    has_units = True
    exponent = 1.0

    # ------------------------------------------------------------------ what a family defines

    def noise_log_density(self, r):
        """Return rho(r), normalised."""
        raise NotImplementedError

    def noise_derivatives(self, r):
        """Return rho', rho'' and rho'''."""
        raise NotImplementedError

    def noise_weight(self, r):
        """Return -rho'(r)/r with its limit at 0: the weight of a residual in reweighted least squares."""
        raise NotImplementedError

    def noise_log_cdf(self, r):
        """Return the log of the distribution function of r."""
        raise NotImplementedError

    def noise_variance(self):
        """Return the variance of r."""
        raise NotImplementedError

    def noise_width(self):
        """Return the smallest distance over which the density of r changes its shape."""
        raise NotImplementedError

    def sample_noise(self, shape, rng):
        """Return draws of r."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what follows for y and f

    @property
    def noise_scale(self):
        """The factor of r in y = f + noise_scale r."""
        return self.value_of(self.parameters[0]) ** self.exponent

    def residual(self, y, f):
        """Return r = (y - f)/scale."""
        return (np.asarray(y, np.float64) - np.asarray(f, np.float64)) / self.noise_scale

    def log_density(self, y, f):
        """Return rho(r) - log scale."""
        return self.noise_log_density(self.residual(y, f)) - np.log(self.noise_scale)

    def derivatives(self, y, f):
        """Return the derivatives of log p(y|f) by f, as in the Notes of the class."""
        scale = self.noise_scale
        first, second, third = self.noise_derivatives(self.residual(y, f))
        return Derivatives(-first / scale, second / scale**2, -third / scale**3)

    def step_curvature(self, y, f):
        """Return -rho'(r)/(r scale^2), positive everywhere.

        All families here are concave functions of r^2, so the quadratic with this curvature that touches
        log p at f lies below it: one weighted least squares step cannot go down.
        """
        return self.noise_weight(self.residual(y, f)) / self.noise_scale**2

    def slopes_by(self, name, y, f):
        """Return the derivatives of log p and its derivatives by the log of the parameter of the scale."""
        r, scale = self.residual(y, f), self.noise_scale
        first, second, third = self.noise_derivatives(r)
        by_log_scale = (
            -(1.0 + r * first),
            (first + r * second) / scale,
            -(2.0 * second + r * third) / scale**2,
        )
        return tuple(self.exponent * slope for slope in by_log_scale)

    def starting(self, y):
        """Return this likelihood with a third of a robust spread of y as scale, if it has none yet."""
        name = self.parameters[0]
        if getattr(self, name) is not None:
            return self
        start = (_START_FRACTION * robust_spread(y)) ** (1.0 / self.exponent)
        bounds = getattr(self, f"{name}_bounds")
        return replace(self, **{name: start if bounds is None else float(np.clip(start, *bounds))})

    def starting_latent(self, y):
        """Return the median of y."""
        return np.median(y, axis=0)

    def in_units(self, unit):
        """Return the likelihood of y/unit given f/unit."""
        name, factor = self.parameters[0], unit ** (1.0 / self.exponent)
        value, bounds = getattr(self, name), getattr(self, f"{name}_bounds")
        value = value if value is None else value / factor
        bounds = tuple(b / factor for b in bounds) if isinstance(bounds, tuple) else bounds
        return replace(self, **{name: value, f"{name}_bounds": bounds})

    def conditional_mean(self, f):
        """Return f, the centre of symmetry."""
        return np.asarray(f, dtype=np.float64)

    def conditional_variance(self, f):
        """Return scale^2 var(r)."""
        return np.full(np.shape(f), self.noise_scale**2 * self.noise_variance())

    def cdf(self, y, f):
        """Return P(Y <= y | f)."""
        return np.exp(self.noise_log_cdf(self.residual(y, f)))

    def sample(self, f, rng):
        """Return f + scale r."""
        return f + self.noise_scale * self.sample_noise(np.shape(f), rng)

    def predictive_mean(self, mean, var):
        """Return the mean of f, exactly."""
        return np.asarray(mean, np.float64) + np.zeros(np.shape(var))

    def predictive_variance(self, mean, var):
        """Return var + scale^2 var(r), exactly."""
        return var + np.full(np.shape(mean), self.noise_scale**2 * self.noise_variance())

    def predictive_spread(self, mean, var):
        """Return (var + scale^2)^(1/2), also where the variance of y is infinite."""
        return np.hypot(np.sqrt(var), np.full(np.shape(mean), self.noise_scale))

    def predictive_cdf(self, y, mean, var):
        """Return P(Y <= y): the noise and the normal added, averaged over the narrower of the two."""
        sd = np.sqrt(var) / self.noise_scale
        return np.exp(self._noise().log_cdf_with_normal(self.residual(y, mean), sd))

    def predictive_log_density(self, y, mean, var):
        """Return log p(y): the noise and the normal added, averaged over the narrower of the two."""
        sd = np.sqrt(var) / self.noise_scale
        log_density = self._noise().log_density_with_normal(self.residual(y, mean), sd)
        return log_density - np.log(self.noise_scale)

    def _noise(self):
        return Noise(self.noise_log_density, self.noise_log_cdf, self.noise_width())


def robust_spread(y):
    """Return a positive spread of y: from the median deviation, else the mean one, else the size of y."""
    y = np.asarray(y, dtype=np.float64)
    centre = np.median(y, axis=0)
    deviation = np.abs(y - centre)
    candidates = (_MEDIAN_TO_SD * np.median(deviation), np.mean(deviation), np.max(np.abs(centre)), 1.0)
    return float(next(spread for spread in candidates if spread > 0))
