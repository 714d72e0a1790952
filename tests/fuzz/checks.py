"""What is promised of any fit."""

import pickle

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from skspectral import KernelSearchCV, SpectralGPRegressor, StreamingSpectralRegressor
from skspectral.kernels.algebra import evaluate

from .dense import log_evidence

__all__ = ["Broken", "check"]

# Largest ratio of kernel to noise at which two ways of rounding must agree.
_CONDITION = 1e7
_SAME = 1e-5


class Broken(AssertionError):
    """A promise that was not kept."""


def demand(holds, words):
    """Raise `Broken` unless something holds."""
    if not np.all(holds):
        raise Broken(words)


def check(model, sample, rng):
    """Fit a model and check all promises."""
    fitted = _fit(model, sample)
    answers = _answers(fitted, sample)
    _check_variances(_inner(fitted))
    _check_evidence(_inner(fitted), sample)
    _check_again(model, fitted, sample, answers)
    _check_order(model, fitted, sample, rng)
    _check_unit(model, fitted, sample, rng)
    _check_other_methods(_inner(fitted), sample)


def _fit(model, sample):
    arguments = {} if sample.weight is None else {"sample_weight": sample.weight}
    return clone(model).fit(sample.X, sample.y, **arguments)


def _inner(fitted):
    return fitted.best_estimator_ if isinstance(fitted, KernelSearchCV) else fitted


def _answers(fitted, sample):
    """Return predictions at old and new rows; they must be finite, and spreads not negative."""
    X = np.concatenate([sample.X, sample.X_new])
    if not isinstance(fitted, SpectralGPRegressor | StreamingSpectralRegressor):
        answers = [fitted.predict(X)]
    else:
        answers = [
            *fitted.predict(X, return_std=True),
            fitted.predict(X, return_std=True, include_noise=False)[1],
        ]
        for std in answers[1:]:
            demand(~np.isnan(std) & (std >= 0), "a standard deviation is negative or NaN")
            demand(np.isfinite(std) | _may_be_infinite(fitted), "a standard deviation is infinite")
    demand(np.isfinite(answers[0]), "a prediction is not finite")
    return answers


def _may_be_infinite(fitted):
    """Return whether nothing is known of a spread: the data do not determine the variances."""
    posterior = getattr(fitted, "variance_posterior_", None)
    few = posterior is not None and any(p.degrees_of_freedom <= 2 for p in posterior)
    return few or any(t.status == "undetermined" for t in fitted.tuning_)


def _check_variances(fitted):
    for name in ("noise_variance_", "signal_variance_"):
        value = np.asarray(getattr(fitted, name))
        demand(np.isfinite(value) & (value >= 0), f"{name} is {value}")
    ratios = np.array([t.noise_ratio for t in fitted.tuning_])
    demand(ratios > 0, f"noise ratios are {ratios}")


def _kernel_matrix(fitted, sample):
    X = np.array(sample.X, dtype=np.float64)
    if isinstance(fitted, StreamingSpectralRegressor):
        Phi = fitted._settled.features(X)
        return Phi @ Phi.T
    if isinstance(fitted, SpectralGPRegressor):
        return fitted.kernel_(X)
    if not isinstance(fitted.kernel, str):
        return fitted.kernel(X)
    names = {"gamma": fitted.gamma, "degree": fitted.degree, "coef0": fitted.coef0}
    if fitted.kernel == "rbf":  # by differences, which inputs far from 0 need
        gamma = 1.0 / X.shape[1] if fitted.gamma is None else fitted.gamma
        return np.exp(-gamma * cdist(X, X, "sqeuclidean"))
    given = {name: value for name, value in names.items() if value is not None}
    return pairwise_kernels(X, metric=fitted.kernel, filter_params=True, **given)


def _reported_evidence(fitted):
    """Return bounds on the sum of the log evidences of all outputs, equal where they are exact."""
    if isinstance(fitted, StreamingSpectralRegressor):
        return np.sum(fitted.log_evidence_), np.sum(fitted.log_evidence_)
    lower, upper = fitted.evidence_bounds_
    return np.sum(lower), np.sum(upper)


def _check_evidence(fitted, sample):
    """Compare the log evidence with a dense recomputation at the same variances, where rounding allows."""
    noise, ratio = np.atleast_1d(fitted.noise_variance_), np.array([t.noise_ratio for t in fitted.tuning_])
    if not (noise.min() > 1e-280 and noise.max() < 1e280):
        return
    K = _kernel_matrix(fitted, sample)
    if not _is_determined(fitted, sample, K, ratio):
        return
    weight = 1.0 if sample.weight is None else sample.weight.max()
    if _condition(K, ratio) * max(weight, 1.0) > 1e3 * _CONDITION:
        return
    pairs = zip(sample.targets.T, ratio, noise, strict=True)
    values = [log_evidence(K, y, g, b, sample.weight, fitted.fit_intercept) for y, g, b in pairs]
    expected, tolerance = np.sum(values, axis=0)
    lower, upper = _reported_evidence(fitted)
    demand(
        lower - tolerance <= expected <= upper + tolerance,
        f"log evidence {lower:.10g}..{upper:.10g}, dense {expected:.10g} +- {tolerance:.2g}",
    )


