"""The criterion of an estimator as the score of a search without folds."""

import numpy as np

from ..criteria import CRITERIA
from ..decomposition.certificate import CERTIFIED_WIDTH
from ..support.pipelines import last_step

__all__ = ["check_comparable", "criterion_score", "tuned_values"]

_TUNED = ("alpha", "noise_variance", "signal_variance", "log_evidence")


def _criterion_name(estimator):
    """Return what ranks an estimator: its criterion, or the evidence that it approximates."""
    return getattr(estimator, "_ranks_by", getattr(estimator, "criterion", None))


def check_comparable(models):
    """Refuse criteria that cannot be compared before any work."""
    for model in models:
        _check_has_criterion(model)
    _check_one_criterion({_criterion_name(model) for model in models})


def _check_has_criterion(estimator):
    criterion = getattr(estimator, "criterion", None)
    if criterion not in CRITERIA and not hasattr(estimator, "_ranks_by"):
        has = "none" if criterion is None else f"criterion={criterion!r}, which is none of these"
        raise ValueError(
            f"cv=None ranks candidates by a spectral criterion ({', '.join(sorted(CRITERIA))}), and "
            f"{type(estimator).__name__} has {has}. Use SpectralKernelRidge or SpectralGPRegressor with "
            "one of them, or pass cv=5 or another splitter."
        )


def _check_one_criterion(names):
    if len(names) > 1:
        raise ValueError(
            f"Candidates with different criteria ({', '.join(sorted(names))}) cannot be ranked by them. "
            "Pass cv=5 or another splitter to compare criteria by their predictions."
        )


class _CriterionValue(float):
    """A score that remembers the tuned values it came with."""


def criterion_score(estimator, X, y=None, sample_weight=None, constants_vary=False):
    """Return the criterion of a fitted estimator, summed over outputs; rows and weights are those of fit.

    Where candidates differ in the functions of their mean, densities of what is outside of the mean are made
    comparable: the flat prior of each coefficient, which has no scale of its own, is that over the range of
    the targets. Otherwise the choice would depend on the units of y.
    """
    last = last_step(estimator)
    if hasattr(last, "_ranks_by"):
        return _evidence_value(last)
    largest = np.finfo(np.float64).max  # of perfect fits, too, means and ranks are taken
    value = _criterion_of(last)
    criterion = CRITERIA[last.criterion]
    if constants_vary and criterion.is_density and not criterion.needs_rows:
        value -= _log_ranges(y, sample_weight) * _n_mean_functions(last)
    value = _CriterionValue(np.clip(value, -largest, largest))
    noise, signal = np.asarray(last.noise_variance_), np.asarray(last.signal_variance_)
    ratio = [result.noise_ratio for result in last.tuning_]
    alpha = np.asarray(ratio if noise.ndim else ratio[0])
    evidence = getattr(last, "log_evidence_", getattr(last, "log_marginal_likelihood_value_", np.nan))
    value.tuned = dict(zip(_TUNED, (alpha, noise, signal, np.asarray(evidence)), strict=True))
    return value


def _log_ranges(y, sample_weight):
    """Return the sum of the logarithms of the ranges of all outputs that vary."""
    Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    Y = Y if sample_weight is None else Y[np.asarray(sample_weight) > 0]
    ranges = np.nanmax(Y, axis=0) - np.nanmin(Y, axis=0)
    return np.sum(np.log(ranges[ranges > 0]))


def _n_mean_functions(model):
    return len(getattr(model, "mean_names_", "1" * model.fit_intercept))


def _evidence_value(model):
    """Return the approximate log evidence of a model whose variances no spectrum tunes."""
    value = _CriterionValue(model.log_marginal_likelihood_value_)
    value.tuned = {"signal_variance": model.signal_variance_, "log_evidence": float(value)}
    return value


def _criterion_of(model):
    """Return the criterion summed over outputs; of a factor that is not certified, what is certain of it.

    The evidence of a crude stand-in for a kernel may exceed that of the kernel. Constant outputs, which any
    kernel explains perfectly, have no part in it beside others.
    """
    joint = getattr(model, "covariance_tuning_", None)
    values = [result.value for result in (model.tuning_ if joint is None else [joint])]
    value = sum(v for v in values if v < np.inf) if min(values) < np.inf else np.inf
    if model.criterion != "evidence":
        return value
    lower, upper = (float(np.sum(bound)) for bound in model.evidence_bounds_)
    is_certified = upper - lower <= CERTIFIED_WIDTH * len(model.tuning_)
    return value if is_certified else min(value, lower)


def tuned_values(out):
    """Return the tuned values of every candidate, NaN where its fit failed."""
    columns = {}
    for name in _TUNED:
        column = np.empty(len(out), dtype=object)
        for i, result in enumerate(out):
            tuned = getattr(result["test_scores"], "tuned", {})
            value = tuned.get(name, np.nan)
            column[i] = float(value) if np.ndim(value) == 0 else value
        columns[name] = column
    return columns
