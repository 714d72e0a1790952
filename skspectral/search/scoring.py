"""What scikit-learn's scorers look at, and the scores of many predictions by one call of a metric."""

from inspect import signature

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import get_scorer, r2_score
from sklearn.metrics._scorer import _MultimetricScorer, _PassthroughScorer

from ..models.scoring import ScoresObserved

__all__ = ["looks_at_predictions_alone", "scores_at_once"]

# What `make_scorer` returns.
_Scorer = type(get_scorer("r2"))


def looks_at_predictions_alone(scorer, model):
    """Return whether a scorer looks at nothing of a model but what it predicts for the given rows."""
    if isinstance(scorer, _MultimetricScorer):
        return all(looks_at_predictions_alone(each, model) for each in scorer._scorers.values())
    if isinstance(scorer, _PassthroughScorer):
        return type(model).score in (RegressorMixin.score, ScoresObserved.score)
    return isinstance(scorer, _Scorer) and scorer._response_method == "predict"


def scores_at_once(scorer, y, predictions, params):
    """Return the scores of many predictions of y, or None where a metric takes them one at a time.

    Metrics of scikit-learn that average over outputs take the predictions for outputs.

    Parameters
    ----------
    scorer : callable
        One that looks at predictions alone.
    y : array-like of shape (n,) or (n, m)
        Targets.
    predictions : list of ndarray of the shape of y
        Predictions.
    params : dict
        What the scorer is called with, beside.

    Returns
    -------
    list of float, or of dict of float, or None
    """
    if isinstance(scorer, _MultimetricScorer):
        return None if params else _by_name(scorer._scorers, y, predictions)
    metric, sign, options = _parts(scorer)
    if not _averages_outputs(metric, options) or set(params) - {"sample_weight"}:
        return None
    # (n, m, k), so that a metric sums every prediction over rows in the same order, whatever their number
    Y = np.asarray(y)
    P = np.stack(predictions, axis=-1)
    Y = np.broadcast_to(Y[..., None], P.shape)
    raw = metric(Y.reshape(len(Y), -1), P.reshape(len(P), -1), **options, **params, multioutput="raw_values")
    return (sign * raw.reshape(-1, len(predictions)).mean(axis=0)).tolist()


def _by_name(scorers, y, predictions):
    scores = {name: scores_at_once(scorer, y, predictions, {}) for name, scorer in scorers.items()}
    if any(values is None for values in scores.values()):
        return None
    return [dict(zip(scores, values, strict=True)) for values in zip(*scores.values(), strict=True)]


def _parts(scorer):
    """Return the metric of a scorer, the sign that makes greater better, and the metric's options."""
    if isinstance(scorer, _PassthroughScorer):
        return r2_score, 1, {}
    return scorer._score_func, scorer._sign, scorer._kwargs


def _averages_outputs(metric, options):
    if not getattr(metric, "__module__", "").startswith("sklearn.metrics.") or "multioutput" in options:
        return False
    multioutput = signature(metric).parameters.get("multioutput")
    return multioutput is not None and multioutput.default == "uniform_average"
