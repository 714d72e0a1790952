"""Shapes that users see: inside, outputs are always columns."""

import numpy as np

__all__ = ["as_columns", "like_targets", "per_output", "without_single_axis"]


def as_columns(y):
    """Return y as (n, m) float64."""
    y = np.asarray(y, dtype=np.float64)
    return y.reshape(-1, 1) if y.ndim == 1 else y


def like_targets(columns, y_ndim):
    """Return (n, m) values as the user's y had it: (n,) for one-dimensional y."""
    return columns[:, 0] if y_ndim == 1 else columns


def per_output(values, y_ndim):
    """Return values of m outputs as users see them: a scalar for one-dimensional y."""
    return np.float64(values[0]) if y_ndim == 1 else np.asarray(values)


def without_single_axis(values):
    """Drop the last axis of a single output, as scikit-learn's GaussianProcessRegressor does."""
    return values[..., 0] if values.shape[-1] == 1 else values
