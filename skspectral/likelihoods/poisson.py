"""Counts with a positive rate: the logarithm of the rate is the latent value."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc, gammaln, ndtr, wrightomega

from .protocol import Derivatives, Likelihood
from .quadrature import Rule, normal_rule

__all__ = ["Poisson"]

# exp overflows beyond 709: larger log rates count as this one.
LARGEST_LOG_RATE = 700.0
# From here Stirling's series is exact to rounding.
_STIRLING = 64.0
# Nodes for log G, G ~ Gamma(a), at log a + t/sqrt(a): the left tail is exponential, the right one shorter.
_GAMMA_NODES = np.arange(-40.0, 10.0, 0.4)
# Above this rate a draw is normal to within the spacing of floats, and generators of counts refuse.
_LARGEST_DRAWN_RATE = 1e15


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts y with rate exp(f).

    Notes
    -----
    log p = y f - exp(f) - log y!, derivatives y - exp(f), -exp(f), -exp(f). Log rates above 700 are taken as
    700, so that everything stays finite.

    For f ~ N(mean, var): E y = exp(mean + var/2) and var y = E y + (E y)^2 (exp(var) - 1), exactly. The
    distribution function is averaged over f or, where f is wide, over G: P(Y <= k) = P(log G > f) with
    G ~ Gamma(k + 1), to nine digits. The density is averaged over Gauss-Hermite nodes around the mode of
    p(y|f) N(f), to five digits or more up to var = 10.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral.likelihoods import Poisson
    >>> Poisson().predictive_quantile(np.array([0.05, 0.95]), np.log(10.0), 0.0)
    array([ 5., 15.])
    """

    is_discrete = True
    is_skewed = True

    def log_density(self, y, f):
        """Return log p(y|f) without the cancellation of y f against log y! at large counts.

        For y > 0 and d = f - log y: y (d - (exp(d) - 1)) - [log y! - y log y + y].
        """
        y, f = np.broadcast_arrays(np.asarray(y, np.float64), _limited(f))
        safe = np.maximum(y, 1.0)
        d = f - np.log(safe)
        return np.where(y > 0, safe * (d - np.expm1(d)) - _stirling_rest(safe), -np.exp(f))

    def derivatives(self, y, f):
        """Return y - rate, -rate and -rate."""
        y, f = np.broadcast_arrays(np.asarray(y, np.float64), _limited(f))
        rate = np.exp(f)
        return Derivatives(y - rate, -rate, -rate)

    def check_targets(self, y):
        """Return y as float64; refuse negative numbers and fractions."""
        y = np.asarray(y, dtype=np.float64)
        if np.any(y < 0):
            raise ValueError(
                f"The Poisson likelihood needs counts 0, 1, 2, ...; got the negative target {y.min():.6g}. "
                "Use likelihood='student_t' or another likelihood of real numbers."
            )
        if np.any(fractions := y != np.floor(y)):
            raise ValueError(
                f"The Poisson likelihood needs counts 0, 1, 2, ...; got {y[fractions].flat[0]:.6g}. "
                "Pass counts, not rates; multiply rates by their exposure first."
            )
        return y

    def starting_latent(self, y):
        """Return the log of the mean count; of half a count in all where every count is 0."""
        y = np.asarray(y, dtype=np.float64)
        return np.log(np.maximum(y.mean(axis=0), 0.5 / len(y)))

    def conditional_mean(self, f):
        """Return the rate exp(f)."""
        return np.exp(_limited(f))

    def conditional_variance(self, f):
        """Return the rate exp(f)."""
        return np.exp(_limited(f))

    def cdf(self, y, f):
        """Return P(Y <= y | f), an incomplete gamma function."""
        k = np.floor(y)
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0.0) + 1.0, np.exp(_limited(f))))

    def sample(self, f, rng):
        """Return counts, as floats."""
        rate = np.exp(_limited(f))
        counts = rng.poisson(np.minimum(rate, _LARGEST_DRAWN_RATE)).astype(np.float64)
        huge = np.rint(rate + np.sqrt(rate) * rng.standard_normal(np.shape(rate)))
        return np.where(rate < _LARGEST_DRAWN_RATE, counts, huge)

    def predictive_mean(self, mean, var):
        """Return exp(mean + var/2)."""
        return np.exp(_limited(mean + 0.5 * np.asarray(var)))

    def predictive_variance(self, mean, var):
        """Return M + M^2 (exp(var) - 1), M the predictive mean."""
        var = np.asarray(var, dtype=np.float64)
        with np.errstate(divide="ignore"):  # log 0 where f is certain: no variance of the rate
            log_spread = 2.0 * mean + 2.0 * var + np.log(-np.expm1(-var))
        return self.predictive_mean(mean, var) + np.exp(_limited(log_spread))

    def predictive_cdf(self, y, mean, var):
        """Return P(Y <= y), averaged over the narrower of f and log G."""
        y, mean, sd = np.broadcast_arrays(np.floor(y), mean, np.sqrt(var))
        shape = np.maximum(y, 0.0) + 1.0
        narrow = sd * np.sqrt(shape) < 1.0
        out = np.empty(y.shape)
        out[narrow] = normal_rule().average(
            lambda y, m, s, z: self.cdf(y, m + s * z), y[narrow], mean[narrow], sd[narrow]
        )
        out[~narrow] = _over_log_gamma(shape[~narrow], mean[~narrow], sd[~narrow])
        return np.where(y < 0, 0.0, out)

    def predictive_log_density(self, y, mean, var):
        """Return log p(y) for f ~ N(mean, var), averaged around the mode of p(y|f) N(f).

        The mode mean + sd u solves (f - mean)/var = y - exp(f), so exp(f) var is Wright's omega function of
        log var + mean + var y. With c = (1 + var exp(f))^(-1/2) and f = mean + sd (u + c z), z a normal node,
        the integrand is p(y|f) exp((z^2 - (u + c z)^2)/2) c.
        """
        y, mean, var = np.broadcast_arrays(y, mean, np.asarray(var, np.float64))
        sd = np.sqrt(var)
        u = _mode_shift(y, mean, var, sd)
        c = 1.0 / np.sqrt(1.0 + var * np.exp(_limited(mean + sd * u)))

        def log_integrand(y, mean, sd, u, c, z):
            x = u + c * z
            return self.log_density(y, mean + sd * x) + 0.5 * (z - x) * (z + x)

        return normal_rule().log_average(log_integrand, y, mean, sd, u, c) + np.log(c)


