"""Nominal coverage and intervals of the normal distribution."""

from numbers import Real

from scipy.special import ndtri

__all__ = ["check_coverage", "check_interval_method", "normal_interval"]


def check_coverage(coverage):
    """Return the coverage; refuse what is not strictly between 0 and 1."""
    if not (isinstance(coverage, Real) and 0 < coverage < 1):
        raise ValueError(
            f"coverage must be a number strictly between 0 and 1, such as 0.95; got {coverage!r}."
        )
    return float(coverage)


def check_interval_method(method, known, include_noise=True):
    """Refuse methods that are not known, and leave-one-out errors for anything but observations."""
    if method not in known:
        raise ValueError(f"method={method!r} is unknown. Pass one of {', '.join(map(repr, known))}.")
    if method == "jackknife+" and not include_noise:
        raise ValueError(
            "method='jackknife+' learns from errors of observations and knows nothing of the function "
            "without noise. Use include_noise=True, or method='model'."
        )


def normal_interval(mean, std, coverage):
    """Return mean -+ z std, z the (1 + coverage)/2 quantile of the normal distribution."""
    half = ndtri(0.5 * (1.0 + coverage)) * std
    return mean - half, mean + half