def _is_determined(fitted, sample, K, ratio):
    """Return whether two ways of rounding the kernel make no difference beside the noise.

    A phase of 1e11 periods is known to 1e-5, and scikit-learn's own ExpSineSquared then differs from itself:
    for one set of rows it divides by the period, for two it multiplies by its inverse. Its RationalQuadratic
    loses log10(alpha) digits, which ours does not.
    """
    if not isinstance(fitted, SpectralGPRegressor):
        return True
    X = np.array(sample.X, dtype=np.float64)
    others = fitted.kernel_(X, X), evaluate(fitted.kernel_, X)
    return len(K) * max(np.abs(other - K).max() for other in others) <= 1e-4 * ratio.min()


def _condition(K, ratio):
    with np.errstate(over="ignore"):
        return float(np.trace(K) / ratio.min())


def _check_again(model, fitted, sample, answers):
    """A second fit and a pickled one say the same, to the last bit."""
    again, loaded = _fit(model, sample), pickle.loads(pickle.dumps(fitted))
    for name, other in (("a second fit", again), ("a pickled model", loaded)):
        same = zip(_answers(other, sample), answers, strict=True)
        demand([np.array_equal(a, b) for a, b in same], f"{name} has other answers")


def _check_order(model, fitted, sample, rng):
    """Rows in another order say the same where the problem is well conditioned."""
    if isinstance(fitted, KernelSearchCV) and fitted.cv is not None:
        return  # folds are made of neighbouring rows
    other = _fit(model, sample.permuted(rng.permutation(len(sample.X))))
    _compare(_inner(fitted), _inner(other), sample, 1.0, "permuted rows")


def _check_unit(model, fitted, sample, rng):
    """Targets in another unit say the same."""
    size = np.abs(sample.targets).max()
    has_bounds = any(name in str(getattr(model, "kernel", "")) for name in ("WhiteKernel", "**2"))
    if sample.y.dtype != np.float64 or has_bounds or not 1e-120 < size < 1e120:
        return
    unit = 2.0 ** int(rng.integers(-40, 40))
    other = _fit(model, sample.with_targets(unit * sample.y))
    _compare(_inner(fitted), _inner(other), sample, unit, f"{unit:.3g} y")


def _compare(fitted, other, sample, unit, words):
    """Demand the same criterion and, where it was reached in the same place, the same predictions."""
    for one, two in zip(fitted.tuning_, other.tuning_, strict=True):
        if not (_is_well_conditioned(fitted, sample) and one.status == two.status):
            return
        if not np.isclose(one.noise_ratio, two.noise_ratio, rtol=_SAME) or np.isinf(one.noise_ratio):
            return
    X = np.concatenate([sample.X, sample.X_new])
    a, b = unit * fitted.predict(X), other.predict(X)
    size = unit * np.abs(sample.targets).max()
    demand(np.abs(a - b) <= 1e-3 * size, f"{words}: predictions {a} and {b}")


def _is_well_conditioned(fitted, sample):
    averaged = getattr(fitted, "variance_posterior_", None)  # which has nodes at other ratios, too
    nodes = [p.noise_ratio for p in averaged or ()]
    ratio = np.concatenate([[t.noise_ratio for t in fitted.tuning_], *nodes])
    weight = 1.0 if sample.weight is None else sample.weight.max()
    return _condition(_kernel_matrix(fitted, sample), ratio) * weight < _CONDITION


def _check_other_methods(fitted, sample):
    """Everything else that a model can be asked is finite, or refused with a reason."""
    if isinstance(fitted, StreamingSpectralRegressor):
        return
    ratio = 10.0 ** np.arange(-6.0, 7.0, 3.0)
    demand(~np.isnan(fitted.criterion_curve(ratio)), "NaN in the criterion's curve")
    for uncertainty in fitted.variance_uncertainty():
        demand(~np.isnan(uncertainty.noise_interval), "NaN in the interval of the noise")
        demand(~np.isnan(uncertainty.signal_interval), "NaN in the interval of the signal")
    if isinstance(fitted, SpectralGPRegressor):
        lower, upper = fitted.predict_interval(sample.X_new)
        demand(~np.isnan(lower) & ~np.isnan(upper) & (lower <= upper), "an interval is not one")
        for slope in fitted.predict_gradient(sample.X_new, return_std=True):
            demand(~np.isnan(slope), "NaN in a slope")
    else:
        demand(np.isfinite(fitted.dual_coef_variance()), "a variance of coefficients is not finite")
    _check_leave_one_out(fitted)


def _check_leave_one_out(fitted):
    try:
        mean = fitted.loo_predict()
    except ValueError as refusal:
        demand("Leave-one-out is not defined" in str(refusal), str(refusal))
    else:
        demand(np.isfinite(mean), "a leave-one-out prediction is not finite")