def _limited(f):
    return np.minimum(np.asarray(f, dtype=np.float64), LARGEST_LOG_RATE)


def _stirling_rest(y):
    """Return log y! - y log y + y for y >= 1."""
    series = 0.5 * np.log(2.0 * np.pi * y) + (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * y**2)) / y**2) / y
    small = np.minimum(y, _STIRLING)
    return np.where(y < _STIRLING, gammaln(small + 1.0) - small * np.log(small) + small, series)


def _mode_shift(y, mean, var, sd):
    """Return (f - mean)/sd at the mode f of p(y|f) N(f; mean, var); 0 where f is certain."""
    safe = np.where(var > 0, var, 1.0)
    shift = (safe * y - wrightomega(np.log(safe) + mean + safe * y)) / np.sqrt(safe)
    return np.where(sd > 0, shift, 0.0)


def _over_log_gamma(shape, mean, sd):
    """Return P(log G > f), G ~ Gamma(shape) and f ~ N(mean, sd^2), by the trapezoidal rule over log G."""
    rule = Rule(_GAMMA_NODES, np.full(len(_GAMMA_NODES), 1.0 / len(_GAMMA_NODES)))

    def density(a, d):
        return np.exp(a * (d - np.expm1(d)))  # of d = log G - log a, up to a factor

    def exceeds(a, m, s, t):
        d = t / np.sqrt(a)
        return density(a, d) * ndtr((np.log(a) + d - m) / s)

    return rule.average(exceeds, shape, mean, sd) / rule.average(
        lambda a, t: density(a, t / np.sqrt(a)), shape
    )
