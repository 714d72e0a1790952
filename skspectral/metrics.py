"""Scores of predictive distributions: functions of (y_true, mean, std), and scorers for cross-validation.

All take the predictive distribution to be normal with the given mean and standard deviation. For
``SpectralGPRegressor(inference="integrate")``, whose predictions are mixtures of Student-t distributions,
this is the approximation by mean and standard deviation; `SpectralGPRegressor.predict_interval` has the
exact quantiles.

As in scikit-learn, losses have a scorer whose name begins with ``neg_``, so that greater is better. Scorers
call ``predict(X, return_std=True)`` of the model, of the last step of a Pipeline, or of the best estimator of
a search.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.metrics._scorer import _BaseScorer
from sklearn.utils import check_array, check_consistent_length

from .support.intervals import check_coverage, normal_interval
from .support.pipelines import unwrap
from .support.types import MultiOutput, PerOutput

__all__ = [
    "interval_coverage",
    "interval_coverage_scorer",
    "make_predictive_scorer",
    "mean_crps",
    "mean_interval_width",
    "mean_log_loss",
    "mean_standardized_log_loss",
    "neg_mean_crps",
    "neg_mean_interval_width",
    "neg_mean_log_loss",
    "neg_mean_standardized_log_loss",
]


def mean_log_loss(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> PerOutput:
    """Mean negative log predictive density (NLPD); lower is better.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Observed targets.
    mean, std : array-like of the shape of `y_true`
        Mean and standard deviation of the predictive distribution of each.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    multioutput : {"uniform_average", "raw_values"}, default="uniform_average"
        Whether to average over outputs or to return one value for each.

    Returns
    -------
    float or ndarray of shape (n_outputs,)

    Notes
    -----
    The mean of 1/2 log(2 pi std^2) + (y - mean)^2/(2 std^2). A standard deviation of 0 gives -inf for a
    prediction that is exact and inf for any other.

    Examples
    --------
    >>> from skspectral.metrics import mean_log_loss
    >>> round(mean_log_loss([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]), 4)
    1.1689
    """
    y_true, mean, std = _check_distribution(y_true, mean, std)
    return _average(_log_loss(y_true, mean, std), sample_weight, multioutput)


def mean_standardized_log_loss(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    y_train: ArrayLike,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> PerOutput:
    """Mean standardised log loss (MSLL); lower is better, and 0 is a model that ignores the inputs.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Observed targets.
    mean, std : array-like of the shape of `y_true`
        Mean and standard deviation of the predictive distribution of each.
    y_train : array-like of shape (n_train,) or (n_train, n_outputs)
        Training targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    multioutput : {"uniform_average", "raw_values"}, default="uniform_average"
        Whether to average over outputs or to return one value for each.

    Returns
    -------
    float or ndarray of shape (n_outputs,)

    Notes
    -----
    `mean_log_loss` less that of the normal distribution with the mean and variance of `y_train`, for each
    output (Rasmussen & Williams 2006, eq. 2.34). The scorer reads `y_train_` of the fitted model.

    Examples
    --------
    >>> from skspectral.metrics import mean_standardized_log_loss
    >>> y_train = [-1.0, 1.0]
    >>> mean_standardized_log_loss([0.5, -0.5], mean=[0.0, 0.0], std=[1.0, 1.0], y_train=y_train)
    0.0
    """
    y_true, mean, std = _check_distribution(y_true, mean, std)
    y_train = _columns(y_train, "y_train")
    if y_train.shape[1] != y_true.shape[1]:
        raise ValueError(f"y_train has {y_train.shape[1]} output(s) but y_true has {y_true.shape[1]}.")
    spread = y_train.std(axis=0)
    if not spread.all():
        raise ValueError("y_train is constant, so there is no variance to standardise by; use mean_log_loss.")
    trivial = _log_loss(y_true, y_train.mean(axis=0), np.broadcast_to(spread, y_true.shape))
    return _average(_log_loss(y_true, mean, std) - trivial, sample_weight, multioutput)


def mean_crps(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> PerOutput:
    """Mean continuous ranked probability score; lower is better, in the units of y.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Observed targets.
    mean, std : array-like of the shape of `y_true`
        Mean and standard deviation of the predictive distribution of each.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    multioutput : {"uniform_average", "raw_values"}, default="uniform_average"
        Whether to average over outputs or to return one value for each.

    Returns
    -------
    float or ndarray of shape (n_outputs,)

    Notes
    -----
    The integral of (F(t) - 1[t >= y])^2, which for the normal distribution is, with z = (y - mean)/std,
    std [z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)] (Gneiting & Raftery 2007). For std = 0 it is |y - mean|.

    Examples
    --------
    >>> from skspectral.metrics import mean_crps
    >>> round(mean_crps([0.0], mean=[0.0], std=[1.0]), 4)
    0.2337
    """
    y_true, mean, std = _check_distribution(y_true, mean, std)
    gap = y_true - mean
    z = np.divide(gap, std, out=np.zeros_like(gap), where=std > 0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    inner = np.where(std > 0, gap * (2.0 * ndtr(z) - 1.0), np.abs(gap))
    return _average(inner + std * (2.0 * density - 1.0 / np.sqrt(np.pi)), sample_weight, multioutput)


def interval_coverage(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    coverage: float = 0.95,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> PerOutput:
    """Fraction of targets inside their predictive intervals; best near the nominal `coverage`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Observed targets.
    mean, std : array-like of the shape of `y_true`
        Mean and standard deviation of the predictive distribution of each.
    coverage : float, default=0.95
        Nominal probability of the intervals, strictly between 0 and 1.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    multioutput : {"uniform_average", "raw_values"}, default="uniform_average"
        Whether to average over outputs or to return one value for each.

    Returns
    -------
    float or ndarray of shape (n_outputs,)

    Notes
    -----
    The mean of 1[|y - mean| <= z std], z the (1 + coverage)/2 quantile of N(0, 1).

    Examples
    --------
    >>> from skspectral.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 3.0, -1.0], mean=[0.0] * 4, std=[1.0] * 4)
    0.75
    """
    y_true, mean, std = _check_distribution(y_true, mean, std)
    lower, upper = normal_interval(mean, std, check_coverage(coverage))
    inside = (lower <= y_true) & (y_true <= upper)
    return _average(inside.astype(np.float64), sample_weight, multioutput)


def mean_interval_width(
    y_true: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    *,
    coverage: float = 0.95,
    sample_weight: ArrayLike | None = None,
    multioutput: MultiOutput = "uniform_average",
) -> PerOutput:
    """Mean width of the predictive intervals; lower is better among models of equal coverage.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Observed targets; only their shape matters.
    mean, std : array-like of the shape of `y_true`
        Mean and standard deviation of the predictive distribution of each.
    coverage : float, default=0.95
        Nominal probability of the intervals, strictly between 0 and 1.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in the mean.
    multioutput : {"uniform_average", "raw_values"}, default="uniform_average"
        Whether to average over outputs or to return one value for each.

    Returns
    -------
    float or ndarray of shape (n_outputs,)

    Notes
    -----
    The mean of 2 z std, z the (1 + coverage)/2 quantile of N(0, 1).

    Examples
    --------
    >>> from skspectral.metrics import mean_interval_width
    >>> round(mean_interval_width([0.0], mean=[5.0], std=[1.0]), 2)
    3.92
    """
    _, _, std = _check_distribution(y_true, mean, std)
    lower, upper = normal_interval(0.0, std, check_coverage(coverage))
    return _average(upper - lower, sample_weight, multioutput)


def make_predictive_scorer(
    score_func: Callable[..., Any], *, greater_is_better: bool = True, **kwargs: Any
) -> Callable[..., float]:
    """Make a scorer from a function of the predictive distribution, as sklearn's make_scorer does.

    Parameters
    ----------
    score_func : callable
        ``score_func(y_true, mean, std, **kwargs)``, and ``sample_weight`` where scores are weighted. One
        that has a parameter ``y_train`` gets the training targets of the model.
    greater_is_better : bool, default=True
        False for losses: the scorer then returns minus the function.
    **kwargs : dict
        Further arguments of `score_func`.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None)``, for `scoring` of cross_val_score, GridSearchCV,
        KernelSearchCV and so on. It is set up for metadata routing as scikit-learn's own scorers are.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sklearn.model_selection import cross_val_score
    >>> from skspectral import SpectralGPRegressor, load_motorcycle
    >>> from skspectral.metrics import interval_coverage, make_predictive_scorer
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> half = make_predictive_scorer(interval_coverage, coverage=0.5)
    >>> gp = SpectralGPRegressor(RBF(5.0), optimizer=None)
    >>> cross_val_score(gp, X, y, scoring=half, cv=3).shape
    (3,)
    """
    return _PredictiveScorer(score_func, 1 if greater_is_better else -1, kwargs)


class _PredictiveScorer(_BaseScorer):
    """A scorer that asks for mean and standard deviation."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        model, X = _model_and_inputs(estimator, X)
        mean, std = model.predict(X, return_std=True)
        arguments = {**self._kwargs, **kwargs}
        if "y_train" in inspect.signature(self._score_func).parameters:
            arguments.setdefault("y_train", _training_targets(model))
        return self._sign * self._score_func(y_true, mean, std, **arguments)

    def __repr__(self):
        sign = "" if self._sign > 0 else ", greater_is_better=False"
        arguments = "".join(f", {name}={value!r}" for name, value in self._kwargs.items())
        return f"make_predictive_scorer({self._score_func.__name__}{sign}{arguments})"


