"""Checks of what users pass: parameters, their bounds, levels of quantiles."""

import numpy as np

__all__ = ["check_bounds", "check_level", "check_positive", "range_around"]

# Default range of a learned parameter: this factor below and above its start.
_RANGE = 1e5


def check_level(level):
    """Return levels of quantiles as an array; refuse what is not strictly between 0 and 1."""
    level = np.asarray(level, dtype=np.float64)
    if not np.all((level > 0) & (level < 1)):
        raise ValueError(f"A quantile needs a level strictly between 0 and 1, such as 0.975; got {level!r}.")
    return level


def check_positive(name, value):
    """Return a parameter as a float; refuse what is not a positive finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 < number < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")
    return number


def check_bounds(name, bounds, value):
    """Return bounds as a pair of floats; None for the default range around a value to be chosen."""
    if isinstance(bounds, str) and bounds == "fixed":
        return bounds
    if bounds is None:
        return None if value is None else range_around(value)
    try:
        low, high = (check_positive(name, bound) for bound in bounds)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if low > high:
        raise ValueError(
            f"{name}_bounds must be a pair 0 < low <= high, 'fixed', or None for a wide range around the "
            f"start; got {bounds!r}."
        )
    return low, high


def range_around(value):
    """Return the default bounds of a parameter that starts at a value."""
    return value / _RANGE, value * _RANGE
