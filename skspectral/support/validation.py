"""Checks of what users pass, shared by the estimators."""

import numbers

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import _check_sample_weight

from .types import AnyFunction

__all__ = [
    "WEIGHTS_ARE_POWERS",
    "check_alphas",
    "check_weights",
    "with_checked_parameters",
    "with_holes",
    "without_holes",
]

# What a weight is: of normal noise, and of any other likelihood.
WEIGHTS_ARE_PRECISIONS = (
    "A weight is a relative precision: weight 2 means half the noise variance, 0 leaves a row out."
)
WEIGHTS_ARE_POWERS = "A weight is a power of the likelihood: weight 2 counts a row twice, 0 leaves it out."


def with_checked_parameters(fit: AnyFunction) -> AnyFunction:
    """Decorate a fit: parameters are checked first. It is scikit-learn's decorator, with types."""
    checked: AnyFunction = _fit_context(prefer_skip_nested_validation=True)(fit)
    return checked


def check_weights(sample_weight, X, meaning=WEIGHTS_ARE_PRECISIONS):
    """Return sample weights as a float array, or None; refuse negative and all-zero ones.

    `meaning` says what a weight is, to whoever passed a negative one.
    """
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if weight.min() < 0:
        raise ValueError(
            f"sample_weight must not be negative, got {weight.min():.6g} at row {weight.argmin()}. {meaning}"
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 for every row; at least one row needs a positive weight.")
    return weight


def check_alphas(alpha, n_outputs):
    """Return alpha as a float array with one positive entry per output."""
    name = "alpha" if isinstance(alpha, numbers.Real) else "every alpha"
    values = np.asarray(alpha, dtype=np.float64).ravel()
    if len(values) not in (1, n_outputs):
        raise ValueError(
            f"alpha has {len(values)} entries but y has {n_outputs} output(s). Pass one number, one per "
            "output, or alpha='auto'."
        )
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(
            f"{name} must be positive and finite, got {alpha!r}. For (almost) no regularisation use a "
            "small positive value, or let alpha='auto' choose it."
        )
    return np.broadcast_to(values, (n_outputs,))


def without_holes(y):
    """Return y with 0 for every NaN of a two-dimensional array, and where these are; else y itself and None.

    An output that was never observed is refused. A one-dimensional y keeps its NaN, for others to refuse.
    """
    try:
        Y = np.asarray(y)
        Y = Y.astype(np.float64) if Y.ndim == 2 and Y.dtype.kind in "fiubO" else np.zeros(0)
    except (TypeError, ValueError):
        return y, None
    holes = np.isnan(Y) if Y.ndim == 2 else np.zeros(0, dtype=bool)
    if not holes.any():
        return y, None
    never = np.flatnonzero(holes.all(axis=0))
    if len(never):
        raise ValueError(
            f"y has no observation of output(s) {never.tolist()}: all of their entries are NaN. Leave these "
            "columns out, or pass at least one value of each."
        )
    return np.where(holes, 0.0, Y), holes


def with_holes(Y, holes):
    """Return Y with NaN put back where it was."""
    return Y if holes is None else np.where(holes, np.nan, Y)
