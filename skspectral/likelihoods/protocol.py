"""What a likelihood offers: the protocol that the approximations and the models rely on."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .arguments import check_bounds, check_level, check_positive, range_around
from .quadrature import count_quantile, invert, normal_rule

__all__ = ["Derivatives", "Likelihood", "ParameterDerivatives"]


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of log p(y|f) by f, each of the shape of f."""

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray

    @property
    def curvature(self):
        """W = -d^2 log p / df^2; negative where log p is not concave."""
        return -self.second


@dataclass(frozen=True)
class ParameterDerivatives:
    """Derivatives by theta of log p, of d log p/df and of d^2 log p/df^2, each (n_parameters, ...)."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Likelihood:
    """Base class of all likelihoods p(y|f), for one's own ones too.

    A likelihood is immutable: `with_theta` and `starting` return new ones. All functions are elementwise in
    y and f, of shapes that broadcast, such as (n,) or (n, m), and return float64.

    Attributes
    ----------
    parameters : tuple of str
        Positive parameters that can be learned. Each is an attribute, with a companion ``<name>_bounds``.
    is_log_concave : bool
        Whether log p is concave in f for all y, so that the posterior has one mode.
    is_discrete : bool
        Whether y is a whole number, so that quantiles are.
    is_skewed : bool
        Whether p(y|f) falls faster on one side in f, so that the mean of f is to be told from its mode.
    is_joint : bool
        Whether f has one column for each class and the curvature couples them.
    has_units : bool
        Whether y and f may be expressed in another unit, by `in_units`.

    Notes
    -----
    To write one's own, `log_density` and `derivatives` are enough to fit; `conditional_mean` and
    `conditional_variance` give predictions, `cdf` quantiles, `sample` draws. Averages over f ~ N(mean, var)
    use 32 Gauss-Hermite nodes, which is accurate where p(y|f) changes slowly over a standard deviation of f;
    override ``predictive_*`` where more is known. A likelihood with parameters is best a frozen dataclass
    that calls `settle_parameters` in ``__post_init__`` and defines `slopes_by`.

    Examples
    --------
    Waiting times, exponentially distributed with mean exp(f):

    >>> import numpy as np
    >>> from skspectral.likelihoods import Derivatives, Likelihood
    >>> class WaitingTime(Likelihood):
    ...     def log_density(self, y, f):
    ...         return -f - y * np.exp(-f)
    ...
    ...     def derivatives(self, y, f):
    ...         rest = y * np.exp(-f)
    ...         return Derivatives(rest - 1.0, -rest, rest)
    ...
    ...     def conditional_mean(self, f):
    ...         return np.exp(f)
    >>> WaitingTime().predictive_mean(np.zeros(2), np.array([0.0, 0.5])).round(4)
    array([1.   , 1.284])
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    is_log_concave = True
    is_discrete = False
    is_skewed = False
    is_joint = False
    has_units = False

    # ------------------------------------------------------------------ the density and its derivatives

    def log_density(self, y, f):
        """Return log p(y|f), normalised in y."""
        raise NotImplementedError(f"{type(self).__name__} must define log_density(y, f).")

    def derivatives(self, y, f):
        """Return the first three derivatives of log p(y|f) by f as `Derivatives`."""
        raise NotImplementedError(f"{type(self).__name__} must define derivatives(y, f).")

    def step_curvature(self, y, f):
        """Return a curvature that is nowhere negative, for steps towards the mode.

        The curvature itself, or 0 where that is negative; families that know a quadratic that touches log p
        at f and lies below it everywhere return its curvature, with which no step goes down.
        """
        return np.maximum(self.derivatives(y, f).curvature, 0.0)

    # ------------------------------------------------------------------ its own parameters

    @property
    def names(self):
        """Names of the learned parameters, in the order of theta."""
        return tuple(name for name in self.parameters if getattr(self, f"{name}_bounds") != "fixed")

    @property
    def theta(self):
        """Logarithms of the learned parameters."""
        return np.log([self.value_of(name) for name in self.names])

    @property
    def bounds(self):
        """Lower and upper bounds of theta, shape (n_parameters, 2)."""
        pairs = [getattr(self, f"{name}_bounds") or range_around(self.value_of(name)) for name in self.names]
        return np.log(np.reshape(pairs, (-1, 2)))

    def with_theta(self, theta):
        """Return this likelihood with other values of its learned parameters."""
        values = np.exp(np.asarray(theta, dtype=np.float64))
        if values.shape != (len(self.names),):
            raise ValueError(
                f"theta has shape {values.shape}, but {type(self).__name__} learns {len(self.names)} "
                f"parameter(s) {self.names}. Pass one logarithm for each."
            )
        return replace(self, **dict(zip(self.names, values, strict=True))) if self.names else self

    def parameter_derivatives(self, y, f):
        """Return the derivatives of log p and of its first two derivatives by theta."""
        shape = (0, *np.broadcast_shapes(np.shape(y), np.shape(f)))
        slopes = [self.slopes_by(name, y, f) for name in self.names]
        columns = zip(*slopes, strict=True) if slopes else [()] * 3
        return ParameterDerivatives(*(np.stack(c) if c else np.empty(shape) for c in columns))

    def slopes_by(self, name, y, f):
        """Return the derivatives of log p, d log p/df and d^2 log p/df^2 by the log of one parameter."""
        raise NotImplementedError(f"{type(self).__name__} must define slopes_by(name, y, f) for {name!r}.")

    def settle_parameters(self):
        """Check parameters and bounds and store them as floats; for ``__post_init__``."""
        for name in self.parameters:
            value, bounds = getattr(self, name), getattr(self, f"{name}_bounds")
            if value is None and bounds == "fixed":
                raise ValueError(f"{name}_bounds='fixed' needs a value that stays: pass {name}= too.")
            value = None if value is None else check_positive(name, value)
            object.__setattr__(self, name, value)
            object.__setattr__(self, f"{name}_bounds", check_bounds(name, bounds, value))

    def value_of(self, name):
        """Return a parameter; refuse one that is still to be chosen from the targets."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(
                f"This {type(self).__name__} has no {name} yet. Pass {name}=, or use starting(y), which "
                "chooses one from the targets."
            )
        return value

    # ------------------------------------------------------------------ targets

    def check_targets(self, y):
        """Return y as float64; refuse targets that the likelihood cannot have produced."""
        return np.asarray(y, dtype=np.float64)

    def starting(self, y):
        """Return this likelihood with a start, chosen from the targets, for parameters that have no value."""
        return self

    def starting_latent(self, y):
        """Return the constant f that describes the targets, one for each column of y: a start for f."""
        return np.zeros(np.shape(y)[1:])

    # ------------------------------------------------------------------ y given f

    def conditional_mean(self, f):
        """Return E(y|f)."""
        raise NotImplementedError(f"{type(self).__name__} must define conditional_mean(f) to predict y.")

    def conditional_variance(self, f):
        """Return var(y|f)."""
        raise NotImplementedError(f"{type(self).__name__} must define conditional_variance(f) to predict y.")

    def cdf(self, y, f):
        """Return P(Y <= y | f)."""
        raise NotImplementedError(f"{type(self).__name__} must define cdf(y, f) to give quantiles of y.")

    def sample(self, f, rng):
        """Return one draw of y for each f, from the random generator `rng`."""
        raise NotImplementedError(f"{type(self).__name__} must define sample(f, rng) to draw y.")

    # ------------------------------------------------------------------ y given a normal f

    def predictive_mean(self, mean, var):
        """Return E(y) for f ~ N(mean, var)."""
        return _over_latent(self.conditional_mean, mean, var)

    def predictive_variance(self, mean, var):
        """Return var(y) = E var(y|f) + var E(y|f) for f ~ N(mean, var)."""
        centre = self.predictive_mean(mean, var)
        within = _over_latent(self.conditional_variance, mean, var)
        return within + _over_latent(
            lambda f, centre: (self.conditional_mean(f) - centre) ** 2, mean, var, centre
        )

    def predictive_spread(self, mean, var):
        """Return a positive finite width of the distribution of y: the first step in search of quantiles."""
        spread = np.sqrt(self.predictive_variance(mean, var))
        return np.where((spread > 0) & np.isfinite(spread), spread, 1.0)

    def predictive_cdf(self, y, mean, var):
        """Return P(Y <= y) for f ~ N(mean, var)."""
        return _over_latent(lambda f, y: self.cdf(y, f), mean, var, y)

    def predictive_log_density(self, y, mean, var):
        """Return log p(y) for f ~ N(mean, var)."""
        sd = np.sqrt(var)
        return normal_rule().log_average(lambda y, m, s, z: self.log_density(y, m + s * z), y, mean, sd)

    def predictive_quantile(self, level, mean, var):
        """Return the quantiles of y for f ~ N(mean, var).

        Parameters
        ----------
        level : float or ndarray
            Between 0 and 1; broadcast against `mean`.
        mean, var : ndarray
            Mean and variance of f.

        Notes
        -----
        `predictive_cdf` inverted by bisection; for whole numbers the smallest y that reaches the level.
        """
        level, mean, var = np.broadcast_arrays(check_level(level), mean, var)
        centre = self.predictive_mean(mean, var)
        step = self.predictive_spread(mean, var)

        def cdf(y):
            return self.predictive_cdf(y, mean, var)

        if self.is_discrete:
            return count_quantile(cdf, level, centre + step)
        return invert(cdf, level, centre, step)


def _over_latent(function, mean, var, *others):
    """Return E function(f, *others) for f ~ N(mean, var)."""

    def at(m, s, *rest):
        *others, z = rest
        return function(m + s * z, *others)

    return normal_rule().average(at, mean, np.sqrt(var), *others)