def _model_and_inputs(estimator, X):
    """Return the model that predicts, and its inputs: steps of Pipelines applied, searches opened."""
    estimator, X = unwrap(estimator, X)
    predict = getattr(estimator, "predict", None)
    if predict is None or "return_std" not in inspect.signature(predict).parameters:
        raise TypeError(
            f"This scorer needs a predictive distribution, but {type(estimator).__name__} has no "
            "predict(X, return_std=True). Use a model that has one, such as SpectralGPRegressor or "
            "GaussianProcessRegressor, or a scorer of means such as 'r2'."
        )
    return estimator, X


def _training_targets(model):
    """Return the targets that the model was fitted on, in their own units."""
    if not hasattr(model, "y_train_"):
        raise TypeError(
            f"The standardised log loss needs the training targets, but {type(model).__name__} does not keep "
            "them as y_train_. Call mean_standardized_log_loss with y_train, or use neg_mean_log_loss."
        )
    # GaussianProcessRegressor(normalize_y=True) keeps them standardised
    return model.y_train_ * getattr(model, "_y_train_std", 1.0) + getattr(model, "_y_train_mean", 0.0)


def _log_loss(y_true, mean, std):
    """Return -log N(y; mean, std^2); at std = 0 the limits."""
    gap = y_true - mean
    with np.errstate(divide="ignore"):
        log_std = np.log(std)
    z = np.divide(gap, std, out=np.where(gap == 0, 0.0, np.inf), where=std > 0)
    hit = 0.5 * np.log(2 * np.pi) + log_std
    return np.where(np.isinf(z), np.inf, hit + 0.5 * np.where(np.isinf(z), 0.0, z) ** 2)


