"""Two classes: the latent value is turned into a probability by a logistic or a normal curve."""

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, logit, ndtr, ndtri

from .arguments import check_level
from .protocol import Derivatives, Likelihood
from .quadrature import Noise

__all__ = ["Bernoulli"]

# Below this z the inverse Mills ratio comes from its continued fraction, cut off at the given depth.
_CONTINUED_BELOW, _DEPTH = -5.0, 60


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Class 1 against class 0.

    Parameters
    ----------
    link : {"logistic", "probit"}, default="logistic"
        Curve that turns f into P(y = 1): 1/(1 + exp(-f)), or the normal distribution function of f.

    Notes
    -----
    With q = 2y - 1 = +-1, z = q f and p = P(y = 1):

    ========  ===================  ==============  =======================  =================================
    link      log p(y|f)           first           -second                  third
    ========  ===================  ==============  =======================  =================================
    logistic  -log(1 + exp(-z))    q / (1+exp z)   p (1 - p)                p (1 - p) tanh(f/2)
    probit    log Phi(z)           q h             h (z + h)                q h ((z + h)(z + 2h) - 1)
    ========  ===================  ==============  =======================  =================================

    with h = phi(z)/Phi(z). For f ~ N(mean, var) the probit curve gives P(y = 1) = Phi(mean/(1 + var)^(1/2))
    exactly. The logistic curve is the distribution function of a noise that is added to f, and is averaged
    over the narrower of the two, to about ten digits.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral.likelihoods import Bernoulli
    >>> Bernoulli().probabilities(np.array([2.0]), np.array([4.0])).round(4)
    array([[0.2248, 0.7752]])
    """

    link: str = "logistic"

    is_discrete = True

    def __post_init__(self):
        if self.link not in ("logistic", "probit"):
            raise ValueError(f"link must be 'logistic' or 'probit', got {self.link!r}.")

    def log_density(self, y, f):
        """Return the log probability of the class that came."""
        return self._log_curve(_sign(y) * f)

    def derivatives(self, y, f):
        """Return the derivatives of log p by f."""
        q = _sign(y)
        slopes = _logistic_slopes if self.link == "logistic" else _probit_slopes
        first, second, third = slopes(q * np.asarray(f, dtype=np.float64))
        return Derivatives(q * first, second, q * third)

    def check_targets(self, y):
        """Return y as float64; refuse anything but 0 and 1."""
        y = np.asarray(y, dtype=np.float64)
        if np.any(strange := (y != 0) & (y != 1)):
            raise ValueError(
                f"The Bernoulli likelihood needs targets 0 and 1, got {y[strange].flat[0]:.6g}. Encode two "
                "labels as 0 and 1, or use likelihood='categorical' for more."
            )
        return y

    def starting_latent(self, y):
        """Return the latent value of the share of class 1, counting half a row more of each class."""
        y = np.asarray(y, dtype=np.float64)
        share = (y.sum(axis=0) + 0.5) / (len(y) + 1.0)
        return logit(share) if self.link == "logistic" else ndtri(share)

    def conditional_mean(self, f):
        """Return P(y = 1 | f)."""
        return expit(f) if self.link == "logistic" else ndtr(f)

    def conditional_variance(self, f):
        """Return P(y = 1 | f) P(y = 0 | f)."""
        return self.conditional_mean(f) * self.conditional_mean(-np.asarray(f))

    def cdf(self, y, f):
        """Return P(Y <= y | f)."""
        return _step(y, self.conditional_mean(-np.asarray(f)))

    def sample(self, f, rng):
        """Return classes 0 and 1, as floats."""
        return (rng.uniform(size=np.shape(f)) < self.conditional_mean(f)).astype(np.float64)

    def probabilities(self, mean, var):
        """Return the probabilities of classes 0 and 1 for f ~ N(mean, var), shape (..., 2)."""
        mean = np.asarray(mean, dtype=np.float64)
        return np.exp(np.stack([self._log_average(-mean, var), self._log_average(mean, var)], axis=-1))

    def predictive_mean(self, mean, var):
        """Return P(y = 1)."""
        return self.probabilities(mean, var)[..., 1]

    def predictive_variance(self, mean, var):
        """Return P(y = 1) P(y = 0)."""
        return self.probabilities(mean, var).prod(axis=-1)

    def predictive_cdf(self, y, mean, var):
        """Return P(Y <= y)."""
        return _step(y, self.probabilities(mean, var)[..., 0])

    def predictive_quantile(self, level, mean, var):
        """Return 0 where class 0 alone reaches the level, else 1."""
        return (self.probabilities(mean, var)[..., 0] < check_level(level)).astype(np.float64)

    def predictive_log_density(self, y, mean, var):
        """Return the log probability of the class that came."""
        return self._log_average(_sign(y) * mean, var)

    def _log_curve(self, z):
        return log_expit(z) if self.link == "logistic" else log_ndtr(z)

    def _log_average(self, z, var):
        """Return log E P(class | f) for a latent value of mean z towards the class."""
        if self.link == "probit":
            return log_ndtr(z / np.sqrt(1.0 + var))
        return _LOGISTIC.log_cdf_with_normal(z, np.sqrt(var))


def _logistic_log_density(r):
    return log_expit(r) + log_expit(-r)


_LOGISTIC = Noise(_logistic_log_density, log_expit, 1.0)


def _sign(y):
    """Return +1 for class 1 and -1 for class 0."""
    return 2.0 * np.asarray(y, dtype=np.float64) - 1.0


def _step(y, share_of_0):
    """Return the distribution function of a class: 0 below 0, the share of class 0 up to 1, then 1."""
    y = np.asarray(y)
    return np.where(y < 0, 0.0, np.where(y < 1, share_of_0, 1.0))


def _logistic_slopes(z):
    """Return the derivatives of log(1/(1 + exp(-z))): no difference of numbers near 1."""
    first = expit(-z)
    curvature = expit(z) * first
    return first, -curvature, curvature * np.tanh(0.5 * z)


def _probit_slopes(z):
    """Return h, -h (z + h) and h ((z + h)(z + 2h) - 1) with h = phi(z)/Phi(z)."""
    h = np.sqrt(2.0 / np.pi) / erfcx(-np.sqrt(0.5) * z)
    gap, rest = z + h, (z + h) * (z + 2.0 * h) - 1.0
    far = z < _CONTINUED_BELOW
    gap_far, rest_far = _continued(-np.where(far, z, _CONTINUED_BELOW))
    gap, rest = np.where(far, gap_far, gap), np.where(far, rest_far, rest)
    return h, -h * gap, h * rest


def _continued(x):
    """Return z + h and (z + h)(z + 2h) - 1 at z = -x < 0 without their cancellation.

    h = x + 1/(x + c), c = 2/(x + d), d = 3/(x + 4/(x + ...)), so z + h = 1/(x + c) and the second is
    2 (d - c)/((x + c)^2 (x + d)).
    """
    d = np.zeros_like(x)
    for k in range(_DEPTH, 2, -1):
        d = k / (x + d)
    c = 2.0 / (x + d)
    return 1.0 / (x + c), 2.0 * (d - c) / ((x + c) ** 2 * (x + d))
