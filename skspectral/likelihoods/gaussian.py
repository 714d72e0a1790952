"""Normal noise: the likelihood of regression, and the referee of the others, since everything is exact."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri

from .arguments import check_level
from .location_scale import LocationScale

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(LocationScale):
    """y = f + e with normal e.

    Parameters
    ----------
    noise_var : float, default=None
        Variance of e. None: chosen from the targets by `starting`.
    noise_var_bounds : pair of float or "fixed", default=None
        Range in which it is learned; None is a factor 1e5 around the start.

    Notes
    -----
    rho(r) = -r^2/2 - 1/2 log 2 pi with scale = noise_var^(1/2). The predictive distribution is normal.

    Examples
    --------
    >>> from skspectral.likelihoods import Gaussian
    >>> Gaussian(noise_var=4.0).predictive_variance(0.0, 1.0)
    np.float64(5.0)
    """

    noise_var: float | None = None
    noise_var_bounds: tuple | str | None = None

    parameters = ("noise_var",)
    exponent = 0.5

    def __post_init__(self):
        self.settle_parameters()

    def noise_log_density(self, r):
        """Return rho(r) = -r^2/2 - 1/2 log 2 pi."""
        return -0.5 * r * r - 0.5 * np.log(2.0 * np.pi)

    def noise_derivatives(self, r):
        """Return -r, -1 and 0."""
        return -r, np.full_like(r, -1.0), np.zeros_like(r)

    def noise_weight(self, r):
        """Return 1: every residual counts alike."""
        return np.ones_like(r)

    def noise_log_cdf(self, r):
        """Return the log of the normal distribution function."""
        return log_ndtr(r)

    def noise_variance(self):
        """Return 1."""
        return 1.0

    def noise_width(self):
        """Return 1."""
        return 1.0

    def sample_noise(self, shape, rng):
        """Return standard normal draws."""
        return rng.standard_normal(shape)

    def starting_latent(self, y):
        """Return the mean of y."""
        return np.mean(y, axis=0)

    def predictive_cdf(self, y, mean, var):
        """Return the normal distribution function with variance var + noise_var."""
        return np.exp(log_ndtr((y - mean) / np.sqrt(self.predictive_variance(mean, var))))

    def predictive_log_density(self, y, mean, var):
        """Return the log normal density with variance var + noise_var."""
        variance = self.predictive_variance(mean, var)
        return self.noise_log_density((y - mean) / np.sqrt(variance)) - 0.5 * np.log(variance)

    def predictive_quantile(self, level, mean, var):
        """Return mean + z sd, z the normal quantile."""
        return mean + ndtri(check_level(level)) * np.sqrt(self.predictive_variance(mean, var))