def _check_distribution(y_true, mean, std):
    """Return the three as finite (n, m) arrays of one shape; std may be infinite, not negative."""
    y_true, mean = _columns(y_true, "y_true"), _columns(mean, "mean")
    std = _columns(std, "std", allow_infinite=True)
    if not y_true.shape == mean.shape == std.shape:
        raise ValueError(
            f"y_true, mean and std must have one shape, got {y_true.shape}, {mean.shape} and {std.shape}."
        )
    if std.min() < 0:
        raise ValueError(f"std must not be negative, the smallest is {std.min():.6g}.")
    return y_true, mean, std


def _columns(values, name, allow_infinite=False):
    """Return (n,) or (n, m) values as (n, m) float64."""
    values = check_array(
        values, dtype=np.float64, ensure_2d=False, ensure_all_finite=not allow_infinite, input_name=name
    )
    if values.ndim not in (1, 2) or np.isnan(values).any():
        raise ValueError(f"{name} must be one- or two-dimensional and without NaN, got shape {values.shape}.")
    return values.reshape(-1, 1) if values.ndim == 1 else values


def _average(values, sample_weight, multioutput):
    """Return the weighted mean over rows, and over outputs unless these are wanted."""
    if multioutput not in ("uniform_average", "raw_values"):
        raise ValueError(f"multioutput must be 'uniform_average' or 'raw_values', got {multioutput!r}.")
    if sample_weight is not None:
        sample_weight = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
        )
        check_consistent_length(values, sample_weight)
    each = np.average(values, axis=0, weights=sample_weight)
    return each if multioutput == "raw_values" else float(each.mean())


neg_mean_log_loss = make_predictive_scorer(mean_log_loss, greater_is_better=False)
neg_mean_standardized_log_loss = make_predictive_scorer(mean_standardized_log_loss, greater_is_better=False)
neg_mean_crps = make_predictive_scorer(mean_crps, greater_is_better=False)
neg_mean_interval_width = make_predictive_scorer(mean_interval_width, greater_is_better=False)
interval_coverage_scorer = make_predictive_scorer(interval_coverage)
