"""Checks of what users pass, shared by the estimators."""

import numbers

import numpy as np
from sklearn.utils.validation import _check_sample_weight

__all__ = ["as_columns", "check_alphas", "check_weights", "per_target"]


def as_columns(y):
    """Return y as (n, m) float64."""
    y = np.asarray(y, dtype=np.float64)
    return y.reshape(-1, 1) if y.ndim == 1 else y


def per_target(values, y_ndim):
    """Return values of m targets as users see them: a float for one-dimensional y."""
    return float(values[0]) if y_ndim == 1 else np.asarray(values)


def check_weights(sample_weight, X):
    """Return sample weights as a float array, or None; refuse negative and all-zero ones."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weight.min() < 0:
        raise ValueError(
            f"sample_weight must not be negative, got {weight.min():.6g} at row {weight.argmin()}. "
            "A weight is a relative noise precision: 0 leaves the row out, 2 counts it twice."
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 for every row; at least one row needs a positive weight.")
    return weight


def check_alphas(alpha, n_targets):
    """Return alpha as a float array with one positive entry per target."""
    name = "alpha" if isinstance(alpha, numbers.Real) else "every alpha"
    values = np.asarray(alpha, dtype=np.float64).ravel()
    if len(values) not in (1, n_targets):
        raise ValueError(
            f"alpha has {len(values)} entries but y has {n_targets} target(s). Pass one number, one per "
            "target, or alpha='auto'."
        )
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(
            f"{name} must be positive and finite, got {alpha!r}. For (almost) no regularisation use a "
            "small positive value, or let alpha='auto' choose it."
        )
    return np.broadcast_to(values, (n_targets,))
