"""What displays see of a fitted estimator: public attributes and methods, nothing else."""

import copy
from inspect import signature

import numpy as np

from ..support.intervals import normal_interval
from ..support.pipelines import unwrap
from ..support.shapes import as_columns

__all__ = [
    "criterion_values",
    "has_distribution",
    "interval",
    "n_outputs",
    "output_column",
    "rotated_targets",
    "spectral",
]


def spectral(estimator):
    """Return the spectral model inside; refuse anything else."""
    model, _ = unwrap(estimator)
    if not hasattr(model, "spectrum_"):
        raise TypeError(
            f"This display needs a decomposition, and {type(model).__name__} has none. Use "
            "SpectralKernelRidge or SpectralGPRegressor, or a Pipeline or search that ends with one."
        )
    return model


def n_outputs(model):
    """Return the number of outputs."""
    return len(model.tuning_)


def output_column(values, output):
    """Return one output of (n,) or (n, m) values; None stays None."""
    if values is None:
        return None
    columns = as_columns(np.asarray(values, dtype=np.float64))
    if not 0 <= output < columns.shape[1]:
        raise ValueError(f"output={output} does not exist: there are {columns.shape[1]} output(s).")
    return columns[:, output]


def rotated_targets(model, y=None):
    """Return the training targets in the eigenbasis; `y` is needed where the model does not keep them."""
    y = getattr(model, "y_train_", None) if y is None else y
    if y is None:
        raise ValueError(
            f"{type(model).__name__} does not keep its training targets. Pass them: from_estimator(..., y=y)."
        )
    Y = as_columns(np.asarray(y, dtype=np.float64))
    rows = len(model.spectrum_.rows.sqrt_weight)
    if Y.shape != (rows, n_outputs(model)):
        raise ValueError(
            f"y has shape {np.shape(y)}, but the model was fitted on {rows} rows and {n_outputs(model)} "
            "output(s). Pass the y of fit."
        )
    if np.isnan(Y).any():
        raise ValueError(
            "y has missing entries (NaN), so that its outputs need not share one decomposition. Fit a model "
            "of a single output to its own rows to see its spectrum."
        )
    return model.spectrum_.rotate(Y)


def criterion_values(model, criterion, alphas):
    """Return a criterion in its public sense along alpha, (k, m); infinity is the limit of no signal."""
    other = copy.copy(model).set_params(criterion=criterion)  # shares the decomposition
    return as_columns(other.criterion_curve(alphas))


def has_distribution(model):
    """Return whether a model's intervals come from a distribution, which knows the function without noise."""
    method = getattr(model, "predict_interval", None)
    return method is not None and "include_noise" in signature(method).parameters


def interval(model, X, coverage, **kwargs):
    """Return (lower, upper) of new observations: `predict_interval`, or the normal one of mean and std."""
    if has_distribution(model):
        return model.predict_interval(X, coverage=coverage, **kwargs)
    try:
        mean, std = model.predict(X, return_std=True, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"Intervals need a predictive distribution, but {type(model).__name__} has no "
            "predict(X, return_std=True). Use a model that has one, such as SpectralGPRegressor."
        ) from error
    return normal_interval(mean, std, coverage)
