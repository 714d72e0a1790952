"""Hyperpriors (MAP2): densities of kernel parameters and variances, checked before any work."""

import numpy as np

from ..inference.variances import VariancePrior
from ..kernels.parts import parameter_names

__all__ = ["has_variance_priors", "read_priors"]

_VARIANCES = ("noise_variance", "signal_variance")
# Step of the difference of a log density by a log parameter.
_STEP = 1e-6


def read_priors(priors, kernel, bounds):
    """Return (theta_prior, variance_prior) of a dict of frozen scipy distributions.

    Parameters
    ----------
    priors : dict or None
        "noise_variance", "signal_variance" or a kernel parameter's name ("length_scale" stands for every
        parameter of that name, "k1__length_scale" for one) -> frozen distribution.
    kernel : Kernel
        Core kernel at its starting values.
    bounds : VarianceBounds
        Of both variances.

    Returns
    -------
    theta_prior : callable or None
        theta -> (-2 log density, gradient by theta).
    variance_prior : VariancePrior or None
        Priors of the variances.
    """
    priors = priors or {}
    for name, prior in priors.items():
        if not (hasattr(prior, "logpdf") and hasattr(prior, "support")):
            raise ValueError(
                f"The prior of {name!r} must be a frozen scipy.stats distribution such as "
                f"scipy.stats.gamma(2), got {prior!r}."
            )
    for name, interval in zip(_VARIANCES, (bounds.noise, bounds.signal), strict=True):
        if name in priors:
            _check_overlap(name, priors[name], interval)
    placed = _place(priors, kernel)
    variance = VariancePrior(*(priors.get(name) for name in _VARIANCES))
    return (_ThetaPrior(placed) if placed else None), (variance if has_variance_priors(priors) else None)


def has_variance_priors(priors):
    """Return whether any prior is about a variance."""
    return any(name in (priors or {}) for name in _VARIANCES)


class _ThetaPrior:
    """-2 sum log p_k(exp theta_k) with its gradient."""

    def __init__(self, placed):
        self.placed = placed

    def __call__(self, theta):
        value, gradient = 0.0, np.zeros_like(theta)
        for k, prior in self.placed:
            behind, here, ahead = -2.0 * prior.logpdf(np.exp(theta[k] + np.array([-_STEP, 0.0, _STEP])))
            value += here
            gradient[k] += (ahead - behind) / (2 * _STEP)
        return value, gradient

    def log_density(self, theta):
        """Return the log density of theta itself: of the parameters, times d parameter / d theta."""
        return float(sum(prior.logpdf(np.exp(theta[k])) + theta[k] for k, prior in self.placed))


def _place(priors, kernel):
    """Return (index in theta, prior) pairs; refuse unknown names and starts without density."""
    names = parameter_names(kernel)
    placed = []
    for wanted, prior in priors.items():
        if wanted in _VARIANCES:
            continue
        places = [k for k, name in enumerate(names) if _matches(name, wanted)]
        if not places:
            raise ValueError(
                f"priors names {wanted!r}, but the kernel's free parameters are {names} and the variances "
                f"are {list(_VARIANCES)}."
            )
        for k in places:
            start = float(np.exp(kernel.theta[k]))
            if not np.isfinite(prior.logpdf(start)):
                raise ValueError(
                    f"The prior of {wanted!r} has no density at the starting value {start:.6g} of "
                    f"{names[k]}; its support is {prior.support()}. Start inside it or choose another prior."
                )
            placed.append((k, prior))
    return placed


def _matches(name, wanted):
    plain = name.split("[")[0]
    return wanted in (name, plain) or plain.endswith(f"__{wanted}")


def _check_overlap(name, prior, interval):
    low, high = prior.support()
    if high <= 0 or low > interval[1] or high < interval[0]:
        raise ValueError(
            f"The prior of {name!r} has support ({low:.6g}, {high:.6g}), which leaves no value between the "
            f"bounds {interval}. A variance is positive: use for example scipy.stats.invgamma or lognorm."
        )
