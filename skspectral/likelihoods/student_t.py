"""Student-t noise: gross errors are expected, and the further away, the less they count."""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma, stdtr

from .location_scale import LocationScale
from .quadrature import log_quietly

__all__ = ["StudentT"]

# Above this many degrees of freedom the difference of digammas comes from its series, below from its terms.
_SERIES = 1e3


@dataclass(frozen=True)
class StudentT(LocationScale):
    """y = f + scale r with r from Student's t distribution.

    Parameters
    ----------
    scale : float, default=None
        Width of the distribution. None: chosen from the targets by `starting`.
    dof : float, default=4
        Degrees of freedom nu; fewer mean heavier tails. At most 2: infinite variance.
    scale_bounds : pair of float or "fixed", default=None
        Range in which the scale is learned; None is a factor 1e5 around the start.
    dof_bounds : pair of float or "fixed", default="fixed"
        Range in which the degrees of freedom are learned.

    Notes
    -----
    rho(r) = -(nu+1)/2 log(1 + r^2/nu) - log B(nu/2, 1/2) - 1/2 log nu. With d = nu + r^2,

        rho' = -(nu+1) r/d,   rho'' = -(nu+1)(nu - r^2)/d^2,   rho''' = 2 (nu+1) r (3 nu - r^2)/d^3.

    Not log-concave: the curvature is negative where r^2 > nu, at outliers. `step_curvature`, (nu+1)/d, is
    the expected precision of the normal scale mixture that the distribution is.

    Examples
    --------
    An outlier pulls less than a moderate residual:

    >>> import numpy as np
    >>> from skspectral.likelihoods import StudentT
    >>> StudentT(scale=1.0).derivatives(np.array([2.0, 50.0]), 0.0).first.round(3)
    array([1.25, 0.1 ])
    """

    scale: float | None = None
    dof: float = 4.0
    scale_bounds: tuple | str | None = None
    dof_bounds: tuple | str | None = "fixed"

    parameters = ("scale", "dof")
    is_log_concave = False

    def __post_init__(self):
        self.settle_parameters()

    def noise_log_density(self, r):
        """Return rho(r)."""
        # betaln, not a difference of gammaln: that loses all digits for many degrees of freedom
        constant = -betaln(0.5 * self.dof, 0.5) - 0.5 * np.log(self.dof)
        return constant - 0.5 * (self.dof + 1.0) * np.log1p(r * r / self.dof)

    def noise_derivatives(self, r):
        """Return rho', rho'' and rho'''."""
        nu, d = self.dof, self.dof + r * r
        second = -(nu + 1.0) * (nu - r * r) / d**2
        return -(nu + 1.0) * r / d, second, 2.0 * (nu + 1.0) * r * (3.0 * nu - r * r) / d**3

    def noise_weight(self, r):
        """Return (nu + 1)/(nu + r^2)."""
        return (self.dof + 1.0) / (self.dof + r * r)

    def noise_log_cdf(self, r):
        """Return the log of the distribution function."""
        return log_quietly(stdtr(self.dof, r))

    def noise_variance(self):
        """Return nu/(nu - 2), infinite for nu <= 2."""
        return self.dof / (self.dof - 2.0) if self.dof > 2.0 else np.inf

    def noise_width(self):
        """Return 1, or less where the density has a sharp peak over heavy tails."""
        return min(1.0, 0.5 * np.sqrt(self.dof))

    def sample_noise(self, shape, rng):
        """Return draws of Student's t."""
        return rng.standard_t(self.dof, shape)

    def slopes_by(self, name, y, f):
        """Return the derivatives by log scale or by log nu.

        By nu: rho' changes by r (1 - r^2)/d^2 and rho'' by (nu - 3 r^2 (1 + nu) + r^4)/d^3.
        """
        if name != "dof":
            return super().slopes_by(name, y, f)
        r, nu, scale = self.residual(y, f), self.dof, self.noise_scale
        u, d = r * r / nu, nu + r * r
        fit = (u + r * r / nu**2) / (1.0 + u) - np.log1p(u)
        first = r * (1.0 - r * r) / d**2
        second = (nu - 3.0 * r * r * (1.0 + nu) + r**4) / d**3
        return 0.5 * nu * (_digamma_gap(nu) + fit), -nu * first / scale, nu * second / scale**2


def _digamma_gap(nu):
    """Return digamma((nu+1)/2) - digamma(nu/2) - 1/nu, about 1/(2 nu^2) for large nu."""
    if nu > _SERIES:
        return 0.5 / nu**2 - 0.25 / nu**4
    return digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - 1.0 / nu
